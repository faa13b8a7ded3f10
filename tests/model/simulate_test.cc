// Compares simulations with closed forms on ideal networks, and tests what else is modelled.
#include "model/simulate.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/patterns.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "support/grid.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace model;
using plan::Algorithm;
using plan::Spec;

constexpr double kAlpha = 3, kBeta = 1.0 / 1024;
constexpr double kBytes = 4.0 * 720720; // divisible by most numbers of ranks

const Algorithm& find(const char* name) { return *plan::findAlgorithm(name); }

/// Calls visit(algorithm, spec) for all algorithms and collectives with 1 to 64 ranks.
void forAll(const auto& visit) {
  for (const Algorithm* algorithm : plan::algorithms())
    for (const Collective collective : kCollectives)
      for (int ranks = 1; ranks <= (kWholeGrid ? 64 : 17); ++ranks) {
        const Spec spec{.collective = collective, .ranks = ranks, .multicast = true};
        if (collective == Collective::sendrecv || !algorithm->supports(spec)) continue;
        INFO(algorithm->name << ", " << name(collective) << " of " << ranks << " ranks");
        visit(*algorithm, spec);
      }
}

/// Whether the cost in the algorithm's file is exact: not for algorithms that rely on many tiles,
/// with folded ranks only where their messages do not overlap with others, and where ranks send to
/// all later receivers at once only if a rank waits for all rounds.
bool exact(const Algorithm& algorithm, const Spec& spec) {
  if (algorithm.name == "chain" || algorithm.name == "double_tree") return spec.ranks <= 1;
  if (algorithm.name == "hillis_steele")
    return std::has_single_bit(static_cast<unsigned>(spec.ranks) -
                               (spec.collective == Collective::exclusivescan && spec.ranks > 1));
  const bool folds = algorithm.name == "butterfly" || algorithm.name == "halving";
  return !folds || plan::Fold(spec.ranks).extras == 0;
}

} // namespace

TEST_CASE("on an ideal network the simulated time is the formula in the algorithm's file") {
  const Profile ideal = idealProfile(kAlpha, kBeta);
  int compared = 0;
  forAll([&](const Algorithm& algorithm, const Spec& spec) {
    if (!exact(algorithm, spec)) return;
    const Outcome outcome = simulate(algorithm, spec, {kBytes}, {.profile = &ideal});
    const double bytes = traits(spec.collective).movesData() ? kBytes : 0;
    CHECK(outcome.seconds ==
          Approx(algorithm.cost(spec, {kAlpha, kBeta, 0}, bytes)).epsilon(1e-12));
    CHECK(closedForm(algorithm, spec, {kBytes}, {.profile = &ideal}) ==
          Approx(outcome.seconds).epsilon(1e-12));
    CHECK(outcome.terms.sum() == Approx(outcome.seconds).epsilon(1e-12));
    CHECK(outcome.terms.contention == 0);
    CHECK(outcome.stuck.empty());
    ++compared;
  });
  CHECK(compared > 300);
}

TEST_CASE("simulated bytes are those of the closed form, and no formula is beaten by much") {
  const Profile ideal = idealProfile(kAlpha, kBeta);
  forAll([&](const Algorithm& algorithm, const Spec& spec) {
    const Outcome outcome = simulate(algorithm, spec, {kBytes}, {.profile = &ideal});
    const plan::ClosedForm form = algorithm.closedForm(spec);
    const bool windows = algorithm.name == "nvls"; // a switch moves bytes without messages
    if (traits(spec.collective).movesData() && !windows) {
      CHECK(outcome.total_sent == Approx(form.total_sent * kBytes));
      CHECK(outcome.max_sent == Approx(form.max_sent * kBytes));
    }
    if (algorithm.name == "double_tree") // without bytes, its rounds remain
      CHECK(simulate(algorithm, spec, {1e-300}, {.profile = &ideal}).seconds ==
            Approx(form.rounds * kAlpha).margin(0.1));
    if (algorithm.name == "butterfly" || algorithm.name == "hillis_steele")
      CHECK(outcome.seconds <= algorithm.cost(spec, {kAlpha, kBeta, 0}, kBytes) * (1 + 1e-12));
  });
}

