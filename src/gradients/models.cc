// Compares the ranks' lists of parameters as texts, and broadcasts values.
#include "gradients/models.h"

#include <set>
#include <string>
#include <vector>

#include "gradients/differences.h"

namespace rondo {

std::size_t Parameter::count() const {
  std::size_t elements = 1;
  for (std::size_t extent : shape) elements *= extent;
  return elements;
}

namespace gradients {
namespace {

/// For example "conv1.weight float [32, 1, 3, 3]". The text tells whether the value is null, so
/// that all ranks see that one has a null value and fail, and none waits for it.
std::string describe(const Parameter& parameter) {
  std::string text = parameter.name + " " + std::string(name(parameter.type)) + " [";
  for (std::size_t extent : parameter.shape)
    text += (text.back() == '[' ? "" : ", ") + std::to_string(extent);
  text += "]";
  if (parameter.count() > 0 && !parameter.value) text += " with a null pointer as its value";
  return text;
}

} // namespace

void checkParameters(std::span<const Parameter> parameters) {
  std::set<std::string> names;
  for (const Parameter& one : parameters) {
    const auto refuse = [&one](const std::string& why) {
      throw Error(ErrorCode::invalid_argument, "parameter \"" + one.name + "\" " + why);
    };
    if (one.name.empty()) refuse("has no name");
    if (!names.insert(one.name).second) refuse("is in the list twice");
    if (!isFloat(one.type))
      refuse("is of type " + std::string(name(one.type)) + "; it must be a floating-point type");
    if (one.count() > 0 && !one.value) refuse("has a null pointer as its value");
  }
}

void refuseInGroup(const std::string& function) {
  if (Group::isOpen())
    throw Error(
        ErrorCode::invalid_argument,
        function + ": this thread has an open Group, which only records calls: end it first");
}

void compareModels(Communicator& comm, std::span<const Parameter> parameters) {
  std::vector<std::string> texts;
  for (const Parameter& one : parameters) texts.push_back(describe(one));
  if (const auto difference = firstDifference(comm, texts))
    throw Error(ErrorCode::mismatch,
                "ranks hold different models: parameter " + std::to_string(difference->number) +
                    " is " + difference->text(),
                difference->culprit);
}

} // namespace gradients

void broadcastParameters(Communicator& comm, std::span<const Parameter> parameters, int root) {
  gradients::refuseInGroup("broadcastParameters");
  gradients::compareModels(comm, parameters);
  Group group;
  try {
    for (const Parameter& one : parameters)
      comm.broadcast(one.value, one.value, one.count(), one.type, root);
  } catch (...) {
    group.drop();
    throw;
  }
  group.end();
}

} // namespace rondo
