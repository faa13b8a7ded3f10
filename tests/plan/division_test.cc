// Tests how often an algorithm is picked for the parts of a division.
#include "plan/division.h"

#include "plan/registry.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

int picked = 0;

/// Reduces inside each node, then between the leaders, then sends the result to all.
class Divided : private Division {
 public:
  explicit Divided(const Spec& spec) : Division(spec, -1, pick) {
    const auto none = [](Part&, int, int) {};
    inside(
        Collective::reduce, [&](int v) { return toLeader(v); }, none);
    next();
    betweenLeaders(Collective::allreduce, {}, [](Part&, int) {});
    inside(
        Collective::broadcast, [&](int v) { return toLeader(v); }, none);
  }
  using Division::take;

 private:
  static bool pick(const Spec&, Level level, Part& part) {
    ++picked;
    CHECK((level == Level::inside || part.spec.layout.groups.empty()));
    part.spec.layout = {};
    part.algorithm = findAlgorithm(part.spec.ranks == 2 ? "linear" : "ring");
    return true;
  }
};

} // namespace

// Proves: thousands of nodes cost no more picks than a few. Otherwise the plans of 16384 ranks take
// an hour.
TEST_CASE("an algorithm is picked once for neighbouring parts that are alike") {
  const auto picksFor = [](const char* layout) {
    const Layout value = parseLayout(layout);
    const int ranks = static_cast<int>(value.groups.front().size());
    picked = 0;
    const auto parts = Divided({.ranks = ranks, .layout = value}).take();
    for (const Phased& phased : parts) {
      CHECK(phased.part.algorithm->name == (phased.part.spec.ranks == 2 ? "linear" : "ring"));
      CHECK(phased.part.spec.layout.groups.empty());
    }
    CHECK(parts.size() == 2 * value.nodes().size() + 1);
    return picked;
  };
  CHECK(picksFor("100x2") == 3);
  CHECK(picksFor("2,2,3,3,2") == 2 * 3 + 1);
  CHECK(picksFor("4x2x2") == 3);
  // The sockets of one node lie otherwise.
  CHECK(picksFor("0.0.0.0.1.1.1.1.2.2.2.2/0.0.1.1.2.3.2.3.4.4.5.5") == 2 * 3 + 1);
}

} // namespace rondo::test
