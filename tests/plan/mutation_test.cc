// Tests the checker with plans that were broken on purpose.
//
// Right plans are mutated in many ways. The oracle runs each mutant on numbers and so decides
// whether it is wrong. The checker, without the help of closed forms, must find every wrong mutant.
#include <algorithm>
#include <functional>
#include <iostream>
#include <map>

#include "oracle.h"
#include "plan/check.h"
#include "subjects.h"
#include "support/grid.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

using Plans = std::vector<RankPlan>;

/// Picks at random; null for an empty container.
template <typename T>
T* pick(std::vector<T>& from, Random& random) {
  return from.empty() ? nullptr : &from[below(random, from.size())];
}

RankPlan& pickRank(Plans& plans, Random& random) { return plans[below(random, plans.size())]; }

Lane* pickLane(Plans& plans, Random& random) {
  RankPlan& plan = pickRank(plans, random);
  Lane* lane = pick(plan.lanes, random);
  return lane && !lane->steps.empty() ? lane : nullptr;
}

/// A step for which `suits` holds, and its rank's plan.
std::pair<RankPlan*, Step*> pickStep(Plans& plans, Random& random,
                                     const std::function<bool(const Step&)>& suits) {
  std::vector<std::pair<RankPlan*, Step*>> all;
  for (RankPlan& plan : plans) {
    for (Lane& lane : plan.lanes) {
      for (Step& step : lane.steps) {
        if (suits(step)) all.push_back({&plan, &step});
      }
    }
  }
  return all.empty() ? std::pair<RankPlan*, Step*>{} : all[below(random, all.size())];
}

bool anyStep(const Step&) { return true; }
bool takes(const Step& step) { return !step.inputs.empty(); }
bool sends(const Step& step) { return !step.sends.empty(); }
bool stores(const Step& step) { return step.output.has_value(); }
bool waits(const Step& step) { return !step.after.empty(); }
bool reads(const Step& step) {
  return std::any_of(step.inputs.begin(), step.inputs.end(),
                     [](const Operand& operand) { return operand.local(); });
}

/// Moves a piece by some chunks, usually so that its shape stays right.
void shift(Piece& piece, const RankPlan& plan, Random& random) {
  const auto k = plan.chunks_per_block;
  const std::uint32_t far[] = {1, k, 2 * k, 3 * k};
  const auto by = far[below(random, 4)];
  if (below(random, 2) == 0 && piece.chunk >= by) {
    piece.chunk -= by;
  } else {
    piece.chunk += by;
  }
}

Operand& pickLocal(Step& step, Random& random) {
  for (;;) {
    Operand& operand = *pick(step.inputs, random);
    if (operand.local()) return operand;
  }
}

Space otherSpace(Space space, Random& random) {
  return static_cast<Space>((static_cast<unsigned>(space) + 1 + below(random, 3)) % 4);
}

/// Each mutation changes the plans, or returns false if it finds nothing to change.
struct Mutation {
  const char* name;
  bool (*apply)(Plans&, Random&);
};

