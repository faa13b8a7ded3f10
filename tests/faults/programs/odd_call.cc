// Ranks that make three equal calls; then one of them makes a different one.
//
// Arguments: CALL ODD_RANK THEN. CALL: how the odd rank's call differs, see kCalls. THEN: "next":
// the ranks go on with barriers after a second; "end": they end. Prints "error RANK NANOSECONDS
// CALLED CODE CULPRIT TEXT" for an error that was thrown, "logged RANK TEXT" for each error that
// was logged when the communicator ended, and "heard RANK TEXT" for either.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "faults/programs/say.h"
#include "rondo/communicator.h"

namespace {

using rondo::test::now;
using rondo::test::say;

using rondo::Communicator;
using rondo::DataType;
using rondo::ReduceOp;

std::vector<float> x(1000), y(1000);

const std::map<std::string, std::function<void(Communicator&, bool odd)>> kCalls = {
    {"broadcast_root",
     [](Communicator& c, bool odd) {
       c.broadcast(x.data(), y.data(), 100, DataType::float32, odd ? c.rank() : 0);
     }},
    {"broadcast_count",
     [](Communicator& c, bool odd) {
       c.broadcast(x.data(), y.data(), odd ? 101 : 100, DataType::float32, 0);
     }},
    {"broadcast_nothing",
     [](Communicator& c, bool odd) {
       c.broadcast(x.data(), y.data(), odd ? 0 : 100, DataType::float32, 0);
     }},
    {"gather_root",
     [](Communicator& c, bool odd) {
       c.gather(x.data(), y.data(), 100, DataType::float32, odd ? c.rank() : 0);
     }},
    {"gather_type",
     [](Communicator& c, bool odd) {
       c.gather(x.data(), y.data(), 100, odd ? DataType::int32 : DataType::float32, 0);
     }},
    {"scatter_root",
     [](Communicator& c, bool odd) {
       c.scatter(x.data(), y.data(), 100, DataType::float32, odd ? c.rank() : 0);
     }},
    {"reduce_root",
     [](Communicator& c, bool odd) {
       c.reduce(x.data(), y.data(), 100, DataType::float32, ReduceOp::sum, odd ? c.rank() : 0);
     }},
};

std::vector<std::string> errorsIn(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> found;
  for (std::string line; std::getline(in, line);)
    if (line.find("ERROR") != std::string::npos) found.push_back(line);
  return found;
}

} // namespace

int main(int, char** argv) {
  const auto& call = kCalls.at(argv[1]);
  rondo::Options options = rondo::Options::fromEnvironment();
  options.log_level = rondo::LogLevel::error;
  // In memory: the launcher may kill this rank at any moment.
  options.log_file = "/proc/self/fd/" + std::to_string(::memfd_create("log", 0));
  std::optional<Communicator> comm(Communicator::create(rondo::Rendezvous::environment(), options));
  const std::string rank = std::to_string(comm->rank());
  const bool odd = comm->rank() == std::atoi(argv[2]);
  long long called = 0;
  try {
    for (int i = 0; i < 3; ++i) call(*comm, false);
    comm->barrier();
    called = now();
    call(*comm, odd);
    if (std::string(argv[3]) == "next") {
      ::sleep(1);
      for (;;) {
        called = now();
        comm->barrier();
      }
    }
  } catch (const rondo::Error& error) {
    say("error " + rank + " " + std::to_string(now()) + " " + std::to_string(called) + " " +
        std::string(rondo::name(error.code())) + " " + std::to_string(error.culprit()) + " " +
        error.what() + "\n");
    say("heard " + rank + " " + error.what() + "\n");
  }
  comm.reset();
  for (const std::string& line : errorsIn(options.log_file)) {
    say("logged " + rank + " " + line + "\n");
    say("heard " + rank + " " + line + "\n");
  }
}
