// Runs getaddrinfo(), which has no deadline, with a deadline.
#include "net/resolve.h"

#include <netdb.h>
#include <sys/socket.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/clock.h"
#include "base/no_signals.h"
#include "base/parse.h"
#include "net/native_address.h"
#include "rondo/error.h"

namespace rondo::net {
namespace {

struct Answer {
  int error = 0; ///< error code of getaddrinfo()
  std::vector<SocketAddress> addresses;
};

Answer ask(const std::string& host, int family, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = family;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  Answer answer{::getaddrinfo(host.c_str(), nullptr, &hints, &found), {}};
  if (answer.error != 0) return answer;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> results(found, &::freeaddrinfo);
  for (const addrinfo* info = results.get(); info != nullptr; info = info->ai_next) {
    if (info->ai_family != AF_INET && info->ai_family != AF_INET6) continue;
    NativeAddress native;
    native.length = info->ai_addrlen;
    std::memcpy(&native.storage, info->ai_addr, info->ai_addrlen);
    answer.addresses.push_back(fromNative(native));
  }
  return answer;
}

/// Shared with the resolving thread, which may outlive the wait.
struct Question {
  std::mutex mutex;
  std::condition_variable answered;
  bool done = false;
  Answer answer;
};

Answer askInTime(const std::string& host, int family, std::chrono::milliseconds limit) {
  const auto question = std::make_shared<Question>();
  const base::NoSignals quiet;
  try {
    std::thread([question, host, family] {
      Answer answer = ask(host, family, 0);
      std::lock_guard lock(question->mutex);
      question->answer = std::move(answer);
      question->done = true;
      question->answered.notify_all();
    }).detach();
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::system,
                "cannot start a thread to resolve " + base::quoted(host) + ": " + error.what());
  }
  std::unique_lock lock(question->mutex);
  if (!question->answered.wait_until(lock, base::Deadline(limit).at(),
                                     [&] { return question->done; }))
    throw Error(ErrorCode::timeout, "host " + base::quoted(host) + " was not resolved within " +
                                        std::to_string(limit.count()) + " ms");
  return std::move(question->answer);
}

} // namespace

std::vector<SocketAddress> resolve(const std::string& host, int family,
                                   std::chrono::milliseconds limit) {
  Answer answer = ask(host, family, AI_NUMERICHOST);
  if (answer.error == EAI_NONAME) answer = askInTime(host, family, limit);
  if (answer.error != 0) {
    const std::string why =
        "host " + base::quoted(host) + " cannot be resolved: " + ::gai_strerror(answer.error);
    if (answer.error == EAI_NONAME || answer.error == EAI_AGAIN) throw UnknownHost(why);
    throw Error(ErrorCode::invalid_argument, why);
  }
  if (answer.addresses.empty())
    throw Error(ErrorCode::invalid_argument,
                "host " + base::quoted(host) + " has no IPv4 or IPv6 address");
  return std::move(answer.addresses);
}

} // namespace rondo::net
