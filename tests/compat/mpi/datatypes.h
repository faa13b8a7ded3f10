// The types, layouts and operators of the grid: all that the MPI library has.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rondo::test {

/// Sort of a type: decides which operators MPI allows on it, and how its values are written.
enum class Kind {
  signed_integer,
  unsigned_integer,
  fortran_integer,
  address, ///< MPI_AINT and similar types
  real,
  complex,
  logical,
  byte,
  character,
  pair,
  opaque, ///< moved, never reduced
  affine, ///< two unsigned integers (a, b): the map x -> a x + b, for user-defined operators
};

/// A type that layouts are built from.
struct BaseType {
  std::string name;
  MPI_Datatype type;
  Kind kind;
  int size = 0;                           ///< bytes of data of one element
  MPI_Aint extent = 0;                    ///< bytes from one element to the next
  MPI_Datatype first = MPI_DATATYPE_NULL; ///< of a pair: the type of the value
  /// For each byte of the extent, whether it is data. Libraries may copy the other bytes or not.
  std::vector<bool> significant;
  bool padded = false; ///< some bytes are not data
};

/// A type that contains `at.size()` elements of a base type. Layouts of one base type with the same
/// total number of elements have the same signature.
struct Layout {
  std::string name;
  MPI_Datatype type;
  std::vector<MPI_Aint> at; ///< offset of each element in bytes, in the order of the type map
  MPI_Aint extent;

  int elements() const { return static_cast<int>(at.size()); }
};

/// Number of elements of a layout that is not the base type itself.
inline constexpr int kLayoutElements = 6;

struct Operator {
  std::string name;
  MPI_Op op = MPI_OP_NULL;
  bool exact_values_only = false; ///< sums and products: use values whose result is exact
};

class Datatypes {
 public:
  Datatypes();
  ~Datatypes();
  Datatypes(const Datatypes&) = delete;
  Datatypes& operator=(const Datatypes&) = delete;

  const std::vector<BaseType>& bases() const { return bases_; }
  /// layouts(b)[0] is the base type itself.
  const std::vector<Layout>& layouts(std::size_t base) const { return layouts_[base]; }
  /// The operators that MPI allows on a type, and user-defined operators.
  std::vector<Operator> operators(const BaseType& base) const;

 private:
  void add(const char* name, MPI_Datatype type, Kind kind);
  void addTypesOfBoth();
  void addTypesOfOne(); ///< types that only one of the two libraries has
  void addPairs();
  void addLayouts(const BaseType& base);
  MPI_Datatype keep(MPI_Datatype type);

  std::vector<BaseType> bases_;
  std::vector<std::vector<Layout>> layouts_;
  std::vector<MPI_Datatype> own_;
  MPI_Op maximum_of_ours_ = MPI_OP_NULL;
  MPI_Op composition_ = MPI_OP_NULL;
};

/// Writes `count` values of a base type, one extent apart, whose reduction has the same result in
/// every order. Different seeds give different values.
void fillValues(const BaseType& base, const Operator& op, std::uint64_t seed, std::size_t count,
                unsigned char* to);
/// Random bytes.
void fillBytes(std::uint64_t seed, std::size_t bytes, unsigned char* to);

/// A pseudo-random number from a number; the same on all ranks.
std::uint64_t mix(std::uint64_t x);

} // namespace rondo::test
