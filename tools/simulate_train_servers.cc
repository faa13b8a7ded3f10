// Runs workers and servers as discrete events.
#include "tools/simulate_train_servers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <tuple>

#include "model/shared_processor.h"
#include "train/loop/straggler.h"
#include "train/parallel/ps/clocks.h"

namespace rondo::tools {

namespace {

constexpr double kPiece = 1 << 20; ///< bytes

/// A piece of the gradients. The backward pass writes it `before_end` seconds before the end of the
/// pass, and the last piece at the end.
struct Piece {
  double bytes = 0, before_end = 0;
};

std::vector<Piece> piecesOf(const StepModel& model) {
  std::vector<Piece> pieces;
  double bytes = 0, before_end = model.backward();
  for (std::size_t i = model.layers.size(); i-- > 0;) {
    const StepLayer& layer = model.layers[i];
    before_end -= layer.backward;
    for (const std::size_t count : layer.weights) bytes += 4.0 * static_cast<double>(count);
    if (bytes < kPiece && i > 0) continue;
    if (bytes > 0) pieces.push_back({bytes, i > 0 ? before_end : 0});
    bytes = 0;
  }
  return pieces;
}

class Servers {
 public:
  explicit Servers(const StepQuestion& question)
      : question_(question),
        servers_(question.options.servers.count),
        first_(question.options.servers.dedicated ? servers_ : 0),
        workers_(static_cast<std::size_t>(question.ranks - first_)),
        staleness_(question.options.servers.consistency),
        grants_(question.ranks - first_, staleness_),
        pieces_(piecesOf(question.model)) {
    done_[0] = workers_.size();
    const StepModel& model = question.model;
    const double micro = question.options.accumulate;
    times_ = {.data = model.data * 1e3,
              .forward = micro * model.forward() * 1e3,
              .backward = micro * model.backward() * 1e3,
              .optimizer = model.optimizer * 1e3};
    passes_ = model.data + micro * (model.forward() + model.backward());
    for (std::size_t w = 0; w < workers_.size(); ++w) {
      const int rank = static_cast<int>(w) + first_;
      workers_[w].straggler.emplace(question.options, rank);
      // A server that is a worker keeps its own part.
      if (rank < servers_) workers_[w].sent = 1 - 1.0 / servers_;
    }
  }

  ServedSteps run() {
    grants_.begin(question_.steps);
    for (std::size_t w = 0; w < workers_.size(); ++w) compute(w, 0);
    while (!events_.empty()) {
      const auto [time, number, worker, kind] = events_.top();
      events_.pop();
      result_.seconds = std::max(result_.seconds, time);
      if (kind == kPushed) pushed(worker, time);
      else if (kind == kPulled) pulled(worker, time);
      else if (kind == kBegins) beginPasses(worker, time);
      else if (kind == kProcessor) endPart(static_cast<int>(worker), time);
      else sendPiece(worker, kind, time);
    }
    double steps = 0;
    for (const Worker& worker : workers_) steps += static_cast<double>(worker.steps);
    result_.steps = steps / static_cast<double>(workers_.size());
    result_.computed = result_.steps * passes_;
    return std::move(result_);
  }

 private:
  /// Kinds of events: these, or the number of a piece that the backward pass has written. kBegins:
  /// the passes on a shared processor begin. kProcessor: the next part of some passes may have
  /// ended on a processor; the event's worker field holds the processor.
  static constexpr int kPushed = -1, kPulled = -2, kBegins = -3, kProcessor = -4;
  using Event = std::tuple<double, std::uint64_t, std::size_t, int>;

  struct Worker {
    std::optional<training::Straggler> straggler = {};
    double sent = 1;         ///< share of the model that it sends
    double out = 0, in = 0;  ///< its NIC is busy until then
    std::int64_t steps = 0;  ///< pushes that have arrived
    double waits_since = -1; ///< negative: it does not wait for values
    double begun = 0;        ///< when its passes began, if it shares a processor
    std::size_t piece = 0;   ///< which it computes, if so
  };

  /// Seconds of a message from or to a worker, as a mean over the servers other than itself.
  double message(std::size_t w, bool up, double bytes) const {
    const int rank = static_cast<int>(w) + first_;
    double sum = 0, others = 0;
    for (int server = 0; server < servers_; ++server) {
      if (server == rank) continue;
      sum += up ? question_.message(rank, server, bytes) : question_.message(server, rank, bytes);
      ++others;
    }
    return others > 0 ? sum / others : 0;
  }
  void add(double time, std::size_t worker, int kind) {
    events_.emplace(time, count_++, worker, kind);
  }
  void note(std::size_t worker, const char* what, double begin, double end) {
    if (end > begin) result_.spans.push_back({static_cast<int>(worker) + first_, what, begin, end});
  }

