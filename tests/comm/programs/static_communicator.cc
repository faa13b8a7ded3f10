// A rank whose communicator is a global object, which ends after main().
#include <memory>
#include <vector>

#include "rondo/rondo.h"

namespace {
std::unique_ptr<rondo::Communicator> global;
} // namespace

int main() {
  using rondo::Communicator;
  global = std::make_unique<Communicator>(Communicator::create(rondo::Rendezvous::environment()));
  std::vector<float> data(1000, 1);
  for (int i = 0; i < 5; ++i) global->allReduce(data, rondo::ReduceOp::sum);
  return 0;
}