TEST_CASE("compositions over nodes send the bytes of their closed form, and end") {
  const Profile ideal = idealProfile(kAlpha, kBeta);
  const Algorithm& hierarchical = find("hierarchical");
  int simulated = 0;
  for (const char* layout : {"2x2", "4x2", "2x4", "3,1,4", "0.1.0.1.0.1"})
    for (const Collective collective : kCollectives) {
      const plan::Layout parsed = plan::parseLayout(layout);
      const Spec spec{.collective = collective,
                      .ranks = static_cast<int>(parsed.groups[0].size()),
                      .layout = parsed};
      if (collective == Collective::sendrecv || !hierarchical.supports(spec)) continue;
      INFO(name(collective) << " in layout " << layout);
      const Outcome outcome = simulate(hierarchical, spec, {kBytes},
                                       {.profile = &ideal, .between = LinkClass::network});
      CHECK(outcome.stuck.empty());
      CHECK(!outcome.folded);
      if (traits(collective).movesData())
        CHECK(outcome.total_sent == Approx(hierarchical.closedForm(spec).total_sent * kBytes));
      ++simulated;
    }
  CHECK(simulated > 20);
}

TEST_CASE("a chain of tiles takes the time of a pipeline") {
  for (const Collective collective : {Collective::broadcast, Collective::reduce})
    for (const int ranks : {2, 3, 7, 16})
      for (const int tiles : {1, 2, 10, 64}) {
        Profile profile = idealProfile(kAlpha, kBeta);
        for (auto& link : profile.links) link->slot_bytes = kBytes / tiles;
        // Tiles begin at multiples of 64 bytes.
        const double bytes = 4.0 * 720896;
        for (auto& link : profile.links) link->slot_bytes = bytes / tiles;
        const Outcome outcome = simulate(find("chain"), {.collective = collective, .ranks = ranks},
                                         {bytes}, {.profile = &profile});
        INFO(name(collective) << " of " << ranks << " ranks in " << tiles << " tiles");
        if (tiles != 10) REQUIRE(outcome.tiles == static_cast<std::size_t>(tiles));
        const double tile = bytes / static_cast<double>(outcome.tiles);
        const double expected =
            (ranks - 1) * kAlpha + kBeta * tile * static_cast<double>(outcome.tiles + ranks - 2.0);
        CHECK(outcome.seconds == Approx(expected).epsilon(tiles == 10 ? 0.01 : 1e-12));
      }
}

TEST_CASE("one rank may stand for all where all do the same") {
  for (const Nic nic : {Nic::rank, Nic::node}) {
    Profile profile = idealProfile(kAlpha, kBeta);
    for (auto& link : profile.links) link->nic = nic;
    int folded = 0;
    forAll([&](const Algorithm& algorithm, const Spec& spec) {
      const Outcome one = simulate(algorithm, spec, {kBytes}, {.profile = &profile});
      if (!one.folded) return;
      ++folded;
      const Outcome all =
          simulate(algorithm, spec, {kBytes}, {.profile = &profile}, [](const Span&) {});
      CHECK(!all.folded);
      CHECK(all.events > one.events);
      CHECK(one.seconds == Approx(all.seconds).epsilon(1e-12));
      CHECK(one.total_sent == all.total_sent);
    });
    // Messages of different ranks share a node's line, so no rank stands for others.
    if (nic == Nic::rank) CHECK(folded > 50);
    else CHECK(folded == 0);
  }
}

TEST_CASE("a lane without steps changes nothing, also in a plan with scratch of several tiles") {
  Profile profile = idealProfile(kAlpha, kBeta);
  for (auto& link : profile.links) link->slot_bytes = 1 << 16;
  auto plans =
      plan::buildAll(find("halving"), {.collective = Collective::reducescatter, .ranks = 4});
  REQUIRE(plans[1].scratch_chunks > 0);
  const auto simulated = [&] { return simulate(plans, {}, {kBytes}, {.profile = &profile}); };
  const Outcome without = simulated();
  REQUIRE(without.tiles > 1);
  plans[1].lanes.emplace_back();
  const Outcome with = simulated();
  CHECK(with.stuck.empty());
  CHECK(with.seconds == without.seconds);
}

