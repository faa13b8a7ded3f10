// Tests which parameters share a bucket.
#include "gradients/assign.h"

#include <numeric>

#include "support/test.h"

namespace rondo::test {
namespace {

using Groups = std::vector<std::vector<std::size_t>>;

Parameter vectorOf(std::size_t count, DataType type = DataType::float32) {
  return {.name = "p", .value = nullptr, .shape = {count}, .type = type, .gradient = nullptr};
}

Groups groups(const std::vector<Parameter>& parameters, const std::vector<std::size_t>& order,
              const std::vector<std::size_t>& caps) {
  Groups all;
  for (const GradientBucket& bucket : gradients::assignBuckets(parameters, order, caps)) {
    REQUIRE(bucket.index == all.size());
    all.push_back(bucket.parameters);
  }
  return all;
}

constexpr DataType kHalf = DataType::float16;

} // namespace

TEST_CASE("a bucket closes with the parameter that reaches its cap, and none is split") {
  const std::vector<Parameter> same(5, vectorOf(25)); // 100 bytes each
  const std::vector<std::size_t> order = {4, 3, 2, 1, 0};
  CHECK(groups(same, order, {200}) == Groups{{4, 3}, {2, 1}, {0}});
  CHECK(groups(same, order, {201}) == Groups{{4, 3, 2}, {1, 0}});
  CHECK(groups(same, order, {1}) == Groups{{4}, {3}, {2}, {1}, {0}});
  CHECK(groups(same, order, {0}) == Groups{{4}, {3}, {2}, {1}, {0}});
  CHECK(groups(same, order, {1000}) == Groups{{4, 3, 2, 1, 0}});
  CHECK(groups({vectorOf(1), vectorOf(10000), vectorOf(1)}, {0, 1, 2}, {100}) ==
        Groups{{0, 1}, {2}});
  CHECK(groups({}, {}, {100}).empty());
}

TEST_CASE("the first buckets have caps of their own, the last cap serves the others") {
  const std::vector<Parameter> same(7, vectorOf(25));
  const std::vector<std::size_t> order = {0, 1, 2, 3, 4, 5, 6};
  CHECK(groups(same, order, {100, 200}) == Groups{{0}, {1, 2}, {3, 4}, {5, 6}});
  CHECK(groups(same, order, {100, 300, 200}) == Groups{{0}, {1, 2, 3}, {4, 5}, {6}});
}

TEST_CASE("types do not mix, each has its own caps, and buckets start when they become full") {
  const std::vector<Parameter> mixed = {vectorOf(25), vectorOf(50, kHalf), vectorOf(25),
                                        vectorOf(50, kHalf), vectorOf(25)};
  const std::vector<std::size_t> order = {0, 1, 2, 3, 4};
  CHECK(groups(mixed, order, {200}) == Groups{{0, 2}, {1, 3}, {4}});
  CHECK(groups(mixed, order, {100, 200}) == Groups{{0}, {1}, {3}, {2, 4}});
  CHECK(groups(mixed, order, {1000}) == Groups{{1, 3}, {0, 2, 4}});
}

TEST_CASE("parameters of a bucket begin on cache lines and do not overlap") {
  std::vector<Parameter> odd;
  for (std::size_t count : {1, 15, 16, 17, 0, 33}) odd.push_back(vectorOf(count));
  std::vector<std::size_t> order(odd.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::vector<std::size_t> caps = {std::size_t{1} << 20};
  const auto buckets = gradients::assignBuckets(odd, order, caps);
  REQUIRE(buckets.size() == 1);
  CHECK(buckets[0].offsets == std::vector<std::size_t>{0, 16, 32, 48, 80, 80});
  CHECK(buckets[0].count == 128);
}

} // namespace rondo::test
