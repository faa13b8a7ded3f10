// Prices collectives, runs the tasks of some steps, and takes the mean time of a step.
#include "tools/simulate_train_run.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "rondo/error.h"
#include "tools/bench/shape.h"
#include "tools/plan_names.h"
#include "tools/plan_text.h"
#include "train/loop/settings.h"

namespace rondo::tools {

namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(ErrorCode::invalid_argument, why); }

plan::Layout layoutOf(int ranks, int per_node) {
  if (per_node == 0 || ranks <= per_node) return {};
  if (ranks % per_node != 0)
    refuse(std::to_string(ranks) + " ranks do not fill nodes of " + std::to_string(per_node));
  return plan::parseLayout(std::to_string(ranks / per_node) + "x" + std::to_string(per_node),
                           ranks);
}

} // namespace

CallTimes::CallTimes(const PlannedNetwork& network, std::string algorithms, int ranks, int per_node)
    : network_(network),
      algorithms_(std::move(algorithms)),
      ranks_(ranks),
      per_node_(per_node),
      layout_(layoutOf(ranks, per_node)) {
  model::check(network.conditions, ranks);
}

double CallTimes::call(Collective collective, double bytes) {
  if (ranks_ == 1) return 0;
  const auto [entry, is_new] = calls_.try_emplace({collective, bytes}, 0);
  if (!is_new) return entry->second;
  const plan::Spec spec{.collective = collective, .ranks = ranks_, .layout = layout_};
  double best = std::numeric_limits<double>::infinity();
  std::string stuck;
  std::vector<std::string> names;
  if (algorithms_ == "all") names = algorithmsFor(collective, ranks_, text(layout_));
  else
    for (const std::string_view word : plan::choiceWords(algorithms_)) names.emplace_back(word);
  for (const std::string& word : names) {
    const plan::Choice choice = plan::parseChoice(word);
    if (!choice.algorithm->supports(choice.applied(spec))) continue;
    const model::Outcome outcome = outcomeOf(choice, collective, bytes);
    if (outcome.stuck.empty()) best = std::min(best, outcome.seconds);
    else stuck = outcome.stuck;
  }
  if (best == std::numeric_limits<double>::infinity()) {
    const std::string what = std::string(name(collective)) + " on " + std::to_string(ranks_) +
                             " ranks by " + algorithms_;
    calls_.erase(entry);
    refuse(stuck.empty() ? what + ": no such algorithm supports it"
                         : what + " never ends: " + stuck);
  }
  return entry->second = best;
}

model::Outcome CallTimes::outcomeOf(const plan::Choice& choice, Collective collective,
                                    double bytes) {
  const plan::Spec spec =
      choice.applied({.collective = collective, .ranks = ranks_, .layout = layout_});
  const model::Blocks blocks{.bytes =
                                 bytes / static_cast<double>(blocksOfSize(collective, ranks_))};
  const auto [entry, is_new] = plans_.try_emplace({collective, choice.text()});
  Plans& plans = entry->second;
  try {
    if (is_new)
      plans.simulation =
          std::make_unique<model::Simulation>(*choice.algorithm, spec, network_.network());
    if (plans.simulation) return plans.simulation->run(blocks);
  } catch (const model::TooLarge& error) {
    plans.too_large = error.what();
  }
  model::Outcome outcome;
  outcome.seconds = model::closedForm(*choice.algorithm, spec, blocks, network_.network());
  return outcome;
}

std::vector<std::string> CallTimes::formulas() const {
  std::vector<std::string> lines;
  for (const auto& [call, plans] : plans_)
    if (!plans.too_large.empty())
      lines.push_back(call.second + " for " + std::string(name(call.first)) + " on " +
                      std::to_string(ranks_) + " ranks is not simulated: " + plans.too_large +
                      ". Its time is from the formula of the algorithm");
  return lines;
}

double CallTimes::message(int from, int to, double bytes) {
  const bool between = per_node_ > 0 && from / per_node_ != to / per_node_;
  double factor = 1;
  for (const model::Conditions::SlowLink& slow : network_.conditions.slow_links)
    if (slow.src == from && slow.dst == to) factor *= slow.factor;
  if (std::isinf(factor))
    refuse("the link from rank " + std::to_string(from) + " to rank " + std::to_string(to) +
           " is dead, so a step never ends");
  const auto [entry, is_new] = messages_.try_emplace({between, factor, bytes}, 0);
  if (!is_new) return entry->second;
  PlannedNetwork alone = network_;
  alone.conditions = {.stragglers = {}, .slow_links = {{.src = 0, .dst = 1, .factor = factor}}};
  entry->second = model::simulate(*plan::findAlgorithm("tree"),
                                  {.collective = Collective::broadcast,
                                   .ranks = 2,
                                   .layout = between ? plan::parseLayout("2x1") : plan::Layout{}},
                                  {.bytes = bytes}, alone.network())
                      .seconds;
  return entry->second;
}

