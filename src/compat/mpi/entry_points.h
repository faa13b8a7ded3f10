// Defines the entry points of a collective with counts: MPI_name and its nonblocking call, and both
// with large counts (MPI_name_c), each also as PMPI_.
#pragma once

#include <type_traits>
#include <utility>

#include "compat/mpi/run.h"

namespace rondo::compat {

namespace plain {
using Count = int;
using Place = int;
inline const PlainCollectives& library() { return mpi(); }
} // namespace plain

namespace large {
using Count = MPI_Count;
using Place = MPI_Aint;
inline const LargeCollectives& library() { return mpi().large; }
} // namespace large

/// Whether the MPI library's int form takes an argument of the large-count form.
template <class Parameter, class Argument>
bool fits(Argument argument) {
  if constexpr (std::is_integral_v<Argument>) return std::in_range<Parameter>(argument);
  else return true;
}

/// Calls the MPI library's function. One of before MPI 4 has no large-count forms, but programs may
/// find ours (mpi4py does): there the int form is called if the arguments fit, which tables do not.
template <class Function, class... Parameters, class... Arguments>
int passOn(Function* function, int (*with_ints)(Parameters...), MPI_Comm comm,
           Arguments... arguments) {
  if (function) return function(arguments...);
  if constexpr ((std::is_convertible_v<Arguments, Parameters> && ...))
    if ((fits<Parameters>(arguments) && ...))
      return with_ints(static_cast<Parameters>(arguments)...);
  return raise(comm, {MPI_ERR_UNSUPPORTED_OPERATION});
}

} // namespace rondo::compat

#define RONDO_MPI_LIST(...) __VA_ARGS__

/// The blocking form and the nonblocking call for one kind of counts, a namespace.
// clang-format off
#define RONDO_MPI_PAIR(kind, name, i_name, suffix, form, arguments, ...)                           \
  namespace rondo::compat::kind {                                                                  \
  extern "C" RONDO_MPI_VISIBLE int MPI_##name##suffix(__VA_ARGS__, MPI_Comm comm) {                \
    return run(form, comm, [&] {                                                                   \
      return passOn(library().name, mpi().name, comm, RONDO_MPI_LIST arguments, comm);             \
    });                                                                                            \
  }                                                                                                \
  extern "C" RONDO_MPI_VISIBLE int MPI_##i_name##suffix(__VA_ARGS__, MPI_Comm comm,                \
                                                        MPI_Request* request) {                    \
    return start(form, comm, request, [&] {                                                        \
      return passOn(library().i_name, mpi().i_name, comm, RONDO_MPI_LIST arguments, comm, request);\
    });                                                                                            \
  }                                                                                                \
  RONDO_MPI_EXPORT(name##suffix);                                                                  \
  RONDO_MPI_EXPORT(i_name##suffix);                                                                \
  }

#if RONDO_MPI_NEWER
#define RONDO_MPI_LARGE(...) RONDO_MPI_PAIR(__VA_ARGS__)
#else
#define RONDO_MPI_LARGE(...)
#endif

/// `form` and `arguments` are in parentheses; behind them stand the parameters before the
/// communicator.
#define RONDO_MPI_COLLECTIVE(name, i_name, form, arguments, ...)                                   \
  RONDO_MPI_PAIR(plain, name, i_name, , form, arguments, __VA_ARGS__)                              \
  RONDO_MPI_LARGE(large, name, i_name, _c, form, arguments, __VA_ARGS__)
// clang-format on
