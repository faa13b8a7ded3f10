// One case of the grid: the same call on the same data, once for the library under test and once
// for the MPI library's own function, and the comparison of the results.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "communicators.h"
#include "datatypes.h"
#include "operation.h"

namespace rondo::test {

/// Layout of the blocks of a call with counts.
struct Spread {
  bool uneven = false;   ///< false: all blocks have the same count
  bool gaps = false;     ///< gaps between blocks
  bool reversed = false; ///< the last rank's block comes first
};

/// A case; the same on all ranks of its communicator.
struct Shape {
  Collective what = Collective::Barrier;
  std::size_t base = 0; ///< in Datatypes::bases()
  Operator op{};        ///< reductions only
  bool in_place = false;
  /// The call under test uses different types on each rank and side, all with the same
  /// signature. The MPI library's own call always uses the base type, since libraries fail on
  /// some of these calls.
  bool layouts = false;
  int count = 0; ///< in elements of the layout if there is one, else in base elements
  int root = 0;
  Spread spread{};
  std::uint64_t seed = 0;
};

/// One side's arguments, with the memory that they refer to.
struct Image {
  const Layout* layout = nullptr;
  Side side;
  std::vector<unsigned char> memory;

  /// Address of base element k of a block.
  std::size_t position(std::size_t block, std::size_t k) const;
};

class Case {
 public:
  Case(const Datatypes& types, const Shape& shape, const Communicator& where);
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  /// For the MPI library's own function.
  const Operation& expected() const { return expected_; }
  /// For the function under test.
  const Operation& actual() const { return actual_; }
  /// This rank calls the large-count form of the function under test.
  void useLargeCounts() { actual_.useLargeCounts(); }
  /// Returns an empty text if both calls left the same data and changed nothing else.
  std::string difference() const;
  std::string describe() const;

 private:
  /// Counts of each block of the two sides, in the shape's unit.
  struct Blocks {
    std::vector<int> send;
    std::vector<int> receive;
    /// Contents of the send buffer, if they are not those that the arguments imply.
    std::vector<int> result;
  };

  int blockCount(int sender, int receiver) const;
  Blocks blocks() const;
  const Layout& pickLayout(std::uint64_t salt) const;
  Image makeImage(const Layout& layout, const std::vector<int>& counts, bool spread) const;
  std::size_t bytes(const Image& image) const;
  std::size_t baseElements(const Image& image, std::size_t block) const;
  void fill();
  void copyElements(const Image& from, Image& to) const;
  void point(Operation& operation, Image& send, Image& receive) const;

  const Datatypes& types_;
  Shape shape_;
  Communicator where_;
  const BaseType& base_;
  Blocks blocks_;
  Image actual_send_;
  Image actual_receive_;
  Image expected_send_;
  Image expected_receive_;
  std::vector<unsigned char> sent_before_;
  std::vector<unsigned char> received_before_;
  /// Bytes that an in-place reduce-scatter leaves undefined.
  std::size_t undefined_from_ = 0;
  std::size_t undefined_to_ = 0;
  Operation expected_;
  Operation actual_;
};

} // namespace rondo::test
