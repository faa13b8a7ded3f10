// Strategy ps (parameter servers): each of the first K ranks holds a range of the parameters and
// its optimizer state. Workers push gradients to the servers and pull values.
//
//   sent                          when
//   gradients, worker to servers  each piece (1 MiB) as soon as the backward pass has written it,
//                                 encoded by --hook
//   loss, stop flag, to servers   before the pieces of a push
//   values, server to worker      each piece as soon as it is new enough; if pushes leave keys out
//                                 (topk), only the keys that changed since the last answer
//   next grant, to worker         after the values, from each server
//   all values, to all ranks      at synchronization points (Allgather of the servers' ranges)
//
// With M bytes of values W workers send and receive 2 W M bytes in a step. If servers are workers
// too, one copy of each range stays on its rank: 2 (W-1) M bytes, as many as a ring all-reduce
// sends. A single server sends and receives all 2 (W-1) M of them, each of K servers 1/K. A hook
// sends M/2 (fp16, bf16) or 2 D M (topk:D) in place of M on the way to the servers. On the way back
// M is the maximum: with topk and an optimizer that moves no key without a gradient (sgd,
// --momentum 0), at most a fraction W D of the keys has changed. These are sent with one bit for
// each key of the piece; TrainReport::pulled counts them.
//
// All pieces of a push are in flight together, and so are those of its answer, with two exceptions.
// If answers leave keys out, each server has one piece in flight at a time, because it must
// announce the length first. With BSP and whole answers a server receives two pieces of each worker
// at a time, which stay in its caches.
//
// One bound s defines how new values must be: the number of steps that a worker may be ahead of the
// slowest one (clocks.h). s = 0 is BSP: the values contain every push of a step before any worker
// reads them. Pushes are added in the order of the workers, so that the run equals `ddp` in
// deterministic mode bit for bit. With s > 0 (SSP) or no bound (ASP) each push moves the values
// when it arrives. Between synchronization points the workers of ASP share the parts of the steps'
// samples: each takes the next part when it is ready, so that an epoch has each sample once,
// however fast the workers are. With a bound each worker has its own part of every step.
//
// In an elastic run (BSP only) there is a synchronization point after each step, whose Allgather
// replaces the answers to the workers: with N ranks (N-1) M bytes.
//
// Li et al., Scaling Distributed Machine Learning with the Parameter Server, 2014; Ho et al., More
// Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, 2013.
#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <exception>
#include <optional>
#include <thread>

#include "train/loop/agreement.h"
#include "train/loop/hooks.h"
#include "train/loop/settings.h"
#include "train/parallel/own_arrays.h"
#include "train/parallel/ps/clocks.h"
#include "train/parallel/ps/keys.h"
#include "train/parallel/ps/messages.h"
#include "train/parallel/ps/server.h"
#include "train/parallel/ps/state.h"
#include "train/parallel/ps/worker.h"
#include "train/parallel/recipe.h"
#include "train/parallel/whole_model.h"

namespace rondo::training {

namespace servers {
namespace {

/// The most servers of so many ranks.
int mostServers(const TrainOptions& options, int ranks) {
  return ranks - (options.servers.dedicated ? 1 : 0);
}

/// An elastic run may come to fewer ranks than it is to have servers. A single rank is server
/// and worker.
int serversOf(const TrainOptions& options, int ranks) {
  const int count = options.servers.count;
  if (options.elastic.ranks.empty()) return count;
  return std::min(count, std::max(mostServers(options, ranks), 1));
}

int firstWorker(const TrainOptions& options, int ranks) {
  const int servers = serversOf(options, ranks);
  return options.servers.dedicated && servers < ranks ? servers : 0;
}

class Ps : public Strategy {
 public:
  explicit Ps(const Setup& setup);
  ~Ps() override;

  StepResult run(const Position& done, std::int64_t meeting, Timeline* timeline) override;
  std::uint64_t verify(const std::string& when) override { return model_.verify(when); }
  double evaluate() override { return model_.evaluate(); }
  Snapshot snapshot() override;
  void adopt(const Position& at) override;
  std::vector<StatePart> held() override { return state_.held(); }
  double bytesPerStep() const override;
  void tell(TrainReport& report) override;

