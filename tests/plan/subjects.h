// Plans for tests: all registered ones, and some made by hand.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace rondo::test {

using namespace plan;

struct Subject {
  std::string name;
  std::vector<RankPlan> plans;
};

/// Every algorithm with every collective, two roots and some parameters, for `ranks`; and the
/// hand-made plans.
std::vector<Subject> subjects(int ranks);

/// AllReduce around a ring with a lane each for receiving, reducing and sending. The lanes wait for
/// each other by `after`, and pass data through scratch. In place it is right only because of the
/// order that messages through all ranks give.
std::vector<RankPlan> threeLaneRing(int ranks);

} // namespace rondo::test
