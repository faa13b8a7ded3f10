#include "train/loop/hooks.h"

#include <array>
#include <charconv>
#include <optional>

#include "rondo/train.h"

namespace rondo {

namespace training {
namespace {

using Hook = std::unique_ptr<GradientHook>;

struct Entry {
  std::string name;
  std::string value; ///< what stands behind the colon; "": nothing
  std::string summary;
  /// Nothing where the value is not of the kind that it takes.
  std::optional<Hook> (*make)(const std::string& value);
};

/// All of the text.
template <class Number>
std::optional<Number> number(const std::string& text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Hook> topK(const std::string& value) {
  const auto density = number<double>(value);
  return density ? std::optional(topKGradients(*density)) : std::nullopt;
}

std::optional<Hook> powerSgd(const std::string& value) {
  const auto rank = number<int>(value);
  return rank ? std::optional(powerSgdGradients(*rank)) : std::nullopt;
}

template <DataType type>
std::optional<Hook> compressed(const std::string&) {
  return compressGradients(type);
}

const std::array kHooks = {
    Entry{"none", "", "whole gradients",
          [](const std::string&) { return std::optional<Hook>(Hook()); }},
    Entry{"fp16", "", "in float16", compressed<DataType::float16>},
    Entry{"bf16", "", "in bfloat16", compressed<DataType::bfloat16>},
    Entry{"topk", "DENSITY", "that share of the elements, the largest; the rest later", topK},
    Entry{"powersgd", "RANK", "matrices as products of so many columns, with error feedback",
          powerSgd}};

std::string title(const Entry& entry) {
  return entry.name + (entry.value.empty() ? "" : ":" + entry.value);
}

} // namespace

Hook makeHook(const std::string& text) {
  const std::size_t colon = text.find(':');
  const std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
  for (const Entry& entry : kHooks) {
    if (entry.name != text.substr(0, colon) || entry.value.empty() != (colon == std::string::npos))
      continue;
    if (std::optional<Hook> made = entry.make(value)) return std::move(*made);
  }
  std::string valid;
  for (const Entry& entry : kHooks) valid += (valid.empty() ? "" : ", ") + title(entry);
  throw Error(ErrorCode::invalid_argument, "train: hook \"" + text + "\"; there is: " + valid);
}

} // namespace training

std::vector<TrainChoice> trainHooks() {
  std::vector<TrainChoice> all;
  for (const training::Entry& entry : training::kHooks)
    all.push_back({training::title(entry), entry.summary});
  return all;
}

} // namespace rondo
