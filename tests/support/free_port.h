// A TCP port of loopback on which nothing listens.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/unique_fd.h"

namespace rondo::test {

/// It is another port at each call, also in other test programs that run at the same time: they
/// count in a common file. By default the system gives ports from 32768 on to sockets that ask for
/// any port, so no such socket takes this one before the rank that it is for.
inline int freePort() {
  constexpr unsigned kFirst = 11'000, kCount = 10'000;
  const std::string name = "rondo-test-ports-" + std::to_string(::getuid());
  const base::UniqueFd file(::open((std::filesystem::temp_directory_path() / name).c_str(),
                                   O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (::flock(file.get(), LOCK_EX) != 0) std::abort();
  unsigned used = 0; // stays 0 if the file is new
  if (::pread(file.get(), &used, sizeof used, 0) < 0) std::abort();
  for (unsigned tries = 0; tries < kCount; ++tries) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(kFirst + used++ % kCount));
    const base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      continue;
    if (::pwrite(file.get(), &used, sizeof used, 0) != sizeof used) std::abort();
    return ntohs(address.sin_port);
  }
  std::abort();
}

} // namespace rondo::test
