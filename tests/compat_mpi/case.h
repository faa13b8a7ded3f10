// One case of the grid: the same call for the library under test and for the MPI library's own, on
// the same data, and the comparison of what they left.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "communicators.h"
#include "datatypes.h"
#include "operation.h"

namespace compat {

/// How the blocks of a call with counts lie.
struct Spread {
  bool uneven = false;   ///< else all blocks have the same count
  bool gaps = false;     ///< room between blocks
  bool reversed = false; ///< the last rank's block comes first
};

/// A case; the same on all ranks of its communicator.
struct Shape {
  Collective what = Collective::Barrier;
  std::size_t base = 0; ///< in Datatypes::bases()
  Operator op{};        ///< reductions only
  bool in_place = false;
  /// The call under test gives other types on each rank and side, all of the same signature. The
  /// MPI library's own call always gets the base type: libraries fail on some of these calls.
  bool layouts = false;
  int count = 0; ///< in layouts' elements where there are layouts, else in base elements
  int root = 0;
  Spread spread{};
  std::uint64_t seed = 0;
};

/// One side's arguments with the memory that they speak of.
struct Image {
  const Layout* layout = nullptr;
  Side side;
  std::vector<unsigned char> memory;

  /// Where base element k of a block begins in memory.
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
  /// Empty if both calls left the same data, and touched nothing else.
  std::string difference() const;
  std::string describe() const;

 private:
  /// Counts of each block, in the shape's unit, of the two sides.
  struct Blocks {
    std::vector<int> send;
    std::vector<int> receive;
    /// What the send buffer holds, where that is not what the arguments say.
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
  /// Where an in-place reduce-scatter leaves bytes undefined.
  std::size_t undefined_from_ = 0;
  std::size_t undefined_to_ = 0;
  Operation expected_;
  Operation actual_;
};

} // namespace compat
