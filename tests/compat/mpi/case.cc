// Lays out the buffers of a case, and compares them.
#include "case.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace rondo::test {
namespace {

/// Bytes around every buffer that no call may change; types may begin this far below it.
constexpr std::size_t kMargin = 512;

/// Number of layouts that make one of the shape's unit.
int perUnit(const Layout& layout, const Shape& shape) {
  return shape.layouts && layout.elements() == 1 ? kLayoutElements : 1;
}

bool isReduceScatter(Collective what) {
  return what == Collective::Reduce_scatter || what == Collective::Reduce_scatter_block;
}

} // namespace

std::size_t Image::position(std::size_t block, std::size_t k) const {
  const auto elements = static_cast<std::size_t>(layout->elements());
  const MPI_Aint which = side.displacements[block] + static_cast<MPI_Aint>(k / elements);
  return kMargin + static_cast<std::size_t>(which * layout->extent + layout->at[k % elements]);
}

Case::Case(const Datatypes& types, const Shape& shape, const Communicator& where)
    : types_(types),
      shape_(shape),
      where_(where),
      base_(types.bases()[shape.base]),
      blocks_(blocks()) {
  const bool all_to_all = shape_.what == Collective::Alltoallv;
  const bool spread_send = all_to_all || shape_.what == Collective::Scatterv;
  const bool spread_receive =
      all_to_all || shape_.what == Collective::Gatherv || shape_.what == Collective::Allgatherv;
  const Layout& plain = types_.layouts(shape_.base)[0];
  actual_send_ = makeImage(pickLayout(1), blocks_.send, spread_send);
  actual_receive_ = makeImage(pickLayout(2), blocks_.receive, spread_receive);
  expected_send_ = makeImage(plain, blocks_.send, spread_send);
  expected_receive_ = makeImage(plain, blocks_.receive, spread_receive);
  fill();
  point(expected_, expected_send_, expected_receive_);
  point(actual_, actual_send_, actual_receive_);
}

const Layout& Case::pickLayout(std::uint64_t salt) const {
  const std::vector<Layout>& all = types_.layouts(shape_.base);
  if (!shape_.layouts) return all[0];
  const auto rank = static_cast<std::uint64_t>(where_.rank);
  return all[mix(shape_.seed ^ (salt << 8) ^ (rank << 16)) % all.size()];
}

/// How much `sender` sends to `receiver`. Symmetric, as an in-place Alltoallv requires.
int Case::blockCount(int sender, int receiver) const {
  if (!shape_.spread.uneven || !hasCounts(shape_.what)) return shape_.count;
  const int part = ((sender + receiver) * 5 + sender * receiver + 3) % 4;
  return part == 3 ? shape_.count : shape_.count * part / 3;
}

Case::Blocks Case::blocks() const {
  const auto p = static_cast<std::size_t>(where_.size);
  std::vector<int> each(p);
  std::vector<int> with_me(p);
  for (std::size_t i = 0; i < p; ++i) {
    each[i] = blockCount(static_cast<int>(i), 1);
    with_me[i] = blockCount(static_cast<int>(i), where_.rank);
  }
  const std::vector<int> mine{each[static_cast<std::size_t>(where_.rank)]};
  const std::vector<int> one{shape_.count};
  const std::vector<int> all{std::accumulate(each.begin(), each.end(), 0)};
  switch (shape_.what) {
    case Collective::Allreduce:
    case Collective::Reduce:
    case Collective::Scan: return {one, one, one};
    case Collective::Exscan: return {one, one, where_.rank > 0 ? one : std::vector<int>{}};
    case Collective::Bcast: return {{}, one, one};
    case Collective::Scatter:
    case Collective::Scatterv: return {each, mine, mine};
    case Collective::Gather:
    case Collective::Gatherv:
    case Collective::Allgather:
    case Collective::Allgatherv: return {mine, each, each};
    case Collective::Reduce_scatter: return {all, each, mine};
    case Collective::Reduce_scatter_block: return {all, each, mine};
    case Collective::Alltoall:
    case Collective::Alltoallv: return {with_me, with_me, with_me};
    case Collective::Barrier: break;
  }
  return {};
}

Image Case::makeImage(const Layout& layout, const std::vector<int>& counts, bool spread) const {
  Image image{&layout, {}, {}};
  Side& side = image.side;
  side.type = layout.type;
  side.counts = counts;
  for (int& count : side.counts) count *= perUnit(layout, shape_);
  side.displacements.resize(counts.size());
  int at = 0;
  for (std::size_t k = 0; k < counts.size(); ++k) {
    const std::size_t block = spread && shape_.spread.reversed ? counts.size() - 1 - k : k;
    if (spread && shape_.spread.gaps) at += 2;
    side.displacements[block] = at;
    at += side.counts[block];
  }
  image.memory.resize(bytes(image) + 2 * kMargin);
  return image;
}

/// From the buffer's address to the end of the last element.
std::size_t Case::bytes(const Image& image) const {
  const Side& side = image.side;
  MPI_Aint end = 0;
  const MPI_Aint highest = *std::max_element(image.layout->at.begin(), image.layout->at.end());
  for (std::size_t i = 0; i < side.counts.size(); ++i) {
    const MPI_Aint last = side.displacements[i] + side.counts[i] - 1;
    if (side.counts[i] > 0) {
      end = std::max(end, last * image.layout->extent + highest + base_.extent);
    }
  }
  return static_cast<std::size_t>(end);
}

