// Makes communicators: from a launcher's environment, for threads, by a unique id.
#include "compat/python/open.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "compat/python/rank.h"
#include "rondo/options.h"
#include "rondo/rendezvous.h"

namespace rondo::compat::python {

namespace {

std::chrono::milliseconds seconds(nb::handle value, const char* function) {
  const double number = nb::cast<double>(value);
  if (!(number >= 0 && number < 1e12)) refuse(function, "a duration is not a number of seconds");
  return std::chrono::milliseconds(static_cast<std::int64_t>(number * 1000));
}

struct Option {
  const char* name;
  void (*set)(Options&, nb::handle, const char* function);
};

template <auto member>
void set(Options& options, nb::handle value, const char* function) {
  using Value = std::decay_t<decltype(options.*member)>;
  if constexpr (std::is_same_v<Value, std::chrono::milliseconds>)
    options.*member = seconds(value, function);
  else options.*member = nb::cast<Value>(value);
}

/// kInit explains them.
constexpr Option kOptions[] = {
    {"algorithm", set<&Options::algorithm>},
    {"rules_file", set<&Options::rules_file>},
    {"planner", set<&Options::planner>},
    {"profile", set<&Options::profile>},
    {"transports", set<&Options::transports>},
    {"deterministic", set<&Options::deterministic>},
    {"checksum", set<&Options::checksum>},
    {"check_reductions", set<&Options::check_reductions>},
    {"timeout", set<&Options::timeout>},
    {"init_timeout", set<&Options::init_timeout>},
    {"heartbeat", set<&Options::heartbeat>},
    {"patient", set<&Options::patient>},
    {"channel_bytes", set<&Options::channel_bytes>},
    {"threads", set<&Options::threads>},
    {"node", set<&Options::node>},
    {"bind", set<&Options::bind>},
    {"socket_interface", set<&Options::socket_interface>},
    {"comm_id", set<&Options::comm_id>},
    {"secret_file", set<&Options::secret_file>},
    {"tls", set<&Options::tls>},
};

[[noreturn]] void refuseOption(const char* function, const std::string& name) {
  std::string known;
  for (const Option& option : kOptions) known += option.name + std::string(", ");
  refuse(function, "there is no option " + name + "; there are " + known +
                       "and the variables of `rondo help environment`");
}

Options optionsOf(const char* function, const nb::kwargs& given) {
  Options options = Options::fromEnvironment();
  for (const auto& [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    const auto* const option = std::find_if(std::begin(kOptions), std::end(kOptions),
                                            [&](const Option& one) { return one.name == name; });
    if (option == std::end(kOptions)) refuseOption(function, name);
    try {
      option->set(options, value, function);
    } catch (const nb::cast_error&) {
      refuse(function, "option " + name + " has a value of a wrong type");
    }
  }
  if (options.device != -1)
    refuse(function,
           "the Python interface is for host memory, but RONDO_DEVICE or an option names a "
           "device");
  return options;
}

/// Meets the other ranks. A signal whose handler raises ends the wait; the thread that waits for
/// them then goes on, until the deadline.
Communicator meet(const Rendezvous& where, const Options& options) {
  if (!options.bind.empty() && options.bind != "none") { // binds the thread that calls create()
    const Unlocked unlocked;
    return Communicator::create(where, options);
  }
  return untilSignal(Communicator::createAsync(where, options));
}

std::unique_ptr<Rank> init(std::optional<int> rank, std::optional<int> size,
                           std::optional<nb::bytes> unique_id, const nb::kwargs& given) {
  if (rank.has_value() != size.has_value() || (unique_id && !rank))
    refuse("init", "rank and size belong together, and unique_id needs both");
  return raising("init", [&] {
    const Options options = optionsOf("init", given);
    const Rendezvous where = unique_id
                                 ? Rendezvous::uniqueId(idOf("init", *unique_id), *rank, *size)
                             : rank ? Rendezvous::commId(*rank, *size)
                                    : Rendezvous::environment();
    return std::make_unique<Rank>(meet(where, options));
  });
}

std::unique_ptr<Rank> join(const nb::bytes& unique_id, const nb::kwargs& given) {
  const UniqueId id = idOf("join", unique_id);
  return raising("join", [&] {
    const Options options = optionsOf("join", given);
    return std::make_unique<Rank>(untilSignal(Communicator::joinAsync(id, options)));
  });
}

nb::list make(const char* function, int n, const nb::kwargs& given) {
  if (n < 1) refuse(function, "the number of ranks is " + std::to_string(n));
  auto made = raising(function, [&] {
    const Options options = optionsOf(function, given);
    const Unlocked unlocked;
    return Communicator::createAll(n, options);
  });
  nb::list ranks;
  for (Communicator& one : made) ranks.append(nb::cast(std::make_unique<Rank>(std::move(one))));
  return ranks;
}

nb::list threads(int n, const nb::kwargs& given) { return make("threads", n, given); }

nb::list threadsOfRun(int n, const nb::kwargs& given) { return make("run", n, given); }

nb::bytes uniqueId() {
  const UniqueId id = raising("unique_id", [] {
    const Unlocked unlocked;
    return UniqueId::create();
  });
  return nb::bytes(id.bytes.data(), id.bytes.size());
}

constexpr const char* kInit = R"(
Meets the other ranks of the job and returns this rank's Communicator.

Without arguments, rank, size and address come from the launcher: `rondo run`, torchrun, mpirun,
srun. Without a launcher it is a group of one rank. With rank and size, the ranks meet at the
address of the option comm_id, where rank 0 listens, or by the unique_id that one of them made.

Options (strings if nothing else is said; the RONDO_* variables are their defaults): algorithm,
rules_file, planner, profile, transports, deterministic (bool), checksum (bool), check_reductions
(bool), timeout, init_timeout, heartbeat (seconds), patient (bool), channel_bytes (int), threads
(int), node, bind, socket_interface, comm_id, secret_file, tls (bool). comm_id, the secret and tls
must be the same on all ranks; node is the same on the ranks of a node. Of algorithm, rules_file,
planner, profile, deterministic, checksum, check_reductions and channel_bytes, rank 0's values
count. Other settings: `rondo help environment`.

Raises rondo.Error with code "init_failed" after init_timeout (60 s); the text lists the missing
ranks. If the process that made unique_id has ended, it does so at once.

>>> with rondo.init() as comm:
...     comm.rank, comm.size
(0, 1)
)";

constexpr const char* kJoin = R"(
Waits until the ranks of a group call grow() with this id. Returns this new rank's Communicator.

Options: as of init(). Raises rondo.Error with code "init_failed" after init_timeout (60 s), and if
this rank cannot join.
)";

constexpr const char* kThreads = R"(
Makes n ranks of one group in this process and returns their Communicators, in the order of ranks.

Blocking calls need one thread for each rank; run() starts them. A single thread can start the
asynchronous calls of all ranks and wait afterwards. Options are those of init().

>>> comms = rondo.threads(2)
>>> arrays = [numpy.full(2, comm.rank) for comm in comms]
>>> futures = [comm.all_reduce_async(a, "max") for comm, a in zip(comms, arrays)]
>>> [future.result() for future in futures]
[array([1, 1]), array([1, 1])]
)";

