// The types, layouts and operators of the grid: all that the MPI library has.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace compat {

/// What decides which operators MPI allows on a type, and how values of it are written.
enum class Kind {
  signed_integer,
  unsigned_integer,
  fortran_integer,
  address, ///< MPI_AINT and its like
  real,
  complex,
  logical,
  byte,
  character,
  pair,
  opaque, ///< moved, never reduced
  affine, ///< two unsigned integers (a, b): the map x -> a x + b, for operators of our own
};

/// A type that layouts are built from.
struct BaseType {
  std::string name;
  MPI_Datatype type;
  Kind kind;
  int size = 0;                           ///< bytes of data in one
  MPI_Aint extent = 0;                    ///< bytes from one to the next
  MPI_Datatype first = MPI_DATATYPE_NULL; ///< of a pair: the type of the value
  /// For each byte of the extent whether it is data; libraries may or may not copy the others.
  std::vector<bool> significant;
  bool padded = false; ///< some byte is not
};

/// A type that holds `at.size()` elements of a base type. Layouts of one base type with the same
/// number of elements in all have the same signature.
struct Layout {
  std::string name;
  MPI_Datatype type;
  std::vector<MPI_Aint> at; ///< where each element lies, in the order of the type map, in bytes
  MPI_Aint extent;

  int elements() const { return static_cast<int>(at.size()); }
};

/// The elements of a layout that is not the base type itself.
inline constexpr int kLayoutElements = 6;

struct Operator {
  std::string name;
  MPI_Op op = MPI_OP_NULL;
  bool exact_values_only = false; ///< sums and products: values whose result is exact
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
  /// What MPI allows on a type, and operators of our own.
  std::vector<Operator> operators(const BaseType& base) const;

 private:
  void add(const char* name, MPI_Datatype type, Kind kind);
  void addTypesOfBoth();
  void addTypesOfOne(); ///< those that one of the two libraries has
  void addPairs();
  void addLayouts(const BaseType& base);
  MPI_Datatype keep(MPI_Datatype type);

  std::vector<BaseType> bases_;
  std::vector<std::vector<Layout>> layouts_;
  std::vector<MPI_Datatype> own_;
  MPI_Op maximum_of_ours_ = MPI_OP_NULL;
  MPI_Op composition_ = MPI_OP_NULL;
};

/// Writes values of a base type whose reduction has one result, however it is made: `count` of them
/// one extent apart. Different for each seed.
void fillValues(const BaseType& base, const Operator& op, std::uint64_t seed, std::size_t count,
                unsigned char* to);
/// Random bytes.
void fillBytes(std::uint64_t seed, std::size_t bytes, unsigned char* to);

/// A number from a number; the same on all ranks.
std::uint64_t mix(std::uint64_t x);

} // namespace compat
