// Creates, finds and destroys the Rondo communicators of MPI communicators.
#include "compat/mpi/communicators.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "compat/mpi/errors.h"
#include "compat/mpi/ulfm.h"
#include "rondo/detail/shims.h"
#include "rondo/error.h"

namespace rondo::compat {

Counterpart::~Counterpart() {
  if (error_handler != MPI_ERRHANDLER_NULL) mpi().Errhandler_free(&error_handler);
}

constinit thread_local LastCounterpart last_counterpart{};
std::atomic<std::uint64_t> communicator_generation{1};

namespace {

std::atomic<bool> active{false};
int attribute = MPI_KEYVAL_INVALID;
/// A generalized request that never completes while MPI is active. Testing it lets the MPI library
/// make progress, in Open MPI and in MPICH. (In MPICH a probe of MPI_COMM_SELF does not.)
MPI_Request open_end{};

/// The last one that this thread has made and not yet destroyed.
constinit thread_local const BeingFreed* being_freed = nullptr;

std::mutex living_mutex;
std::map<const Counterpart*, std::shared_ptr<Counterpart>> living;

/// A duplicate gets a counterpart of its own.
int copyNoAttribute(MPI_Comm, int, void*, void*, void*, int* copied) {
  *copied = 0;
  return MPI_SUCCESS;
}

int deleteAttribute(MPI_Comm comm, int, void* value, void*) {
  std::shared_ptr<Counterpart> last;
  {
    const std::lock_guard lock(living_mutex);
    const auto found = living.find(static_cast<Counterpart*>(value));
    if (found == living.end()) return MPI_SUCCESS;
    last = std::move(found->second);
    living.erase(found);
  }
  mpi().Comm_get_errhandler(comm, &last->error_handler);
  last->handle = MPI_COMM_SELF;
  communicator_generation.fetch_add(1, std::memory_order_relaxed);
  return MPI_SUCCESS;
}

Options optionsOfJob() {
  Options options = Options::fromEnvironment();
  options.device = -1; // MPI's buffers are in host memory
  // MPI has no deadline for a rank that is late or stopped. Dead ranks are found without a timeout.
  if (!std::getenv("RONDO_TIMEOUT")) options.timeout = std::chrono::hours(24 * 7);
  // A program that handles failures wants to hear of them.
  if (!std::getenv("RONDO_PATIENT")) options.patient = !faultTolerant();
  return options;
}

/// The processes that are known to have this library: those of this process's MPI_COMM_WORLD, which
/// all went through MPI_Init.
MPI_Group known{};

/// Whether all processes of the communicator are known. The result is the same on all of them,
/// since worlds do not overlap: each process sees that some are not of its own world.
bool allKnown(MPI_Comm comm) {
  MPI_Group all = MPI_GROUP_NULL;
  int size = 0;
  check(mpi().Comm_group(comm, &all));
  check(mpi().Group_size(all, &size));
  std::vector<int> ranks(static_cast<std::size_t>(size)), there(ranks.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  check(mpi().Group_translate_ranks(all, size, ranks.data(), known, there.data()));
  check(mpi().Group_free(&all));
  return std::find(there.begin(), there.end(), MPI_UNDEFINED) == there.end();
}

/// Prints, once per process, why a communicator is left to the MPI library.
void sayWhy(const std::string& why) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    std::fprintf(stderr, "rondo_mpi: the MPI library runs a communicator's collectives: %s\n",
                 why.c_str());
}

/// Does what everywhere() does, through Rondo. Throws if the communicator fails, as it does by a
/// death or a revoke; then other ranks may have got an answer.
bool everywhereIn(Communicator& comm, bool made) {
  constexpr std::chrono::microseconds kPause{20};
  const std::byte mine{made};
  auto answer = comm.exchangeAsync({&mine, 1});
  while (answer.wait_for(kPause) != std::future_status::ready) moveMpi();
  const auto all = answer.get();
  return std::all_of(all.begin(), all.end(),
                     [](const auto& one) { return one.front() == std::byte{1}; });
}

/// Returns the id that rank 0 made. Nothing if there is none; after a death only some ranks may
/// have it. In a job with ULFM a death ends Open MPI's MPI_Bcast on all ranks.
std::optional<UniqueId> exchangeId(const Counterpart& at, const Options* options) {
  struct {
    UniqueId id;
    std::byte valid{0};
  } message;
  if (at.rank == 0 && options) {
    try {
      message.id = UniqueId::create(*options);
      message.valid = std::byte{1};
    } catch (const std::exception& error) {
      sayWhy(error.what());
    }
  }
  if (mpi().Bcast(&message, sizeof message, MPI_BYTE, 0, at.handle) != MPI_SUCCESS ||
      message.valid == std::byte{0})
    return std::nullopt;
  return message.id;
}

std::size_t openDescriptors() {
  std::error_code none;
  const std::filesystem::directory_iterator all("/proc/self/fd", none);
  return none ? 0 : static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Whether the channels of this communicator, and those that other communicators have yet to
/// open, will get descriptors. Once a rank is in a call, the call cannot be left to the MPI
/// library any more.
bool descriptorsLeft(const Counterpart& at) {
  // 64 and 8 per rank: for opening channels of shared memory, and for the program itself.
  std::size_t wanted = 64 + 8 * static_cast<std::size_t>(at.size) + at.sockets;
  {
    const std::lock_guard lock(living_mutex);
    for (const auto& [counterpart, owner] : living) wanted += counterpart->sockets;
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || openDescriptors() + wanted <= limit.rlim_cur)
    return true;
  sayWhy(std::to_string(wanted) + " descriptors may be needed, more than are left");
  return false;
}

/// Most descriptors that its channels can hold: one for each socket of a TCP channel.
std::size_t socketsOf(const Counterpart& at, const Options& options) {
  std::size_t streams = 0;
  for (int peer = 0; peer < at.size; ++peer) streams += at.rondo->transportTo(peer) == "tcp";
  const std::size_t directions = 2, communicators = 2;
  return streams * directions * communicators * static_cast<std::size_t>(options.tcp_sockets);
}

/// The rank of the communicator's first rank in the counterpart's one, and this rank's own rank.
std::pair<int, int> colorAndKey(const Counterpart& from, MPI_Comm comm) {
  MPI_Group all = MPI_GROUP_NULL, mine = MPI_GROUP_NULL;
  int color = Communicator::kNoColor, key = 0;
  const int first = 0;
  check(mpi().Comm_group(from.handle, &all));
  check(mpi().Comm_group(comm, &mine));
  check(mpi().Group_translate_ranks(mine, 1, &first, all, &color));
  check(mpi().Group_rank(mine, &key));
  check(mpi().Group_free(&mine));
  check(mpi().Group_free(&all));
  return {color, key};
}

/// After an error: lets the other ranks fail too instead of waiting for this one. A communicator
/// that has failed keeps its first error.
void leave(Communicator& comm) {
  if (!comm.failure()) comm.abort("the MPI library runs the collectives of this communicator");
}

/// Splits the ranks of `comm` off another communicator; `comm` is MPI_COMM_NULL on ranks that are
/// not in it. Returns nothing on failure. In a job with ULFM other ranks then get nothing either,
/// or a part that fails in the next call. Collective over the other communicator.
std::optional<Communicator> cut(Counterpart& from, MPI_Comm comm) {
  std::optional<Communicator> part;
  try {
    const bool can = descriptorsLeft(from);
    // No rank may wait in Rondo while another still waits in MPI. After this call all ranks are
    // past MPI.
    if (!(faultTolerant() ? everywhereIn(*from.rondo, can) : everywhere(from.handle, can)))
      return std::nullopt;
    const auto [color, key] =
        comm == MPI_COMM_NULL ? std::pair(Communicator::kNoColor, 0) : colorAndKey(from, comm);
    part = from.rondo->split(color, key);
    // Ranks that have their part must not wait for one that has none.
    if (faultTolerant()) everywhereIn(*from.rondo, true);
    return part;
  } catch (const std::exception& error) {
    sayWhy(error.what());
    if (part) leave(*part);
    return std::nullopt;
  }
}

/// Shrinks the counterpart of `from`, which may be null, to the ranks of `comm`. Returns nothing on
/// failure. Collective over `comm`.
std::optional<Communicator> cutDead(Counterpart* from, MPI_Comm comm) {
  const bool can = from && from->rondo && descriptorsLeft(*from);
  // No rank may wait in Rondo while another still waits in MPI. After this call all ranks are past
  // MPI.
  if (!everywhere(comm, can)) return std::nullopt;
  MPI_Group before = MPI_GROUP_NULL, after = MPI_GROUP_NULL;
  std::vector<int> ranks(static_cast<std::size_t>(from->size)), there(ranks.size()), dead;
  std::iota(ranks.begin(), ranks.end(), 0);
  check(mpi().Comm_group(from->handle, &before));
  check(mpi().Comm_group(comm, &after));
  check(mpi().Group_translate_ranks(before, from->size, ranks.data(), after, there.data()));
  check(mpi().Group_free(&before));
  check(mpi().Group_free(&after));
  for (const int rank : ranks)
    if (there[static_cast<std::size_t>(rank)] == MPI_UNDEFINED) dead.push_back(rank);
  try {
    return from->rondo->shrink(dead);
  } catch (const std::exception& error) {
    sayWhy(error.what());
    return std::nullopt;
  }
}

/// Creates the communicator. If MPI learns that a rank has died, tells the ranks that wait for it:
/// Rondo knows only the deaths of ranks that have joined.
Communicator join(const Counterpart& at, const UniqueId& id, const Options& options) {
  const auto way = [&](int rank) { return Rendezvous::uniqueId(id, rank, at.size); };
  if (!faultTolerant()) return Communicator::create(way(at.rank), options);
  constexpr std::chrono::milliseconds kPause{1}, kLongestDecline{3000};
  Options brief = options;
  brief.init_timeout = std::min(brief.init_timeout, kLongestDecline);
  auto joined = Communicator::createAsync(way(at.rank), options);
  bool told = false;
  while (joined.wait_for(kPause) != std::future_status::ready) {
    moveMpi();
    const int dead = told ? -1 : deadRank(at.handle);
    if (dead <= 0) continue; // rank 0 hosts the rendezvous, and no rank can be told there
    told = true;
    try {
      const std::string text = "rank " + std::to_string(dead) + " died before it joined";
      detail::Shims::decline(way(dead), Error(ErrorCode::peer_dead, text), brief);
    } catch (const Error&) {
      // Another rank has told them, or the rendezvous has ended.
    }
  }
  return joined.get();
}

/// Makes a communicator of these ranks without another one to split it off; or nothing.
std::optional<Communicator> meet(const Counterpart& at, const std::optional<Options>& options) {
  std::optional<UniqueId> id;
  if (at.size > 1) {
    id = exchangeId(at, options ? &*options : nullptr);
    // No rank may wait in Rondo while another still waits in MPI. After this call all ranks are
    // past MPI.
    if (!everywhere(at.handle, id && options && descriptorsLeft(at))) return std::nullopt;
  } else if (!options) {
    return std::nullopt;
  }
  try {
    return id ? join(at, *id, *options) : Communicator::create(Rendezvous::inProcess(1), *options);
  } catch (const std::exception& error) {
    sayWhy(error.what() + std::string(id ? "; rank 0 made the unique id" : ""));
    return std::nullopt;
  }
}

/// Creates the second communicator of a counterpart. Returns whether its channels will get
/// descriptors.
bool completed(Counterpart& at, const Options& options) {
  at.immediate = at.rondo->split(0, at.rank);
  if (at.size > 1)
    for (auto* one : {&at.rondo, &at.immediate}) detail::Shims::whileWaiting(**one, moveMpi);
  at.sockets = socketsOf(at, options);
  return descriptorsLeft(at);
}

bool drop(Counterpart& at) {
  at.immediate.reset();
  at.rondo.reset();
  at.sockets = 0;
  return false;
}

/// Creates both communicators of a counterpart; `part` is the first one if it was split off
/// already. Returns whether all ranks have theirs.
bool open(Counterpart& at, std::optional<Communicator> part) {
  std::optional<Options> options;
  try {
    options = optionsOfJob();
  } catch (const std::exception& error) {
    sayWhy(error.what());
  }
  const auto onAll = [&at](bool here) { return at.size > 1 ? everywhere(at.handle, here) : here; };
  at.rondo = std::move(part);
  if (!onAll(at.rondo.has_value())) at.rondo = meet(at, options);
  bool ready = at.rondo.has_value();
  try {
    ready = ready && completed(at, *options);
  } catch (const std::exception& error) {
    sayWhy(error.what());
    ready = false;
  }
  return onAll(ready) || drop(at);
}

/// The same in a job with ULFM, without a collective of the MPI library: on another rank its
/// function that made the communicator may have failed. `part`: from cut(). If a rank dies
/// meanwhile, ranks may differ, and then calls of the new communicator fail on all that have it.
bool openPart(Counterpart& at, std::optional<Communicator> part) {
  if (at.size == 1) return open(at, std::move(part));
  if (!part) return false;
  at.rondo = std::move(part);
  try {
    if (everywhereIn(*at.rondo, completed(at, optionsOfJob()))) return true;
  } catch (const std::exception& error) {
    sayWhy(error.what());
    leave(*at.rondo);
  }
  return drop(at);
}

/// Adds the counterpart of a communicator that has none.
Counterpart* add(MPI_Comm comm, std::optional<Communicator> part,
                 bool (&opened)(Counterpart&, std::optional<Communicator>)) {
  int inter = 0;
  if (mpi().Comm_test_inter(comm, &inter) != MPI_SUCCESS) return nullptr;
  const auto made = std::make_shared<Counterpart>();
  made->handle = comm;
  mpi().Comm_rank(comm, &made->rank);
  mpi().Comm_size(comm, &made->size);
  if (inter) made->refused = Reason::intercommunicator;
  else if (!allKnown(comm)) made->refused = Reason::unknown_processes;
  else if (!opened(*made, std::move(part))) made->refused = Reason::no_counterpart;
  {
    const std::lock_guard lock(living_mutex);
    living.emplace(made.get(), made);
  }
  if (mpi().Comm_set_attr(comm, attribute, made.get()) != MPI_SUCCESS) {
    const std::lock_guard lock(living_mutex);
    living.erase(made.get());
    return nullptr;
  }
  return findCounterpart(comm);
}

} // namespace

bool everywhere(MPI_Comm comm, bool here) {
  int mine = here ? 1 : 0, all = 0;
  if (faultTolerant()) return mpi().Comm_agree(comm, &mine) == MPI_SUCCESS && mine == 1;
  return mpi().Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, comm) == MPI_SUCCESS && all == 1;
}

void moveMpi() {
  int done = 0;
  mpi().Request_get_status(open_end, &done, MPI_STATUS_IGNORE);
}

void startCommunicators() {
  if (mpi().Grequest_start(
          [](void*, MPI_Status*) { return MPI_SUCCESS; }, [](void*) { return MPI_SUCCESS; },
          [](void*, int) { return MPI_SUCCESS; }, nullptr, &open_end) != MPI_SUCCESS ||
      mpi().Comm_create_keyval(copyNoAttribute, deleteAttribute, &attribute, nullptr) !=
          MPI_SUCCESS ||
      mpi().Comm_group(MPI_COMM_WORLD, &known) != MPI_SUCCESS)
    return;
  learnFaultTolerance();
  active = true;
  std::optional<ErrorsReturned> quiet;
  if (faultTolerant()) quiet.emplace(MPI_COMM_WORLD);
  makeCounterpart(MPI_COMM_WORLD);
}

BeingFreed::BeingFreed(MPI_Comm comm) : comm_(comm), outer_(being_freed) {
  being_freed = this;
  last_counterpart = {};
}

BeingFreed::~BeingFreed() { being_freed = outer_; }

bool BeingFreed::is(MPI_Comm comm) {
  for (const BeingFreed* one = being_freed; one; one = one->outer_)
    if (one->comm_ == comm) return true;
  return false;
}

bool communicatorsActive() { return active; }

void stopCommunicators() {
  active = false;
  std::vector<MPI_Comm> handles;
  {
    const std::lock_guard lock(living_mutex);
    for (const auto& [counterpart, owner] : living) handles.push_back(counterpart->handle);
  }
  // MPI_Finalize must not end the job if the MPI library does not know a handle any more.
  const ErrorsReturned world(MPI_COMM_WORLD), self(MPI_COMM_SELF);
  for (MPI_Comm handle : handles) mpi().Comm_delete_attr(handle, attribute);
  mpi().Comm_free_keyval(&attribute);
  mpi().Group_free(&known);
  mpi().Grequest_complete(open_end);
  mpi().Wait(&open_end, MPI_STATUS_IGNORE);
}

Counterpart* findCounterpart(MPI_Comm comm) {
  if (!active.load(std::memory_order_acquire) || comm == MPI_COMM_NULL || BeingFreed::is(comm))
    return nullptr;
  // Read before the attribute: another thread may free the communicator meanwhile, and its handle
  // may then name a new one.
  const std::uint64_t generation = communicator_generation.load(std::memory_order_relaxed);
  Counterpart* value = nullptr;
  int found = 0;
  check(mpi().Comm_get_attr(comm, attribute, &value, &found));
  if (!found) return nullptr;
  last_counterpart = {comm, generation, value};
  return value;
}

Counterpart* makeCounterpartAlone(MPI_Comm comm) {
  if (Counterpart* const found = findCounterpart(comm)) return found;
  int inter = 0, size = 0;
  if (!active || comm == MPI_COMM_NULL || BeingFreed::is(comm) ||
      mpi().Comm_test_inter(comm, &inter) != MPI_SUCCESS || inter ||
      mpi().Comm_size(comm, &size) != MPI_SUCCESS || size != 1)
    return nullptr;
  return makeCounterpart(comm);
}

Counterpart* makeCounterpart(MPI_Comm comm) {
  if (Counterpart* const found = findCounterpart(comm)) return found;
  if (!active || comm == MPI_COMM_NULL || BeingFreed::is(comm)) return nullptr;
  // In a job with ULFM only MPI_Init and MPIX_Comm_shrink let ranks meet through the MPI library.
  return add(comm, std::nullopt, faultTolerant() && comm != MPI_COMM_WORLD ? openPart : open);
}

void makeCounterpartFrom(MPI_Comm from, MPI_Comm comm) {
  Counterpart* const whole = makeCounterpart(from);
  if (!whole) return;
  std::optional<Communicator> part;
  if (whole->refused == Reason::none) part = cut(*whole, comm);
  if (comm != MPI_COMM_NULL) add(comm, std::move(part), faultTolerant() ? openPart : open);
}

void makeCounterpartOfLiving(MPI_Comm from, MPI_Comm comm) {
  if (!active || comm == MPI_COMM_NULL) return;
  // If another rank dies meanwhile, MPIX_Comm_shrink still succeeds.
  const ErrorsReturned quiet(comm);
  add(comm, cutDead(findCounterpart(from), comm), open);
}

} // namespace rondo::compat
