// Analyses derived datatypes by their constructors' arguments.
#include "compat/mpi/contiguous.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "compat/mpi/datatypes.h"
#include "compat/mpi/errors.h"

namespace rondo::compat {

namespace {

/// The data of a type: one run of bytes in the order of the type map, or something else.
struct Data {
  bool run = true;
  MPI_Count begin = 0, size = 0; ///< of the run; a size of 0 has no begin
};

/// Numbers of arguments of a type's constructor.
struct Envelope {
  int combiner = 0;
  MPI_Count integers = 0, addresses = 0, counts = 0, types = 0;
};

/// Whether a type exists from the beginning, so that it must not be freed.
bool predefined(int combiner) {
  return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_INTEGER ||
         combiner == MPI_COMBINER_F90_REAL || combiner == MPI_COMBINER_F90_COMPLEX;
}

/// A type made by a large-count constructor is an error for the older function.
Envelope envelopeOf(MPI_Datatype type) {
  Envelope result;
  if (mpi().Type_get_envelope_c) {
    check(mpi().Type_get_envelope_c(type, &result.integers, &result.addresses, &result.counts,
                                    &result.types, &result.combiner));
    return result;
  }
  int integers = 0, addresses = 0, types = 0;
  check(mpi().Type_get_envelope(type, &integers, &addresses, &types, &result.combiner));
  result.integers = integers;
  result.addresses = addresses;
  result.types = types;
  return result;
}

/// The arguments of a type's constructor.
class Contents {
 public:
  Contents(MPI_Datatype type, const Envelope& envelope)
      : types_(static_cast<std::size_t>(envelope.types)) {
    std::vector<int> integers(static_cast<std::size_t>(envelope.integers));
    std::vector<MPI_Aint> addresses(static_cast<std::size_t>(envelope.addresses));
    std::vector<MPI_Count> counts(static_cast<std::size_t>(envelope.counts));
    if (mpi().Type_get_contents_c)
      check(mpi().Type_get_contents_c(type, envelope.integers, envelope.addresses, envelope.counts,
                                      envelope.types, integers.data(), addresses.data(),
                                      counts.data(), types_.data()));
    else
      check(mpi().Type_get_contents(
          type, static_cast<int>(envelope.integers), static_cast<int>(envelope.addresses),
          static_cast<int>(envelope.types), integers.data(), addresses.data(), types_.data()));
    numbers_.assign(integers.begin(), integers.end());
    numbers_.insert(numbers_.end(), addresses.begin(), addresses.end());
    numbers_.insert(numbers_.end(), counts.begin(), counts.end());
  }
  /// The handles of derived types are new references.
  ~Contents() {
    for (MPI_Datatype& type : types_)
      if (!predefined_types.find(type) && derived(type)) mpi().Type_free(&type);
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  /// Argument `at` of those that are not types, in the constructor's order. (Subarrays, whose order
  /// depends on the kind of constructor, are not analysed by their numbers.)
  MPI_Count number(MPI_Count at) const { return numbers_[static_cast<std::size_t>(at)]; }
  MPI_Datatype type(MPI_Count at = 0) const { return types_[static_cast<std::size_t>(at)]; }

 private:
  static bool derived(MPI_Datatype type) {
    try {
      return !predefined(envelopeOf(type).combiner);
    } catch (const MpiFailure&) {
      return false;
    }
  }

  std::vector<MPI_Count> numbers_;
  std::vector<MPI_Datatype> types_;
};

MPI_Count sizeOf(MPI_Datatype type) {
  MPI_Count size = 0;
  check(mpi().Type_size_x(type, &size));
  return size;
}

MPI_Count extentOf(MPI_Datatype type) {
  if (const Predefined* known = predefined_types.find(type)) return known->size;
  MPI_Aint lb = 0, extent = 0;
  check(mpi().Type_get_extent(type, &lb, &extent));
  return extent;
}

/// The bytes from 0 to the size of a type, if it has no gaps.
Data dense(MPI_Datatype type) {
  const MPI_Count size = sizeOf(type);
  return {extentOf(type) == size, 0, size};
}

Data repeated(const Data& one, MPI_Count count, MPI_Count stride) {
  if (count <= 0 || one.size == 0) return {};
  return {one.run && (count == 1 || stride == one.size), one.begin, one.size * count};
}

/// Appends data that lie `at` bytes further.
void append(Data& all, const Data& more, MPI_Count at) {
  if (more.size == 0) return;
  if (all.size == 0) all = {more.run, more.begin + at, 0};
  all.run = all.run && more.run && more.begin + at == all.begin + all.size;
  all.size += more.size;
}

/// One analysis. Types are often used repeatedly in others.
class Analysis {
 public:
  Data of(MPI_Datatype type);

