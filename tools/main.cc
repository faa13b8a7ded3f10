// Entry point of the command `rondo`.
#include <fcntl.h>
#include <unistd.h>

#include "tools/command.h"

namespace {

/// Opens /dev/null under the numbers of closed standard streams. Otherwise a file or socket could
/// get such a number, and this program's output would go there. Programs that it starts still have
/// the stream closed.
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
