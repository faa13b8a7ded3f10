// Keeps the nonblocking calls in flight; implements the functions by which programs wait for them.
#include "compat/mpi/requests.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "compat/mpi/first_to_say.h"
#include "rondo/error.h"
#include "rondo/options.h"

namespace rondo::compat {

namespace {

/// In-flight calls by request handle. Programs without nonblocking calls pay only for reading the
/// counter.
std::atomic<int> in_flight{0};
std::mutex mutex;
std::unordered_map<MPI_Request, Pending*> all;

Pending* find(MPI_Request request) {
  const std::lock_guard lock(mutex);
  const auto found = all.find(request);
  return found == all.end() ? nullptr : found->second;
}

int query(void*, MPI_Status* status) {
  // An empty status, as for MPI's own collectives.
  mpi().Status_set_elements(status, MPI_BYTE, 0);
  mpi().Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_ANY_SOURCE;
  status->MPI_TAG = MPI_ANY_TAG;
  return MPI_SUCCESS;
}

/// Called when the MPI library drops the handle, which may then name another request.
int release(void* state) {
  const std::unique_ptr<Pending> pending(static_cast<Pending*>(state));
  const std::lock_guard lock(mutex);
  all.erase(pending->request);
  in_flight.fetch_sub(1, std::memory_order_relaxed);
  return MPI_SUCCESS;
}

/// MPI does not let programs cancel collectives.
int cancel(void*, int) { return MPI_SUCCESS; }

/// A request of the program that is a nonblocking call of ours. It keeps the error, since the MPI
/// library destroys the Pending while it reports completion.
struct Ours {
  int index;
  Pending* pending;
  std::shared_ptr<Counterpart> at;
  Failure failure{};

  bool completeIfDone() {
    if (!pending->completeIfDone()) return false;
    failure = pending->failure;
    return true;
  }
  void complete() {
    pending->complete();
    failure = pending->failure;
  }
};

class OursAmong {
 public:
  OursAmong(const MPI_Request* requests, int count) {
    if (!requests || in_flight.load(std::memory_order_relaxed) == 0) return;
    for (int i = 0; i < count; ++i)
      if (requests[i] != MPI_REQUEST_NULL)
        if (Pending* const pending = find(requests[i])) ours_.push_back({i, pending, pending->at});
  }

  bool empty() const { return ours_.empty(); }
  void complete() {
    for (Ours& one : ours_) one.complete();
  }
  /// Completes those that are done. Returns the first that is not, or null.
  Ours* completeDone() {
    Ours* waiting = nullptr;
    for (Ours& one : ours_)
      if (!one.completeIfDone() && !waiting) waiting = &one;
    return waiting;
  }
  /// Completes calls as they finish, until `over` says that the MPI library has a result. The MPI
  /// library makes progress in `over`.
  template <class Over>
  int waitUntil(const Over& over) {
    // Long enough to be worth a call of the MPI library, short enough not to delay its messages.
    constexpr std::chrono::microseconds kLook{20};
    for (;;) {
      Ours* const waiting = completeDone();
      int result = MPI_SUCCESS;
      if (over(result)) return result;
      if (!waiting) continue;
      try {
        waiting->pending->work.waitFor(kLook);
      } catch (...) {
        // The call has failed; complete() gets the error again.
      }
    }
  }

  /// The error of the request, if it is ours and has one.
  const Ours* failed(int index) const {
    for (const Ours& one : ours_)
      if (one.index == index && one.failure.code != MPI_SUCCESS) return &one;
    return nullptr;
  }

