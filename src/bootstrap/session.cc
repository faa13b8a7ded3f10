// Opens a rank's session, by kind of rendezvous.
#include "bootstrap/session.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/awake.h"
#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/launcher.h"
#include "bootstrap/ledger.h"
#include "bootstrap/local_group.h"
#include "bootstrap/mpi_module.h"
#include "bootstrap/newcomer.h"
#include "bootstrap/process_jobs.h"
#include "bootstrap/unique_id.h"
#include "net/hmac.h"
#include "net/interfaces.h"
#include "net/resolve.h"
#include "net/tls.h"

namespace rondo::bootstrap {

void FailureWatch::set(Tell tell) {
  const std::lock_guard lock(mutex_);
  tell_ = std::move(tell);
  if (tell_ && first_) tell_(*first_, true);
}

bool FailureWatch::listens() {
  const std::lock_guard lock(mutex_);
  return tell_ != nullptr;
}

void FailureWatch::tell(const Failure& failure, bool last) {
  const std::lock_guard lock(mutex_);
  if (first_) return;
  first_ = failure;
  if (tell_) tell_(failure, last);
}

namespace {

/// Between two questions for the address of a name.
constexpr std::chrono::milliseconds kFirstLook{50}, kLastLook{1000};

/// Whether a launcher started this process, even if its other variables are wrong. `rondo run`
/// passes an id; without one, RONDO_RANK and RONDO_SIZE were set by hand, for ranks in several
/// terminals.
bool hasLauncher() {
  const Environment environment = processEnvironment();
  try {
    const std::string launcher = detectLauncher(environment).launcher;
    return launcher == "rondo" ? environment("RONDO_ID_FD").has_value() : !launcher.empty();
  } catch (const Error&) {
    return true;
  }
}

Membership::Settings settingsFor(const Options& options, int rank, int size) {
  Membership::Settings settings;
  settings.rank = rank;
  settings.size = size;
  settings.deadline = base::Deadline(options.init_timeout).at();
  settings.heartbeat = options.heartbeat;
  settings.patient = options.patient;
  settings.tls = options.tls;
  settings.launched = hasLauncher();
  settings.socket_interface = options.socket_interface;
  settings.socket_family = options.socket_family;
  return settings;
}

Membership::Settings byId(const UniqueId& id, int rank, int size, const Options& options,
                          const std::string& hub_process) {
  const IdContent content = IdContent::decode(id);
  Membership::Settings settings = settingsFor(options, rank, size);
  settings.hub = content.hub;
  settings.secret = content.secret;
  settings.job = content.job;
  settings.hub_listens = true;
  settings.hub_process = hub_process;
  return settings;
}

/// A number that is equal on all ranks with the same words, on any machine and standard library.
std::uint64_t numberOf(const std::string& words) {
  const net::Mac mac = net::hmacSha256({}, "rondo job", {std::as_bytes(std::span(words))});
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) number = number << 8 | std::to_integer<std::uint64_t>(mac[i]);
  return number;
}

/// Until the deadline for joining, tries again if the name is unknown: its record may be made after
/// the ranks have started.
net::SocketAddress resolved(const std::string& address, const Options& options) {
  const base::Deadline limit(options.init_timeout);
  for (auto pause = kFirstLook; true; pause = std::min(2 * pause, kLastLook)) {
    try {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(limit.left());
      return net::SocketAddress::parse(address, options.socket_family, left);
    } catch (const net::UnknownHost& unknown) {
      if (limit.left() <= pause) throw;
      if (pause == kFirstLook) base::log(LogLevel::warn, unknown.what(), "; trying again");
    }
    std::this_thread::sleep_for(pause);
  }
}

Membership::Settings atAddress(const MeetingPoint& point, const LaunchInfo& launch,
                               const Options& options) {
  Membership::Settings settings = settingsFor(options, launch.rank, launch.size);
  settings.hub = resolved(point.address, options);
  if (settings.hub.port == 0)
    throw Error(ErrorCode::invalid_argument,
                "the rendezvous address " + point.address + " has no port: set host:port");
  if (!options.secret_file.empty()) settings.secret = readSecretFile(options.secret_file);
  if (settings.secret.present)
    settings.hub = net::seenByOthers(settings.hub, point.address, options.socket_interface);
  if (!settings.secret.present && options.tls)
    throw Error(ErrorCode::invalid_argument,
                "RONDO_TLS=1 needs the job's secret as its key: set RONDO_SECRET_FILE to a file of "
                "mode 0600 with 32 random bytes that is the same on all machines, or start the "
                "ranks with rondo run");
  if (!settings.secret.present && !settings.hub.loopback())
    throw Error(ErrorCode::init_failed,
                "the rendezvous would be at " + settings.hub.text() +
                    ", which others can reach: set RONDO_SECRET_FILE to a file of mode 0600 with "
                    "32 random bytes that is the same on all machines");
  settings.job = childId(numberOf(point.job), settings.hub.port, launch.size);
  settings.hub_process = "the process of rank 0";
  const bool again = ProcessJobs::ofProcess().forgetFailed(settings.job, launch.rank);
  settings.again = again && launch.rank != 0;
  // A rank that is a member already has a hub, perhaps in another process by now.
  if (launch.rank == 0 && !ProcessJobs::ofProcess().member(settings.job, 0)) {
    Hub::Settings hub;
    hub.address = settings.hub;
    hub.secret = settings.secret;
    hub.job = settings.job;
    hub.size = launch.size;
    try {
      ProcessJobs::ofProcess().host(hub);
    } catch (const Error& error) {
      throw Error(ErrorCode::init_failed,
                  std::string("rank 0 cannot open the rendezvous: ") + error.what());
    }
  }
  return settings;
}

/// None if the launcher started one rank.
std::optional<Membership::Settings> byEnvironment(const Options& options) {
  const Environment environment = processEnvironment();
  const LaunchInfo launch = detectLauncher(environment);
  if (launch.size == 1) return std::nullopt;
  const MeetingPoint point = findMeetingPoint(launch, options, environment);
  switch (point.kind) {
    case MeetingPoint::Kind::descriptor:
      return byId(readIdDescriptor(point.descriptor), launch.rank, launch.size, options,
                  "the launcher");
    case MeetingPoint::Kind::mpi: {
      const UniqueId id =
          ProcessJobs::ofProcess().onceExchanged([&] { return exchangeByMpi(launch, options); });
      return byId(id, launch.rank, launch.size, options, "the process of rank 0");
    }
    case MeetingPoint::Kind::address: break;
  }
  return atAddress(point, launch, options);
}

} // namespace