bool CallTimes::oneProcessor() const {
  const auto kind = layout_.groups.empty() ? network_.inside : network_.between;
  const auto& link = network_.profile.links[static_cast<std::size_t>(kind)];
  const int node = per_node_ > 0 ? std::min(per_node_, ranks_) : ranks_;
  return ranks_ > 1 && link && link->nic == model::Nic::none && network_.processors < 2 * node;
}

std::vector<int> CallTimes::sharedProcessors() const {
  const int node = per_node_ > 0 ? std::min(per_node_, ranks_) : ranks_;
  if (network_.processors == 0 || network_.processors >= node) return {};
  std::vector<int> processors;
  for (int rank = 0; rank < ranks_; ++rank)
    processors.push_back(rank / node * network_.processors + rank % node % network_.processors);
  return processors;
}

namespace {

/// Steps that show the mean of random ones, or of a steady state.
int stepsFor(const TrainOptions& options) {
  if (options.stragglers.jitter.probability > 0) return 60;
  return options.strategy == "ps" ? 20 : 4;
}

void readTasks(const SimulatedSteps& steps, StepRow& row) {
  const auto times = steps.graph.times();
  const auto endOf = [&](std::size_t step) {
    double end = 0;
    for (const std::uint32_t task : steps.ends[step]) end = std::max(end, times[task].end);
    return end;
  };
  const std::size_t last = steps.ends.size() - 1;
  const double from = last > 0 ? endOf(0) : 0;
  const double count = static_cast<double>(std::max<std::size_t>(last, 1)) * steps.steps_in_each;
  row.step = (endOf(last) - from) / count;
  std::vector<double> busy(steps.graph.resources().size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    const model::Task& task = steps.graph.tasks()[i];
    const model::Resource& resource = steps.graph.resources()[task.resources.front()];
    const bool counted = times[i].begin >= from || last == 0;
    if (counted) busy[task.resources.front()] += task.seconds;
    if (task.seconds > 0)
      row.spans.push_back({resource.owner, resource.name, task.name, times[i].begin, times[i].end,
                           task.communication ? task.bytes : -1});
    const double begin = last > 0 ? endOf(last - 1) : 0;
    if (task.communication && task.collective && times[i].end > begin)
      row.last_calls.push_back({resource.owner, resource.name, task.name, times[i].begin - begin,
                                times[i].end - begin, task.bytes});
  }
  for (std::size_t i = 0; i < busy.size(); ++i) {
    double& most = steps.graph.resources()[i].owner == "network" ? row.communication : row.passes;
    most = std::max(most, busy[i] / count);
  }
}

void readServers(const ServedSteps& served, StepRow& row) {
  row.step = served.seconds / served.steps;
  row.passes = served.computed / served.steps;
  row.communication = served.communicated / served.steps;
  row.most_apart = served.most_apart;
  for (const ServerSpan& span : served.spans)
    row.spans.push_back({"rank " + std::to_string(span.rank),
                         std::string_view(span.what) == "push"   ? "push"
                         : std::string_view(span.what) == "pull" ? "pull"
                                                                 : "passes",
                         span.what, span.begin, span.end, -1});
}

} // namespace

StepRow simulatedRow(const StepRun& run, CallTimes& times) {
  TrainOptions options = run.options;
  const int micro = options.accumulate, samples = static_cast<int>(run.model.samples);
  const bool pipeline = options.strategy == "pipeline", ps = options.strategy == "ps";
  const int servers = ps && options.servers.dedicated ? options.servers.count : 0;
  const int sharing = pipeline ? 1 : run.ranks - servers; // ranks that share a step's samples
  const double batch = static_cast<double>(samples) * micro * std::max(sharing, 1);
  if (batch > std::numeric_limits<int>::max())
    refuse(formatted("%.10g", batch) + " samples in a step of " + std::to_string(run.ranks) +
           " ranks are too many; at most " + std::to_string(std::numeric_limits<int>::max()) +
           ": choose fewer --samples");
  options.batch = static_cast<int>(batch);
  training::check(options, run.ranks);
  const StepQuestion question{
      .model = run.model,
      .options = options,
      .ranks = run.ranks,
      .steps = run.steps > 0 ? run.steps : stepsFor(options),
      .one_processor = times.oneProcessor(),
      .processors = times.sharedProcessors(),
      .call = [&](Collective collective, double bytes) { return times.call(collective, bytes); },
      .message = [&](int from, int to, double bytes) { return times.message(from, to, bytes); }};
  StepRow row{.ranks = run.ranks};
  if (ps) {
    readServers(servedSteps(question), row);
  } else {
    row.tasks = simulatedSteps(question);
    readTasks(row.tasks, row);
  }
  const double alone =
      run.model.data + run.model.optimizer + micro * (run.model.forward() + run.model.backward());
  row.formulas = times.formulas();
  row.samples_per_second = row.step > 0 ? options.batch / row.step : 0;
  row.efficiency = row.step > 0 ? alone * sharing / (row.step * run.ranks) : 1;
  return row;
}

} // namespace rondo::tools