TEST_CASE("a full channel holds its sender back") {
  // Rank 1 needs 10 s for each message and rank 0 none, so a slot becomes free every 10 s.
  Profile profile = idealProfile(0, 0);
  LinkProfile& link = *profile.links[static_cast<std::size_t>(LinkClass::shm)];
  link.nic = Nic::none;
  link.slot_bytes = 4096;
  link.receive_overhead = 10;
  std::vector<double> ends; // of rank 0's steps
  for (const int depth : {1, 3}) {
    link.depth = depth;
    ends.clear();
    const Outcome outcome =
        simulate(find("chain"), {.collective = Collective::broadcast, .ranks = 2}, {4096.0 * 6},
                 {.profile = &profile}, [&](const Span& span) {
                   if (span.rank == 0) ends.push_back(span.end);
                 });
    REQUIRE(ends.size() == 6);
    for (int tile = 0; tile < 6; ++tile)
      CHECK(ends[static_cast<std::size_t>(tile)] == 10.0 * std::max(0, tile - depth + 1));
    CHECK(outcome.seconds == 60);
  }
}

TEST_CASE("stragglers, slow links and dead links have the effect that their numbers say") {
  const Profile ideal = idealProfile(kAlpha, kBeta);
  const Spec spec{.collective = Collective::allreduce, .ranks = 8};
  const double base = simulate(find("ring"), spec, {kBytes}, {.profile = &ideal}).seconds;
  Network network{.profile = &ideal};
  network.conditions.stragglers = {{.rank = 3, .delay = 1000}};
  const Outcome late = simulate(find("ring"), spec, {kBytes}, network);
  CHECK(late.seconds == Approx(base + 1000));
  CHECK(late.terms.contention == Approx(1000));

  network.conditions = {};
  network.conditions.slow_links = {{.src = 3, .dst = 4, .factor = 2}};
  // 14 messages cross the slow link; each takes as long again.
  CHECK(simulate(find("ring"), spec, {kBytes}, network).seconds > base * 1.5);
  CHECK(simulate(find("ring"), spec, {kBytes}, network).seconds <= base * 2);

  Network pair{.profile = &ideal};
  pair.conditions.slow_links = {{.src = 0, .dst = 1, .factor = 5}};
  CHECK(simulate(find("chain"), {.collective = Collective::broadcast, .ranks = 2}, {kBytes}, pair)
            .seconds == Approx(5 * (kAlpha + kBytes * kBeta)));

  network.conditions.slow_links[0].factor = std::numeric_limits<double>::infinity();
  const Outcome dead = simulate(find("ring"), spec, {kBytes}, network);
  CHECK(dead.stuck.find("rank 4 lane 0 step") != std::string::npos);
  CHECK(dead.stuck.find("waits to receive from rank 3") != std::string::npos);

  Profile slow = defaultProfile();
  Network shared{.profile = &slow};
  const double normal = simulate(find("ring"), spec, {kBytes}, shared).seconds;
  shared.conditions.stragglers = {{.rank = 3, .factor = 3}};
  CHECK(simulate(find("ring"), spec, {kBytes}, shared).seconds > normal * 2);
  shared.conditions.stragglers[0].rank = 8;
  CHECK_THROWS_AS(simulate(find("ring"), spec, {kBytes}, shared), Error);
}

// Proves: each condition counts, whatever others there are of the same rank or link.
TEST_CASE("conditions have the same effect in every order") {
  const Profile profile = defaultProfile();
  const Spec spec{.collective = Collective::allreduce, .ranks = 8};
  const auto seconds = [&](const Conditions& conditions) {
    const Network network{.profile = &profile, .conditions = conditions};
    return simulate(find("ring"), spec, {kBytes}, network).seconds;
  };
  const Conditions::Straggler late{.rank = 3, .delay = 1}, slow{.rank = 3, .factor = 3};
  const double both = seconds({.stragglers = {late, slow}, .slow_links = {}});
  CHECK(both == seconds({.stragglers = {slow, late}, .slow_links = {}}));
  CHECK(both > seconds({.stragglers = {late}, .slow_links = {}}));
  CHECK(both > seconds({.stragglers = {slow}, .slow_links = {}}) + 0.9);

  const Conditions::SlowLink twice{.src = 3, .dst = 4, .factor = 2}, much{3, 4, 50};
  const double product = seconds({.stragglers = {}, .slow_links = {{3, 4, 100}}});
  CHECK(seconds({.stragglers = {}, .slow_links = {twice, much}}) == Approx(product));
  CHECK(seconds({.stragglers = {}, .slow_links = {much, twice}}) == Approx(product));
}

