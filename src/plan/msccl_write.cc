// Writes plans in MSCCL's XML: cuts steps into MSCCL's, and lanes into thread blocks.
#include <algorithm>
#include <map>

#include "plan/check_parts.h"
#include "plan/msccl.h"
#include "rondo/collectives.h"
#include "rondo/error.h"

namespace rondo::plan {

namespace {

/// A step in the file.
struct Op {
  const char* type = "nop";
  std::optional<Piece> src, dst;
  std::uint32_t count = 0;
  std::size_t block = 0;            ///< thread block
  std::vector<std::size_t> after{}; ///< other operations of the rank
  bool awaited = false;
};

struct Block {
  int send = -1, recv = -1, channel = 0;
  std::vector<std::size_t> ops;
};

/// A rank's steps as operations. The operations of a lane run one after the other, whatever their
/// thread blocks.
class RankWriter {
 public:
  explicit RankWriter(const RankPlan& plan)
      : plan_(plan), block_of_(plan.channels.size(), kNone), partner_(plan.channels.size(), -1) {
    scratch_ = (plan.scratch_chunks + k() - 1) / k() * k();
    for (const Lane& lane : plan.lanes)
      for (const Step& step : lane.steps) pair(step);
    for (const Lane& lane : plan.lanes) add(lane);
    for (const auto& [op, dependency] : waits_) after(op, ends_[dependency.lane][dependency.step]);
  }

  std::string text() {
    std::string text =
        "  <gpu id=\"" + std::to_string(plan_.rank) + "\" i_chunks=\"" +
        std::to_string(inputBlocks(plan_.spec, plan_.rank) * k()) + "\" o_chunks=\"" +
        std::to_string(outputBlocks(plan_.spec, plan_.rank) * k()) + "\" s_chunks=\"" +
        std::to_string(temporary_ > 0 ? scratch_ + temporary_ : plan_.scratch_chunks) + "\">\n";
    number();
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const Block& block = blocks_[b];
      text += "    <tb id=\"" + std::to_string(b) + "\" send=\"" + std::to_string(block.send) +
              "\" recv=\"" + std::to_string(block.recv) + "\" chan=\"" +
              std::to_string(block.channel) + "\">\n";
      int line = 0;
      for (const std::size_t op : block.ops) text += stepText(ops_[op], line);
      text += "    </tb>\n";
    }
    return text + "  </gpu>\n";
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  std::uint32_t k() const { return plan_.chunks_per_block; }
  const Channel& channel(int number) const {
    return plan_.channels[static_cast<std::size_t>(number)];
  }

  /// A step with one message in and one out needs a thread block with both peers: decides which
  /// channels share one.
  void pair(const Step& step) {
    int in = -1, receives = 0;
    for (const Operand& operand : step.inputs)
      if (!operand.local()) {
        in = operand.channel;
        ++receives;
      }
    const std::size_t locals = step.inputs.size() - static_cast<std::size_t>(receives);
    if (receives != 1 || locals > 1 || step.sends.empty()) return;
    const int out = step.sends.front();
    int &of_in = partner_[static_cast<std::size_t>(in)],
        &of_out = partner_[static_cast<std::size_t>(out)];
    if (of_in >= 0 || of_out >= 0 || channel(in).index != channel(out).index) return;
    of_in = out;
    of_out = in;
  }
  bool paired(int in, int out) const { return partner_[static_cast<std::size_t>(in)] == out; }

  std::size_t blockOf(int number) {
    std::size_t& block = block_of_[static_cast<std::size_t>(number)];
    if (block != kNone) return block;
    block = blocks_.size();
    Block& made = blocks_.emplace_back();
    made.channel = channel(number).index;
    const int other = partner_[static_cast<std::size_t>(number)];
    for (const int one : {number, other}) {
      if (one < 0) continue;
      block_of_[static_cast<std::size_t>(one)] = block;
      if (channel(one).src == plan_.rank) made.send = channel(one).dst;
      else made.recv = channel(one).src;
    }
    return block;
  }

