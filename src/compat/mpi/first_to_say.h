// Decides which rank of a machine prints a message that all ranks would print.
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

/// Whether this process is the first, among those that the same launcher started on this machine,
/// to print the sentence: a launcher shows the output of all its ranks, and an error is the same on
/// all of them. Also true if that cannot be found out. The claim, a socket name, is held until this
/// process ends.
inline bool firstToSay(const std::string& sentence) {
  struct stat processes {}; // containers may share socket names and have the same process ids
  ::stat("/proc/self/ns/pid", &processes);
  const std::string name = "rondo_mpi/" + std::to_string(processes.st_ino) + "/" +
                           std::to_string(::getppid()) + "/" +
                           std::to_string(std::hash<std::string>()(sentence));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The leading zero makes it an abstract name, which is in no file system.
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