const Mutation kMutations[] = {
    {"drop a dependency",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, waits);
       if (!step) return false;
       step->after.erase(step->after.begin() +
                         static_cast<long>(below(random, step->after.size())));
       return true;
     }},
    {"turn a dependency to another step",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, waits);
       if (!step) return false;
       Dependency& d = *pick(step->after, random);
       d.step = static_cast<std::uint32_t>(
           below(random, plan->lanes[d.lane].steps.size() + 1)); // also one past the end
       return true;
     }},
    {"drop a send",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, sends);
       if (!step) return false;
       step->sends.erase(step->sends.begin() +
                         static_cast<long>(below(random, step->sends.size())));
       return true;
     }},
    {"swap the targets of two sends",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, sends);
       if (!step) return false;
       Lane* lane = pick(plan->lanes, random);
       Step* other = pick(lane->steps, random);
       if (!other || other->sends.empty()) return false;
       int &a = *pick(step->sends, random), &b = *pick(other->sends, random);
       if (a == b) return false;
       std::swap(a, b);
       return true;
     }},
    {"send twice",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, sends);
       if (!step) return false;
       step->sends.push_back(step->sends[0]);
       return true;
     }},
    {"swap two steps",
     [](Plans& plans, Random& random) {
       Lane* lane = pickLane(plans, random);
       if (!lane || lane->steps.size() < 2) return false;
       const auto a = below(random, lane->steps.size());
       const auto b = below(random, lane->steps.size());
       std::swap(lane->steps[a], lane->steps[b]);
       return a != b;
     }},
    {"drop a step",
     [](Plans& plans, Random& random) {
       Lane* lane = pickLane(plans, random);
       if (!lane) return false;
       const auto at = below(random, lane->steps.size());
       lane->steps.erase(lane->steps.begin() + static_cast<long>(at));
       return true;
     }},
    {"do a step twice",
     [](Plans& plans, Random& random) {
       Lane* lane = pickLane(plans, random);
       if (!lane) return false;
       const auto at = below(random, lane->steps.size());
       const Step copy = lane->steps[at];
       lane->steps.insert(lane->steps.begin() + static_cast<long>(at), copy);
       return true;
     }},
    {"leave out a barrier",
     [](Plans& plans, Random& random) {
       const auto meets = [](const Step& step) { return step.is_barrier; };
       const auto meetings = [&](const RankPlan& plan) {
         const auto& steps = plan.lanes[0].steps;
         return static_cast<std::uint64_t>(std::count_if(steps.begin(), steps.end(), meets));
       };
       if (plans[0].window_chunks == 0) return false;
       const std::uint64_t which = below(random, meetings(plans[0]));
       for (RankPlan& plan : plans) {
         auto& steps = plan.lanes[0].steps;
         auto at = std::find_if(steps.begin(), steps.end(), meets);
         for (std::uint64_t i = 0; i < which; ++i) at = std::find_if(at + 1, steps.end(), meets);
         steps.erase(at);
       }
       return true;
     }},
    {"swap two steps on all ranks",
     [](Plans& plans, Random& random) {
       if (plans[0].window_chunks == 0) return false;
       const auto a = below(random, plans[0].lanes[0].steps.size());
       const auto b = below(random, plans[0].lanes[0].steps.size());
       for (RankPlan& plan : plans) std::swap(plan.lanes[0].steps[a], plan.lanes[0].steps[b]);
       return a != b;
     }},
    {"store to the own window, or to all",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, stores);
       if (!step || plan->window_chunks == 0) return false;
       step->to_all = !step->to_all;
       return true;
     }},
    {"read the own window, or the sum of all",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, reads);
       if (!step || plan->window_chunks == 0) return false;
       bool& of_all = pickLocal(*step, random).of_all;
       of_all = !of_all;
       return true;
     }},
    {"cut a lane in two",
     [](Plans& plans, Random& random) {
       RankPlan& plan = pickRank(plans, random);
       Lane* lane = pick(plan.lanes, random);
       if (!lane || lane->steps.size() < 2) return false;
       const auto at = static_cast<long>(1 + below(random, lane->steps.size() - 1));
       Lane rest{{lane->steps.begin() + at, lane->steps.end()}};
       lane->steps.erase(lane->steps.begin() + at, lane->steps.end());
       plan.lanes.push_back(std::move(rest));
       return true;
     }},
    {"take one step out into a lane of its own",
     [](Plans& plans, Random& random) {
       RankPlan& plan = pickRank(plans, random);
       Lane* lane = pick(plan.lanes, random);
       if (!lane || lane->steps.size() < 2) return false;
       const auto at = lane->steps.begin() + static_cast<long>(below(random, lane->steps.size()));
       Lane own{{*at}};
       lane->steps.erase(at);
       plan.lanes.push_back(std::move(own));
       return true;
     }},
    {"shift where a step stores",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, stores);
       if (!step) return false;
       shift(*step->output, *plan, random);
       return true;
     }},
    {"shift what a step reads",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, reads);
       if (!step) return false;
       shift(pickLocal(*step, random).piece, *plan, random);
       return true;
     }},
    {"shift all of a step",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, anyStep);
       if (!step) return false;
       const auto by = static_cast<std::uint32_t>(1 + below(random, plan->chunks_per_block));
       step->shape.chunk += by;
       if (step->output) step->output->chunk += by;
       for (Operand& operand : step->inputs) operand.piece.chunk += by;
       return true;
     }},
    {"change the count of a step",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, anyStep);
       if (!step) return false;
       const auto more = static_cast<std::uint32_t>(step->shape.count == 1 || below(random, 2));
       const auto count = step->shape.count + 2 * more - 1;
       step->shape.count = count;
       if (step->output) step->output->count = count;
       for (Operand& operand : step->inputs) operand.piece.count = count;
       return true;
     }},
    {"drop an input",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, takes);
       if (!step) return false;
       step->inputs.erase(step->inputs.begin() +
                          static_cast<long>(below(random, step->inputs.size())));
       return true;
     }},
    {"read an input twice",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, reads);
       if (!step) return false;
       step->inputs.push_back(pickLocal(*step, random));
       return true;
     }},
    {"receive from another channel",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, takes);
       if (!step || plan->channels.empty()) return false;
       Operand& operand = *pick(step->inputs, random);
       const auto channel = static_cast<int>(below(random, plan->channels.size()));
       if (operand.local() || operand.channel == channel) return false;
       operand.channel = channel;
       return true;
     }},
    {"send on another channel",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, sends);
       if (!step) return false;
       int& channel = *pick(step->sends, random);
       const auto other = static_cast<int>(below(random, plan->channels.size()));
       if (channel == other) return false;
       channel = other;
       return true;
     }},
    {"rename a channel",
     [](Plans& plans, Random& random) {
       Channel* channel = pick(pickRank(plans, random).channels, random);
       if (!channel) return false;
       ++channel->index;
       return true;
     }},
    {"merge a channel into another",
     [](Plans& plans, Random& random) {
       // Both ends agree on the wrong channel, so only order and depth can show it.
       std::vector<Channel> named;
       for (const RankPlan& plan : plans) {
         for (const Channel& c : plan.channels) {
           if (c.index != 0) named.push_back(c);
         }
       }
       if (named.empty()) return false;
       const Channel gone = named[below(random, named.size())];
       const Channel into{gone.src, gone.dst, gone.index - 1};
       for (RankPlan& plan : plans) {
         const auto begin = plan.channels.begin(), end = plan.channels.end();
         const auto from = std::find(begin, end, gone), to = std::find(begin, end, into);
         if (from == end) continue;
         if (to == end) {
           *from = into;
           continue;
         }
         const auto old_index = static_cast<int>(from - begin);
         const auto new_index = static_cast<int>(to - begin);
         for (Lane& lane : plan.lanes) {
           for (Step& step : lane.steps) {
             std::replace(step.sends.begin(), step.sends.end(), old_index, new_index);
             for (int& c : step.sends) c -= c > old_index ? 1 : 0;
             for (Operand& o : step.inputs) {
               if (o.channel == old_index) o.channel = new_index;
               if (o.channel > old_index) --o.channel;
             }
           }
         }
         plan.channels.erase(from);
       }
       return true;
     }},
    {"store into another space",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, stores);
       if (!step) return false;
       step->output->space = otherSpace(step->output->space, random);
       return true;
     }},
    {"read from another space",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, reads);
       if (!step) return false;
       Piece& piece = pickLocal(*step, random).piece;
       piece.space = otherSpace(piece.space, random);
       return true;
     }},
    {"do not store",
     [](Plans& plans, Random& random) {
       auto [plan, step] = pickStep(plans, random, stores);
       if (!step) return false;
       step->output.reset();
       return true;
     }},
    {"shrink scratch",
     [](Plans& plans, Random& random) {
       RankPlan& plan = pickRank(plans, random);
       if (plan.scratch_chunks == 0) return false;
       --plan.scratch_chunks;
       return true;
     }},
    {"share scratch chunks",
     [](Plans& plans, Random& random) {
       RankPlan& plan = pickRank(plans, random);
       const auto k = plan.chunks_per_block;
       if (plan.scratch_chunks <= k) return false;
       const auto map = [&](Piece& piece) {
         if (piece.space == Space::scratch) piece.chunk %= k;
       };
       for (Lane& lane : plan.lanes) {
         for (Step& step : lane.steps) {
           if (step.output) map(*step.output);
           for (Operand& operand : step.inputs) map(operand.piece);
         }
       }
       return true;
     }},
    {"promise smaller messages",
     [](Plans& plans, Random& random) {
       const bool all = below(random, 2) == 0;
       for (RankPlan& plan : plans) {
         if (all || plan.rank == 0) --plan.message_chunks;
       }
       return true;
     }},
    {"cut blocks into fewer chunks",
     [](Plans& plans, Random& random) {
       if (plans[0].chunks_per_block < 2) return false;
       const bool all = below(random, 2) == 0;
       for (RankPlan& plan : plans) {
         if (all || plan.rank == 0) --plan.chunks_per_block;
       }
       return true;
     }},
    {"swap the plans of two ranks' lanes",
     [](Plans& plans, Random& random) {
       RankPlan &a = pickRank(plans, random), &b = pickRank(plans, random);
       if (a.rank == b.rank || a.lanes == b.lanes) return false;
       std::swap(a.lanes, b.lanes);
       return true;
     }},
};