 private:
  std::vector<Ours> ours_;
};

/// Calls the error handler of the call's communicator. If the program has freed the communicator,
/// the handler gets another one, of this process alone.
int raiseAt(const Counterpart& at, const Failure& failure) {
  const MPI_Comm comm = at.handle;
  if (failure.raised || comm != MPI_COMM_SELF || at.error_handler == MPI_ERRHANDLER_NULL)
    return raise(comm, failure);
  MPI_Comm alone = MPI_COMM_NULL;
  if (mpi().Comm_split(MPI_COMM_SELF, 0, 0, &alone) != MPI_SUCCESS) return failure.code;
  mpi().Comm_set_errhandler(alone, at.error_handler);
  raise(alone, failure);
  mpi().Comm_free(&alone);
  return failure.code;
}

/// Return value of a function that completed the request at `index`.
int reportOne(const OursAmong& ours, int index, int result) {
  const Ours* const bad = ours.failed(index);
  return bad ? raiseAt(*bad->at, bad->failure) : result;
}

/// Return value of a function that completed the requests at these indices; also fills `statuses`.
int reportSome(const OursAmong& ours, std::span<const int> indices, MPI_Status* statuses,
               int result) {
  const Ours* first = nullptr;
  for (const int index : indices)
    if (const Ours* const bad = ours.failed(index); bad && !first) first = bad;
  if (!first || (result != MPI_SUCCESS && result != MPI_ERR_IN_STATUS)) return result;
  if (statuses != MPI_STATUSES_IGNORE)
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const Ours* const bad = ours.failed(indices[i]);
      // If the MPI library found no error, it need not have filled MPI_ERROR.
      if (bad) statuses[i].MPI_ERROR = bad->failure.code;
      else if (result == MPI_SUCCESS) statuses[i].MPI_ERROR = MPI_SUCCESS;
    }
  // The error handler is called once for all of them, unless the MPI library has called it already.
  return raiseAt(*first->at, {MPI_ERR_IN_STATUS, result == MPI_ERR_IN_STATUS});
}

std::vector<int> upTo(int count) {
  std::vector<int> indices(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) indices[static_cast<std::size_t>(i)] = i;
  return indices;
}

using Clock = std::chrono::steady_clock;

/// A call in flight that the program has not completed, or null.
Pending* firstOpen() {
  const std::lock_guard lock(mutex);
  const auto found = std::find_if(all.begin(), all.end(),
                                  [](const auto& entry) { return !entry.second->completed; });
  return found == all.end() ? nullptr : found->second;
}

/// Longest wait for ranks that do not come.
std::chrono::milliseconds setupLimit() {
  try {
    return Options::fromEnvironment().init_timeout;
  } catch (const Error&) {
    return Options().init_timeout;
  }
}

/// Waits for the call. From `end` on it must make progress; otherwise its communicator fails, with
/// an error that names the ranks that have not entered the call.
void awaitUntil(Pending& open, Clock::time_point end) {
  const auto left = std::max<Clock::duration>(end - Clock::now(), Clock::duration::zero());
  if (open.work.waitFor(left)) return;
  open.at->immediate->setTimeout(setupLimit());
  open.work.wait();
}

void sayUnfinished(const char* why) {
  try {
    if (!firstToSay(why)) return;
  } catch (const std::bad_alloc&) {
    // Each rank prints it.
  }
  std::fprintf(stderr, "rondo_mpi: a nonblocking call that was not completed by MPI_Finalize: %s\n",
               why);
}

} // namespace

void Pending::complete() noexcept {
  completeIf([] { return true; });
}

bool Pending::completeIfDone() noexcept {
  return completeIf([this] { return work.test(); });
}

template <class Done>
bool Pending::completeIf(const Done& done) noexcept {
  MPI_Request made = MPI_REQUEST_NULL;
  {
    const std::lock_guard lock(mutex);
    if (completed) return true;
    if (!done()) return false;
    finish();
    completed = true;
    made = request;
  }
  // The last action: if the program has freed the request, this object ends here.
  mpi().Grequest_complete(made);
  return true;
}

void Pending::finish() noexcept {
  try {
    work.wait();
    staging.finish();
  } catch (...) {
    failure = currentFailure(at->handle);
  }
  // Released here, since MPI may not be called while the MPI library drops the request.
  staging.release();
}

void handOver(std::unique_ptr<Pending> pending, MPI_Request* request) {
  MPI_Request made = MPI_REQUEST_NULL;
  try {
    pending->staging.letGo();
    check(mpi().Grequest_start(query, release, cancel, pending.get(), &made));
  } catch (const MpiFailure&) {
    pending->work.wait(); // it reads and writes the program's buffers
    throw;
  }
  pending->request = made;
  const std::lock_guard lock(mutex);
  all.emplace(made, pending.release()); // the request owns it
  in_flight.fetch_add(1, std::memory_order_relaxed);
  *request = made;
}

void finishPending() noexcept {
  std::optional<Clock::time_point> end; // read only if there is such a call
  while (Pending* const open = firstOpen()) {
    try {
      if (!end) end = Clock::now() + setupLimit();
      awaitUntil(*open, *end);
    } catch (const std::exception& error) {
      sayUnfinished(error.what());
    }
    open->complete();
  }
}

} // namespace rondo::compat

using namespace rondo::compat;

extern "C" int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  OursAmong ours(request, 1);
  ours.complete();
  return reportOne(ours, 0, mpi().Wait(request, status));
}

extern "C" int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  OursAmong ours(request, 1);
  ours.completeDone();
  const int result = mpi().Test(request, flag, status);
  return reportOne(ours, result == MPI_SUCCESS && *flag ? 0 : MPI_UNDEFINED, result);
}

