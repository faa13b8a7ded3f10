// Checks options locally, and compares them between ranks as texts.
#include "gradients/options.h"

#include <string>

#include "gradients/differences.h"

namespace rondo::gradients {

void checkOptions(const GradientOptions& options, std::span<Communicator* const> communicators) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::invalid_argument, "GradientReducer: " + what);
  };
  if (communicators.empty()) refuse("the list of communicators is empty");
  for (const Communicator* one : communicators)
    if (one->size() != communicators.front()->size() ||
        one->rank() != communicators.front()->rank())
      refuse("the communicators are not of the same ranks");
  if (options.bucket_bytes.empty()) refuse("bucket_bytes is empty");
  if (options.static_graph && options.uneven_inputs)
    refuse(
        "static_graph and uneven_inputs exclude each other: a rank without a step has no graph "
        "that is like the first step's");
}

void checkHook(const GradientOptions& options, std::span<const Parameter> parameters) {
  if (!options.hook) return;
  for (const Parameter& one : parameters)
    if (!options.hook->supports(one.type))
      throw Error(ErrorCode::unsupported, "the gradient hook " + options.hook->name() +
                                              " does not take " + std::string(name(one.type)) +
                                              ", the type of " + one.name);
}

void compareOptions(const GradientOptions& options, std::span<Communicator* const> communicators) {
  std::string caps;
  for (std::size_t cap : options.bucket_bytes)
    caps += (caps.empty() ? "" : ", ") + std::to_string(cap);
  const auto flag = [](const std::string& name, bool value) {
    return name + (value ? " true" : " false");
  };
  const std::string texts[] = {
      "communicators " + std::to_string(communicators.size()),
      "bucket_bytes [" + caps + "]",
      flag("average", options.average),
      flag("follow_observed_order", options.follow_observed_order),
      flag("find_unused", options.find_unused),
      flag("static_graph", options.static_graph),
      flag("uneven_inputs", options.uneven_inputs),
      "hook " + (options.hook ? options.hook->name() : "none"),
  };
  if (const auto difference = firstDifference(*communicators.front(), texts))
    throw Error(ErrorCode::mismatch, "ranks reduce gradients differently: " + difference->text(),
                difference->culprit);
}

} // namespace rondo::gradients
