// Tests the folds of cross-validation: they partition the samples, whatever the order of the files.
#include "train/data/folds.h"

#include <algorithm>
#include <string>

#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {

using namespace training;

namespace {

/// Samples whose two pixels are their number; labels count modulo 3, sorted as files often are.
Data numbered(std::size_t samples) {
  Data data;
  data.train = {.shape = {1, 1, 2}, .classes = 3, .images = {}, .labels = {}};
  for (std::size_t i = 0; i < samples; ++i) {
    data.train.images.push_back(static_cast<std::uint8_t>(i / 256));
    data.train.images.push_back(static_cast<std::uint8_t>(i % 256));
    data.train.labels.push_back(static_cast<std::uint8_t>(3 * i / samples));
  }
  data.test = data.train;
  return data;
}

std::size_t numberOf(const Dataset& set, std::size_t sample) {
  return std::size_t{set.image(sample)[0]} * 256 + set.image(sample)[1];
}

std::vector<std::size_t> numbers(const Dataset& set) {
  REQUIRE(set.images.size() == set.size() * 2);
  std::vector<std::size_t> all(set.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = numberOf(set, i);
  return all;
}

} // namespace

TEST_CASE("each sample is in the test set of one fold and the training sets of all others") {
  for (const std::size_t samples : {2, 3, 10, 999, 1000})
    for (const int folds : {2, 3, 5, 10}) {
      if (static_cast<std::size_t>(folds) > samples) continue;
      const Data all = numbered(samples);
      std::vector<int> tested(samples);
      for (int fold = 1; fold <= folds; ++fold) {
        INFO(samples << " samples, fold " << fold << " of " << folds);
        Data data = all;
        takeFold(data, {fold, folds});
        const auto test = numbers(data.test), train = numbers(data.train);
        REQUIRE((test.size() == samples / folds || test.size() == samples / folds + 1));
        REQUIRE(std::ranges::is_sorted(test));
        REQUIRE(std::ranges::is_sorted(train));
        std::vector<std::size_t> both;
        std::ranges::merge(test, train, std::back_inserter(both));
        REQUIRE(both == numbers(all.train));
        for (const Dataset* set : {&data.train, &data.test})
          for (std::size_t i = 0; i < set->size(); ++i)
            REQUIRE(set->labels[i] == all.train.labels[numberOf(*set, i)]);
        for (const std::size_t sample : test) ++tested[sample];
      }
      REQUIRE(std::ranges::count(tested, 1) == static_cast<std::ptrdiff_t>(samples));
    }
}

TEST_CASE("a fold has samples of all classes, although the file is sorted by class") {
  Data data = numbered(300);
  takeFold(data, {1, 5});
  for (int label = 0; label < 3; ++label)
    REQUIRE(std::ranges::count(data.test.labels, label) > 5); // 20 on average
}

TEST_CASE("statistics and hashes are those of the fold, not of what it holds out") {
  const std::string spec = "synthetic:train=60,test=20";
  const Data whole = loadData(spec), none = loadData(spec, 0, {});
  REQUIRE(none.train.hash == whole.train.hash);
  const Data first = loadData(spec, 50, {1, 2}), second = loadData(spec, 50, {2, 2});
  REQUIRE(first.train.size() == 25);
  REQUIRE(first.train.hash == second.test.hash);
  REQUIRE(first.test.hash == second.train.hash);
  REQUIRE(first.statistics == channelStatistics(first.train));
}

TEST_CASE("more folds than samples are refused") {
  Data data = numbered(4);
  REQUIRE_THROWS_WITH(takeFold(data, {1, 5}), "train: folds is 5, but there are only 4 samples");
}

} // namespace rondo::test
