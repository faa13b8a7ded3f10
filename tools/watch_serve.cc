// A thread with a listener, and its clients in one poll().
#include "tools/watch_serve.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "rondo/error.h"

namespace rondo::tools {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostClients = 64, kLongestRequest = 4096;
/// For a request, and then for each piece of the answer.
constexpr std::chrono::seconds kTimeOfClient{2};
constexpr std::chrono::milliseconds kNoDescriptors{100};

std::string answerOf(const char* status, const std::string& body) {
  return std::string("HTTP/1.1 ") + status +
         "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nConnection: close\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

/// The answer to a whole request.
std::string answerTo(const std::string& request, const std::string& page) {
  const std::string line = request.substr(0, request.find_first_of("\r\n"));
  if (line.starts_with("GET /metrics ") || line.starts_with("GET /metrics?"))
    return answerOf("200 OK", page);
  if (line.starts_with("GET / ")) return answerOf("200 OK", "rondo watch: see /metrics\n");
  if (line.starts_with("GET ")) return answerOf("404 Not Found", "see /metrics\n");
  return answerOf("405 Method Not Allowed", "only GET\n");
}

std::string textOf(const sockaddr_storage& address, socklen_t bytes) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), bytes, host.data(), host.size(),
                port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  const std::string name = host.data();
  return (name.find(':') == std::string::npos ? name : "[" + name + "]") + ":" + port.data();
}

} // namespace

PageServer::PageServer(const std::string& address) {
  const auto colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? address : address.substr(colon + 1);
  std::string host = colon == std::string::npos ? "127.0.0.1" : address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  if (port.empty() || port.size() > 5 ||
      port.find_first_not_of("0123456789") != std::string::npos || std::stoi(port) > 65535 ||
      host.empty())
    throw Error(ErrorCode::invalid_argument,
                "'" + address +
                    "' is not an address; write PORT or HOST:PORT, with a port from 0 "
                    "to 65535");
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  if (const int error = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found))
    throw Error(ErrorCode::invalid_argument,
                "'" + address + "' is not an address: " + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> all(found, &::freeaddrinfo);
  listener_ = Descriptor(
      ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, found->ai_protocol));
  const int yes = 1;
  if (listener_) ::setsockopt(listener_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (!listener_ || ::bind(listener_.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listener_.get(), SOMAXCONN) != 0)
    throw Error(ErrorCode::system, "cannot listen at " + address + ": " + std::strerror(errno));
  sockaddr_storage own{};
  socklen_t bytes = sizeof(own);
  ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&own), &bytes);
  address_ = textOf(own, bytes);
}

void PageServer::accept() {
  while (true) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) {
      if (errno != EMFILE && errno != ENFILE) return;
      // Without descriptors the pending connection stays, and poll() does not wait.
      if (clients_.empty()) return std::this_thread::sleep_for(kNoDescriptors);
      clients_.pop_front();
      continue;
    }
    if (clients_.size() >= kMostClients) clients_.pop_front();
    clients_.push_back({std::move(socket), Clock::now() + kTimeOfClient, {}, {}});
  }
}

bool PageServer::send(Client& client) {
  while (client.sent < client.answer.size()) {
    const ssize_t sent = ::send(client.socket.get(), client.answer.data() + client.sent,
                                client.answer.size() - client.sent, MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    client.sent += static_cast<std::size_t>(sent);
    if (sent > 0) client.end = Clock::now() + kTimeOfClient;
  }
  return false;
}

bool PageServer::progress(Client& client) {
  std::array<char, 1024> piece;
  while (client.answer.empty()) {
    const ssize_t got = ::recv(client.socket.get(), piece.data(), piece.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    client.request.append(piece.data(), static_cast<std::size_t>(got));
    const bool whole = client.request.find("\r\n\r\n") != std::string::npos ||
                       client.request.find("\n\n") != std::string::npos;
    if (whole) {
      const std::lock_guard lock(mutex_);
      client.answer = answerTo(client.request, page_);
    } else if (client.request.size() > kLongestRequest) {
      return false;
    }
  }
  return send(client);
}

void PageServer::serve() {
  while (true) {
    std::vector<pollfd> polled{{stop_.first.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}};
    auto now = Clock::now();
    auto next = now + std::chrono::minutes(1);
    for (const Client& client : clients_) {
      polled.push_back(
          {client.socket.get(), static_cast<short>(client.answer.empty() ? POLLIN : POLLOUT), 0});
      next = std::min(next, client.end);
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
    ::poll(polled.data(), polled.size(), static_cast<int>(std::max<std::int64_t>(left, 0)));
    if (polled[0].revents != 0) return;
    now = Clock::now();
    std::size_t i = 2;
    for (auto client = clients_.begin(); client != clients_.end(); ++i) {
      const bool goes_on = now < client->end && (polled[i].revents == 0 || progress(*client));
      client = goes_on ? std::next(client) : clients_.erase(client);
    }
    if (polled[1].revents != 0) accept();
  }
}

void PageServer::show(std::string page) {
  {
    const std::lock_guard lock(mutex_);
    page_ = std::move(page);
  }
  if (!thread_.joinable()) thread_ = std::thread([this] { serve(); });
}

PageServer::~PageServer() {
  stop_.second = Descriptor();
  if (thread_.joinable()) thread_.join();
}

} // namespace rondo::tools