// Proves: plans without an algorithm of Rondo are cut into the tiles of the links that the layout
// gives to the ranks.
TEST_CASE("plans on several nodes are cut as the algorithm's own plans are") {
  Profile profile = defaultProfile();
  profile.links[static_cast<std::size_t>(LinkClass::loopback)]->slot_bytes = 4096;
  const Network network{.profile = &profile};
  Spec spec{.collective = Collective::allreduce, .ranks = 4};
  const auto plans = plan::buildAll(find("ring"), spec);
  spec.layout = plan::parseLayout("2x2");
  const Outcome own = simulate(find("ring"), spec, {kBytes}, network);
  const Outcome imported = simulate(plans, spec.layout, {kBytes}, network);
  CHECK(imported.tiles == own.tiles);
  CHECK(imported.seconds == Approx(own.seconds));
  CHECK(simulate(plans, {}, {kBytes}, network).tiles < own.tiles);
}

TEST_CASE("a late rank does nothing before it comes, and holds no processor") {
  constexpr double kDelay = 1e6; // seconds: more than the calls take
  const Profile ideal = idealProfile(kAlpha, kBeta);
  Network network{.profile = &ideal};
  network.conditions.stragglers = {{.rank = 7, .delay = kDelay}};
  const Outcome leaf =
      simulate(find("tree"), {.collective = Collective::broadcast, .ranks = 8}, {kBytes}, network);
  CHECK(leaf.seconds >= kDelay);
  CHECK(leaf.terms.sum() == Approx(leaf.seconds));

  Network shared{.profile = &defaultProfile(), .processors = 1};
  shared.conditions.stragglers = {{.rank = 0, .delay = kDelay}};
  double first[2] = {1e300, 1e300}; // begin of each rank's first step
  simulate(find("direct"), {.collective = Collective::allgather, .ranks = 2}, {kBytes}, shared,
           [&](const Span& span) { first[span.rank] = std::min(first[span.rank], span.begin); });
  CHECK(first[0] >= kDelay);
  CHECK(first[1] == 0);
}

TEST_CASE("steps that cost nothing let the others have the processor") {
  Network network{.profile = &defaultProfile(), .processors = 1};
  const Outcome free = simulate(find("linear"), {.collective = Collective::scatter, .ranks = 4},
                                {.bytes = 2, .in_place = true}, network);
  CHECK(free.stuck.empty());
  const Outcome meeting =
      simulate(find("nvls"), {.collective = Collective::allreduce, .ranks = 4, .multicast = true},
               {kBytes}, network);
  CHECK(meeting.stuck.empty());
}

TEST_CASE("calls that need too much time or memory are refused before they are simulated") {
  Profile profile = idealProfile(kAlpha, kBeta);
  for (auto& link : profile.links) link->slot_bytes = 64;
  const Network network{.profile = &profile};
  // 1e15 bytes in tiles of 64.
  CHECK_THROWS_AS(
      simulate(find("ring"), {.collective = Collective::allreduce, .ranks = 2}, {1e15}, network),
      TooLarge);
  // 65536 times 65535 messages.
  CHECK_THROWS_AS(simulate(find("oneshot"), {.collective = Collective::allreduce, .ranks = 1 << 16},
                           {8}, network),
                  TooLarge);
  CHECK_NOTHROW(simulate(find("tree"), {.collective = Collective::broadcast, .ranks = 1 << 12}, {8},
                         network));
}