  void add(const Lane& lane) {
    last_ = kNone;
    auto& ends = ends_.emplace_back();
    for (const Step& step : lane.steps) {
      const std::size_t first = ops_.size();
      add(step);
      for (const Dependency& dependency : step.after) waits_.emplace_back(first, dependency);
      ends.push_back(last_);
    }
  }

  void op(const char* type, std::optional<Piece> src, std::optional<Piece> dst, std::size_t block) {
    ops_.push_back({type, src, dst, (src ? src : dst)->count, block});
    blocks_[block].ops.push_back(ops_.size() - 1);
    if (last_ != kNone) after(ops_.size() - 1, last_);
    last_ = ops_.size() - 1;
  }
  void after(std::size_t later, std::size_t earlier) {
    if (ops_[later].block == ops_[earlier].block) return;
    auto& list = ops_[later].after;
    if (std::ranges::find(list, earlier) != list.end()) return;
    list.push_back(earlier);
    ops_[earlier].awaited = true;
  }
  void local(const char* type, const Piece& src, const Piece& dst) {
    if (last_ == kNone) blocks_.emplace_back();
    op(type, src, dst, last_ == kNone ? blocks_.size() - 1 : ops_[last_].block);
  }

  void add(const Step& step) {
    if (step.is_barrier || step.to_all || (!step.inputs.empty() && step.inputs[0].of_all))
      throw Error(ErrorCode::unsupported, "MSCCL's files have no barriers and no switch");
    std::vector<int> receives;
    std::vector<Piece> locals;
    for (const Operand& operand : step.inputs)
      if (operand.local()) locals.push_back(operand.piece);
      else receives.push_back(operand.channel);
    // An operand that the result replaces must be the first one.
    if (step.output)
      if (const auto same = std::ranges::find(locals, *step.output); same != locals.end())
        std::rotate(locals.begin(), same, same + 1);
    std::size_t sent = 0;
    if (receives.empty()) {
      const Piece kept = locals.size() > 1 || step.output ? target(step) : locals[0];
      if (kept != locals[0]) local("cpy", locals[0], kept);
      for (std::size_t i = 1; i < locals.size(); ++i) local("re", locals[i], kept);
      for (const int out : step.sends) op("s", kept, std::nullopt, blockOf(out));
      return;
    }
    const int in = receives[0];
    const bool fused = receives.size() == 1 && locals.size() <= 1 && !step.sends.empty() &&
                       paired(in, step.sends[0]);
    const bool kept = step.output || !fused || locals.empty() || step.sends.size() > 1;
    const auto dst = kept ? std::optional(target(step)) : std::nullopt;
    const auto src = locals.empty() ? std::nullopt : std::optional(locals[0]);
    if (fused) {
      op(!src ? "rcs" : kept ? "rrcs" : "rrs", src, dst, blockOf(in));
      sent = 1;
    } else {
      op(src ? "rrc" : "r", src, dst, blockOf(in));
    }
    for (std::size_t i = 1; i < receives.size(); ++i) op("rrc", dst, dst, blockOf(receives[i]));
    for (std::size_t i = 1; i < locals.size(); ++i) local("re", locals[i], *dst);
    for (; sent < step.sends.size(); ++sent) op("s", dst, std::nullopt, blockOf(step.sends[sent]));
  }

  /// Where a step's value is kept: its output, or a place in scratch that only this lane uses, at
  /// the same position in its block.
  Piece target(const Step& step) {
    if (step.output) return *step.output;
    const std::uint32_t position = step.shape.chunk % k();
    const std::size_t lane = ends_.size() - 1;
    auto [place, is_new] = places_.try_emplace(std::pair(lane, position), temporary_);
    const std::uint32_t chunks = (position + step.shape.count + k() - 1) / k() * k();
    auto& length = lengths_[{lane, position}];
    if (is_new || length < chunks) {
      place->second = temporary_;
      length = chunks;
      temporary_ += chunks;
    }
    return {Space::scratch, scratch_ + place->second + position, step.shape.count};
  }

