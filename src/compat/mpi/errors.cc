// Maps errors to MPI's error classes, and registers their texts.
#include "compat/mpi/errors.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "compat/mpi/first_to_say.h"
#include "compat/mpi/ulfm.h"
#include "rondo/error.h"

namespace rondo::compat {

namespace {

int classOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::mismatch: return MPI_ERR_TRUNCATE;
    case ErrorCode::invalid_argument: return MPI_ERR_BUFFER;
    case ErrorCode::unsupported: return MPI_ERR_UNSUPPORTED_OPERATION;
    default: return MPI_ERR_OTHER;
  }
}

std::string stringOf(int code) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  return mpi().Error_string(code, text.data(), &length) == MPI_SUCCESS ? text.data() : "";
}

/// Returns an error code of this class for which MPI_Error_string returns the text; or the class
/// itself, with the text on stderr, if the MPI library does not support that. (MPICH accepts codes
/// of its own classes, and then returns other texts for them.)
int codeFor(int error_class, std::string sentence) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, int> known;
  static bool works = true;
  // Codes live until MPI_Finalize, and programs that go on after errors could make many.
  constexpr std::size_t kMostCodes = 64;

  sentence.resize(std::min<std::size_t>(sentence.size(), MPI_MAX_ERROR_STRING - 1));
  const std::lock_guard lock(mutex);
  std::pair key(error_class, std::move(sentence));
  if (const auto found = known.find(key); found != known.end()) return found->second;
  int code = error_class;
  const bool room = known.size() < kMostCodes;
  works = works && (!room || (mpi().Add_error_code(error_class, &code) == MPI_SUCCESS &&
                              mpi().Add_error_string(code, key.second.c_str()) == MPI_SUCCESS &&
                              stringOf(code) == key.second));
  if (!works || !room) {
    if (firstToSay(key.second)) std::fprintf(stderr, "rondo_mpi: %s\n", key.second.c_str());
    code = error_class;
  }
  if (room) known.emplace(std::move(key), code);
  return code;
}

/// Prints the text if errors of the communicator end the job: what the MPI library prints through
/// its launcher may be lost.
void sayIfFatal(MPI_Comm comm, const std::string& text) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  if (mpi().Comm_get_errhandler(comm, &handler) != MPI_SUCCESS) return;
  const bool fatal = handler == MPI_ERRORS_ARE_FATAL;
  mpi().Errhandler_free(&handler);
  if (fatal && firstToSay(text)) std::fprintf(stderr, "rondo_mpi: %s\n", text.c_str());
}

/// Prints the text of the code in this case, if it has one of ours: a class has none.
void sayIfFatal(MPI_Comm comm, int code) {
  int error_class = code;
  mpi().Error_class(code, &error_class);
  if (error_class != code) sayIfFatal(comm, stringOf(code));
}

} // namespace

Failure currentFailure(MPI_Comm comm) noexcept {
  try {
    try {
      throw;
    } catch (const MpiFailure& failure) {
      return {failure.code, true};
    } catch (const CallFailure& failure) {
      return {codeFor(failure.error_class, failure.sentence)};
    } catch (const Error& error) {
      // An error code of its own would have Rondo's text, but programs that use ULFM compare the
      // code with MPIX_ERR_PROC_FAILED and the like. MPI's functions say which rank died.
      if (const int error_class = ulfmClass(comm, error); error_class != MPI_SUCCESS) {
        sayIfFatal(comm, error.what());
        return {error_class};
      }
      return {codeFor(classOf(error.code()), error.what())};
    } catch (const std::bad_alloc&) {
      return {MPI_ERR_NO_MEM};
    } catch (const std::exception& error) {
      return {codeFor(MPI_ERR_INTERN, error.what())};
    }
  } catch (...) {
    return {MPI_ERR_INTERN}; // out of memory for the text
  }
}

int raise(MPI_Comm comm, const Failure& failure) noexcept {
  if (failure.raised || failure.code == MPI_SUCCESS) return failure.code;
  try {
    sayIfFatal(comm, failure.code);
  } catch (const std::bad_alloc&) {
    // The code says enough.
  }
  mpi().Comm_call_errhandler(comm, failure.code);
  return failure.code;
}

ErrorsReturned::ErrorsReturned(MPI_Comm comm) : comm_(comm) {
  if (mpi().Comm_get_errhandler(comm_, &before_) == MPI_SUCCESS)
    mpi().Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
}

ErrorsReturned::~ErrorsReturned() {
  if (before_ == MPI_ERRHANDLER_NULL) return;
  mpi().Comm_set_errhandler(comm_, before_);
  mpi().Errhandler_free(&before_);
}

} // namespace rondo::compat