struct Tally {
  int mutants = 0, wrong = 0, caught = 0, strict = 0;
};

constexpr int kRuns = 90;
constexpr int kSamples = 2; ///< per mutation and subject

} // namespace

TEST_CASE("the oracle agrees that all plans are right") {
  Random random(1);
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8}) {
    for (const Subject& subject : subjects(ranks)) {
      INFO(subject.name);
      CHECK(check(subject.plans).text() == "");
      CHECK(runMany(subject.plans, kRuns, random) == "");
    }
  }
}

TEST_CASE("the checker finds every mutant that the oracle finds wrong") {
  Random random(20);
  std::map<std::string, Tally> tallies;
  Tally all;
  for (const int ranks : kWholeGrid ? std::vector<int>{2, 3, 4, 5, 7, 8} : std::vector<int>{2, 3}) {
    for (const Subject& subject : subjects(ranks)) {
      for (const Mutation& mutation : kMutations) {
        for (int sample = 0; sample < kSamples; ++sample) {
          Plans mutant = subject.plans;
          if (!mutation.apply(mutant, random) || mutant == subject.plans) continue;
          const bool found = !check(mutant).ok();
          const std::string wrong = runMany(mutant, kRuns, random);
          for (Tally* tally : {&all, &tallies[mutation.name]}) {
            ++tally->mutants;
            tally->wrong += wrong.empty() ? 0 : 1;
            tally->caught += !wrong.empty() && found ? 1 : 0;
            tally->strict += wrong.empty() && found ? 1 : 0;
          }
          INFO(subject.name << ": " << mutation.name << ": " << wrong);
          CHECK((wrong.empty() || found));
        }
      }
    }
  }
  tallies["all together"] = all;
  std::cout << "mutants: made, wrong by the oracle, of these caught, caught though no run failed\n";
  for (const auto& [name, tally] : tallies) {
    std::cout << "  " << name << std::string(44 - name.size(), ' ') << tally.mutants << "  "
              << tally.wrong << "  " << tally.caught << "  " << tally.strict << "\n";
  }
  CHECK(all.wrong > (kWholeGrid ? 1000 : 100));
  CHECK(all.caught * 100 >= all.wrong * 99);
  for (const Mutation& mutation : kMutations) {
    INFO(mutation.name);
    CHECK(tallies[mutation.name].wrong > 0); // a mutation that is never wrong proves nothing
  }
}

} // namespace rondo::test
