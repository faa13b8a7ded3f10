// Validates calls, signs them for the other ranks, and describes them in error texts.
#include "comm/call.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <numeric>
#include <optional>

#include "bootstrap/hub.h"
#include "rondo/detail/hash.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

/// A collective, or its v-form. Signatures have a code for each, with each operator if it reduces,
/// and each root if it has one.
struct Form {
  Collective collective{};
  bool uneven = false;

  constexpr std::size_t roots() const {
    return hasRoot(collective) ? std::size_t{bootstrap::Hub::kMostRanks} : 1;
  }
  constexpr std::size_t codes() const {
    return roots() * (reduces(collective) ? std::size_t{ReduceOp::kKindCount} : 1);
  }
  bool operator==(const Form&) const = default;
};

/// All forms; the codes are given in this order.
constexpr auto kForms = [] {
  constexpr std::size_t v_forms = std::ranges::count_if(
      detail::kCollectiveTraits, [](const detail::CollectiveTraits& of) { return of.perRank(); });
  std::array<Form, kCollectiveCount + v_forms> forms{};
  std::size_t next = 0;
  for (const Collective c : kCollectives) forms[next++] = {c, false};
  for (const Collective c : kCollectives)
    if (traits(c).perRank()) forms[next++] = {c, true};
  return forms;
}();
static_assert(std::accumulate(kForms.begin(), kForms.end(), std::size_t{0},
                              [](std::size_t sum, Form form) { return sum + form.codes(); }) <=
                  std::size_t{1} << 20,
              "the signature has 20 bits for what is called");

std::uint64_t signatureCode(const Call& call) {
  const Form wanted{call.collective, call.layout != nullptr};
  std::uint64_t code = 0;
  if (reduces(call.collective)) code += wanted.roots() * static_cast<std::uint64_t>(call.op.kind());
  if (hasRoot(call.collective)) code += static_cast<std::uint64_t>(call.root);
  for (const Form& form : kForms) {
    if (form == wanted) break;
    code += form.codes();
  }
  return code;
}

/// Inverse of signatureCode().
struct Decoded {
  Form form;
  std::size_t op = 0, root = 0;
};
std::optional<Decoded> decoded(std::uint64_t code) {
  for (const Form& form : kForms) {
    if (code < form.codes()) return Decoded{form, code / form.roots(), code % form.roots()};
    code -= form.codes();
  }
  return {};
}

[[noreturn]] void refuse(const Call& call, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, title(call) + ": " + why);
}

/// How many blocks each buffer of a rank has, and which block is the rank's own.
struct Extent {
  std::size_t input_blocks = 0, output_blocks = 0;
  std::size_t input_at = 0, output_at = 0; ///< the rank's own block; in place, the same memory
};

Extent extentOf(const Call& call, int rank, int size) {
  if (call.collective == Collective::sendrecv) return call.sending ? Extent{1, 0} : Extent{0, 1};
  const detail::CollectiveTraits& of = traits(call.collective);
  return {of.input.count(size, rank, call.root), of.output.count(size, rank, call.root),
          of.input.own(rank), of.output.own(rank)};
}

constexpr const char* kNotInPlace =
    ", but not in place: pass separate buffers. (In place, buffers of equal size begin at the same "
    "address, and a smaller buffer is this rank's block of the larger one.)";

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool written = false;
  bool own = false; ///< this rank's own block: in place, it is the other buffer's own block
  std::size_t block = 0;
};

