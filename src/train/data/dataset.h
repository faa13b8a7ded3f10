// Labelled images, wherever they come from.
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
  /// Leaves the first samples only; nothing happens where there are no more.
  void limit(std::size_t samples);
};

/// Of one channel's pixels, in units of a full pixel (255).
struct ChannelStatistics {
  float mean = 0, deviation = 1;

  bool operator==(const ChannelStatistics&) const = default;
};

/// By channel. Rounded to four digits, as they are published for the well-known data sets, and from
/// whole-number sums: the same on every machine. A channel without any difference has the
/// deviation 1.
std::vector<ChannelStatistics> channelStatistics(const Dataset& set);

/// Both have the same shape and classes, and are not empty.
struct Data {
  Dataset train, test;
  std::vector<ChannelStatistics> statistics; ///< of the training set, by channel
};

/// A line of sources.def.
struct DataSource {
  std::string_view name, summary;
  /// What `--data` takes for it, as errors list it.
  std::string_view files;
  bool (*recognises)(const std::string& where);
  /// All but the statistics. Throws Error(data) that names the file and what is wrong with it.
  Data (*load)(const std::string& where);
};

std::span<const DataSource* const> dataSources();

/// Reads what is there: a folder, whose files tell the source, or a source's own notation. With a
/// limit other than 0 only so many training samples, the first, are kept. Throws Error(data) that
/// lists what could be there if nothing is, and as DataSource::load().
Data loadData(const std::string& where, std::size_t limit = 0);

/// Throws Error(data), beginning with the path, if a label is beyond the classes.
void checkLabels(const std::string& path, const Dataset& set);

} // namespace rondo::training