std::size_t Case::baseElements(const Image& image, std::size_t block) const {
  return static_cast<std::size_t>(image.side.counts[block] * image.layout->elements());
}

void Case::copyElements(const Image& from, Image& to) const {
  const auto size = static_cast<std::size_t>(base_.extent);
  for (std::size_t block = 0; block < from.side.counts.size(); ++block) {
    for (std::size_t k = 0; k < baseElements(from, block); ++k) {
      std::memcpy(to.memory.data() + to.position(block, k),
                  from.memory.data() + from.position(block, k), size);
    }
  }
}

void Case::fill() {
  const std::uint64_t seed = mix(shape_.seed ^ (static_cast<std::uint64_t>(where_.rank) << 40));
  const auto extent = static_cast<std::size_t>(base_.extent);
  std::uint64_t salt = 0;
  for (Image* image : {&actual_send_, &actual_receive_}) {
    fillBytes(seed + ++salt, image->memory.size(), image->memory.data());
    if (!reduces(shape_.what)) continue;
    fillValues(base_, shape_.op, seed + ++salt, bytes(*image) / extent,
               image->memory.data() + kMargin);
  }
  if (shape_.layouts) {
    copyElements(actual_send_, expected_send_);
    copyElements(actual_receive_, expected_receive_);
  } else {
    expected_send_.memory = actual_send_.memory;
    expected_receive_.memory = actual_receive_.memory;
  }
  sent_before_ = actual_send_.memory;
  received_before_ = actual_receive_.memory;
  if (isReduceScatter(shape_.what)) {
    if (shape_.in_place) {
      undefined_from_ = kMargin + static_cast<std::size_t>(blocks_.result[0]) * extent;
      undefined_to_ = kMargin + bytes(actual_receive_);
    }
    // The buffer has room for all blocks, as for an in-place call; data arrive in the first one.
    if (shape_.what == Collective::Reduce_scatter_block) {
      for (Image* image : {&actual_receive_, &expected_receive_}) image->side.counts.resize(1);
    }
  }
}

void Case::point(Operation& operation, Image& send, Image& receive) const {
  operation.what = shape_.what;
  operation.comm = where_.comm;
  operation.root = shape_.root;
  operation.op = shape_.op.op;
  operation.send = send.side;
  operation.receive = receive.side;
  operation.send.data = send.memory.data() + kMargin;
  operation.receive.data = receive.memory.data() + kMargin;
  const bool is_root = where_.rank == shape_.root;
  if (!shape_.in_place) return;
  if (shape_.what == Collective::Scatter || shape_.what == Collective::Scatterv) {
    if (is_root) operation.receive.data = MPI_IN_PLACE;
  } else if (!hasRoot(shape_.what) || is_root) {
    operation.send.data = MPI_IN_PLACE;
  }
}

std::string Case::difference() const {
  if (actual_send_.memory != sent_before_) return "the send buffer was written to";
  const std::vector<unsigned char>& got = actual_receive_.memory;
  const std::vector<unsigned char>& wanted = expected_receive_.memory;
  if (!shape_.layouts && got == wanted) return "";
  const auto size = static_cast<std::size_t>(base_.extent);
  std::vector<unsigned char> untouched = received_before_;
  for (std::size_t block = 0; block < blocks_.result.size(); ++block) {
    const auto elements =
        static_cast<std::size_t>(blocks_.result[block]) * (shape_.layouts ? kLayoutElements : 1);
    for (std::size_t k = 0; k < elements; ++k) {
      const std::size_t at = actual_receive_.position(block, k);
      const std::size_t from = expected_receive_.position(block, k);
      for (std::size_t i = 0; i < size; ++i) {
        if (got[at + i] == wanted[from + i] || !base_.significant[i]) continue;
        return "byte " + std::to_string(i) + " of element " + std::to_string(k) + " of block " +
               std::to_string(block) + ": expected " + std::to_string(wanted[from + i]) + ", got " +
               std::to_string(got[at + i]) + ", before " + std::to_string(received_before_[at + i]);
      }
      std::memcpy(untouched.data() + at, got.data() + at, size);
    }
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == untouched[i] || (i >= undefined_from_ && i < undefined_to_)) continue;
    return "byte " + std::to_string(static_cast<long>(i) - static_cast<long>(kMargin)) +
           " from the receive buffer on was written to, which no element is at";
  }
  return "";
}

std::string Case::describe() const {
  std::string text =
      std::string(name(shape_.what)) + " " + base_.name + " x " + std::to_string(shape_.count);
  if (reduces(shape_.what)) text += " " + shape_.op.name;
  if (shape_.layouts) {
    text += " (sent as " + actual_send_.layout->name + ", received as " +
            actual_receive_.layout->name + ", of " + std::to_string(kLayoutElements) + ")";
  }
  if (hasRoot(shape_.what)) text += ", root " + std::to_string(shape_.root);
  if (shape_.in_place) text += ", in place";
  if (hasCounts(shape_.what)) {
    text += shape_.spread.uneven ? ", uneven" : ", even";
    if (shape_.spread.gaps) text += ", gaps";
    if (shape_.spread.reversed) text += ", reversed";
  }
  return text + ", on " + where_.name + " rank " + std::to_string(where_.rank) + " of " +
         std::to_string(where_.size);
}

} // namespace rondo::test
