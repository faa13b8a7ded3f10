// Translates MPI's datatypes and operators to Rondo's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "compat/mpi/mpi_library.h"
#include "compat/mpi/stats.h"
#include "rondo/types.h"

namespace rondo::compat {

/// Fills the tables of predefined types and operators. To be called in MPI_Init, before any search.
void learnPredefined();

/// Handles are pointers in some MPI libraries and integers in others.
template <class Handle>
std::uint64_t numberOf(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) return reinterpret_cast<std::uintptr_t>(handle);
  else return static_cast<std::uint64_t>(handle);
}

/// Which operators a type supports.
enum class Sort { opaque, bytes, signed_integer, unsigned_integer, real, complex };

struct Predefined {
  MPI_Datatype handle{};
  std::uint32_t size = 0; ///< in bytes; 0: an unused entry of the table
  Sort sort = Sort::opaque;
  DataType type = DataType::uint8;
};

/// Open addressing. The table has twice as many entries as there are types, so searches are short.
/// Written by learnPredefined() only.
class PredefinedTypes {
 public:
  /// The entry of a type, or null.
  const Predefined* find(MPI_Datatype type) const {
    for (std::size_t at = placeOf(type);; ++at) {
      const Predefined& entry = table_[at % table_.size()];
      if (entry.size == 0) return nullptr;
      if (entry.handle == type) return &entry;
    }
  }
  /// Does nothing if the type is in the table: MPI may have two names for one type.
  void add(const Predefined& type) {
    if (find(type.handle)) return;
    std::size_t at = placeOf(type.handle);
    while (table_[at % table_.size()].size != 0) ++at;
    table_[at % table_.size()] = type;
  }

 private:
  static constexpr int kBits = 7;
  static std::size_t placeOf(MPI_Datatype type) {
    return static_cast<std::size_t>(numberOf(type) * 0x9e3779b97f4a7c15u >> (64 - kBits));
  }
  std::array<Predefined, 1u << kBits> table_{};
};
extern PredefinedTypes predefined_types;

/// An MPI reduction as Rondo's: an element of MPI's type is `factor` elements of `type`.
struct Reduction {
  Reason refused = Reason::none;
  DataType type = DataType::uint8;
  std::size_t factor = 1;
  ReduceOp op = ReduceOp::sum;
  std::size_t bytes() const { return sizeOf(type) * factor; }
};

/// Depends on the two handles only, which MPI requires to be the same on all ranks. Takes a
/// few nanoseconds.
Reduction reductionOf(MPI_Datatype type, MPI_Op op);

/// Layout of a type's elements in memory.
struct Shape {
  std::size_t size = 0; ///< bytes of data of one element
  MPI_Aint extent = 0;  ///< bytes from one element to the next
  /// Elements are contiguous: `size` bytes each, without gaps, in the order of the type map.
  bool plain = false;
};

/// Analyses a type that is not predefined. Throws MpiFailure.
Shape shapeOfDerived(MPI_Datatype type);

inline Shape shapeOf(const Predefined& type) {
  return {type.size, static_cast<MPI_Aint>(type.size), true};
}
/// Throws MpiFailure.
inline Shape shapeOf(MPI_Datatype type) {
  const Predefined* const known = predefined_types.find(type);
  return known ? shapeOf(*known) : shapeOfDerived(type);
}

/// Bytes of `count` elements. With count 0 the type is not looked at, since MPI may not have
/// checked it.
inline std::size_t bytesOf(std::size_t count, MPI_Datatype type) {
  return count == 0 ? 0 : count * shapeOf(type).size;
}

} // namespace rondo::compat