/// How a rank joins its job.
struct Session::Way {
  Membership::Settings settings;
  bool keep = true; ///< keep the membership until the process ends
};

Failure differentTls(int odd, bool tls, int first) {
  const auto of = [](int rank, bool value) {
    return "rank " + std::to_string(rank) + " has RONDO_TLS=" + (value ? "1" : "0");
  };
  return {ErrorCode::init_failed,
          of(odd, tls) + ", but " + of(first, !tls) + ": set it to the same value on all ranks",
          odd};
}

/// None if the rank is alone or its rendezvous is in process.
std::optional<Session::Way> Session::wayOf(const Rendezvous& meet, const Options& options) {
  switch (meet.kind_) {
    case Rendezvous::Kind::in_process: return std::nullopt;
    case Rendezvous::Kind::unique_id:
      return Way{
          byId(meet.id_, meet.rank_, meet.size_, options, "the process that made the unique id"),
          false};
    case Rendezvous::Kind::comm_id: {
      if (options.comm_id.empty())
        throw Error(ErrorCode::invalid_argument,
                    "RONDO_COMM_ID is not set: set it to host:port, the same on all ranks");
      MeetingPoint point;
      point.address = options.comm_id;
      LaunchInfo place;
      place.rank = meet.rank_;
      place.size = meet.size_;
      return Way{atAddress(point, place, options)};
    }
    case Rendezvous::Kind::environment: break;
  }
  if (const auto settings = byEnvironment(options)) return Way{*settings};
  return std::nullopt;
}

std::unique_ptr<Session> Session::open(const Rendezvous& meet, const Options& options) {
  if (options.tls) net::requireTls("RONDO_TLS=1");
  if (meet.group_) return meet.group_->open(meet.rank_, options);
  const auto way = wayOf(meet, options);
  if (!way) return std::make_shared<LocalGroup>(1)->open(0, options);
  return ProcessJobs::ofProcess().open(way->settings, way->keep, options.init_timeout);
}

std::unique_ptr<Session> Session::grow(const UniqueId& id, int rank, int newcomers, int size,
                                       const Options& options) {
  auto settings = byId(id, rank, size, options, "the process that made the unique id");
  settings.newcomers = newcomers;
  return ProcessJobs::ofProcess().open(settings, false, options.init_timeout);
}

std::unique_ptr<Session> Session::join(const UniqueId& id, const Options& options) {
  if (options.tls) net::requireTls("RONDO_TLS=1");
  Newcomer newcomer(IdContent::decode(id), options.init_timeout,
                    options.tls); // lives until open() ends
  const auto [rank, size] = newcomer.wait();
  return ProcessJobs::ofProcess().open(
      byId(id, rank, size, options, "the process that made the unique id"), false,
      options.init_timeout);
}

std::vector<std::vector<std::byte>> Session::allGather(std::span<const std::byte> blob,
                                                       std::chrono::milliseconds limit) {
  if (blob.size() > kBlobBytes)
    throw Error(ErrorCode::invalid_argument, "allGather: a blob of " + std::to_string(blob.size()) +
                                                 " bytes; at most " + std::to_string(kBlobBytes) +
                                                 " are allowed");
  return gather(
      {blob.begin(), blob.end()}, limit,
      {ErrorCode::timeout, "exchange of set-up data timed out after " + base::text(limit), -1});
}

void Session::decline(const Rendezvous& meet, const Failure& why, const Options& options) {
  if (meet.group_) meet.group_->decline(meet.rank_, why);
  else if (const auto way = wayOf(meet, options))
    ProcessJobs::ofProcess().decline(way->settings, way->keep, why);
}

} // namespace rondo::bootstrap