/// Adds the byte ranges of the non-empty blocks of one buffer. Throws for a table that does not
/// fit the call, and for blocks outside the address space.
void addRanges(const Call& call, const Blocks& table, bool written, std::size_t blocks,
               std::size_t own, std::vector<Range>& ranges) {
  const char* buffer = written ? "output" : "input";
  const void* start = written ? call.output : call.input;
  if (table.counts.size() != blocks || table.offsets.size() != blocks)
    refuse(call, std::string(buffer) + " blocks: " + std::to_string(table.counts.size()) +
                     " counts and " + std::to_string(table.offsets.size()) + " offsets for " +
                     (blocks == 1  ? "a single block: pass a table of one entry"
                      : blocks > 0 ? std::to_string(blocks) + " ranks"
                                   : "a buffer that this rank does not use: pass empty tables"));
  if (blocks == 0) return;
  const detail::CollectiveTraits& of = traits(call.collective);
  const bool single = !(written ? of.output : of.input).perRank();
  if (single && (table.counts[0] != call.count || table.offsets[0] != 0))
    refuse(call, std::string(buffer) + " is a single block of " + std::to_string(call.count) +
                     " elements, but its table says " + std::to_string(table.counts[0]) + " at " +
                     std::to_string(table.offsets[0]) + ": pass this count, at offset 0");
  const std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / sizeOf(call.type) / blocks;
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t count = table.counts[b], offset = table.offsets[b];
    if (count == 0) continue;
    if (count > most || offset > most * blocks - count)
      refuse(call, std::string(buffer) + " block " + std::to_string(b) + ": " +
                       std::to_string(count) + " elements at " + std::to_string(offset) +
                       " exceed the address space");
    if (!start)
      refuse(call, std::string(buffer) + " is null, block " + std::to_string(b) + " has " +
                       std::to_string(count) + " elements");
    const auto begin = reinterpret_cast<std::uintptr_t>(start) + offset * sizeOf(call.type);
    ranges.push_back({begin, begin + count * sizeOf(call.type), written, b == own, b});
  }
}

/// The checks of validate() for v-forms.
void validateBlocks(const Call& call, int rank, int size) {
  const CollectiveCall::Tables& layout = *call.layout;
  const Extent extent = extentOf(call, rank, size);
  std::vector<Range> ranges;
  addRanges(call, layout.input, false, extent.input_blocks, extent.input_at, ranges);
  addRanges(call, layout.output, true, extent.output_blocks, extent.output_at, ranges);
  if (extent.input_blocks > 0 && extent.output_blocks > 0) {
    const std::size_t sent = layout.input.counts[extent.input_at];
    const std::size_t received = layout.output.counts[extent.output_at];
    if (sent != received)
      refuse(call, "this rank's own block has " + std::to_string(sent) +
                       " elements in the input and " + std::to_string(received) + " in the output");
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (std::size_t i = 0; i < ranges.size(); ++i)
    for (std::size_t j = i + 1; j < ranges.size() && ranges[j].begin < ranges[i].end; ++j) {
      const Range &a = ranges[i], &b = ranges[j];
      if (a.written && b.written)
        refuse(call, "blocks " + std::to_string(std::min(a.block, b.block)) + " and " +
                         std::to_string(std::max(a.block, b.block)) + " of the output overlap");
      if (a.written == b.written) continue;
      const bool in_place = a.own && b.own && a.begin == b.begin && a.end == b.end;
      if (!traits(call.collective).in_place)
        refuse(call, "input and output overlap; it cannot be done in place");
      if (!in_place) refuse(call, std::string("input and output overlap") + kNotInPlace);
    }
}

/// The bytes from a buffer's first block to the end of its last one, relative to the buffer.
struct Hull {
  std::size_t begin = 0, end = 0;
};

Hull hullOf(const Blocks& blocks, DataType type) {
  Hull hull;
  for (std::size_t b = 0; b < blocks.counts.size(); ++b) {
    if (blocks.counts[b] == 0) continue;
    const std::size_t begin = blocks.offsets[b] * sizeOf(type);
    const std::size_t end = begin + blocks.counts[b] * sizeOf(type);
    hull = hull.end == 0 ? Hull{begin, end}
                         : Hull{std::min(hull.begin, begin), std::max(hull.end, end)};
  }
  return hull;
}

Buffers unevenBuffersOf(const Call& call) {
  const Hull input = hullOf(call.layout->input, call.type);
  const Hull output = hullOf(call.layout->output, call.type);
  const auto in = reinterpret_cast<std::uintptr_t>(call.input) + input.begin;
  const auto out = reinterpret_cast<std::uintptr_t>(call.output) + output.begin;
  return {input.end - input.begin,
          output.end - output.begin,
          true,
          out - in,
          input.begin,
          output.begin};
}

/// Counts from here on have a signature with this bit, and a hash in place of the count.
constexpr std::uint64_t kLargeCount = std::uint64_t{1} << 31;

// With this bit, too, the call names its algorithm.
constexpr std::uint64_t kNamed = std::uint64_t{1} << 30;
constexpr int kNumberAt = 25; ///< the algorithm's number
constexpr std::uint64_t kMostNumber = 31;
/// The lowest count that has a hash, also the bit that says so.
constexpr std::uint64_t kHashed = std::uint64_t{1} << 24;

std::uint64_t countField(std::uint64_t count) {
  return count < kLargeCount ? count : kLargeCount | detail::mix(count) >> 34;
}

std::uint64_t countField(std::uint64_t count, const plan::Choice& named) {
  const auto all = plan::algorithms();
  const auto number =
      static_cast<std::uint64_t>(std::ranges::find(all, named.algorithm) - all.begin());
  if (named.parameter != 0 || named.inner != 0 || count >= kHashed) {
    for (const int part : {named.parameter, named.inner, named.outer})
      count = detail::mix(count) ^ static_cast<std::uint64_t>(part);
    count = kHashed | detail::mix(count) >> 40;
  }
  return kLargeCount | kNamed | std::min(number, kMostNumber) << kNumberAt | count;
}

/// The number of elements, with a space after it; empty if only a hash is known. V-forms whose
/// number differs between ranks have 0, which is not shown.
std::string countText(std::uint64_t field, bool uneven) {
  const bool large = field >= kLargeCount, named = large && (field & kNamed) != 0;
  if (large && !named) return "at least 2^31 ";
  if (named && (field & kHashed) != 0) return "";
  const std::uint64_t count = named ? field & (kHashed - 1) : field;
  return uneven && count == 0 ? "" : std::to_string(count) + " ";
}

/// ", algorithm ring" if the call names one.
std::string algorithmText(std::uint64_t field) {
  if (field < kLargeCount || (field & kNamed) == 0) return "";
  const auto all = plan::algorithms();
  const std::uint64_t number = field >> kNumberAt & kMostNumber;
  std::string text = ", algorithm " +
                     (number < all.size() ? std::string(all[number]->name) : "of another version");
  if ((field & kHashed) == 0) return text;
  std::array<char, 8> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), field & (kHashed - 1), 16).ptr;
  return text + " (hash of its parameters and the count: " + std::string(digits.data(), end) + ")";
}

} // namespace

