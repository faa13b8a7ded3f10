#include "gradients/models.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <set>

#include "rondo/detail/hash.h"

namespace rondo {

std::size_t Parameter::count() const {
  std::size_t elements = 1;
  for (std::size_t extent : shape) elements *= extent;
  return elements;
}

namespace gradients {
namespace {

/// "conv1.weight float [32, 1, 3, 3]"
std::string describe(const Parameter& parameter) {
  std::string text = parameter.name + " " + std::string(name(parameter.type)) + " [";
  for (std::size_t extent : parameter.shape)
    text += (text.back() == '[' ? "" : ", ") + std::to_string(extent);
  return text + "]";
}

std::uint64_t hashOf(const std::string& text) {
  return detail::fnv1a(std::as_bytes(std::span(text)));
}

/// Rank `owner`'s text, on all ranks.
std::string share(Communicator& comm, std::string text, int owner) {
  std::uint64_t size = text.size();
  comm.broadcast(&size, &size, 1, DataType::uint64, owner);
  text.resize(size);
  comm.broadcast(text.data(), text.data(), size, DataType::uint8, owner);
  return text;
}

std::string entry(std::span<const Parameter> parameters, std::size_t number) {
  return number < parameters.size() ? describe(parameters[number]) : "nothing";
}

} // namespace

void checkParameters(std::span<const Parameter> parameters) {
  std::set<std::string> names;
  for (const Parameter& one : parameters) {
    const auto refuse = [&one](const std::string& why) {
      throw Error(ErrorCode::invalid_argument, "parameter \"" + one.name + "\" " + why);
    };
    if (one.name.empty()) refuse("has no name");
    if (!names.insert(one.name).second) refuse("stands twice in the list");
    if (!isFloat(one.type))
      refuse("is of type " + std::string(name(one.type)) + "; gradients are floating-point");
    if (one.count() > 0 && !one.value) refuse("has no memory");
  }
}

void compareModels(Communicator& comm, std::span<const Parameter> parameters) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  // One hash per parameter, each over all before it too, behind their number.
  std::vector<std::uint64_t> own = {parameters.size()};
  std::uint64_t hash = 0;
  for (const Parameter& one : parameters)
    own.push_back(hash = hashOf(describe(one) + "\n" + std::to_string(hash)));

  std::vector<std::uint64_t> heads(2 * ranks);
  const std::uint64_t head[] = {own.front(), own.back()};
  comm.allGather(head, heads.data(), 2, DataType::uint64);
  int odd = -1, odds = 0;
  std::uint64_t least = own.front();
  for (std::size_t r = 0; r < ranks; ++r) {
    least = std::min(least, heads[2 * r]);
    if (std::equal(heads.begin(), heads.begin() + 2, heads.begin() + static_cast<long>(2 * r)))
      continue;
    if (odds++ == 0) odd = static_cast<int>(r);
  }
  if (odds == 0) return;

  // The hashes of all prefixes that both have tell where the first odd rank leaves rank 0.
  std::vector<std::uint64_t> all(ranks * least);
  comm.allGather(own.data() + 1, all.data(), least, DataType::uint64);
  std::size_t number = 0;
  while (number < least && all[number] == all[static_cast<std::size_t>(odd) * least + number])
    ++number;
  const std::string ours = share(comm, entry(parameters, number), 0);
  const std::string theirs = share(comm, entry(parameters, number), odd);
  throw Error(ErrorCode::mismatch,
              "ranks hold different models: parameter " + std::to_string(number) + " is " + ours +
                  " on rank 0 and " + theirs + " on rank " + std::to_string(odd),
              odds == 1 ? odd : -1);
}

} // namespace gradients

void broadcastParameters(Communicator& comm, std::span<const Parameter> parameters, int root) {
  gradients::compareModels(comm, parameters);
  Group group;
  for (const Parameter& one : parameters)
    comm.broadcast(one.value, one.value, one.count(), one.type, root);
  group.end();
}

} // namespace rondo
