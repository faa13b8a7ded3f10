// Moves descriptors away from the numbers of the standard streams (0, 1 and 2).
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace rondo::base {

/// Returns a descriptor whose number is above those of the standard streams, closed on exec: `fd`
/// itself if its number is high enough, else a copy, and `fd` is closed. A program may run with its
/// standard streams closed (daemons do); if a socket or file got such a number, whatever the
/// program prints would go into it. Returns -1 with errno set, and `fd` closed, if no number is
/// left; a negative `fd` is returned as it is.
inline int aboveStreams(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(fd);
  errno = error;
  return moved;
}

} // namespace rondo::base