  /// Finds the index of each operation in its thread block: each further operation that it waits
  /// for takes a nop before it.
  void number() {
    numbers_.resize(ops_.size());
    for (const Block& block : blocks_) {
      std::size_t next = 0;
      for (const std::size_t op : block.ops) {
        next += ops_[op].after.empty() ? 0 : ops_[op].after.size() - 1;
        numbers_[op] = next++;
      }
    }
  }

  static std::string pieceText(const char* side, const std::optional<Piece>& piece,
                               char otherwise) {
    constexpr char kBuffers[] = {'i', 'o', 's'};
    const char buffer = piece ? kBuffers[static_cast<std::size_t>(piece->space)] : otherwise;
    return std::string(" ") + side + "buf=\"" + buffer + "\" " + side + "off=\"" +
           (piece ? std::to_string(piece->chunk) : "-1") + "\"";
  }

  std::string stepText(const Op& op, int& line) const {
    std::string text;
    const auto write = [&](const char* type, const auto& src, const auto& dst, std::uint32_t count,
                           std::size_t waits, bool awaited) {
      text += "      <step s=\"" + std::to_string(line++) + "\" type=\"" + type + "\"" +
              pieceText("src", src, 'i') + pieceText("dst", dst, 'o') + " cnt=\"" +
              std::to_string(count) + "\" depid=\"" +
              (waits == kNone ? "-1" : std::to_string(ops_[waits].block)) + "\" deps=\"" +
              (waits == kNone ? "-1" : std::to_string(numbers_[waits])) + "\" hasdep=\"" +
              (awaited ? "1" : "0") + "\"/>\n";
    };
    const std::optional<Piece> none;
    for (std::size_t i = 0; i + 1 < op.after.size(); ++i)
      write("nop", none, none, 0, op.after[i], false);
    write(op.type, op.src, op.dst, op.count, op.after.empty() ? kNone : op.after.back(),
          op.awaited);
    return text;
  }

  const RankPlan& plan_;
  std::vector<std::size_t> block_of_; ///< by channel
  std::vector<int> partner_;          ///< by channel: the one that shares its thread block, or -1
  std::uint32_t scratch_ = 0, temporary_ = 0; ///< where temporary chunks begin; their number
  std::map<std::pair<std::size_t, std::uint32_t>, std::uint32_t> places_, lengths_;
  std::vector<Op> ops_;
  std::vector<Block> blocks_;
  std::size_t last_ = kNone;                              ///< operation of the lane
  std::vector<std::vector<std::size_t>> ends_;            ///< by lane and step
  std::vector<std::pair<std::size_t, Dependency>> waits_; ///< from Step::after
  std::vector<std::size_t> numbers_;
};

/// As the value of an attribute.
std::string escaped(std::string_view text) {
  std::string written;
  for (const char c : text)
    written += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '"' ? "&quot;" : std::string(1, c);
  return written;
}

} // namespace

std::string_view mscclName(Collective collective) {
  return collective == Collective::reducescatter ? "reduce_scatter" : name(collective);
}

std::string mscclText(std::span<const RankPlan> plans, std::string_view name) {
  const Spec& spec = plans.front().spec;
  if (spec.root != 0)
    throw Error(ErrorCode::unsupported, "MSCCL's files have no root: only root 0 can be written");
  std::uint32_t blocks = 0;
  int channels = 1;
  std::string gpus;
  for (const RankPlan& plan : plans) {
    blocks = std::max({blocks, inputBlocks(spec, plan.rank), outputBlocks(spec, plan.rank)});
    for (const Channel& channel : plan.channels) channels = std::max(channels, channel.index + 1);
    gpus += RankWriter(plan).text();
  }
  return "<algo name=\"" + escaped(name) + "\" proto=\"Simple\" nchannels=\"" +
         std::to_string(channels) + "\" nchunksperloop=\"" +
         std::to_string(blocks * plans.front().chunks_per_block) + "\" ngpus=\"" +
         std::to_string(plans.size()) + "\" coll=\"" + std::string(mscclName(spec.collective)) +
         "\" inplace=\"0\" outofplace=\"1\" minBytes=\"0\" maxBytes=\"1099511627776\">\n" + gpus +
         "</algo>\n";
}

} // namespace rondo::plan
