// Finds and lists what a word option of the trainer can name: models, optimizers, strategies, ...
#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "rondo/error.h"
#include "rondo/train_options.h"

namespace rondo::training {

template <class Entry>
const auto& entryOf(const Entry& entry) {
  if constexpr (std::is_pointer_v<Entry>) return *entry;
  else return entry;
}

/// Returns the entry of this name. `entries`: objects that outlive the result, or pointers to such.
/// Throws Error(invalid_argument), which lists the valid names; `option` says what they name.
template <class Entries>
const auto& named(const Entries& entries, std::string_view option, std::string_view name) {
  std::string valid;
  for (const auto& entry : entries) {
    const auto& kind = entryOf(entry);
    if (kind.name == name) return kind;
    valid += (valid.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw Error(ErrorCode::invalid_argument, "train: unknown " + std::string(option) + " \"" +
                                               std::string(name) + "\"; valid: " + valid);
}

/// Returns the names of all entries, with their summaries.
template <class Entries>
std::vector<TrainChoice> choicesOf(const Entries& entries) {
  std::vector<TrainChoice> all;
  for (const auto& entry : entries)
    all.push_back({std::string(entryOf(entry).name), std::string(entryOf(entry).summary)});
  return all;
}

} // namespace rondo::training
