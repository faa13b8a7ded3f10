// The command `rondo`.
#include <fcntl.h>
#include <unistd.h>

#include "tools/command.h"

namespace {

/// Files and sockets must not get the number of a standard stream that is closed: this program
/// prints there. Programs that it starts have the stream closed, as this one had.
void takeClosedStreams() {
  int fd = -1;
  do fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0) ::close(fd);
}

} // namespace

int main(int argc, char** argv) {
  takeClosedStreams();
  return rondo::tools::runCommand(argc, argv);
}
