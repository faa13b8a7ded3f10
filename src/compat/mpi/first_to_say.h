// Which rank says what all ranks of a job have to say.
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

#include "base/above_streams.h"

namespace rondo::compat {

/// Whether no other process that the same launcher started on this machine has said the sentence: a
/// launcher shows what all its ranks print, and an error is the same on all of them. True as well
/// where that cannot be found out. The name that says so is taken until this process ends.
inline bool firstToSay(const std::string& sentence) {
  struct stat processes {}; // containers may share names of sockets, but number processes alike
  ::stat("/proc/self/ns/pid", &processes);
  const std::string name = "rondo_mpi/" + std::to_string(processes.st_ino) + "/" +
                           std::to_string(::getppid()) + "/" +
                           std::to_string(std::hash<std::string>()(sentence));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // After a zero: the name is in no file system.
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto bytes = offsetof(sockaddr_un, sun_path) + 1 + name.size();
  const int fd = base::aboveStreams(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (fd < 0) return true;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(bytes)) == 0)
    return true;
  const bool taken = errno == EADDRINUSE;
  ::close(fd);
  return !taken;
}

} // namespace rondo::compat