 private:
  Data made(MPI_Datatype type);
  Data indexed(const Contents& contents, int combiner);

  std::map<std::uint64_t, Data> known_;
};

Data Analysis::of(MPI_Datatype type) {
  if (const Predefined* known = predefined_types.find(type)) return {true, 0, known->size};
  const auto found = known_.find(numberOf(type));
  if (found != known_.end()) return found->second;
  // The outer type keeps this one, so its handle stays valid as long as the analysis.
  return known_[numberOf(type)] = made(type);
}

Data Analysis::made(MPI_Datatype type) {
  const Envelope envelope = envelopeOf(type);
  // Pairs, and types that Rondo does not know.
  if (predefined(envelope.combiner)) return dense(type);
  switch (envelope.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
    case MPI_COMBINER_CONTIGUOUS:
    case MPI_COMBINER_SUBARRAY:
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR:
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
    case MPI_COMBINER_STRUCT: break;
    default: return {false, 0, sizeOf(type)};
  }
  if (envelope.types == 0) return {}; // a struct without blocks
  const Contents contents(type, envelope);
  const MPI_Datatype inner = contents.type();
  switch (envelope.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED: return of(inner);
    case MPI_COMBINER_CONTIGUOUS: return repeated(of(inner), contents.number(0), extentOf(inner));
    case MPI_COMBINER_SUBARRAY: {
      // A whole array, or a part, which has gaps at its end.
      const Data one = of(inner);
      Data all = dense(type);
      all.run = all.run && one.run && one.begin == 0 && one.size == extentOf(inner);
      return all;
    }
    case MPI_COMBINER_VECTOR:
    case MPI_COMBINER_HVECTOR: {
      const MPI_Count unit = envelope.combiner == MPI_COMBINER_VECTOR ? extentOf(inner) : 1;
      const Data block = repeated(of(inner), contents.number(1), extentOf(inner));
      return repeated(block, contents.number(0), contents.number(2) * unit);
    }
    default: return indexed(contents, envelope.combiner);
  }
}

Data Analysis::indexed(const Contents& contents, int combiner) {
  const bool several = combiner == MPI_COMBINER_STRUCT;
  const bool same =
      combiner == MPI_COMBINER_INDEXED_BLOCK || combiner == MPI_COMBINER_HINDEXED_BLOCK;
  const bool elements = combiner == MPI_COMBINER_INDEXED || combiner == MPI_COMBINER_INDEXED_BLOCK;
  const MPI_Count blocks = contents.number(0);
  const MPI_Count displacements = same ? 2 : 1 + blocks;
  Data all, one;
  MPI_Count extent = 0;
  for (MPI_Count i = 0; i < blocks && all.run; ++i) {
    if (several || i == 0) {
      one = of(contents.type(several ? i : 0));
      extent = extentOf(contents.type(several ? i : 0));
    }
    append(all, repeated(one, contents.number(same ? 1 : 1 + i), extent),
           contents.number(displacements + i) * (elements ? extent : 1));
  }
  return all;
}

} // namespace

bool contiguous(MPI_Datatype type, MPI_Count size) {
  const Data data = Analysis().of(type);
  return data.run && data.size == size && (size == 0 || data.begin == 0);
}

} // namespace rondo::compat
