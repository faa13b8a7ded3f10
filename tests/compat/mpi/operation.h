// One call of a collective as a value, so that it can be made blocking or not, of either library.
#pragma once

#include <array>
#include <vector>

#include "library.h"

namespace rondo::test {

enum class Collective {
#define COMPAT_NAME(blocking, immediate) blocking,
  COMPAT_COLLECTIVES(COMPAT_NAME)
#undef COMPAT_NAME
};

inline constexpr auto kCollectives = std::to_array<Collective>({
#define COMPAT_NAME(blocking, immediate) Collective::blocking,
    COMPAT_COLLECTIVES(COMPAT_NAME)
#undef COMPAT_NAME
});

const char* name(Collective what);
bool reduces(Collective what);
bool hasRoot(Collective what);
/// One count for each rank, given by the caller.
bool hasCounts(Collective what);

/// Arguments of the send or the receive side. Calls with one count use counts[0].
struct Side {
  void* data = nullptr;
  std::vector<int> counts;
  std::vector<int> displacements;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  /// The same numbers for the large-count forms.
  std::vector<MPI_Count> large_counts{};
  std::vector<MPI_Aint> large_displacements{};
};

struct Operation {
  Collective what = Collective::Barrier;
  MPI_Comm comm = MPI_COMM_NULL;
  int root = 0;
  MPI_Op op = MPI_OP_NULL;
  Side send;
  Side receive; ///< also Bcast's only buffer
  bool large = false;

  /// Makes it a call of the large-count form, if this MPI has them.
  void useLargeCounts();
};

/// Makes the call, or its nonblocking form if `request` is not null. Returns MPI's code.
int call(const Library& library, const Operation& operation, MPI_Request* request);

} // namespace rondo::test
