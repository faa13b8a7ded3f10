// Finds nodes, leaders and rails of a layout, and makes parts of them.
#include "plan/division.h"

#include <algorithm>
#include <numeric>

namespace rondo::plan {

Division::Division(const Spec& spec, int rank, Pick pick)
    : spec_(spec),
      rank_(rank),
      pick_(pick),
      members_(spec.layout.nodes()),
      smallest_(size(0)),
      largest_(size(0)) {
  for (int v = 0; v < nodes(); ++v) {
    smallest_ = std::min(smallest_, size(v));
    largest_ = std::max(largest_, size(v));
    const auto root = std::find(node(v).begin(), node(v).end(), spec.root);
    const bool leads = hasRoot(spec.collective) && root != node(v).end();
    leaders_.push_back(leads ? static_cast<int>(root - node(v).begin()) : 0);
    if (leads) root_node_ = v;
  }
}

std::vector<int> Division::sizes() const {
  std::vector<int> all;
  for (int v = 0; v < nodes(); ++v) all.push_back(size(v));
  return all;
}

std::vector<int> Division::leaders() const {
  std::vector<int> ranks;
  for (int v = 0; v < nodes(); ++v) ranks.push_back(node(v)[static_cast<std::size_t>(leader(v))]);
  return ranks;
}

std::vector<int> Division::rail(int place) const {
  std::vector<int> ranks;
  for (const auto& node : members_) ranks.push_back(node[static_cast<std::size_t>(place)]);
  return ranks;
}

Units Division::blocks(Space space, const std::vector<int>& numbers) {
  Units place;
  for (const int number : numbers) place.push_back({space, number, 0});
  return place;
}

Units Division::blocks(Space space, int first, int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return blocks(space, numbers);
}

void Division::add(Level level, Collective collective, const std::vector<int>& ranks, Shape shape,
                   const Fill& fill) {
  Phased& made = parts_.emplace_back();
  made.level = level;
  made.phase = phase_;
  Part& part = made.part;
  part.ranks = ranks;
  part.spec = {
      .collective = collective, .ranks = static_cast<int>(ranks.size()), .root = shape.root};
  part.shares = shape.shares;
  part.weights = std::move(shape.weights);
  if (part.weights.empty()) part.weights.assign(ranks.size(), 1);
  part.scattered = shape.scattered;
  if (level == Level::inside) part.spec.layout = spec_.layout.within(ranks);
  pickLast();
  const auto own = std::find(ranks.begin(), ranks.end(), rank_);
  if (own != ranks.end()) fill(part, static_cast<int>(own - ranks.begin()));
}

void Division::pickLast() {
  Part& part = parts_.back().part;
  if (parts_.size() > 1) {
    const Phased& before = parts_[parts_.size() - 2];
    const Part& other = before.part;
    if (other.algorithm && before.level == parts_.back().level && asked_ == part.spec &&
        other.weights == part.weights && other.scattered == part.scattered) {
      part.algorithm = other.algorithm;
      part.spec = other.spec;
      return;
    }
  }
  asked_ = part.spec;
  failed_ = failed_ || !pick_(spec_, parts_.back().level, part);
}

void Division::inside(Collective collective, const std::function<Shape(int)>& shape,
                      const std::function<void(Part&, int, int)>& fill) {
  for (int v = 0; v < nodes(); ++v)
    add(Level::inside, collective, node(v), shape(v),
        [&](Part& part, int own) { fill(part, v, own); });
}

Division::Shape Division::toLeader(int v, int weight) const {
  return {.root = leader(v), .weights = std::vector<int>(node(v).size(), weight)};
}

void Division::betweenLeaders(Collective collective, Shape shape, const Fill& fill) {
  shape.root = root_node_;
  add(Level::between, collective, leaders(), std::move(shape), fill);
  next();
}

void Division::again() {
  parts_.clear();
  failed_ = false;
  phase_ = 0;
}

} // namespace rondo::plan
