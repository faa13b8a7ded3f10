// Packs and unpacks data that are not contiguous, by the MPI library.
#include "compat/mpi/buffers.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace rondo::compat {

namespace {

constexpr std::size_t kMostOfInt = std::numeric_limits<int>::max();

/// MPI_Pack and MPI_Unpack count bytes in an int, so large runs are moved in parts.
template <class Part>
void inParts(const Elements& elements, const Part& part) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  const std::size_t size = elements.shape.size;
  if (size == 0) return;
  if (size > kMostOfInt && !(mpi().Pack_c && mpi().Unpack_c))
    throw CallFailure{MPI_ERR_UNSUPPORTED_OPERATION, "one element of a type with gaps has " +
                                                         std::to_string(size) +
                                                         " bytes, more than MPI_Pack takes"};
  const std::size_t step = std::max<std::size_t>(1, kMost / size);
  for (std::size_t done = 0; done < elements.count; done += step) {
    const std::size_t count = std::min(step, elements.count - done);
    part(elementAt(elements.buffer, static_cast<std::ptrdiff_t>(done), elements.shape),
         static_cast<int>(count), count * size, done * size);
  }
}

/// Elements as MPI_Pack and MPI_Unpack accept them. MPICH's refuse a null address, even as
/// MPI_BOTTOM; such elements are passed as one element at another address, of a type whose
/// displacement leads back.
class Run {
 public:
  Run(void* buffer, int count, MPI_Datatype type) : buffer_(buffer), count_(count), type_(type) {
    if (buffer) return;
    static char anchor;
    MPI_Aint there = 0;
    check(mpi().Get_address(&anchor, &there));
    const MPI_Aint back = -there;
    check(mpi().Type_create_hindexed(1, &count, &back, type, &type_));
    own_ = true;
    buffer_ = &anchor;
    count_ = 1;
    check(mpi().Type_commit(&type_));
  }
  ~Run() {
    if (own_) mpi().Type_free(&type_);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void* buffer() const { return buffer_; }
  int count() const { return count_; }
  MPI_Datatype type() const { return type_; }

 private:
  void* buffer_;
  int count_;
  MPI_Datatype type_;
  bool own_ = false;
};

} // namespace

std::byte* Staging::memory(std::size_t bytes) {
  return used().memory.emplace_back(std::make_unique_for_overwrite<std::byte[]>(bytes)).get();
}

/// For a type that is not predefined.
Shape Staging::shapeOfCommitted(MPI_Datatype type) const {
  // MPI_Pack comes first: it has a communicator, whose error handler gets the error of a wrong
  // handle or of a type that is not committed. The functions that analyse types have none.
  char nothing = 0;
  int position = 0;
  check(mpi().Pack(&nothing, 0, type, &nothing, 1, &position, comm_));
  return shapeOfDerived(type);
}

void Staging::pack(const Elements& elements, std::byte* to) const {
  if (elements.shape.plain) {
    if (elements.buffer && elements.count > 0) std::memcpy(to, elements.buffer, elements.bytes());
    return;
  }
  inParts(elements, [&](void* from, int count, std::size_t bytes, std::size_t offset) {
    const Run run(from, count, elements.type);
    int position = 0;
    MPI_Count long_position = 0;
    check(bytes <= kMostOfInt ? mpi().Pack(run.buffer(), run.count(), run.type(), to + offset,
                                           static_cast<int>(bytes), &position, comm_)
                              : mpi().Pack_c(run.buffer(), run.count(), run.type(), to + offset,
                                             static_cast<MPI_Count>(bytes), &long_position, comm_));
  });
}

void Staging::unpack(const std::byte* from, const Elements& elements) const {
  if (elements.shape.plain) {
    if (elements.bytes() > 0) std::memcpy(elements.buffer, from, elements.bytes());
    return;
  }
  inParts(elements, [&](void* to, int count, std::size_t bytes, std::size_t offset) {
    const Run run(to, count, elements.type);
    int position = 0;
    MPI_Count long_position = 0;
    check(bytes <= kMostOfInt
              ? mpi().Unpack(from + offset, static_cast<int>(bytes), &position, run.buffer(),
                             run.count(), run.type(), comm_)
              : mpi().Unpack_c(from + offset, static_cast<MPI_Count>(bytes), &long_position,
                               run.buffer(), run.count(), run.type(), comm_));
  });
}

void Staging::deliverLater(const Elements& to, const std::byte* from) {
  used().deliveries.push_back({to, from});
}

void Staging::letGo() {
  comm_ = MPI_COMM_SELF;
  if (!used_) return;
  for (Delivery& one : used_->deliveries) {
    if (one.to.shape.plain) continue;
    // Not MPI_Type_dup, which copies attributes: the program's callbacks would run.
    MPI_Datatype own = MPI_DATATYPE_NULL;
    check(mpi().Type_contiguous(1, one.to.type, &own));
    one.to.type = own;
    one.own_type = true;
    check(mpi().Type_commit(&one.to.type));
  }
}

