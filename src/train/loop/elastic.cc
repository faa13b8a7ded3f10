// Elastic training: between two changes of the ranks it is a run of the trainer, which begins with
// what the ranks hold.
#include "train/loop/elastic.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "train/loop/agreement.h"
#include "train/loop/stopwatch.h"
#include "train/loop/trainer.h"

namespace rondo::training {

namespace {

/// "2:4"
std::pair<int, int> limitsOf(const std::string& text) {
  std::pair<int, int> limits{0, 0};
  const char* end = text.data() + text.size();
  const auto least = std::from_chars(text.data(), end, limits.first);
  const bool colon = least.ec == std::errc() && least.ptr != end && *least.ptr == ':';
  const auto most = colon ? std::from_chars(least.ptr + 1, end, limits.second) : least;
  if (!colon || most.ec != std::errc() || most.ptr != end || limits.first < 1 ||
      limits.second < limits.first)
    throw Error(ErrorCode::invalid_argument,
                "train: elastic is \"" + text + "\", must be MIN:MAX with 1 <= MIN <= MAX");
  return limits;
}

/// Whether this rank has aborted the communicator.
bool isOf(const Communicator& comm, const Error& failure) {
  return failure.code() == ErrorCode::aborted && failure.culprit() == comm.rank();
}

} // namespace

std::optional<Error> failureOf(const Communicator& comm, const Error& error,
                               std::chrono::milliseconds wait) {
  using enum ErrorCode;
  const auto lost = {peer_dead, unresponsive, aborted, transport};
  if (std::find(lost.begin(), lost.end(), error.code()) == lost.end()) return std::nullopt;
  constexpr std::chrono::milliseconds kPause{2};
  const Clock::time_point limit = Clock::now() + wait;
  while (!comm.failure() && Clock::now() < limit) std::this_thread::sleep_for(kPause);
  return comm.failure();
}

void checkElastic(const TrainOptions& options, int ranks) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, "train: " + what);
  };
  if (options.elastic.ranks.empty()) return;
  const auto [least, most] = limitsOf(options.elastic.ranks);
  if (ranks > most)
    refuse("elastic is " + options.elastic.ranks + ", but there are " + std::to_string(ranks) +
           " ranks");
  const std::int64_t least_batch = std::int64_t{most} * options.accumulate;
  if (options.batch < least_batch)
    refuse("batch is " + std::to_string(options.batch) + ", must be at least " +
           std::to_string(least_batch) + ", for MAX of elastic");
  if (!options.stragglers.slow.empty() || options.gradients.noise_scale)
    refuse("elastic runs take no slow and no noise_scale");
  if (!options.sharding.mesh.empty())
    refuse("elastic runs take no mesh, which is for one number of ranks");
  const StrategyKind& kind = strategyFor(options, std::min(least, ranks));
  if (kind.sharded && redundancyOf(options, kind) == 0 && options.files.checkpoint.empty())
    refuse("elastic runs of strategy " + options.strategy +
           " need redundancy 1 or a checkpoint; otherwise the state of a rank that dies cannot be "
           "restored");
}

std::pair<int, int> rankLimits(const TrainOptions& options, int ranks) {
  if (options.elastic.ranks.empty()) return {ranks, ranks};
  return limitsOf(options.elastic.ranks);
}

int redundancyOf(const TrainOptions& options, const StrategyKind& kind) {
  if (!kind.sharded) return 0;
  return options.elastic.redundancy < 0 ? kind.redundancy : options.elastic.redundancy;
}

ElasticRanks::ElasticRanks(Communicator& comm, const TrainOptions& options)
    : comm_(comm), wait_(options.elastic.wait), rendezvous_file_(options.elastic.rendezvous_file) {
  std::tie(least_, most_) = limitsOf(options.elastic.ranks);
}

void ElasticRanks::open() {
  agree(comm_, [&]() -> std::string {
    if (comm_.rank() == 0) rendezvous_file_.publish();
    else rendezvous_file_.withdraw();
    return {};
  });
}

ElasticRanks::News ElasticRanks::ask(bool late, bool stopped) {
  News news{std::min(rendezvous_file_.waiting(), most_ - comm_.size()), late, stopped};
  comm_.broadcast(&news, &news, sizeof news, DataType::uint8, 0);
  newcomers_ = news.newcomers;
  return news;
}

bool ElasticRanks::mayGrow() { return comm_.size() < most_ && ask().newcomers > 0; }

ElasticRanks::Awaited ElasticRanks::await(const std::function<bool()>& stop) {
  constexpr std::chrono::milliseconds kPause{20};
  const Stopwatch since;
  for (;; std::this_thread::sleep_for(kPause)) {
    const News news = ask(since.read() / 1000 >= wait_, stop && stop());
    if (news.stopped != 0) return Awaited::stopped;
    if (comm_.size() + news.newcomers >= least_) return Awaited::enough;
    if (news.late != 0) return Awaited::late;
  }
}

void ElasticRanks::grow() {
  try {
    Communicator next =
        comm_.rank() == 0 ? comm_.grow(newcomers_, *rendezvous_file_.id()) : comm_.grow(newcomers_);
    comm_ = std::move(next);
  } catch (const Error& error) {
    if (const auto failure = comm_.failure()) shrink({error, isOf(comm_, *failure)});
  }
}

ElasticRanks::Loss ElasticRanks::hear(const Error& cause, bool prepares) {
  if (const auto failure = failureOf(comm_, cause)) return {cause, isOf(comm_, *failure)};
  const bool of_one = prepares && !comm_.failure() && cause.culprit() >= 0;
  return {cause, !of_one || cause.culprit() == comm_.rank()};
}

void ElasticRanks::shrink(const Loss& loss) {
  if (loss.leaves) throw Error(loss.cause);
  const int before = comm_.size();
  Communicator next = comm_.shrink();
  comm_ = std::move(next);
  if (comm_.size() == before) throw Error(loss.cause);
}

TrainReport trainElastic(Communicator& comm, const TrainOptions& options, const Data& data,
                         const std::function<void(const TrainProgress&)>& progress,
                         const std::function<void()>& prepare) {
  ElasticRanks elastic(comm, options);
  Held held;
  for (bool first = true;; first = false) {
    std::optional<ElasticRanks::Loss> lost;
    {
      std::unique_ptr<Strategy> strategy;
      std::optional<Trainer> trainer;
      try {
        if (!first || options.elastic.joined) prepare();
        strategy = strategyFor(options, comm.size()).make({comm, options, data});
        trainer.emplace(comm, options, data, *strategy, progress, &elastic);
        elastic.open();
        TrainReport report = trainer->run(held);
        if (!trainer->paused()) return report;
      } catch (const Error& error) {
        lost = elastic.hear(error, !trainer);
      }
      if (trainer && trainer->begun()) held = trainer->hold(lost.has_value());
    }
    if (lost) elastic.shrink(*lost);
    else elastic.grow();
  }
}

} // namespace rondo::training
