// A rank of an elastic training run on synthetic samples.
//
// Arguments: the rendezvous file, the number of the process (-1: its first rank), "new" or "join",
// the strategy, the model, the epochs, MIN:MAX, a checkpoint or "", the steps between checkpoints,
// the redundancy, the hook, the servers of ps, and whether these are dedicated (0 or 1). Prints
// "ready NUMBER PID" after 5 steps; "step NUMBER TOTAL RANKS"
// after each step, and "logged NUMBER TEXT" before it, if the state is not the rank's own; "trained
// NUMBER ACCURACY STEPS RANKS" at the end, or "refused NUMBER CODE CULPRIT TEXT".
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "faults/programs/say.h"
#include "rondo/train.h"

namespace {

using rondo::test::say;

} // namespace

int main(int, char** argv) {
  using namespace rondo;
  std::string number = argv[2];
  TrainOptions options;
  options.elastic.rendezvous_file = argv[1];
  options.elastic.joined = std::string(argv[3]) == "join";
  options.strategy = argv[4];
  options.model = argv[5];
  options.epochs = std::atoi(argv[6]);
  options.elastic.ranks = argv[7];
  options.elastic.wait = 3;
  options.files.checkpoint = argv[8];
  options.files.checkpoint_every = std::atoi(argv[9]);
  options.elastic.redundancy = std::atoi(argv[10]);
  options.gradients.hook = argv[11];
  options.data = "synthetic:train=6000,test=1000";
  options.batch = 120;
  options.stragglers.pace_ms = 8;
  if (options.strategy == "local") options.averaging.period = 4;
  if (options.strategy == "ps") {
    options.servers.count = std::atoi(argv[12]);
    options.servers.dedicated = std::atoi(argv[13]) != 0;
  }
  try {
    const Options from = Options::fromEnvironment();
    Communicator comm = options.elastic.joined
                            ? joinTraining(options.elastic.rendezvous_file, from)
                            : Communicator::create(Rendezvous::environment(), from);
    if (number == "-1") number = std::to_string(comm.rank());
    int steps = 0;
    const TrainReport report = train(comm, options, [&](const TrainProgress& now) {
      if (++steps == 5) say("ready " + number + " " + std::to_string(::getpid()) + "\n");
      if (!now.recovery.empty()) say("logged " + number + " " + now.recovery + "\n");
      say("step " + number + " " + std::to_string(now.total_step) + " " +
          std::to_string(now.ranks) + "\n");
    });
    say("trained " + number + " " + std::to_string(report.test_accuracy) + " " +
        std::to_string(report.steps) + " " + std::to_string(comm.size()) + "\n");
  } catch (const Error& error) {
    say("refused " + number + " " + std::string(name(error.code())) + " " +
        std::to_string(error.culprit()) + " " + error.what() + "\n");
    return 4;
  }
}
