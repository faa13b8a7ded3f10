// Checks of interfaces and names, and of the transports by a call on each.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "rondo/rondo.h"
#include "tools/doctor_checks.h"

namespace rondo::tools {

namespace {

using Config = DoctorConfig;

struct Interface {
  std::string name, address;
  bool loopback = false;
};

/// The interfaces that are up and have an IPv4 or global IPv6 address.
std::vector<Interface> interfaces() {
  std::vector<Interface> all;
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) return all;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, &::freeifaddrs);
  for (const ifaddrs* one = first; one; one = one->ifa_next) {
    if (!one->ifa_addr || !(one->ifa_flags & IFF_UP)) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (one->ifa_addr->sa_family == AF_INET) {
      sockaddr_in address{};
      std::memcpy(&address, one->ifa_addr, sizeof(address));
      ::inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
    } else if (one->ifa_addr->sa_family == AF_INET6) {
      sockaddr_in6 address{};
      std::memcpy(&address, one->ifa_addr, sizeof(address));
      if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) continue;
      ::inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
    } else {
      continue;
    }
    all.push_back({one->ifa_name, text.data(), (one->ifa_flags & IFF_LOOPBACK) != 0});
  }
  return all;
}

/// Bridges of containers and virtual machines: other machines do not reach their addresses.
bool isBridge(const std::string& name) {
  for (const char* start : {"docker", "virbr", "br-", "veth", "cni", "lxcbr", "podman"})
    if (name.starts_with(start)) return true;
  return false;
}

std::vector<Interface> outward() {
  auto all = interfaces();
  std::erase_if(all, [](const Interface& one) { return one.loopback || isBridge(one.name); });
  return all;
}

std::optional<Fault> loopback(const Config&) {
  const auto all = interfaces();
  if (std::any_of(all.begin(), all.end(), [](const Interface& one) { return one.loopback; }))
    return std::nullopt;
  return Fault{true, "the loopback interface is down, over which ranks of one machine meet"};
}

std::optional<Fault> network(const Config&) {
  if (!outward().empty()) return std::nullopt;
  std::string bridges;
  for (const Interface& one : interfaces())
    if (!one.loopback) bridges += (bridges.empty() ? "" : ", ") + one.name;
  return Fault{false, bridges.empty() ? "no interface but loopback is up: jobs stay on this machine"
                                      : "only bridges are up (" + bridges +
                                            "), whose addresses other machines do not reach"};
}

std::optional<Fault> route(const Config&) {
  if (outward().empty()) return std::nullopt; // see network()
  std::ifstream ipv4("/proc/net/route"), ipv6("/proc/net/ipv6_route");
  if (!ipv4 && !ipv6) return std::nullopt;
  std::string line, name;
  std::getline(ipv4, line); // the table's head
  if (std::getline(ipv4, line)) return std::nullopt;
  while (std::getline(ipv6, line))
    if (!line.ends_with(" lo")) return std::nullopt;
  return Fault{false,
               "no route leads out of this machine: ranks on other machines are out of "
               "reach"};
}

std::optional<Fault> wantedInterface(const Config&) {
  const char* wanted = std::getenv("RONDO_SOCKET_IFNAME");
  if (!wanted || *wanted == '\0' || *wanted == '^') return std::nullopt;
  const bool exact = *wanted == '=';
  const std::string names = wanted + exact;
  std::set<std::string> named; // an interface is listed once for each address
  std::string known;
  bool found = false, reached = false;
  for (const Interface& one : interfaces()) {
    if (!one.loopback && named.insert(one.name).second)
      known += (known.empty() ? "" : ", ") + one.name;
    for (std::size_t at = 0; at < names.size();) {
      const std::size_t end = std::min(names.find(',', at), names.size());
      const std::string name = names.substr(at, end - at);
      const bool fits = exact ? one.name == name : !name.empty() && one.name.starts_with(name);
      found |= fits;
      reached |= fits && !isBridge(one.name);
      at = end + 1;
    }
  }
  if (reached) return std::nullopt;
  if (found)
    return Fault{false, "RONDO_SOCKET_IFNAME=" + std::string(wanted) +
                            " is a bridge of containers or virtual machines, whose address other "
                            "machines do not reach; there are: " +
                            known};
  return Fault{true,
               "RONDO_SOCKET_IFNAME=" + std::string(wanted) +
                   " fits no interface that is up; there are: " + (known.empty() ? "none" : known)};
}

std::optional<Fault> ownName(const Config&) {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || outward().empty()) return std::nullopt;
  addrinfo hints{}, *first = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const std::string quoted = "this machine's name, " + std::string(name.data()) + ",";
  if (const int error = ::getaddrinfo(name.data(), nullptr, &hints, &first))
    return Fault{false, quoted + " cannot be resolved: " + ::gai_strerror(error)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> list(first, &::freeaddrinfo);
  std::string address;
  for (const addrinfo* one = first; one; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) != 0)
      continue;
    address = text.data();
    if (!address.starts_with("127.") && address != "::1") return std::nullopt;
  }
  return Fault{false, quoted + " resolves to " + address +
                          ": a rank on another machine that connects to this name reaches its own "
                          "machine"};
}

/// What the name servers and /etc/hosts call the address, and all addresses of that name; empty if
/// the address has no name.
struct Named {
  std::string name;
  std::vector<std::string> addresses;
};

