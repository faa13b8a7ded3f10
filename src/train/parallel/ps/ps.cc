// Parameter servers: the first K ranks hold a range of the parameters each, and the optimizer's
// state of it; workers push gradients to them and pull values.
//
//   sent                          when
//   gradients, worker to servers  each piece (1 MiB) as soon as the backward pass has written it,
//                                 or what --hook makes of it
//   loss, stop flag, to servers   before the pieces of a push
//   values, server to worker      each piece as soon as they are new enough; where pushes leave
//                                 keys out (topk), those only that have changed since the last ones
//   what may come next, to worker behind the values, from each server
//   all values, to all ranks      at meetings (Allgather of the servers' ranges)
//
// With M bytes of values W workers send and get 2 W M bytes in a step. Where servers are workers
// too, each range stays on its rank once, which leaves 2 (W-1) M, as many as a ring all-reduce
// sends; one server alone sends and gets 2 (W-1) M of them, K servers 1/K each. A hook takes M/2
// (fp16, bf16) or 2 D M (topk:D) in place of M on the way up. On the way down M is the most: with
// topk and an optimizer that moves no key without a gradient (sgd, --momentum 0) W D of the keys or
// fewer have changed, and travel with a bit for each key there is; TrainReport::pulled counts them.
//
// All pieces of a push are on their way at once, and so are those of its answer. But of an answer
// that leaves keys out each server has one at a time, as its length has to be told first; and with
// BSP and whole answers a server takes two pieces of each worker at a time, which stay in its
// caches.
//
// How new is new enough is one bound s, between the steps of a worker and of the slowest one
// (clocks.h). s = 0 is BSP: every push of a step is in the values before anybody reads them, added
// in the order of workers, so that a run is bit for bit one of `ddp` in deterministic mode. With
// s > 0 (SSP) or none (ASP) each push moves the values as it comes. Between meetings ASP's workers
// share out the steps as they have time; with a bound all do the same number.
//
// Li et al., Scaling Distributed Machine Learning with the Parameter Server, 2014; Ho et al., More
// Effective Distributed ML via a Stale Synchronous Parallel Parameter Server, 2013; PS, BSP, SSP
// and ASP of the lectures.
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

int firstWorker(const TrainOptions& options) {
  return options.dedicated_servers ? options.servers : 0;
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
  double bytesPerStep() const override;
  void tell(TrainReport& report) override;

 private:
  void open(const Position& done, std::int64_t meeting);
  bool work(StepResult& result, StepClock& clock);
  bool serve(StepResult& result);
  void serveToTheEnd();
  void meet(StepResult& result);
  void gatherValues();
  void countRead(std::int64_t behind);
  double rate(std::int64_t step) const {
    return rateAt(schedule_, static_cast<std::uint64_t>(step));
  }
  /// The position so many steps behind the last meeting.
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
  const std::unique_ptr<GradientCodec> up_, down_; ///< a worker's and a server's; null: none
  AlignedVector<float> kept_; ///< by the worker's, in the layout of the keys; empty: it keeps none
  std::optional<OwnArrays> all_kept_; ///< of the last snapshot
  std::deque<PieceServer> pieces_;    ///< of this rank's range; empty: it is no server
  ServerState state_;
  std::optional<Server> server_;
  std::optional<Worker> worker_;
  std::thread serving_;      ///< where this rank is a worker too
  std::exception_ptr fault_; ///< of that thread

  bool open_ = false;                ///< between two meetings
  Position begin_;                   ///< the last meeting
  std::int64_t steps_ = 0;           ///< from it to the next one
  std::int64_t own_ = 0;             ///< steps of this worker since
  std::int64_t oldest_ = 0;          ///< steps of every worker since, that its values hold
  Grant grant_;                      ///< for its next one
  std::vector<std::uint64_t> reads_; ///< by how many steps they were behind
};

Keys keysOf(const Setup& setup, Replica& replica) {
  return layOut(replica.values(), replica.weights(), replica.state(), setup.options.servers,
                kPieceKeys);
}

