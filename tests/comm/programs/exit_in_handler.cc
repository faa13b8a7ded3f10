// A signal's handler calls exit() while the interrupted thread creates a communicator.
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "rondo/rondo.h"

int main() {
  using rondo::Communicator, rondo::Rendezvous, rondo::UniqueId;
  std::signal(SIGALRM, [](int) { std::exit(3); });
  const Rendezvous meet = Rendezvous::uniqueId(UniqueId::create(), 0, 2);
  ::alarm(1);
  Communicator::create(meet); // rank 1 never comes
  return 0;
}