 private:
  void open(const Position& done, std::int64_t meeting);
  bool work(StepResult& result, StepClock& clock);
  bool serve(StepResult& result);
  void serveToTheEnd();
  void meet(StepResult& result);
  void gatherValues();
  void countRead(std::int64_t staleness);
  double rate(std::int64_t step) const {
    return rateAt(schedule_, static_cast<std::uint64_t>(step));
  }
  /// The position `steps` steps after the last synchronization point.
  Position ahead(std::int64_t steps) const;

  Communicator& comm_;
  const TrainOptions& options_;
  const Staleness staleness_;
  const Schedule schedule_;
  const int epoch_steps_;
  WholeModel model_;
  Replica& replica_;
  Links links_;
  const Keys keys_;
  /// Codecs of the worker and of the server; null without a hook.
  const std::unique_ptr<GradientCodec> up_, down_;
  /// What the worker's codec has not sent yet, in the layout of the keys; empty if it keeps
  /// nothing.
  AlignedVector<float> kept_;
  std::optional<OwnArrays> all_kept_; ///< from the last snapshot
  std::deque<PieceServer> pieces_; ///< the pieces of this rank's range; empty if it is not a server
  ServerState state_;
  std::optional<Server> server_;
  std::optional<Worker> worker_;
  std::thread serving_;      ///< the server's thread, if this rank is also a worker
  std::exception_ptr fault_; ///< exception of that thread