Ps::Ps(const Setup& setup)
    : comm_(setup.comm),
      options_(setup.options),
      staleness_(options_.consistency),
      schedule_(schedule(options_, totalSteps(options_, setup.data))),
      epoch_steps_(epochSteps(options_, setup.data)),
      model_(setup),
      replica_(model_.replica()),
      links_(link(comm_, firstWorker(options_))),
      keys_(keysOf(setup, replica_)),
      up_(makeCodec(options_.hook)),
      down_(makeCodec(options_.hook)),
      kept_(up_ && up_->sparse() ? keys_.count : 0),
      state_(comm_, keys_, replica_, pieces_) {
  const int workers = static_cast<int>(links_.workers.size());
  const Application how{.workers = workers,
                        .in_order = staleness_.bulk(),
                        .parts = workers * options_.accumulate,
                        .scale = 1.0F / static_cast<float>(options_.batch),
                        .sparse = !kept_.empty()};
  if (comm_.rank() < options_.servers) {
    for (const Piece& piece : keys_.pieces[static_cast<std::size_t>(comm_.rank())])
      pieces_.emplace_back(piece, replica_.values(), replica_.weights(), options_.optimizer,
                           optimizerSettings(options_), how);
    server_.emplace(links_, pieces_,
                    ServerPlan{.staleness = staleness_,
                               .rate = [this](std::int64_t step) { return rate(step); },
                               .batch = options_.batch,
                               .codec = down_.get()});
  }
  if (const int number = comm_.rank() - firstWorker(options_); number >= 0)
    worker_.emplace(setup, replica_, links_, keys_, number, up_.get(), kept_);
}

/// Whoever leaves by an exception, between two meetings or at one, has peers that count on it. A
/// server's thread ends where its links do.
Ps::~Ps() {
  if (open_ || std::uncaught_exceptions() > 0) {
    links_.up.abort("train: a rank left the run by an exception");
    links_.down.abort("train: a rank left the run by an exception");
  }
  if (serving_.joinable()) serving_.join();
}

StepResult Ps::run(const Position& done, std::int64_t meeting, Timeline* timeline) {
  StepResult result;
  const Stopwatch whole;
  StepClock clock(result.times, timeline);
  if (!open_) open(done, meeting);
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
  grant_ = grants.first();
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

/// A worker's step. True: nothing more before the meeting.
bool Ps::work(StepResult& result, StepClock& clock) {
  countRead(own_ - oldest_);
  worker_->push(ahead(own_), grant_.last ? Request::last : Request::push, clock);
  ++own_;
  if (grant_.last) return true;
  const Notice notice = worker_->pull();
  oldest_ = notice.oldest;
  grant_ = {notice.go != 0, notice.last != 0};
  result.at = begin_;
  result.at.step += static_cast<int>(notice.steps);
  result.at.total += notice.steps;
  result.at.losses = notice.losses;
  result.loss = notice.loss;
  if (grant_.go) return false;
  worker_->end();
  return true;
}

/// Until all workers have ended, which may be behind the last step: who is bound to nobody asks
/// then whether there is another one.
void Ps::serveToTheEnd() {
  while (!server_->ended()) server_->serve(steps_ + 1);
}

/// A step of the run, as a server sees it that is no worker.
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

/// What the first server says of all steps since the last meeting.
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

/// Every replica gets what the servers hold.
void Ps::gatherValues() {
  float* const values = replica_.values().data();
  for (PieceServer& piece : pieces_)
    std::copy(piece.values().begin(), piece.values().end(), values + piece.piece().begin);
  state_.allGather(values);
  replica_.network().weightsChanged();
}

void Ps::countRead(std::int64_t behind) {
  const auto place = static_cast<std::size_t>(behind);
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
  const double away = options_.dedicated_servers ? workers : workers - 1;
  std::size_t push = 0;
  for (const std::vector<Piece>& pieces : keys_.pieces)
    for (const Piece& piece : pieces)
      push += up_ && !piece.state ? up_->bytes(piece.count) : piece.count * sizeof(float);
  return away * static_cast<double>(push + keys_.count * sizeof(float));
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
  const Staleness staleness(options.consistency); // throws for what is none
  makeCodec(options.hook);                        // for what needs collectives, too
  const int most = ranks - (options.dedicated_servers ? 1 : 0);
  if (options.servers < 1 || options.servers > most)
    refuse("servers is " + std::to_string(options.servers) + ", must be 1 to " +
           std::to_string(most) + " of " + std::to_string(ranks) + " ranks" +
           (options.dedicated_servers ? ", one of which has to work" : ""));
  if (options.optimizer == "lars")
    refuse("strategy ps takes no optimizer lars: it needs whole weights, and servers hold pieces");
  requireParts(options, std::int64_t{ranks - firstWorker(options)} * options.accumulate,
               "workers x accumulate");
}

} // namespace
} // namespace servers

namespace parallel {

extern const StrategyKind ps;
const StrategyKind ps{
    .name = "ps",
    .summary =
        "parameter servers hold the parameters; workers push gradients and pull values, in "
        "step or not",
    .takes = {"accumulate", "servers", "dedicated_servers", "consistency", "hook"},
    .check = servers::check,
    .make = [](const Setup& setup) -> std::unique_ptr<Strategy> {
      return std::make_unique<servers::Ps>(setup);
    },
};

} // namespace parallel
} // namespace rondo::training
