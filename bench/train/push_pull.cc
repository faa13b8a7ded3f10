// Measures parameter servers without a model: the time to push gradients and pull values, compared
// with plain sends and receives of as many bytes by the same processes, and with an all-reduce. A
// launcher starts the ranks.
//
//   rondo run -p 4 -- bench_push_pull MEBIBYTES ROUNDS
//
// Rank 0 prints a line of JSON with the seconds of each round. In a round, one after the other:
//   central   rank 0 serves all others: each pushes the gradients and pulls the values
//   plain     rank 0 exchanges as many bytes with each of the others, both ways at once
//   sharded   every rank serves a part of the values, and works
//   halves    a reduce-scatter, the move of each rank's part and an allgather: what sharded servers
//             do, without servers
//   apart     an all-reduce of as many bytes over all ranks, from one array into another
//   allreduce the same in place
// The servers add and move the values as in training (sgd without momentum).
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rondo/rondo.h"
#include "train/parallel/ps/clocks.h"
#include "train/parallel/ps/exchange.h"
#include "train/parallel/ps/server.h"

namespace {

using namespace rondo;
using namespace rondo::training;
using namespace rondo::training::servers;

/// One rank of a synchronous parameter server, for one weight.
class Serving {
 public:
  Serving(Communicator& comm, std::size_t floats, int servers, int first_worker)
      : values_(floats, 0.5F),
        gradients_(floats, 1.0F),
        links_(link(comm, first_worker)),
        weight_(theWeight(values_)),
        weights_{&weight_},
        keys_(layOut(values_, weights_, {}, servers, kPieceKeys)) {
    const int workers = comm.size() - first_worker;
    if (comm.rank() < servers) {
      for (const Piece& piece : keys_.pieces[static_cast<std::size_t>(comm.rank())])
        pieces_.emplace_back(
            piece, values_, weights_, "sgd", OptimizerSettings{.momentum = 0},
            Application{.workers = workers, .in_order = true, .samples = workers, .scale = 1e-3F});
      server_.emplace(
          links_, pieces_,
          ServerPlan{
              .staleness = staleness_, .rate = [](std::int64_t) { return 0.1; }, .batch = workers});
    }
    if (comm.rank() >= first_worker)
      exchange_.emplace(links_, keys_, Ends{gradients_, values_, {}}, nullptr);
  }

  /// This rank's part in `steps` pushes and pulls of every worker.
  void run(int steps) {
    std::exception_ptr fault;
    std::thread serving;
    if (server_) {
      for (PieceServer& piece : pieces_) piece.begin(0);
      server_->begin(0, steps + 1, 0);
      serving = std::thread([&] {
        try {
          while (!server_->ended()) server_->serve(steps + 1);
        } catch (...) {
          fault = std::current_exception();
        }
      });
    }
    if (exchange_) {
      for (int step = 0; step < steps; ++step) {
        exchange_->begin({.kind = Request::push});
        exchange_->gradientStands(0);
        exchange_->pull();
      }
      exchange_->end();
    }
    if (serving.joinable()) serving.join();
    if (fault) std::rethrow_exception(fault);
  }

  float value() const { return values_.front(); }

 private:
  static Weight theWeight(AlignedVector<float>& values) {
    Weight one;
    one.name = "all";
    one.shape = {values.size()};
    one.value = values.data();
    return one;
  }

  AlignedVector<float> values_, gradients_;
  Links links_;
  Weight weight_;
  std::vector<Weight*> weights_;
  const Keys keys_;
  const Staleness staleness_{"bsp"};
  std::deque<PieceServer> pieces_;
  std::optional<Server> server_;
  std::optional<Exchange> exchange_;
};

/// Rank 0 and each other rank send the vector to each other, all at the same time.
void plain(Communicator& comm, std::vector<std::vector<float>>& sent,
           std::vector<std::vector<float>>& received) {
  Group group;
  for (int peer = 0; peer < comm.size(); ++peer) {
    if (peer == comm.rank() || (peer != 0 && comm.rank() != 0)) continue;
    const auto at = static_cast<std::size_t>(peer);
    comm.send(sent[at].data(), sent[at].size(), DataType::float32, peer);
    comm.recv(received[at].data(), received[at].size(), DataType::float32, peer);
  }
  group.end();
}

/// Separate arrays, as gradients and values are.
struct Halves {
  explicit Halves(std::size_t floats) : from(floats, 1.0F), to(floats), sum(floats), part(floats) {}