void Staging::blame(int error_class, std::string sentence) {
  std::unique_ptr<CallFailure>& blame = used().blame;
  if (!blame) blame.reset(new CallFailure{error_class, std::move(sentence)});
}

std::size_t Staging::keep(std::size_t sent, std::size_t received) {
  if (sent > received)
    blame(MPI_ERR_TRUNCATE, "this rank sends " + std::to_string(sent) +
                                " bytes to itself and receives " + std::to_string(received));
  return std::min(sent, received);
}

/// Whether the buffer is null although the call has data in it. Then the rank is to blame.
bool Staging::missing(const Elements& elements) {
  const bool is = elements.shape.plain && !elements.buffer && elements.bytes() > 0;
  if (is) blame(MPI_ERR_BUFFER, "the buffer is null");
  return is;
}

void* Staging::delivered(const Elements& elements) {
  std::byte* const bytes = memory(elements.bytes());
  if (!missing(elements)) deliverLater(elements, bytes);
  return bytes;
}

const void* Staging::copied(const Elements& elements) {
  std::byte* const bytes = memory(elements.bytes());
  if (missing(elements)) std::fill_n(bytes, elements.bytes(), std::byte{0});
  else pack(elements, bytes);
  return bytes;
}

const void* Staging::resized(const void* blocks, std::size_t from, std::size_t to, int count) {
  const std::size_t kept = keep(from, to), ranks = static_cast<std::size_t>(count);
  std::byte* const bytes = memory(ranks * to);
  std::fill_n(bytes, ranks * to, std::byte{0});
  for (std::size_t r = 0; kept > 0 && r < ranks; ++r)
    std::memcpy(bytes + r * to, static_cast<const std::byte*>(blocks) + r * from, kept);
  return bytes;
}

void Staging::put(const std::byte* from, std::size_t bytes, const Elements& elements) {
  std::byte* const all = memory(elements.bytes());
  pack(elements, all);
  if (bytes > 0) std::memcpy(all, from, bytes);
  unpack(all, elements);
}

ByteBlocks Staging::dense(const ElementBlocks& blocks) {
  ByteBlocks result;
  std::size_t total = 0;
  for (std::size_t r = 0; r < blocks.ranks; ++r) {
    result.counts.push_back(blocks.elements(r).bytes());
    result.offsets.push_back(total);
    total += result.counts.back();
  }
  result.base = memory(total);
  return result;
}

namespace {

/// Blocks at their place in the program's buffer. MPI's displacements may be negative, Rondo's
/// offsets may not.
ByteBlocks inPlace(const ElementBlocks& blocks) {
  ByteBlocks result;
  std::ptrdiff_t first = 0;
  for (std::size_t r = 0; r < blocks.ranks; ++r)
    if (blocks.counts[r] > 0) first = std::min(first, blocks.displacements[r]);
  result.base = static_cast<std::byte*>(elementAt(blocks.buffer, first, blocks.shape));
  for (std::size_t r = 0; r < blocks.ranks; ++r) {
    result.counts.push_back(blocks.elements(r).bytes());
    // The displacement of an empty block has no meaning, and may be any number.
    result.offsets.push_back(blocks.counts[r] > 0
                                 ? static_cast<std::size_t>(blocks.displacements[r] - first) *
                                       blocks.shape.size
                                 : 0);
  }
  return result;
}

} // namespace

ByteBlocks Staging::copied(const ElementBlocks& blocks) {
  ByteBlocks result = dense(blocks);
  for (std::size_t r = 0; r < blocks.ranks; ++r)
    if (const Elements block = blocks.elements(r); !missing(block))
      pack(block, result.base + result.offsets[r]);
  return result;
}

ByteBlocks Staging::readable(const ElementBlocks& blocks) {
  return blocks.shape.plain && !apart_ ? inPlace(blocks) : copied(blocks);
}

ByteBlocks Staging::writable(const ElementBlocks& blocks) {
  if (blocks.shape.plain && !apart_) return inPlace(blocks);
  ByteBlocks result = dense(blocks);
  for (std::size_t r = 0; r < blocks.ranks; ++r)
    if (const Elements block = blocks.elements(r); block.count > 0 && !missing(block))
      deliverLater(block, result.base + result.offsets[r]);
  return result;
}

void Staging::deliver() const {
  for (const Delivery& one : used_->deliveries) unpack(one.from, one.to);
  if (used_->blame) throw *used_->blame;
}

void Staging::release() noexcept {
  if (!used_) return;
  for (Delivery& one : used_->deliveries)
    if (one.own_type) mpi().Type_free(&one.to.type);
  used_.reset();
}

} // namespace rondo::compat