std::string title(const Call& call) {
  if (call.collective == Collective::sendrecv) return call.sending ? "Send" : "Recv";
  const detail::CollectiveTraits& of = traits(call.collective);
  return std::string(of.title) + (call.layout && of.perRank() ? "v" : "");
}

KeptCall::KeptCall(const Call& call) : call_(call) {
  if (!call.layout) return;
  const auto& [input, output] = *call.layout;
  tables_.reserve(input.counts.size() + input.offsets.size() + output.counts.size() +
                  output.offsets.size());
  layout_ = {keep(input), keep(output)};
  call_.layout = &layout_;
}

Blocks KeptCall::keep(const Blocks& blocks) {
  const auto copy = [this](std::span<const std::size_t> table) {
    const auto at = tables_.insert(tables_.end(), table.begin(), table.end());
    return std::span<const std::size_t>(at, table.size());
  };
  return {copy(blocks.counts), copy(blocks.offsets)};
}

Buffers buffersOf(const Call& call, int rank, int size) {
  if (call.layout) return unevenBuffersOf(call);
  const Extent extent = extentOf(call, rank, size);
  const std::size_t block = call.count * sizeOf(call.type);
  return {extent.input_blocks * block, extent.output_blocks * block,
          traits(call.collective).in_place, (extent.input_at - extent.output_at) * block};
}

void checkCollective(Collective collective) {
  if (static_cast<std::size_t>(collective) >= kCollectiveCount)
    throw Error(ErrorCode::invalid_argument,
                "unknown collective " + std::to_string(static_cast<int>(collective)));
}