constexpr const char* kUniqueId = R"(
Returns 128 bytes by which the ranks of a new group find each other; this process serves their
rendezvous until it ends. They contain a secret: pass them through a pipe or a file of mode 0600.
)";

} // namespace

UniqueId idOf(const char* function, const nb::bytes& bytes) {
  UniqueId id;
  if (bytes.size() != id.bytes.size())
    refuse(function, "unique_id has " + std::to_string(bytes.size()) + " bytes, not " +
                         std::to_string(id.bytes.size()));
  std::memcpy(id.bytes.data(), bytes.c_str(), id.bytes.size());
  return id;
}

void addOpening(nb::module_& to) {
  to.def("init", &init, nb::kw_only(), nb::arg("rank") = nb::none(), nb::arg("size") = nb::none(),
         nb::arg("unique_id") = nb::none(), nb::arg("options"),
         nb::sig("def init(*, rank: int | None = None, size: int | None = None, "
                 "unique_id: bytes | None = None, **options: typing.Any) -> Communicator"),
         kInit);
  to.def("join", &join, nb::arg("unique_id"), nb::arg("options"),
         nb::sig("def join(unique_id: bytes, **options: typing.Any) -> Communicator"), kJoin);
  to.def("threads", &threads, nb::arg("n"), nb::arg("options"),
         nb::sig("def threads(n: int, **options: typing.Any) -> list[Communicator]"), kThreads);
  to.def("_threads_of_run", &threadsOfRun, nb::arg("n"), nb::arg("options"));
  to.def("unique_id", &uniqueId, kUniqueId);
}

} // namespace rondo::compat::python
