// Makes communicators: from a launcher's environment, for threads, by a unique id.
#include "compat/python/open.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "compat/python/rank.h"
#include "rondo/options.h"
#include "rondo/rendezvous.h"

namespace rondo::compat::python {

namespace {

std::chrono::milliseconds seconds(nb::handle value) {
  const double number = nb::cast<double>(value);
  if (!(number >= 0 && number < 1e12)) refuse("init", "a duration is not a number of seconds");
  return std::chrono::milliseconds(static_cast<std::int64_t>(number * 1000));
}

/// Sets the field of this name. Returns whether there is one.
bool set(Options& options, const std::string& name, nb::handle value) {
  const auto text = [&] { return nb::cast<std::string>(value); };
  const auto number = [&] { return nb::cast<int>(value); };
  if (name == "algorithm") options.algorithm = text();
  else if (name == "transports") options.transports = text();
  else if (name == "checksum") options.checksum = nb::cast<bool>(value);
  else if (name == "deterministic") options.deterministic = nb::cast<bool>(value);
  else if (name == "timeout") options.timeout = seconds(value);
  else if (name == "init_timeout") options.init_timeout = seconds(value);
  else if (name == "heartbeat") options.heartbeat = seconds(value);
  else if (name == "patient") options.patient = nb::cast<bool>(value);
  else if (name == "channel_bytes") options.channel_bytes = nb::cast<std::size_t>(value);
  else if (name == "threads") options.threads = number();
  else if (name == "node") options.node = text();
  else if (name == "bind") options.bind = text();
  else if (name == "socket_interface") options.socket_interface = text();
  else if (name == "comm_id") options.comm_id = text();
  else if (name == "secret_file") options.secret_file = text();
  else if (name == "tls") options.tls = nb::cast<bool>(value);
  else return false;
  return true;
}

Options optionsOf(const nb::kwargs& given) {
  Options options = Options::fromEnvironment();
  for (const auto& [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    bool known = false;
    try {
      known = set(options, name, value);
    } catch (const nb::cast_error&) {
      refuse("init", "option " + name + " has a value of a wrong type");
    }
    if (!known)
      refuse("init",
             "there is no option " + name +
                 "; there are algorithm, transports, deterministic, checksum, timeout, "
                 "init_timeout, heartbeat, patient, channel_bytes, threads, node, bind, "
                 "socket_interface, comm_id, secret_file and tls, and the variables of `rondo "
                 "help environment`");
  }
  if (options.device != -1)
    refuse("init",
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
    const Options options = optionsOf(given);
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
    return std::make_unique<Rank>(untilSignal(Communicator::joinAsync(id, optionsOf(given))));
  });
}

nb::list threads(int n, const nb::kwargs& given) {
  if (n < 1) refuse("threads", "the number of ranks is " + std::to_string(n));
  auto made = raising("threads", [&] {
    const Options options = optionsOf(given);
    const Unlocked unlocked;
    return Communicator::createAll(n, options);
  });
  nb::list ranks;
  for (Communicator& one : made) ranks.append(nb::cast(std::make_unique<Rank>(std::move(one))));
  return ranks;
}

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

Options (strings if nothing else is said; the same on all ranks; the RONDO_* variables are their
defaults): algorithm, transports, deterministic, checksum (bool), timeout, init_timeout, heartbeat
(seconds), patient (bool), channel_bytes (int), threads (int), node, bind, socket_interface,
comm_id, secret_file, tls (bool).

Raises rondo.Error with code "init_failed" after init_timeout (60 s); the text lists the missing
ranks.

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
  to.def("unique_id", &uniqueId, kUniqueId);
}

} // namespace rondo::compat::python
