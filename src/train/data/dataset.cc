// Finds the data source for a path or a notation such as "synthetic:...", and loads its data.
#include "train/data/dataset.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "rondo/detail/hash.h"
#include "rondo/error.h"
#include "rondo/train.h"
#include "train/data/folds.h"

namespace rondo::training {

namespace sources {
#define SOURCE(x) extern const DataSource x;
#include "train/data/sources.def"
#undef SOURCE
} // namespace sources

namespace {

constexpr auto kSources = std::to_array<const DataSource*>({
#define SOURCE(x) &sources::x,
#include "train/data/sources.def"
#undef SOURCE
});

std::uint64_t contentHash(const Dataset& set) {
  const std::uint64_t labels = detail::hashBytes(set.labels.data(), set.labels.size());
  return detail::mix(detail::hashBytes(set.images.data(), set.images.size()) + labels);
}

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

} // namespace

void Dataset::limit(std::size_t samples) {
  if (samples >= size()) return;
  images.resize(samples * shape.size());
  labels.resize(samples);
}

std::vector<ChannelStatistics> channelStatistics(const Dataset& set) {
  const std::size_t pixels = set.shape.height * set.shape.width;
  std::vector<ChannelStatistics> result(set.shape.channels);
  for (std::size_t channel = 0; channel < result.size(); ++channel) {
    // A histogram of the 256 values is enough for both sums, which are exact below 2^53.
    std::array<std::uint64_t, 256> occurs{};
    for (std::size_t sample = 0; sample < set.size(); ++sample) {
      const std::uint8_t* plane = set.image(sample) + channel * pixels;
      for (std::size_t i = 0; i < pixels; ++i) ++occurs[plane[i]];
    }
    double sum = 0, squares = 0; // integers below 2^53
    for (std::size_t value = 0; value < occurs.size(); ++value) {
      sum += static_cast<double>(occurs[value] * value);
      squares += static_cast<double>(occurs[value] * value * value);
    }
    const double count = static_cast<double>(set.size()) * static_cast<double>(pixels);
    const double mean = sum / count;
    const double deviation = rounded(std::sqrt(squares / count - mean * mean) / 255);
    result[channel] = {static_cast<float>(rounded(mean / 255)),
                       deviation > 0 ? static_cast<float>(deviation) : 1.0F};
  }
  return result;
}

std::span<const DataSource* const> dataSources() { return kSources; }

Data loadData(const std::string& where, std::size_t limit, Fold fold) {
  std::string known;
  for (const DataSource* source : kSources) {
    if (source->recognises(where)) {
      Data data = source->load(where);
      if (limit > 0) data.train.limit(limit);
      takeFold(data, fold);
      data.statistics = channelStatistics(data.train);
      for (Dataset* set : {&data.train, &data.test}) set->hash = contentHash(*set);
      return data;
    }
    known += (known.empty() ? "" : "; ") + std::string(source->name) + " (" +
             std::string(source->files) + ")";
  }
  std::error_code missing;
  const bool there = std::filesystem::exists(where, missing);
  const char* const why = there ? ": has no data of a known kind"
                                : ": No such file or directory (Fashion-MNIST is in Debian's "
                                  "package dataset-fashion-mnist)";
  throw Error(ErrorCode::data, where + why + "; known sources: " + known);
}

void checkLabels(const std::string& path, const Dataset& set) {
  const auto bad = std::find_if(set.labels.begin(), set.labels.end(),
                                [&](std::uint8_t label) { return label >= set.classes; });
  if (bad != set.labels.end())
    throw Error(ErrorCode::data, path + ": label " + std::to_string(bad - set.labels.begin()) +
                                     " is " + std::to_string(*bad) + ", beyond the " +
                                     std::to_string(set.classes) + " classes");
}

} // namespace rondo::training

namespace rondo {

std::string defaultDataFolder() {
  const char* folder = std::getenv("RONDO_DATA");
  return folder != nullptr && *folder != '\0' ? folder : "/usr/share/datasets/fashion-mnist";
}

} // namespace rondo