  bool open_ = false;       ///< between two synchronization points
  Position begin_;          ///< position at the last synchronization point
  std::int64_t steps_ = 0;  ///< steps from there to the next one
  std::int64_t own_ = 0;    ///< steps of this worker since then
  std::int64_t oldest_ = 0; ///< steps of every worker since then that this worker's values contain
  Grant grant_;             ///< for its next step
  std::vector<std::uint64_t> reads_; ///< counts reads by how many steps the values were behind
};

Keys keysOf(const Setup& setup, Replica& replica) {
  return layOut(replica.values(), replica.weights(), replica.state(),
                serversOf(setup.options, setup.comm.size()), kPieceKeys);
}

Ps::Ps(const Setup& setup)
    : comm_(setup.comm),
      options_(setup.options),
      staleness_(options_.servers.consistency),
      schedule_(schedule(options_, totalSteps(options_, setup.data))),
      epoch_steps_(epochSteps(options_, setup.data)),
      model_(setup),
      replica_(model_.replica()),
      links_(link(comm_, firstWorker(options_, comm_.size()))),
      keys_(keysOf(setup, replica_)),
      up_(makeCodec(options_.gradients.hook)),
      down_(makeCodec(options_.gradients.hook)),
      kept_(up_ && up_->sparse() ? keys_.count : 0),
      state_(comm_, keys_, replica_, pieces_) {
  const int workers = static_cast<int>(links_.workers.size());
  const Application how{.workers = workers,
                        .in_order = staleness_.bulk(),
                        .samples = options_.batch,
                        .scale = 1.0F / static_cast<float>(options_.batch),
                        .sparse = !kept_.empty()};
  if (comm_.rank() < serversOf(options_, comm_.size())) {
    for (const Piece& piece : keys_.pieces[static_cast<std::size_t>(comm_.rank())])
      pieces_.emplace_back(piece, replica_.values(), replica_.weights(), options_.optimizer.name,
                           optimizerSettings(options_), how);
    server_.emplace(links_, pieces_,
                    ServerPlan{.staleness = staleness_,
                               .rate = [this](std::int64_t step) { return rate(step); },
                               .batch = options_.batch,
                               .codec = down_.get()});
  }
  if (comm_.rank() >= links_.workers.front())
    worker_.emplace(setup, replica_, links_, keys_, up_.get(), kept_);
}

/// A rank that leaves by an exception, at a synchronization point or between two, has peers that
/// wait for it. Aborting the links also ends the server's thread.
Ps::~Ps() {
  if (open_ || std::uncaught_exceptions() > 0) {
    links_.up.abort("train: an exception ended the run on this rank");
    links_.down.abort("train: an exception ended the run on this rank");
  }
  if (serving_.joinable()) serving_.join();
}

StepResult Ps::run(const Position& done, std::int64_t meeting, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  StepClock clock(result.times, timeline);
  // In an elastic run ranks can leave and join after each step.
  if (!open_) open(done, options_.elastic.ranks.empty() ? meeting : done.total + 1);
  const bool over = worker_ ? work(result, clock) : serve(result);
  result.met = over;
  if (over) meet(result);
  if (worker_) clock.lap(&TrainTimes::communication, "pull");
  result.learning_rate = rate(std::max<std::int64_t>(result.at.total - 1, 0));
  result.times.step = whole.read();
  return result;
}

void Ps::open(const Position& done, std::int64_t meeting) {
  open_ = true;
  begin_ = done;
  steps_ = meeting - done.total;
  own_ = oldest_ = 0;
  Grants grants(static_cast<int>(links_.workers.size()), staleness_);
  grants.begin(steps_);
  grant_ = grants.first(comm_.rank() - links_.workers.front());
  if (!server_) return;
  const std::int64_t updates =
      staleness_.bulk() ? 1 : static_cast<std::int64_t>(links_.workers.size());
  for (PieceServer& piece : pieces_) piece.begin(static_cast<std::uint64_t>(done.total * updates));
  server_->begin(done.total, steps_, done.losses);
  if (!worker_) return;
  serving_ = std::thread([this] {
    try {
      serveToTheEnd();
    } catch (...) {
      fault_ = std::current_exception();
    }
  });
}

Position Ps::ahead(std::int64_t steps) const {
  Position at = begin_;
  at.epoch += static_cast<int>((at.step + steps) / epoch_steps_);
  at.step = static_cast<int>((at.step + steps) % epoch_steps_);
  at.total += steps;
  return at;
}

/// Does one step of the worker. Returns true if it has no more steps before the synchronization
/// point.
bool Ps::work(StepResult& result, StepClock& clock) {
  countRead(own_ - oldest_);
  const auto workers = static_cast<std::int64_t>(links_.workers.size());
  worker_->push(ahead(grant_.part / workers), grant_.part % workers,
                grant_.last ? Request::last : Request::push, clock);
  ++own_;
  if (grant_.last) return true;
  const Notice notice = worker_->pull();
  oldest_ = notice.oldest;
  grant_ = {notice.part >= 0, notice.last != 0, notice.part};
  result.at = begin_;
  result.at.step += static_cast<int>(notice.steps);
  result.at.total += notice.steps;
  result.at.losses = notice.losses;
  result.loss = notice.loss;
  if (grant_.go) return false;
  worker_->end();
  return true;
}

/// Serves until all workers have ended. This may be after the last step: an unbounded worker still
/// asks then whether there is another step.
void Ps::serveToTheEnd() {
  while (!server_->ended()) server_->serve(steps_ + 1);
}

/// Serves one step of the run, on a server that is not a worker.
bool Ps::serve(StepResult& result) {
  const Tally& tally = server_->tally();
  server_->serve(tally.steps() + 1);
  if (tally.steps() == steps_) serveToTheEnd();
  result.at = begin_;
  result.at.step += static_cast<int>(tally.steps());
  result.at.total += tally.steps();
  result.at.losses = tally.losses();
  result.loss = tally.newest();
  return server_->ended();
}

/// The first server's summary of all steps since the last synchronization point.
struct SyncRecord {
  std::int64_t steps = 0, stop = 0;
  double losses = 0, loss = 0;
};

void Ps::meet(StepResult& result) {
  if (serving_.joinable()) serving_.join();
  if (fault_) std::rethrow_exception(std::exchange(fault_, nullptr));
  SyncRecord record;
  if (comm_.rank() == 0) {
    const Tally& tally = server_->tally();
    record = {tally.steps(), server_->stopped() ? 1 : 0, tally.losses(), tally.newest()};
  }
  comm_.broadcast(&record, &record, sizeof record, DataType::uint8, 0);
  gatherValues();
  open_ = false;
  result.at = begin_;
  result.at.step += static_cast<int>(record.steps);
  result.at.total += record.steps;
  result.at.losses = record.losses;
  result.loss = record.loss;
  result.stop = record.stop != 0;
  if (std::isfinite(record.losses)) return;
  const std::string what = "train: the loss of one of the steps up to " +
                           std::to_string(result.at.total) + " is not finite";
  agree(comm_, [&]() -> std::string {
    if (!worker_ || worker_->layer().empty()) return {};
    throw Error(ErrorCode::aborted,
                what + "; the first values of that kind come from " + worker_->layer());
  });
  throw Error(ErrorCode::aborted, what);
}

/// Copies the servers' values to every replica.
void Ps::gatherValues() {
  float* const values = replica_.values().data();
  for (PieceServer& piece : pieces_)
    std::copy(piece.values().begin(), piece.values().end(), values + piece.piece().begin);
  state_.allGather(values);
  replica_.network().weightsChanged();
}

void Ps::countRead(std::int64_t staleness) {
  const auto place = static_cast<std::size_t>(staleness);
  if (place >= reads_.size()) reads_.resize(place + 1);
  ++reads_[place];
}

Snapshot Ps::snapshot() {
  Snapshot all{.tensors = {},
               .ranks = 0,
               .updates = staleness_.bulk() ? 1 : static_cast<int>(links_.workers.size())};
  state_.gather();
  all.tensors = state_.tensors();
  if (kept_.empty()) return all;
  all.ranks = comm_.size();
  all_kept_.emplace(comm_, std::vector<OwnArray>{{"hook.kept", kept_}});
  all_kept_->gather();
  all_kept_->describe(all.tensors);
  return all;
}

void Ps::adopt(const Position&) {
  if (!kept_.empty()) all_kept_->scatter();
  std::span<float> values = replica_.values();
  comm_.broadcast(values.data(), values.data(), values.size(), DataType::float32, 0);
  for (PieceServer& piece : pieces_) {
    const auto own = values.subspan(piece.piece().begin, piece.piece().count);
    std::copy(own.begin(), own.end(), piece.values().begin());
  }
  state_.scatter();
  replica_.network().weightsChanged();
}

double Ps::bytesPerStep() const {
  const auto workers = static_cast<double>(links_.workers.size());
  const double away = links_.workers.front() > 0 ? workers : workers - 1;
  // In an elastic run an Allgather of all ranks replaces the answers to the workers.
  const double pulls = options_.elastic.ranks.empty() ? away : comm_.size() - 1.0;
  std::size_t push = 0;
  for (const std::vector<Piece>& pieces : keys_.pieces)
    for (const Piece& piece : pieces)
      push += up_ && !piece.state ? up_->bytes(piece.count) : piece.count * sizeof(float);
  return away * static_cast<double>(push) +
         pulls * static_cast<double>(keys_.count * sizeof(float));
}

void Ps::tell(TrainReport& report) {
  std::uint64_t length = reads_.size();
  comm_.allReduce(&length, &length, 1, DataType::uint64, ReduceOp::max);
  reads_.resize(length);
  comm_.allReduce(reads_.data(), reads_.data(), length, DataType::uint64, ReduceOp::sum);
  report.staleness = reads_;
  const Pulled own = server_ ? server_->pulled() : Pulled();
  std::array<std::uint64_t, 2> pulled{own.told, own.all};
  comm_.allReduce(pulled.data(), pulled.data(), pulled.size(), DataType::uint64, ReduceOp::sum);
  if (pulled[1] > 0)
    report.pulled = static_cast<double>(pulled[0]) / static_cast<double>(pulled[1]);
}

void check(const TrainOptions& options, int ranks) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, "train: " + what);
  };
  const Staleness staleness(options.servers.consistency); // throws for an unknown consistency
  makeCodec(options.gradients.hook); // throws for an unknown hook, or one that needs collectives
  const int most = mostServers(options, ranks);
  const int count = serversOf(options, ranks);
  if (count < 1 || (count > most && options.elastic.ranks.empty()))
    refuse("servers is " + std::to_string(options.servers.count) + ", must be 1 to " +
           std::to_string(most) + " of " + std::to_string(ranks) + " ranks" +
           (options.servers.dedicated ? ", because one rank must be a worker" : ""));
  if (!options.elastic.ranks.empty() && !staleness.bulk())
    refuse("elastic runs of strategy ps take consistency bsp only: with " +
           options.servers.consistency +
           " the ranks are not at the same step, so there is no consistent state to continue from");
  if (options.optimizer.name == "lars")
    refuse("strategy ps takes no optimizer lars, which needs whole weights: servers hold pieces");
  requireParts(options, std::int64_t{ranks - firstWorker(options, ranks)} * options.accumulate,
               "workers x accumulate");
}

} // namespace
} // namespace servers

namespace parallel {

extern const StrategyKind ps;
const StrategyKind ps{
    .name = "ps",
    .summary =
        "parameter servers hold the parameters; workers push gradients and pull values, "
        "synchronously or not",
    .check = servers::check,
    .make = [](const Setup& setup) -> std::unique_ptr<Strategy> {
      return std::make_unique<servers::Ps>(setup);
    },
    .sharded = true,
    .redundancy = 1,
};

} // namespace parallel
} // namespace rondo::training