  void run(Communicator& comm) {
    const std::size_t block = from.size() / static_cast<std::size_t>(comm.size());
    comm.reduceScatter(from.data(), sum.data(), block, DataType::float32, ReduceOp::sum);
    for (std::size_t i = 0; i < block; ++i) part[i] -= 1e-4F * sum[i];
    comm.allGather(part.data(), to.data(), block, DataType::float32);
  }

  std::vector<float> from, to, sum, part;
};

/// Time from the arrival of all ranks until the last one is done.
double timed(Communicator& comm, const std::function<void()>& body) {
  comm.barrier();
  const auto begin = std::chrono::steady_clock::now();
  body();
  comm.barrier();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int measure(std::size_t mebibytes, int rounds) {
  Communicator comm = Communicator::create(Rendezvous::environment());
  constexpr int kSteps = 4; // per round
  const std::size_t floats = (mebibytes << 20) / sizeof(float);
  Serving central(comm, floats, 1, 1), sharded(comm, floats, comm.size(), 0);
  std::vector<std::vector<float>> sent, received;
  for (int peer = 0; peer < comm.size(); ++peer) {
    const bool talks = peer != comm.rank() && (peer == 0 || comm.rank() == 0);
    sent.emplace_back(talks ? floats : 0, 1.0F);
    received.emplace_back(talks ? floats : 0);
  }
  Halves halves(floats);
  Buffer reduced = comm.allocate(floats * sizeof(float));
  const std::vector<std::pair<std::string, std::function<void()>>> all = {
      {"central", [&] { central.run(kSteps); }},
      {"plain",
       [&] {
         for (int i = 0; i < kSteps; ++i) plain(comm, sent, received);
       }},
      {"sharded", [&] { sharded.run(kSteps); }},
      {"halves",
       [&] {
         for (int i = 0; i < kSteps; ++i) halves.run(comm);
       }},
      {"apart",
       [&] {
         for (int i = 0; i < kSteps; ++i)
           comm.allReduce(halves.from.data(), halves.to.data(), floats, DataType::float32,
                          ReduceOp::sum);
       }},
      {"allreduce", [&] {
         for (int i = 0; i < kSteps; ++i)
           comm.allReduce(reduced.data(), reduced.data(), floats, DataType::float32, ReduceOp::sum);
       }}};
  std::string line =
      "{\"transport\": \"" + comm.transportTo((comm.rank() + 1) % comm.size()) + "\"";
  std::vector<std::string> seconds(all.size());
  for (int round = -1; round < rounds; ++round) // the first round opens the connections
    for (std::size_t i = 0; i < all.size(); ++i) {
      const double took = timed(comm, all[i].second) / kSteps;
      if (round >= 0) seconds[i] += (round > 0 ? ", " : "") + std::to_string(took);
    }
  for (std::size_t i = 0; i < all.size(); ++i)
    line += ", \"" + all[i].first + "\": [" + seconds[i] + "]";
  // Each step moves every value by rate * scale * workers.
  const int steps = (rounds + 1) * kSteps, workers = comm.size() - 1;
  const double want = 0.5 - 1e-4 * steps * workers;
  if (comm.rank() == 0) std::printf("%s}\n", line.c_str());
  if (comm.rank() == 0 || std::abs(central.value() - want) < 1e-3) return 0;
  std::fprintf(stderr, "rank %d has %g in place of %g\n", comm.rank(), central.value(), want);
  return 1;
}

} // namespace

int main(int argc, char** argv) {
  const int mebibytes = argc == 3 ? std::atoi(argv[1]) : 0;
  const int rounds = argc == 3 ? std::atoi(argv[2]) : 0;
  if (mebibytes < 1 || rounds < 1 || Rendezvous::detectLauncher().launcher.empty()) {
    std::fputs("usage: rondo run -p RANKS -- bench_push_pull MEBIBYTES ROUNDS\n", stderr);
    return 2;
  }
  try {
    return measure(static_cast<std::size_t>(mebibytes), rounds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_push_pull: %s\n", error.what());
    return 1;
  }
}