  void compute(std::size_t w, double now) {
    const double begin = now + workers_[w].straggler->next(times_) * 1e-3;
    note(w, "straggler", now, begin);
    if (!question_.processors.empty()) return add(begin, w, kBegins);
    const double end = begin + passes_;
    note(w, "passes", begin, end);
    for (std::size_t piece = 0; piece < pieces_.size(); ++piece)
      add(end - pieces_[piece].before_end, w, static_cast<int>(piece));
  }

  int processorOf(std::size_t w) const {
    return question_.processors[w + static_cast<std::size_t>(first_)];
  }
  /// Adds an event for the end of the part that ends next on the processor.
  void expect(int processor) {
    if (const model::SharedProcessor& shared = processors_[processor]; !shared.idle())
      add(shared.next(), static_cast<std::size_t>(processor), kProcessor);
  }
  void beginPart(std::size_t w, double now, double seconds) {
    processors_[processorOf(w)].add(now, static_cast<std::uint32_t>(w), seconds);
    expect(processorOf(w));
  }
  void beginPasses(std::size_t w, double now) {
    workers_[w].begun = now;
    workers_[w].piece = 0;
    if (!pieces_.empty()) beginPart(w, now, passes_ - pieces_[0].before_end);
  }
  /// Ends the part of the passes up to the next piece, unless another part has begun on the
  /// processor since this event was added.
  void endPart(int processor, double now) {
    model::SharedProcessor& shared = processors_[processor];
    if (shared.idle() || now != shared.next()) return;
    const std::size_t w = shared.pop(now);
    Worker& worker = workers_[w];
    const std::size_t piece = worker.piece++;
    if (worker.piece < pieces_.size())
      beginPart(w, now, pieces_[piece].before_end - pieces_[worker.piece].before_end);
    else expect(processor);
    if (worker.piece == pieces_.size()) note(w, "passes", worker.begun, now);
    sendPiece(w, static_cast<int>(piece), now);
  }

  /// Moves bytes through the NIC of a worker and that of the servers; returns the time at which
  /// they arrive. `up`: to the servers.
  double move(std::size_t w, bool up, double bytes, double now) {
    Worker& worker = workers_[w];
    double& own = up ? worker.out : worker.in;
    double& shared = up ? in_ : out_;
    const double latency = message(w, up, 4);
    const double alone = std::max(message(w, up, bytes * worker.sent) - latency, 0.0);
    const double together = alone / servers_;
    own = std::max(own, now) + alone;
    shared = std::max(shared, now) + together;
    result_.communicated += together;
    return std::max(own, shared) + latency;
  }

  void sendPiece(std::size_t w, int piece, double now) {
    const double begin = std::max(workers_[w].out, now);
    const double end = move(w, true, pieces_[static_cast<std::size_t>(piece)].bytes, now);
    note(w, "push", begin, end);
    if (static_cast<std::size_t>(piece) + 1 == pieces_.size()) add(end, w, kPushed);
  }

  void pushed(std::size_t w, double now) {
    const std::int64_t before = workers_[w].steps++;
    workers_[w].waits_since = now;
    ++done_[before + 1];
    if (--done_[before] == 0) done_.erase(before);
    const std::int64_t oldest = done_.begin()->first, newest = done_.rbegin()->first;
    result_.most_apart = std::max(result_.most_apart, newest - oldest);
    if (oldest <= before) return pull(w, oldest, now); // the others wait on
    for (std::size_t other = 0; other < workers_.size(); ++other) pull(other, oldest, now);
  }

  /// Begins a worker's pull, if it waits for values and these are new enough.
  void pull(std::size_t w, std::int64_t oldest, double now) {
    Worker& one = workers_[w];
    if (one.waits_since < 0 || !staleness_.allows(one.steps, oldest)) return;
    note(w, "wait", one.waits_since, now);
    one.waits_since = -1;
    const double updated = now + question_.model.optimizer / servers_;
    const double end =
        move(w, false, 4.0 * static_cast<double>(question_.model.weights()), updated);
    note(w, "pull", updated, end);
    add(end, w, kPulled);
  }

  void pulled(std::size_t w, double now) {
    if (grants_.next(static_cast<int>(w)).go) compute(w, now);
  }

  const StepQuestion& question_;
  const int servers_, first_; ///< first_: the rank of the first worker
  std::vector<Worker> workers_;
  std::map<std::int64_t, std::size_t> done_; ///< how many workers have done so many steps
  const training::servers::Staleness staleness_;
  training::servers::Grants grants_;
  const std::vector<Piece> pieces_;
  double passes_ = 0;
  TrainTimes times_;
  double in_ = 0, out_ = 0; ///< the servers' NIC is busy until then
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t count_ = 0;
  std::map<int, model::SharedProcessor> processors_; ///< if ranks share processors
  ServedSteps result_;
};

} // namespace

ServedSteps servedSteps(const StepQuestion& question) { return Servers(question).run(); }

} // namespace rondo::tools