void validateShape(const Call& call, int size) {
  if (call.layout && !traits(call.collective).perRank())
    refuse(call, "has no v-form: pass no block tables");
  if (!traits(call.collective).movesData()) return;
  if (static_cast<std::size_t>(call.type) >= kDataTypeCount)
    refuse(call, "unknown data type " + std::to_string(static_cast<int>(call.type)));
  if (reduces(call.collective)) {
    if (static_cast<std::size_t>(call.op.kind()) >= ReduceOp::kKindCount)
      refuse(call, "unknown operator " + std::to_string(static_cast<int>(call.op.kind())));
    if (!call.op.supports(call.type))
      refuse(call, "operator " + std::string(name(call.op)) + " is not defined on " +
                       std::string(name(call.type)));
  }
  const bool point_to_point = call.collective == Collective::sendrecv;
  if ((point_to_point || hasRoot(call.collective)) && (call.root < 0 || call.root >= size))
    refuse(call, std::string(point_to_point ? "peer " : "root ") + std::to_string(call.root) +
                     " is not a rank of this communicator (0 to " + std::to_string(size - 1) + ")");

  const std::size_t most = std::numeric_limits<std::ptrdiff_t>::max() / sizeOf(call.type) /
                           static_cast<std::size_t>(size);
  if (!call.layout && call.count > most)
    refuse(call, "count " + std::to_string(call.count) + " exceeds the address space");
}

void validate(const Call& call, int rank, int size) {
  validateShape(call, size);
  if (call.layout) return validateBlocks(call, rank, size);

  const Buffers buffers = buffersOf(call, rank, size);
  if (buffers.fit(call.input, call.output)) return;
  if (buffers.input_bytes > 0 && !call.input)
    refuse(call, "input is null, count is " + std::to_string(call.count));
  if (buffers.output_bytes > 0 && !call.output)
    refuse(call, "output is null, count is " + std::to_string(call.count));
  refuse(call, std::string("input and output overlap") +
                   (buffers.may_coincide ? kNotInPlace : "; it cannot be done in place"));
}

std::size_t countOf(const Call& call) {
  if (!call.layout) return call.count;
  const auto sum = [](std::span<const std::size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  };
  // Reducescatterv and allgatherv have one table, equal on all ranks. In alltoallv each rank has
  // two of its own; in rooted calls only the root has one.
  const detail::CollectiveTraits& of = traits(call.collective);
  if (of.hasRoot() || of.input.perRank() == of.output.perRank()) return 0;
  return sum((of.input.perRank() ? call.layout->input : call.layout->output).counts);
}

std::uint64_t sign(const Call& call, const plan::Choice* named) {
  const std::uint64_t count = named ? countField(countOf(call), *named) : countField(countOf(call));
  return signatureCode(call) << 44 | static_cast<std::uint64_t>(call.type) << 40 | count;
}

std::string describe(std::uint64_t signature, std::uint64_t near) {
  const auto field = [&](int shift, std::uint64_t mask) { return (signature >> shift) & mask; };
  const std::uint64_t type = field(40, 0xf);
  const std::optional<Decoded> call = decoded(field(44, 0xfffff));
  if (!call || type >= kDataTypeCount) return "no call of this library";
  const Collective what = call->form.collective;
  const bool uneven = call->form.uneven;
  const auto apart = static_cast<std::int8_t>(field(32, 0xff) - near);
  const std::uint64_t sequence = near + static_cast<std::uint64_t>(std::int64_t{apart});
  std::string text =
      std::string(traits(what).title) + (uneven ? "v #" : " #") + std::to_string(sequence);
  const std::uint64_t count = field(0, 0xffffffff);
  if (!traits(what).movesData()) return text + algorithmText(count);
  text += " (";
  if (reduces(what)) text += std::string(name(kReduceOps[call->op])) + " of ";
  text += countText(count, uneven) + std::string(name(static_cast<DataType>(type)));
  if (hasRoot(what)) text += ", root " + std::to_string(call->root);
  return text + algorithmText(count) + ")";
}

} // namespace rondo::comm
