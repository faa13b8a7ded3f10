// Parses TrainOptions::gradients.hook with a table of all hooks.
#include "train/loop/hooks.h"

#include <array>
#include <charconv>
#include <optional>

#include "rondo/train.h"

namespace rondo {

namespace training {
namespace {

using Hook = std::unique_ptr<GradientHook>;
using Codec = std::unique_ptr<GradientCodec>;

struct Entry {
  std::string name;
  std::string value; ///< name of the value after the colon; "": it takes none
  std::string summary;
  /// Returns no value if the text is not a valid number.
  std::optional<Hook> (*make)(const std::string& value);
  /// Null: this hook has no codec.
  std::optional<Codec> (*makeCodec)(const std::string& value);
};

/// Parses the whole text as a number.
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

std::optional<Codec> topKMessage(const std::string& value) {
  const auto density = number<double>(value);
  return density ? std::optional(topKCodec(*density)) : std::nullopt;
}

std::optional<Hook> powerSgd(const std::string& value) {
  const auto rank = number<int>(value);
  return rank ? std::optional(powerSgdGradients(*rank)) : std::nullopt;
}

template <DataType type>
std::optional<Hook> compressed(const std::string&) {
  return compressGradients(type);
}
template <DataType type>
std::optional<Codec> narrowed(const std::string&) {
  return narrowCodec(type);
}

/// Returns a null pointer, for the hook "none".
template <class Pointer>
std::optional<Pointer> nothing(const std::string&) {
  return Pointer();
}

const std::array kHooks = {
    Entry{"none", "", "gradients unchanged", nothing<Hook>, nothing<Codec>},
    Entry{"fp16", "", "gradients as float16", compressed<DataType::float16>,
          narrowed<DataType::float16>},
    Entry{"bf16", "", "gradients as bfloat16", compressed<DataType::bfloat16>,
          narrowed<DataType::bfloat16>},
    Entry{"topk", "DENSITY",
          "this share of the elements, the largest; keeps the rest for the next step", topK,
          topKMessage},
    Entry{"powersgd", "RANK", "matrices as products of two with RANK columns, with error feedback",
          powerSgd, nullptr}};

std::string title(const Entry& entry) {
  return entry.name + (entry.value.empty() ? "" : ":" + entry.value);
}

/// Finds the entry of the word and calls its `maker`.
template <class Made>
Made make(const std::string& text, std::optional<Made> (*Entry::*maker)(const std::string&)) {
  const std::size_t colon = text.find(':');
  const std::string value = colon == std::string::npos ? "" : text.substr(colon + 1);
  std::string valid;
  for (const Entry& entry : kHooks) {
    if (!(entry.*maker)) continue;
    valid += (valid.empty() ? "" : ", ") + title(entry);
    if (entry.name != text.substr(0, colon) || entry.value.empty() != (colon == std::string::npos))
      continue;
    if (std::optional<Made> made = (entry.*maker)(value)) return std::move(*made);
  }
  throw Error(ErrorCode::invalid_argument, "train: unknown hook \"" + text + "\"; valid: " + valid);
}

} // namespace

Hook makeHook(const std::string& text) { return make(text, &Entry::make); }
Codec makeCodec(const std::string& text) { return make(text, &Entry::makeCodec); }

} // namespace training

std::vector<TrainChoice> trainHooks() {
  std::vector<TrainChoice> all;
  for (const training::Entry& entry : training::kHooks)
    all.push_back({training::title(entry), entry.summary});
  return all;
}

} // namespace rondo
