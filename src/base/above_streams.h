// Keeps descriptors away from the numbers of the standard streams.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace rondo::base {

/// The descriptor under a number above those of the standard streams, closed on exec; one that has
/// such a number already is returned as it is. A program may run with its standard streams closed
/// (daemons do), and what it then prints would go into the socket or file that has the number. -1,
/// with errno set and `fd` closed, where no number is left; of a negative `fd`, that.
inline int aboveStreams(int fd) noexcept {
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int error = errno;
  ::close(fd);
  errno = error;
  return moved;
}

} // namespace rondo::base
