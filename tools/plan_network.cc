// Parses stragglers and links, and reads the profile.
#include "tools/plan_network.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "model/profile_file.h"
#include "rondo/error.h"
#include "tools/command_options.h"

namespace rondo::tools {

namespace {

/// Parses texts such as "3=0.5" and "3-4=2" word by word.
class ConditionText {
 public:
  ConditionText(const std::string& text, const char* form)
      : text_(text), form_(form), at_(text.data()), end_(text.data() + text.size()) {}

  int rank() { return next<int>(); }
  double number() {
    const auto value = next<double>();
    if (!std::isfinite(value)) fail();
    return value;
  }
  void expect(char c) {
    if (!take(c)) fail();
  }
  bool take(char c) {
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  void done() const {
    if (at_ != end_) fail();
  }

 private:
  template <typename Number>
  Number next() {
    Number value{};
    const auto [after, error] = std::from_chars(at_, end_, value);
    if (error != std::errc()) fail();
    at_ = after;
    return value;
  }
  [[noreturn]] void fail() const {
    throw Error(ErrorCode::invalid_argument, "'" + text_ + "' is not of the form " + form_);
  }

  const std::string& text_;
  const char* form_;
  const char *at_, *end_;
};

model::Conditions::Straggler stragglerOf(const std::string& text) {
  ConditionText words(text, "RANK=MICROSECONDS or RANK=xFACTOR");
  model::Conditions::Straggler one{.rank = words.rank()};
  words.expect('=');
  if (words.take('x')) one.factor = words.number();
  else one.delay = words.number() * 1e-6;
  words.done();
  return one;
}

model::Conditions::SlowLink slowLinkOf(const std::string& text) {
  ConditionText words(text, "FROM-TO=FACTOR");
  model::Conditions::SlowLink one{.src = words.rank()};
  words.expect('-');
  one.dst = words.rank();
  words.expect('=');
  one.factor = words.number();
  words.done();
  return one;
}

model::Conditions::SlowLink deadLinkOf(const std::string& text) {
  ConditionText words(text, "FROM-TO");
  model::Conditions::SlowLink one{.src = words.rank()};
  words.expect('-');
  one.dst = words.rank();
  words.done();
  one.factor = std::numeric_limits<double>::infinity();
  return one;
}

model::Profile idealOf(const std::string& text) {
  ConditionText words(text, "MICROSECONDS,GB/s");
  const double alpha = words.number();
  words.expect(',');
  const double speed = words.number();
  words.done();
  if (alpha < 0 || speed <= 0)
    throw Error(ErrorCode::invalid_argument,
                "'" + text + "': the latency must not be negative, and the speed must be above 0");
  return model::idealProfile(alpha * 1e-6, 1e-9 / speed);
}

model::Profile profileOf(const NetworkConfig& config) {
  if (!config.ideal.empty()) return idealOf(config.ideal);
  return config.profile.empty() ? model::defaultProfile() : model::readProfile(config.profile);
}

} // namespace

void addNetworkOptions(CLI::App& app, NetworkConfig& config) {
  auto* profile = app.add_option("--profile", config.profile,
                                 "Link profile, as `rondo tune` writes it. Default: `rondo "
                                 "plan` uses the one that jobs on this machine use (`rondo "
                                 "tune`), the other commands a built-in one")
                      ->type_name(kInputFile);
  app.add_option(
         "--ideal", config.ideal,
         "MICROSECONDS,GB/s: an ideal network in place of a profile, of this latency and speed: a "
         "message of n bytes takes alpha + n beta, and nothing else takes time")
      ->excludes(profile);
  app.add_option("--link", config.link,
                 "Kind of link between ranks of a node: inproc, shm (default), loopback, ucx, "
                 "network, nvlink, pcie");
  app.add_option("--between", config.between, "The same between nodes; default: network");
  app.add_option("--processors", config.processors,
                 "Processors of each node, which its ranks share; default: one for each rank")
      ->check(CLI::Range(1, 1 << 20));
}

void addLinkConditionOptions(CLI::App& app, NetworkConfig& config) {
  app.add_option("--slow-link", config.slow_links,
                 "FROM-TO=FACTOR: messages take FACTOR times as long");
  app.add_option("--dead-link", config.dead_links, "FROM-TO: messages never arrive");
}

void addConditionOptions(CLI::App& app, NetworkConfig& config) {
  app.add_option(
      "--straggler", config.stragglers,
      "RANK=MICROSECONDS: it begins this late; RANK=xFACTOR: its processor takes FACTOR times as "
      "long");
  addLinkConditionOptions(app, config);
}

std::string PlannedNetwork::text(const plan::Layout& layout) const {
  std::string text = "profile '" + profile.name + "', links " + std::string(name(inside));
  if (layout.nodes().size() > 1) text += ", between nodes " + std::string(name(between));
  if (processors > 0) text += ", " + std::to_string(processors) + " processors a node";
  return text;
}

PlannedNetwork plannedNetwork(const NetworkConfig& config) {
  PlannedNetwork planned{.profile = profileOf(config),
                         .between = model::LinkClass::network,
                         .processors = config.processors,
                         .conditions = {}};
  if (!config.link.empty()) planned.inside = model::parseLinkClass(config.link);
  if (!config.between.empty()) planned.between = model::parseLinkClass(config.between);
  for (const std::string& text : config.stragglers)
    planned.conditions.stragglers.push_back(stragglerOf(text));
  for (const std::string& text : config.slow_links)
    planned.conditions.slow_links.push_back(slowLinkOf(text));
  for (const std::string& text : config.dead_links)
    planned.conditions.slow_links.push_back(deadLinkOf(text));
  if (const std::string why = model::foreign(planned.profile); !why.empty())
    std::fprintf(stderr, "rondo: warning: %s; `rondo tune` makes one for this machine\n",
                 why.c_str());
  return planned;
}

} // namespace rondo::tools
