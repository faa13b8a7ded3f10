// Packing and unpacking by the MPI library, for data that do not lie plainly.
#include "compat/mpi/buffers.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "compat/mpi/errors.h"
#include "rondo/error.h"

namespace rondo::compat {

namespace {

/// MPI_Pack and MPI_Unpack count bytes in an int: long runs are moved in parts.
template <class Part>
void inParts(const Elements& elements, const Part& part) {
  constexpr std::size_t kMost = std::size_t{1} << 30;
  const std::size_t size = elements.shape.size;
  if (size > std::numeric_limits<int>::max())
    throw Error(ErrorCode::unsupported, "one element of a type with gaps has " +
                                            std::to_string(size) +
                                            " bytes, more than MPI_Pack takes");
  const std::size_t step = std::max<std::size_t>(1, size ? kMost / size : kMost);
  for (std::size_t done = 0; done < elements.count; done += step) {
    const std::size_t count = std::min(step, elements.count - done);
    part(elementAt(elements.buffer, static_cast<std::ptrdiff_t>(done), elements.shape),
         static_cast<int>(count), static_cast<int>(count * size), done * size);
  }
}

/// Elements for MPI_Pack and MPI_Unpack. MPICH's refuse the null address, MPI_BOTTOM too: such a
/// run is one element, at another address, of a type that leads back.
class Run {
 public:
  Run(void* buffer, int count, MPI_Datatype type) : buffer_(buffer), count_(count), type_(type) {
    if (buffer) return;
    static char anchor;
    MPI_Aint there = 0;
    check(PMPI_Get_address(&anchor, &there));
    const MPI_Aint back = -there;
    check(PMPI_Type_create_hindexed(1, &count, &back, type, &type_));
    own_ = true;
    buffer_ = &anchor;
    count_ = 1;
    check(PMPI_Type_commit(&type_));
  }
  ~Run() {
    if (own_) PMPI_Type_free(&type_);
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
  return memory_.emplace_back(std::make_unique_for_overwrite<std::byte[]>(bytes)).get();
}

Shape Staging::shapeOf(MPI_Datatype type) const {
  const Shape shape = compat::shapeOf(type);
  if (!shape.predefined) {
    // No function tells, so this one must complain.
    char nothing = 0;
    int position = 0;
    check(PMPI_Pack(&nothing, 0, type, &nothing, 1, &position, comm_));
  }
  return shape;
}

void Staging::pack(const Elements& elements, std::byte* to) const {
  if (elements.shape.plain) {
    if (elements.bytes() > 0) std::memcpy(to, elements.buffer, elements.bytes());
    return;
  }
  inParts(elements, [&](void* from, int count, int bytes, std::size_t offset) {
    const Run run(from, count, elements.type);
    int position = 0;
    check(PMPI_Pack(run.buffer(), run.count(), run.type(), to + offset, bytes, &position, comm_));
  });
}

void Staging::unpack(const std::byte* from, const Elements& elements) const {
  if (elements.shape.plain) {
    if (elements.bytes() > 0) std::memcpy(elements.buffer, from, elements.bytes());
    return;
  }
  inParts(elements, [&](void* to, int count, int bytes, std::size_t offset) {
    const Run run(to, count, elements.type);
    int position = 0;
    check(
        PMPI_Unpack(from + offset, bytes, &position, run.buffer(), run.count(), run.type(), comm_));
  });
}

void Staging::deliverLater(Elements to, const std::byte* from) {
  deliveries_.reserve(deliveries_.size() + 1);
  // The program may free a type as soon as the call has begun.
  if (!to.shape.plain) check(PMPI_Type_dup(to.type, &to.type));
  deliveries_.push_back({to, from, to.shape.plain});
}

const void* Staging::readable(const Elements& elements) {
  return elements.shape.plain ? elements.buffer : copied(elements);
}

void* Staging::writable(const Elements& elements) {
  if (elements.shape.plain) return elements.buffer;
  std::byte* const bytes = memory(elements.bytes());
  deliverLater(elements, bytes);
  return bytes;
}

const void* Staging::copied(const Elements& elements) {
  std::byte* const bytes = memory(elements.bytes());
  pack(elements, bytes);
  return bytes;
}

void* Staging::copiedTo(void* to, std::size_t bytes) {
  std::byte* const from = memory(bytes);
  deliverLater({to, bytes, MPI_BYTE, {1, 1, true}}, from);
  return from;
}

ByteBlocks Staging::dense(const ElementBlocks& blocks) {
  ByteBlocks result;
  std::size_t total = 0;
  for (const int count : blocks.counts) {
    result.counts.push_back(static_cast<std::size_t>(count) * blocks.shape.size);
    result.offsets.push_back(total);
    total += result.counts.back();
  }
  result.base = memory(total);
  return result;
}

namespace {

/// Blocks where they are. Displacements may be negative, Rondo's offsets not.
ByteBlocks inPlace(const ElementBlocks& blocks) {
  ByteBlocks result;
  int first = 0;
  for (std::size_t r = 0; r < blocks.counts.size(); ++r)
    if (blocks.counts[r] > 0) first = std::min(first, blocks.displacements[r]);
  result.base = static_cast<std::byte*>(elementAt(blocks.buffer, first, blocks.shape));
  for (std::size_t r = 0; r < blocks.counts.size(); ++r) {
    result.counts.push_back(static_cast<std::size_t>(blocks.counts[r]) * blocks.shape.size);
    // What an empty block's displacement says does not matter, however wild.
    result.offsets.push_back(
        blocks.counts[r] > 0
            ? static_cast<std::size_t>(std::ptrdiff_t{blocks.displacements[r]} - first) *
                  blocks.shape.size
            : 0);
  }
  return result;
}

} // namespace

ByteBlocks Staging::copied(const ElementBlocks& blocks) {
  ByteBlocks result = dense(blocks);
  for (std::size_t r = 0; r < blocks.counts.size(); ++r)
    pack(blocks.elements(r), result.base + result.offsets[r]);
  return result;
}

ByteBlocks Staging::readable(const ElementBlocks& blocks) {
  return blocks.shape.plain ? inPlace(blocks) : copied(blocks);
}

ByteBlocks Staging::writable(const ElementBlocks& blocks) {
  if (blocks.shape.plain) return inPlace(blocks);
  ByteBlocks result = dense(blocks);
  for (std::size_t r = 0; r < blocks.counts.size(); ++r)
    if (blocks.counts[r] > 0) deliverLater(blocks.elements(r), result.base + result.offsets[r]);
  return result;
}

void Staging::deliver() const {
  for (const Delivery& one : deliveries_) unpack(one.from, one.to);
}

void Staging::release() noexcept {
  for (Delivery& one : deliveries_)
    if (!one.to.shape.plain) PMPI_Type_free(&one.to.type);
  deliveries_.clear();
  memory_.clear();
}

} // namespace rondo::compat
