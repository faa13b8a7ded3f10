// Asks the kernel (sock_diag, as ss does) for the TCP connections of a network namespace.
//
// The kernel measures how long a connection had data that were not acknowledged, and how long the
// receiver's window was closed meanwhile. The difference is the time that the network needed,
// whatever the ranks did. Bytes divided by it are the speed of the link.
#include "tools/dump_links.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

namespace rondo::tools {

namespace {

constexpr unsigned kEstablished = 1; ///< TCP_ESTABLISHED, whose header excludes <linux/tcp.h>
/// If more segments are unacknowledged, the cause is not a delayed acknowledgement.
constexpr std::uint32_t kLateSegments = 2;
/// tcpi_busy_time advances by whole jiffies, up to 10 ms; in microseconds.
constexpr std::uint64_t kTick = 10'000;
constexpr std::uint32_t kNoRoundTrip = ~0U; ///< tcpi_min_rtt before the first one
/// A line of a dump is at most 64 KiB long.
constexpr std::size_t kMostLinks = 350;

std::int64_t steadyClock() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// FNV-1a. An IPv4-mapped IPv6 address has the hash of its IPv4 address.
std::uint64_t hashOf(int family, const __be32 (&address)[4]) {
  std::array<unsigned char, 16> bytes{};
  std::memcpy(bytes.data(), address, bytes.size());
  constexpr std::array<unsigned char, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  std::size_t first = 0, last = family == AF_INET ? 4 : 16;
  if (family == AF_INET6 && std::equal(kMapped.begin(), kMapped.end(), bytes.begin())) first = 12;
  std::uint64_t hash = 14695981039346656037U;
  for (; first < last; ++first) hash = (hash ^ bytes[first]) * 1099511628211U;
  return hash;
}

std::set<std::uint64_t> socketsOf(const std::string& pid) {
  std::set<std::uint64_t> inodes;
  std::error_code error;
  std::filesystem::directory_iterator at("/proc/" + pid + "/fd", error);
  for (; !error && at != std::filesystem::directory_iterator(); at.increment(error)) {
    std::error_code none;
    const std::string target = std::filesystem::read_symlink(at->path(), none).string();
    constexpr std::string_view kSocket = "socket:[";
    std::uint64_t inode = 0;
    if (target.starts_with(kSocket) &&
        std::from_chars(target.data() + kSocket.size(), target.data() + target.size(), inode).ec ==
            std::errc())
      inodes.insert(inode);
  }
  return inodes;
}

ino_t namespaceOf(const std::string& pid) {
  struct stat info {};
  return ::stat(("/proc/" + pid + "/ns/net").c_str(), &info) == 0 ? info.st_ino : 0;
}

/// Opens a socket to the kernel in the process's network namespace, which belongs to a thread:
/// this thread keeps its own. `pid` empty: in this one. Returns why it cannot; empty: it did, or
/// the process has ended.
std::string openKernel(const std::string& pid, Descriptor& kernel) {
  std::string error;
  const auto open = [&] {
    kernel = Descriptor(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
    const timeval second{1, 0};
    if (!kernel) error = std::string("no netlink socket: ") + std::strerror(errno);
    else ::setsockopt(kernel.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
  };
  if (pid.empty()) open();
  else
    std::thread([&] {
      const Descriptor there(::open(("/proc/" + pid + "/ns/net").c_str(), O_RDONLY | O_CLOEXEC));
      if (!there && errno == ENOENT) return; // the process has ended
      if (!there || ::setns(there.get(), CLONE_NEWNET) != 0)
        error = std::string("this user cannot enter the network namespace of a rank: ") +
                std::strerror(errno);
      else open();
    }).join();
  return error;
}

/// The kernel's counters in the answer for one socket; zeros if there are none.
tcp_info infoOf(const inet_diag_msg& socket, std::size_t bytes) {
  tcp_info info{};
  const auto* at = reinterpret_cast<const char*>(&socket) + NLMSG_ALIGN(sizeof(socket));
  const auto* const end = reinterpret_cast<const char*>(&socket) + bytes;
  while (end - at >= static_cast<std::ptrdiff_t>(sizeof(rtattr))) {
    rtattr attribute{};
    std::memcpy(&attribute, at, sizeof(attribute));
    if (attribute.rta_len < sizeof(attribute) || attribute.rta_len > end - at) break;
    if (attribute.rta_type == INET_DIAG_INFO)
      std::memcpy(&info, at + sizeof(attribute),
                  std::min(sizeof(info), attribute.rta_len - sizeof(attribute)));
    at += std::min<std::ptrdiff_t>(RTA_ALIGN(attribute.rta_len), end - at);
  }
  return info;
}

std::string hex(std::uint64_t value) {
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

} // namespace

void LinkCounters::readNamespace(ino_t number, Namespace& space) {
  const auto gone = [&](const auto& one) { return !space.inodes.contains(one.first); };
  std::erase_if(space.names, gone);
  std::erase_if(space.unnamed, gone);
  space.error.clear();
  if (!space.kernel)
    space.error = openKernel(number == namespaceOf("self") ? "" : space.pid, space.kernel);
  if (!space.kernel || !space.error.empty()) return;
  bool fresh = false;
  for (const std::uint64_t inode : space.inodes)
    if (!space.names.contains(inode)) {
      const auto [first, unseen] = space.unnamed.try_emplace(inode, now_.time);
      fresh = fresh || unseen || now_.time - first->second < connecting_.count();
    }
  if (fresh) readAll(space);
  else readKnown(space);
  // A socket whose answer has not ended refuses the next request.
  if (!space.error.empty()) space.kernel = Descriptor();
}

void LinkCounters::readAll(Namespace& space) {
  for (const int family : {AF_INET, AF_INET6}) {
    const int error = ask(space.kernel.get(), NLM_F_DUMP, {.family = family},
                          [&](const inet_diag_msg& socket, std::size_t bytes) {
                            const std::uint64_t inode = socket.idiag_inode;
                            if (!space.inodes.contains(inode)) return;
                            const bool local = hashOf(family, socket.id.idiag_src) ==
                                               hashOf(family, socket.id.idiag_dst);
                            space.names[inode] = {family, socket.id, local};
                            space.unnamed.erase(inode);
                            if (!local) add(socket, bytes);
                          });
    if (error == 0) continue;
    space.error = std::string("the kernel does not list TCP connections: ") + std::strerror(error);
    return;
  }
}

void LinkCounters::readKnown(Namespace& space) {
  for (const auto& [inode, name] : space.names) {
    if (name.local) continue;
    const int error =
        ask(space.kernel.get(), 0, name,
            [this](const inet_diag_msg& socket, std::size_t bytes) { add(socket, bytes); });
    if (error == 0 || error == ENOENT || error == ESTALE) continue; // it has been closed
    space.error = std::string("the kernel does not show a TCP connection: ") + std::strerror(error);
    return;
  }
}

int LinkCounters::ask(int kernel, unsigned flags, const Name& name, const Use& use) {
  struct {
    nlmsghdr head;
    inet_diag_req_v2 body;
  } request{};
  request.head.nlmsg_len = sizeof(request);
  request.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  request.head.nlmsg_flags = static_cast<__u16>(NLM_F_REQUEST | flags);
  request.head.nlmsg_seq = ++request_;
  request.body.sdiag_family = static_cast<__u8>(name.family);
  request.body.sdiag_protocol = IPPROTO_TCP;
  request.body.idiag_ext = 1 << (INET_DIAG_INFO - 1);
  request.body.idiag_states = 1U << kEstablished;
  request.body.id = name.id;
  if (::send(kernel, &request, sizeof(request), 0) < 0) return errno;
  alignas(nlmsghdr) std::array<char, 65536> answer;
  while (true) {
    const ssize_t got = ::recv(kernel, answer.data(), answer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : EPROTO;
    auto left = static_cast<unsigned>(got);
    for (auto* head = reinterpret_cast<nlmsghdr*>(answer.data()); NLMSG_OK(head, left);
         head = NLMSG_NEXT(head, left)) {
      if (head->nlmsg_seq != request_) continue; // of an earlier request
      const std::size_t bytes = head->nlmsg_len - NLMSG_HDRLEN;
      if (head->nlmsg_type == NLMSG_DONE || head->nlmsg_type == NLMSG_ERROR) {
        std::int32_t result = 0; // 0, or minus the error number
        if (bytes >= sizeof(result)) std::memcpy(&result, NLMSG_DATA(head), sizeof(result));
        return -result;
      }
      if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY || bytes < sizeof(inet_diag_msg)) continue;
      use(*static_cast<const inet_diag_msg*>(NLMSG_DATA(head)), bytes);
      if ((flags & NLM_F_DUMP) == 0) return 0; // one connection has one answer
    }
  }
}

void LinkCounters::add(const inet_diag_msg& socket, std::size_t bytes) {
  if (socket.idiag_state != kEstablished) return;
  const tcp_info info = infoOf(socket, bytes);
  Connection connection{
      .from = hashOf(socket.idiag_family, socket.id.idiag_src),
      .to = hashOf(socket.idiag_family, socket.id.idiag_dst),
      .acknowledged = info.tcpi_bytes_acked,
      .busy = info.tcpi_busy_time - std::min(info.tcpi_busy_time, info.tcpi_rwnd_limited),
      .queued = info.tcpi_unacked > kLateSegments || info.tcpi_notsent_bytes > 0};
  connection.average =
      static_cast<std::uint64_t>(static_cast<double>(connection.acknowledged) * 1e6 /
                                 static_cast<double>(connection.busy + kTick));
  if (info.tcpi_min_rtt != kNoRoundTrip)
    connection.segment_rate =
        std::uint64_t{info.tcpi_snd_mss} * 1'000'000 / std::max(info.tcpi_min_rtt, 1U);
  now_.sockets[socket.idiag_inode] = connection;
}

void LinkCounters::read(const std::vector<std::string>& pids) {
  before_ = std::exchange(now_, {});
  now_.time = steadyClock();
  processes_.clear();
  for (auto& [number, space] : spaces_) space.pid.clear(), space.inodes.clear();
  for (const std::string& pid : pids) {
    const ino_t number = namespaceOf(pid);
    if (number == 0) continue; // it has ended, or belongs to another user
    Process& process = processes_[pid] = {number, socketsOf(pid)};
    spaces_[number].pid = pid;
    spaces_[number].inodes.insert(process.inodes.begin(), process.inodes.end());
  }
  std::erase_if(spaces_, [](const auto& one) { return one.second.pid.empty(); });
  for (auto& [number, space] : spaces_) readNamespace(number, space);
}

std::string LinkCounters::text(const std::string& pid) const {
  const auto process = processes_.find(pid);
  if (process == processes_.end()) return "";
  const auto space = spaces_.find(process->second.space);
  if (space != spaces_.end() && !space->second.error.empty())
    return "\"links_error\":\"" + space->second.error + "\",";
  if (before_.time == 0) return "";
  std::map<std::pair<std::uint64_t, std::uint64_t>, Connection> links;
  for (const std::uint64_t inode : process->second.inodes) {
    const auto found = now_.sockets.find(inode);
    if (found == now_.sockets.end()) continue;
    const Connection& now = found->second;
    const auto earlier = before_.sockets.find(inode);
    const Connection& before = earlier == before_.sockets.end() ? now : earlier->second;
    if (links.size() == kMostLinks && !links.contains({now.from, now.to})) continue;
    Connection& link = links[{now.from, now.to}];
    link.acknowledged += now.acknowledged - std::min(now.acknowledged, before.acknowledged);
    link.busy = std::max(link.busy, now.busy - std::min(now.busy, before.busy));
    link.total += now.acknowledged;
    link.average = std::max(link.average, now.average);
    link.segment_rate = std::max(link.segment_rate, now.segment_rate);
    link.queued = link.queued || now.queued || before.queued;
  }
  std::string text = "\"links_ns\":" + std::to_string(now_.time - before_.time) + ",\"links\":[";
  for (const auto& [ends, link] : links)
    text += std::string(text.back() == '[' ? "" : ",") + "{\"from\":\"" + hex(ends.first) +
            "\",\"to\":\"" + hex(ends.second) +
            "\",\"bytes\":" + std::to_string(link.acknowledged) +
            ",\"busy_ns\":" + std::to_string(link.busy * 1000) +
            ",\"total\":" + std::to_string(link.total) +
            ",\"average\":" + std::to_string(link.average) +
            ",\"segment_rate\":" + std::to_string(link.segment_rate) +
            ",\"queued\":" + (link.queued ? "true" : "false") + "}";
  return text + "],";
}

} // namespace rondo::tools