// Proves: what is not simulated of a large call is a multiple of what is, and nothing is lost.
TEST_CASE("an estimate from a few tiles is near the whole, and its terms add up") {
  const Profile profile = defaultProfile();
  const Network networks[] = {{.profile = &profile}, {.profile = &profile, .processors = 2}};
  for (const Network& network : networks)
    for (const char* name : {"ring", "tree", "direct", "parameter_server"}) {
      const Simulation simulation(find(name), {.collective = Collective::allreduce, .ranks = 4},
                                  network);
      INFO(name << ", " << network.processors << " processors");
      const Blocks blocks{.bytes = 256 << 20};
      const Outcome whole = simulation.run(blocks), some = simulation.estimate(blocks, 1000);
      REQUIRE(whole.tiles > 500);
      CHECK(some.tiles == whole.tiles);
      CHECK(some.messages == whole.messages);
      CHECK(some.events < whole.events / 2);
      CHECK(some.seconds == Approx(whole.seconds).epsilon(0.05));
      CHECK(some.terms.sum() == Approx(some.seconds));
      CHECK(simulation.estimate({.bytes = 8}, 1000).seconds ==
            simulation.run({.bytes = 8}).seconds);
    }
  const Simulation large(find("direct"), {.collective = Collective::alltoall, .ranks = 64},
                         networks[1]);
  CHECK_THROWS_AS(large.estimate({.bytes = 8}, 1000), TooLarge);
}

TEST_CASE("more processors than ranks of a node change nothing") {
  const Spec spec{
      .collective = Collective::allreduce, .ranks = 5, .layout = plan::parseLayout("3,2")};
  Network network{.profile = &defaultProfile()};
  const double own = simulate(find("ring"), spec, {kBytes}, network).seconds;
  for (const int processors : {3, 1 << 30}) {
    network.processors = processors;
    CHECK(simulate(find("ring"), spec, {kBytes}, network).seconds == own);
  }
  network.processors = 2; // node 0's ranks 0 and 2 share one
  CHECK(simulate(find("ring"), spec, {kBytes}, network).seconds > own);
}

TEST_CASE("a very slow link is not a dead one") {
  const Profile ideal = idealProfile(kAlpha, kBeta);
  Network network{.profile = &ideal};
  network.conditions.slow_links = {{.src = 0, .dst = 1, .factor = 1e40}};
  const Outcome slow =
      simulate(find("chain"), {.collective = Collective::broadcast, .ranks = 2}, {kBytes}, network);
  CHECK(slow.stuck.empty());
  CHECK(slow.seconds == Approx(1e40 * (kAlpha + kBytes * kBeta)));
}

TEST_CASE("a profile needs only the links that ranks use") {
  Profile profile = idealProfile(kAlpha, kBeta);
  profile.links[static_cast<std::size_t>(LinkClass::shm)].reset();
  const Network network{.profile = &profile};
  const Algorithm& ring = find("ring");
  const Spec apart{
      .collective = Collective::allreduce, .ranks = 3, .layout = plan::parseLayout("3x1")};
  CHECK(simulate(ring, apart, {kBytes}, network).seconds ==
        Approx(ring.cost(apart, {kAlpha, kBeta, 0}, kBytes)));
  CHECK(simulate(ring, {.collective = Collective::allreduce, .ranks = 1}, {kBytes}, network)
            .seconds == 0);
  CHECK_THROWS_AS(
      simulate(ring, {.collective = Collective::allreduce, .ranks = 3}, {kBytes}, network), Error);
}

TEST_CASE("ranks that share a processor or a node's line wait, and that is called contention") {
  const Spec spec{.collective = Collective::allreduce, .ranks = 8};
  Network own{.profile = &defaultProfile()}, shared = own;
  shared.processors = 2;
  const Outcome alone = simulate(find("direct"), spec, {kBytes}, own);
  const Outcome crowded = simulate(find("direct"), spec, {kBytes}, shared);
  CHECK(alone.terms.contention == 0);
  CHECK(crowded.terms.contention > 0);
  CHECK(crowded.seconds > alone.seconds * 3); // four ranks on each processor
  CHECK(crowded.seconds < alone.seconds * 6);

  // Two nodes of two ranks exchange through two lines of beta: half of all bytes cross each.
  Profile profile = idealProfile(0, 0);
  LinkProfile& link = *profile.links[static_cast<std::size_t>(LinkClass::network)];
  link.wire = Curve(kBeta);
  link.nic = Nic::node;
  Spec placed{.collective = Collective::alltoall, .ranks = 4, .layout = plan::parseLayout("2x2")};
  const Network network{.profile = &profile, .between = LinkClass::network};
  const Outcome crossing = simulate(find("direct"), placed, {kBytes}, network);
  CHECK(crossing.seconds == Approx(4 * kBytes * kBeta));
  CHECK(crossing.terms.contention > 0);
}

