// Labelled images and the sources that they are loaded from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/data/batch.h"

namespace rondo::training {

struct Dataset {
  SampleShape shape{};
  std::size_t classes = 0;
  std::vector<std::uint8_t> images; ///< [size() x shape]
  std::vector<std::uint8_t> labels; ///< [size()], each below classes
  std::uint64_t hash = 0;           ///< of images and labels, set by loadData()

  std::size_t size() const { return labels.size(); }
  const std::uint8_t* image(std::size_t sample) const {
    return images.data() + sample * shape.size();
  }
  /// Keeps only the first samples. Does nothing if there are not more than that.
  void limit(std::size_t samples);
};

/// Mean and standard deviation of one channel's pixels, in units of a full pixel (255).
struct ChannelStatistics {
  float mean = 0, deviation = 1;

  bool operator==(const ChannelStatistics&) const = default;
};

/// Returns the statistics of each channel, rounded to four digits, as they are published for
/// well-known data sets. The sums are integers, so the result is the same on every machine. A
/// channel whose pixels are all equal has the deviation 1.
std::vector<ChannelStatistics> channelStatistics(const Dataset& set);

/// A training set and a test set: not empty, with the same shape and classes.
struct Data {
  Dataset train, test;
  std::vector<ChannelStatistics> statistics; ///< of the training set, by channel
};

/// A data source: one line of sources.def.
struct DataSource {
  std::string_view name, summary;
  /// What `--data` must be for this source; errors print it.
  std::string_view files;
  bool (*recognises)(const std::string& where);
  /// Loads everything except the statistics. Throws Error(data), which names the file and the
  /// fault.
  Data (*load)(const std::string& where);
};

std::span<const DataSource* const> dataSources();

/// Fold `number`, from 1 on, of `count`; count 0: none.
struct Fold {
  int number = 0, count = 0;
};

/// Loads the data at `where`: a folder, whose files decide the source, or the notation of a source.
/// If `limit` is not 0, keeps only that many training samples, from the first on. Then takes the
/// fold of them (takeFold()). Throws Error(data), which lists all known sources, if no source
/// recognises `where`; and as DataSource::load() and takeFold().
Data loadData(const std::string& where, std::size_t limit = 0, Fold fold = {});

/// Throws Error(data), which begins with the path, if a label is not below the number of classes.
void checkLabels(const std::string& path, const Dataset& set);

} // namespace rondo::training
