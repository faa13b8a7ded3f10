// Tests that a row of the table of options is all that an option needs: help, command line, JSON
// report and the comparisons of ranks and of checkpoints contain each row.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "support/data_files.h"
#include "support/runs.h"
#include "support/test.h"
#include "tests/tools/shell.h"
#include "tools/train_cli.h"
#include "train/loop/agreement.h"
#include "train/loop/settings.h"

namespace rondo::test {

namespace {

using nlohmann::json;
using tools::TrainConfig;

std::string firstFlag(const TrainOption& option) {
  return std::string(option.flag.substr(0, option.flag.find(',')));
}

const TrainOption& row(std::string_view name) {
  for (const TrainOption& option : trainOptionTable())
    if (option.name == name) return option;
  throw std::runtime_error("no option " + std::string(name));
}

/// A value other than the default, as it is typed; "": the flag has no value.
struct Other {
  const TrainOption& option;
  std::string operator()(bool) const { return ""; }
  std::string operator()(double) const { return "0.25"; }
  std::string operator()(const std::vector<std::size_t>&) const { return "7"; }
  std::string operator()(const std::vector<TrainSlowRank>&) const { return "1:2"; }
  std::string operator()(const TrainJitter&) const { return "0.5:2"; }
  std::string operator()(int usual) const {
    const bool limited = option.typed != TrainRange();
    return std::to_string(std::max(usual + 1, limited ? static_cast<int>(option.typed.least) : 0));
  }
  std::string operator()(std::int64_t usual) const { return std::to_string(usual + 1); }
  /// Bytes, or samples that are enough for a batch of smallRun().
  std::string operator()(std::uint64_t usual) const { return std::to_string(usual + 40); }
  std::string operator()(const std::string& usual) const {
    if (option.unit == TrainUnit::source) return "synthetic:shape=1x8x8,train=130,test=301";
    if (option.name == "consistency") return "asp";
    if (option.name == "elastic") return "1:4";
    if (option.name == "mesh") return "data=2";
    if (option.choices != nullptr)
      for (const TrainChoice& one : option.choices())
        if (one.name != usual && one.name.find(':') == std::string::npos) return one.name;
    return "/dev/null";
  }
};

std::string otherValue(const TrainOption& option) {
  return option.read(TrainOptions(), Other{option});
}

TrainConfig parsed(const std::string& line) {
  TrainConfig config;
  parseTrain(line, config);
  return config;
}

/// The flag with a value, after the flag that it needs, with a file or the largest number.
std::string line(const TrainOption& option, const std::string& value,
                 const std::string& file = "/dev/null") {
  std::string needed;
  if (!option.needs.empty()) {
    const TrainOption& other = row(option.needs);
    const bool limited = other.typed != TrainRange();
    needed = firstFlag(other) + " " +
             (limited                   ? std::to_string(static_cast<int>(other.typed.most))
              : other.name == "elastic" ? "1:4"
                                        : file);
  }
  return needed + " " + firstFlag(option) + " " + value;
}

TrainConfig parsed(const TrainOption& option, const std::string& value) {
  return parsed(line(option, value));
}

json jsonOf(const TrainConfig& config) {
  return json::parse(trainJsonText(config, {}, 1)).at("options");
}

/// A value of the JSON report as it is typed.
std::string typed(const json& value, const std::string& separator = ",") {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return "";
  if (!value.is_array()) return value.dump();
  std::string all;
  for (const json& one : value) all += (all.empty() ? "" : separator) + typed(one, ":");
  return all;
}

bool isRefused(const TrainOption& option, const std::string& value) {
  try {
    parsed(option, value);
    return false;
  } catch (const Error& error) {
    INFO(option.name << ": " << error.what());
    CHECK(error.code() == ErrorCode::invalid_argument);
    CHECK(contains(error.what(), "not in range"));
    return true;
  }
}

/// Initializes any member of an aggregate.
struct Anything {
  template <class T>
  operator T() const;
};

/// The number of members of an aggregate.
template <class Aggregate, class... Initializers>
consteval std::size_t members() {
  if constexpr (requires { Aggregate{Initializers{}..., Anything{}}; })
    return members<Aggregate, Initializers..., Anything>();
  else return sizeof...(Initializers);
}

/// The number of members of structs that are members themselves.
template <class... Groups>
consteval std::size_t membersOf() {
  return (members<Groups>() + ...) - sizeof...(Groups);
}

} // namespace

TEST_CASE("each member of TrainOptions has a row, except stop, elastic.joined and waiting") {
  using T = TrainOptions;
  constexpr std::size_t all =
      members<T>() + membersOf<T::Folds, T::Servers, T::Averaging, T::Stragglers, T::Optimizer,
                               T::Gradients, T::Sharding, T::Pipeline, T::Files, T::Elastic>();
  CHECK(all == trainOptionTable().size() + 3);
}

TEST_CASE("the help shows each row of the table of options") {
  const std::string help = shell("$RONDO train --help").out;
  for (const TrainOption& option : trainOptionTable()) {
    INFO(option.name);
    CHECK(contains(help, "\n  " + std::string(option.flag)));
    CHECK(contains(help, std::string(option.help.substr(0, option.help.find("{}")))));
    if (!option.group.empty()) CHECK(contains(help, "\n" + std::string(option.group) + ":\n"));
    if (option.choices != nullptr && contains(std::string(option.help), "{}"))
      for (const TrainChoice& one : option.choices()) CHECK(contains(help, one.name + " ("));
  }
}

TEST_CASE("the flag of a row sets its member and no other, and JSON brings the value back") {
  for (const TrainOption& option : trainOptionTable()) {
    const std::string value = otherValue(option);
    INFO(option.name << " " << value);
    const TrainConfig config = parsed(option, value);
    CHECK(option.isSet(config.options));
    if (!value.empty()) CHECK(option.texts(config.options) == std::vector{value});
    for (const TrainOption& other : trainOptionTable()) {
      if (other.name == option.name || other.name == option.needs) continue;
      INFO(other.name);
      CHECK(!other.isSet(config.options));
    }
    const json report = jsonOf(config);
    REQUIRE(report.contains(std::string(option.name)) == option.in_json);
    if (!option.in_json) continue;
    const json& shown = report.at(std::string(option.name));
    CHECK(shown != jsonOf({}).at(std::string(option.name)));
    const std::string separator = option.name == "jitter" ? ":" : ",";
    CHECK(jsonOf(parsed(option, typed(shown, separator))) == report);
  }
}

TEST_CASE("a flag takes the limits of its row, and nothing beyond") {
  int limits = 0;
  for (const TrainOption& option : trainOptionTable()) {
    const TrainRange range = option.typed == TrainRange() ? option.range : option.typed;
    if (range == TrainRange()) continue;
    const bool is_real = option.read(TrainOptions(), [](const auto& value) {
      return std::is_floating_point_v<std::remove_cvref_t<decltype(value)>>;
    });
    const auto text = [&](double value) {
      return is_real ? json(value).dump() : std::to_string(static_cast<std::int64_t>(value));
    };
    INFO(option.name << " " << text(range.least) << " to " << text(range.most));
    CHECK(!isRefused(option, text(range.least)));
    CHECK(!isRefused(option, text(range.most)));
    CHECK(isRefused(option, text(range.least - 1)));
    CHECK(isRefused(option, text(is_real ? range.most * 1.5 : range.most + 1)));
    ++limits;
  }
  CHECK(limits >= 22);
  CHECK(isRefused(row("base_batch"), "0"));
  CHECK(isRefused(row("checkpoint_every"), "0"));
}

TEST_CASE("the strategies of a row exist, and all others refuse the option by name") {
  const auto strategies = trainStrategies();
  for (const TrainOption& option : trainOptionTable()) {
    std::string takers;
    for (const TrainChoice& strategy : strategies)
      if (option.isFor(strategy.name)) takers += (takers.empty() ? "" : ", ") + strategy.name;
    if (!option.strategies.empty()) CHECK(takers == option.strategies);
    if (option.strategies.empty()) continue;
    const std::string value =
        option.restricted.empty() ? otherValue(option) : std::string(option.restricted);
    for (const TrainChoice& strategy : strategies) {
      if (option.isFor(strategy.name)) continue;
      TrainOptions options = parsed(option, value).options;
      options.strategy = strategy.name;
      std::string text;
      try {
        training::check(options, 2);
      } catch (const Error& error) {
        text = error.what();
      }
      INFO(option.name << ": " << text);
      CHECK(contains(text, "strategy " + strategy.name + " takes no "));
      // If the strategy does not take the option that this one needs either, that one is named.
      const bool neither = !option.needs.empty() && !row(option.needs).isFor(strategy.name);
      const TrainOption& told = neither ? row(option.needs) : option;
      CHECK(contains(text, std::string(told.name) + ", which is for: " +
                               std::string(told.strategies) + std::string(told.otherwise)));
    }
  }
}

TEST_CASE("a checkpoint names the rows that a resumed run must keep") {
  const training::Data data;
  const std::string usual = training::identity({}, data);
  for (const TrainOption& option : trainOptionTable()) {
    TrainOptions options = parsed(option, otherValue(option)).options;
    if (option.kept != nullptr && !option.kept_name.empty()) options.gradients.hook = "bf16";
    INFO(option.name);
    const std::string name(option.kept_name.empty() ? option.name : option.kept_name);
    CHECK((training::identity(options, data) != usual) == (option.kept != nullptr));
    if (option.kept != nullptr)
      CHECK(contains("\n" + training::identity(options, data),
                     "\n" + name + " " + option.texts(options).front() + "\n"));
  }
}

#ifdef RONDO_HAVE_DNNL

TEST_CASE("ranks that differ in a row are told its name") {
  TemporaryFolder folder;
  auto ranks = makeRanks(2);
  for (const TrainOption& option : trainOptionTable()) {
    if (!option.agreed) continue;
    TrainOptions usual = smallRun();
    if (!option.strategies.empty())
      usual.strategy = option.strategies.substr(0, option.strategies.find(','));
    const bool one_fold = option.name == "fold";
    if (one_fold || option.name == "folds") usual.folds = {.count = 3, .number = 2};
    else if (!option.needs.empty()) usual.files.checkpoint = folder.file("checkpoint");
    if (option.name == "scaling") usual.optimizer.base_batch = 40;
    if (option.name == "laps") usual.pipeline.order = "interleaved", usual.accumulate = 2;
    if (option.needs == "elastic") usual.elastic.ranks = "1:4"; // may need a checkpoint too
    const Thrown thrown = thrownByAll(ranks, [&](Communicator& comm) {
      TrainConfig config;
      config.options = usual;
      if (comm.rank() == 1)
        parseTrain(one_fold ? "--folds 3 --fold 1"
                            : line(option, otherValue(option), usual.files.checkpoint),
                   config);
      train(comm, config.options);
    });
    INFO(option.name << ": " << thrown.text);
    if (thrown.code == ErrorCode::unsupported) { // this machine has no GPU, or no AVX-512
      CHECK((option.name == "device" || option.name == "precision"));
      continue;
    }
    CHECK(thrown.code == ErrorCode::mismatch);
    CHECK(thrown.culprit == 1);
    const std::string name(option.presence.empty() ? option.name : option.presence);
    CHECK(contains(thrown.text, " has " + name + " "));
  }
}

#endif

} // namespace rondo::test