// Proves: a rank does all that it can before another one gets the processor, a turn passes it to
// the next rank, also to one that waits, and a rank that waits alone is reached after half a round.
TEST_CASE("ranks that share a processor take turns in the order of their numbers") {
  Profile profile = idealProfile(0, 0);
  LinkProfile& link = *profile.links[static_cast<std::size_t>(LinkClass::shm)];
  link.send_overhead = link.receive_overhead = 1e-6;
  profile.turn = 1;
  const auto seconds = [&](const char* algorithm, Collective collective) {
    return simulate(find(algorithm), {.collective = collective, .ranks = 4}, {8},
                    {.profile = &profile, .inside = LinkClass::shm, .processors = 1})
        .seconds;
  };
  // Ranks 0, 1, 2 and 3 send. Rank 3 has all messages then, and combines them before 0, 1 and 2 do.
  CHECK(seconds("oneshot", Collective::allreduce) == Approx(6).epsilon(1e-3));
  // From 0 to 1, to 2, to 3; and from 0 past 1 and 2 to 3, where the sum begins, and so on down.
  CHECK(seconds("chain", Collective::broadcast) == Approx(3).epsilon(1e-3));
  CHECK(seconds("chain", Collective::reduce) == Approx(12).epsilon(1e-3));
  link.alpha = 100;
  CHECK(seconds("chain", Collective::broadcast) == Approx(3 * 102).epsilon(1e-3));
}

// A further tile may overlap with the others, and then makes the time shorter.
TEST_CASE("predicted times do not fall when the size grows and the number of tiles does not") {
  for (const LinkClass link : {LinkClass::shm, LinkClass::inproc, LinkClass::loopback})
    for (const Algorithm* algorithm : plan::algorithms())
      for (const Collective collective : {Collective::allreduce, Collective::broadcast,
                                          Collective::allgather, Collective::alltoall}) {
        const Spec spec{.collective = collective, .ranks = 4};
        if (!algorithm->supports(spec)) continue;
        Outcome before;
        for (double bytes = 8; bytes < 64e6; bytes *= 1.25) {
          const Outcome now =
              simulate(*algorithm, spec, {bytes}, {.profile = &defaultProfile(), .inside = link});
          INFO(algorithm->name << ", " << name(collective) << ", " << name(link) << ", " << bytes);
          if (now.tiles == before.tiles) CHECK(now.seconds >= before.seconds * 0.999);
          before = now;
        }
      }
}

TEST_CASE("the default profile's predictions, written out: a model that changes must change them") {
  struct Golden {
    const char* algorithm;
    int ranks;
    LinkClass link;
    int processors;
    double bytes, us;
  };
  const Golden golden[] = {
      {"oneshot", 2, LinkClass::shm, 0, 8, 0.21275},
      {"direct", 2, LinkClass::shm, 0, 1 << 20, 129.876},
      {"ring", 8, LinkClass::inproc, 0, 16 << 20, 3975.81},
      {"halving_doubling", 8, LinkClass::loopback, 2, 64 << 10, 167.547},
      {"tree", 64, LinkClass::network, 0, 1 << 20, 1091994},
  };
  for (const Golden& row : golden) {
    const Outcome outcome = simulate(
        find(row.algorithm), {.collective = Collective::allreduce, .ranks = row.ranks}, {row.bytes},
        {.profile = &defaultProfile(), .inside = row.link, .processors = row.processors});
    INFO(row.algorithm << " on " << row.ranks << " ranks");
    CHECK(outcome.seconds * 1e6 == Approx(row.us).epsilon(1e-4));
  }
}

} // namespace rondo::test