extern "C" int MPI_Waitall(int count, MPI_Request requests[], MPI_Status statuses[]) {
  OursAmong ours(requests, count);
  ours.complete();
  const int result = mpi().Waitall(count, requests, statuses);
  return ours.empty() ? result : reportSome(ours, upTo(count), statuses, result);
}

extern "C" int MPI_Testall(int count, MPI_Request requests[], int* flag, MPI_Status statuses[]) {
  OursAmong ours(requests, count);
  ours.completeDone();
  const int result = mpi().Testall(count, requests, flag, statuses);
  if (ours.empty() || (result == MPI_SUCCESS && !*flag)) return result;
  return reportSome(ours, upTo(count), statuses, result);
}

extern "C" int MPI_Waitany(int count, MPI_Request requests[], int* index, MPI_Status* status) {
  OursAmong ours(requests, count);
  if (!ours.completeDone()) {
    const int result = mpi().Waitany(count, requests, index, status);
    return ours.empty() ? result : reportOne(ours, *index, result);
  }
  const int result = ours.waitUntil([&](int& code) {
    int flag = 0;
    code = mpi().Testany(count, requests, index, &flag, status);
    return code != MPI_SUCCESS || flag;
  });
  return reportOne(ours, *index, result);
}

extern "C" int MPI_Testany(int count, MPI_Request requests[], int* index, int* flag,
                           MPI_Status* status) {
  OursAmong ours(requests, count);
  ours.completeDone();
  const int result = mpi().Testany(count, requests, index, flag, status);
  if (ours.empty() || (result == MPI_SUCCESS && !*flag)) return result;
  return reportOne(ours, *index, result);
}

extern "C" int MPI_Waitsome(int count, MPI_Request requests[], int* done, int indices[],
                            MPI_Status statuses[]) {
  OursAmong ours(requests, count);
  const int result = ours.completeDone() ? ours.waitUntil([&](int& code) {
    code = mpi().Testsome(count, requests, done, indices, statuses);
    return code != MPI_SUCCESS || *done != 0;
  })
                                         : mpi().Waitsome(count, requests, done, indices, statuses);
  if (ours.empty() || *done <= 0) return result;
  return reportSome(ours, {indices, static_cast<std::size_t>(*done)}, statuses, result);
}

extern "C" int MPI_Testsome(int count, MPI_Request requests[], int* done, int indices[],
                            MPI_Status statuses[]) {
  OursAmong ours(requests, count);
  ours.completeDone();
  const int result = mpi().Testsome(count, requests, done, indices, statuses);
  if (ours.empty() || *done <= 0) return result;
  return reportSome(ours, {indices, static_cast<std::size_t>(*done)}, statuses, result);
}

extern "C" int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  OursAmong ours(&request, 1);
  ours.completeDone();
  return mpi().Request_get_status(request, flag, status);
}

#if RONDO_MPI_NEWER
extern "C" RONDO_MPI_VISIBLE int MPI_Request_get_status_any(int count, const MPI_Request requests[],
                                                            int* index, int* flag,
                                                            MPI_Status* status) {
  OursAmong ours(requests, count);
  ours.completeDone();
  return callNewer(mpi().Request_get_status_any, MPI_COMM_WORLD, count, requests, index, flag,
                   status);
}

extern "C" RONDO_MPI_VISIBLE int MPI_Request_get_status_all(int count, const MPI_Request requests[],
                                                            int* flag, MPI_Status statuses[]) {
  OursAmong ours(requests, count);
  ours.completeDone();
  return callNewer(mpi().Request_get_status_all, MPI_COMM_WORLD, count, requests, flag, statuses);
}

extern "C" RONDO_MPI_VISIBLE int MPI_Request_get_status_some(int count,
                                                             const MPI_Request requests[],
                                                             int* done, int indices[],
                                                             MPI_Status statuses[]) {
  OursAmong ours(requests, count);
  ours.completeDone();
  return callNewer(mpi().Request_get_status_some, MPI_COMM_WORLD, count, requests, done, indices,
                   statuses);
}

RONDO_MPI_EXPORT(Request_get_status_any);
RONDO_MPI_EXPORT(Request_get_status_all);
RONDO_MPI_EXPORT(Request_get_status_some);
#endif

RONDO_MPI_EXPORT(Wait);
RONDO_MPI_EXPORT(Test);
RONDO_MPI_EXPORT(Waitall);
RONDO_MPI_EXPORT(Testall);
RONDO_MPI_EXPORT(Waitany);
RONDO_MPI_EXPORT(Testany);
RONDO_MPI_EXPORT(Waitsome);
RONDO_MPI_EXPORT(Testsome);
RONDO_MPI_EXPORT(Request_get_status);