Named nameOf(const std::string& address) {
  addrinfo hints{}, *first = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(address.c_str(), nullptr, &hints, &first) != 0) return {};
  std::array<char, NI_MAXHOST> name{}, text{};
  const int none = ::getnameinfo(first->ai_addr, first->ai_addrlen, name.data(), name.size(),
                                 nullptr, 0, NI_NAMEREQD);
  ::freeaddrinfo(first);
  if (none != 0) return {};
  Named named{name.data(), {}};
  hints.ai_flags = 0;
  if (::getaddrinfo(name.data(), nullptr, &hints, &first) != 0) return named;
  for (const addrinfo* one = first; one; one = one->ai_next)
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0)
      named.addresses.emplace_back(text.data());
  ::freeaddrinfo(first);
  return named;
}

/// An address without a name is in order; one whose name means another machine is not.
std::optional<Fault> addressName(const Config&) {
  for (const Interface& one : outward()) {
    // A name server that does not answer takes tens of seconds.
    auto asked = std::make_shared<std::promise<Named>>();
    auto answer = asked->get_future();
    std::thread([asked, address = one.address] { asked->set_value(nameOf(address)); }).detach();
    if (answer.wait_for(std::chrono::seconds(2)) != std::future_status::ready)
      return Fault{false,
                   "the name server does not answer within 2 s: names of hosts cannot be "
                   "used, and programs that ask for them wait"};
    const Named named = answer.get();
    if (named.name.empty() ||
        std::count(named.addresses.begin(), named.addresses.end(), one.address) > 0)
      continue;
    return Fault{false, "the address " + one.address + " (" + one.name + ") is named " +
                            named.name + ", but that name means " +
                            (named.addresses.empty() ? "no address" : named.addresses.front())};
  }
  return std::nullopt;
}

std::optional<Fault> settings(const Config&) {
  try {
    Options::fromEnvironment().validate();
  } catch (const Error& error) {
    return Fault{true, error.what()};
  }
  return std::nullopt;
}

/// An all-reduce of two ranks of this process. Empty, or what went wrong.
std::string callOver(const std::string& transport) {
  Options options = Options::fromEnvironment();
  options.transports = transport;
  options.algorithm.clear();
  options.trace_folder.clear();
  options.dump_folder.clear();
  options.device = -1;
  options.timeout = options.init_timeout = std::chrono::seconds(10);
  std::array<std::string, 2> wrong;
  try {
    auto ranks = Communicator::createAll(2, options);
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < 2; ++r)
      threads.emplace_back([&ranks, &wrong, r] {
        try {
          std::vector<float> data(100'000, static_cast<float>(r + 1));
          ranks[r].allReduce(data.data(), data.data(), data.size(), DataType::float32,
                             ReduceOp::sum);
          if (data.front() != 3 || data.back() != 3) wrong[r] = "a wrong sum";
        } catch (const std::exception& error) {
          wrong[r] = error.what();
        }
      });
  } catch (const std::exception& error) {
    return error.what();
  }
  return wrong[0].empty() ? wrong[1] : wrong[0];
}

/// `needed`: without it no job of several processes runs.
std::optional<Fault> tryTransport(const std::string& name, bool needed) {
  if (settings({})) return std::nullopt; // that finding comes first
  for (const TransportInfo& one : transports())
    if (one.name == name && !one.missing.empty()) return std::nullopt;
  const std::string wrong = callOver(name);
  if (wrong.empty()) return std::nullopt;
  return Fault{needed, "an all-reduce over " + name + " failed: " + wrong};
}

std::optional<Fault> overShm(const Config&) { return tryTransport("shm", false); }
std::optional<Fault> overTcp(const Config&) { return tryTransport("tcp", true); }

std::optional<Fault> fastNetwork(const Config&) {
  std::error_code none;
  const std::filesystem::directory_iterator cards("/sys/class/infiniband", none);
  if (cards == std::filesystem::directory_iterator()) return std::nullopt;
  for (const TransportInfo& one : transports())
    if (one.name == "ucx" && !one.missing.empty())
      return Fault{false, "this machine has an RDMA card (" + cards->path().filename().string() +
                              "), and Rondo cannot use it: " + one.missing};
  if (settings({}) || Options::fromEnvironment().tls) return std::nullopt; // UCX does not encrypt
  return tryTransport("ucx", false);
}

} // namespace

std::vector<std::string> outwardInterfaces() {
  std::set<std::string> names; // one may have several addresses
  for (const Interface& one : outward()) names.insert(one.name);
  return {names.begin(), names.end()};
}

std::vector<Check> networkChecks() {
  return {
      {"settings", settings, "correct the variable; `rondo help environment` lists all"},
      {"loopback", loopback, "ip link set lo up"},
      {"network", network,
       "give the machine an interface that others reach (docker: --network host), or run all ranks "
       "here"},
      {"route", route, "ip route add default via GATEWAY"},
      {"interface", wantedInterface, "name one of these, or unset RONDO_SOCKET_IFNAME"},
      {"own name", ownName,
       "write the address that others reach into /etc/hosts, or use addresses instead of names in "
       "RONDO_COMM_ID and MASTER_ADDR"},
      {"address name", addressName,
       "make DNS or /etc/hosts agree in both directions, correct /etc/resolv.conf, or use "
       "addresses"},
      {"shm", overShm, "see the reason; RONDO_TRANSPORT=^shm uses TCP"},
      {"tcp", overTcp,
       "see the reason; a firewall must allow connections on the loopback interface"},
      {"ucx", fastNetwork,
       "see the reason; install UCX (libucx0), and build Rondo where its headers are (libucx-dev)"},
  };
}

} // namespace rondo::tools
