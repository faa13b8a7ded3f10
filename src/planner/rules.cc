// The rules as a table. Each threshold stands beside the measurement that it rests on; those that
// name none are the model's: below a few KiB a message costs its latency whatever it carries, above
// some hundred the bytes decide. After what is fastest stands what serves deterministic mode.
#include "planner/rules.h"

#include <array>
#include <limits>

namespace rondo::planner {

namespace {

enum class Is : std::uint8_t { any, no, yes };

bool fits(Is wanted, bool is) { return wanted == Is::any || (wanted == Is::yes) == is; }

struct Environment {
  Collective collective{};
  int from = 1, to = std::numeric_limits<int>::max(); ///< ranks
  Is oversubscribed = Is::any, carriers = Is::any, devices = Is::any, multicast = Is::any;

  bool holds(Collective c, int ranks, const Policy& policy) const {
    return c == collective && from <= ranks && ranks <= to &&
           fits(oversubscribed, policy.oversubscribed) && fits(carriers, policy.carriers) &&
           fits(devices, policy.devices) && fits(multicast, policy.multicast);
  }
};

struct Group {
  Environment environment;
  std::array<Rule, 5> rules; ///< those without a name do not count
};

using C = Collective;
constexpr Is any = Is::any, yes = Is::yes, no = Is::no;
constexpr int kMany = std::numeric_limits<int>::max();
constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;
constexpr std::size_t kAlways = std::numeric_limits<std::size_t>::max();

/// The first that holds counts. Up to 8 ranks, everybody may talk to everybody at once. Where ranks
/// are oversubscribed, they take turns on a processor, a message costs a turn, and the fewest win:
/// measured with 3 to 64 ranks on 2 processors.
constexpr Group kGroups[] = {
    // By a switch a link carries 1 + 1/p blocks in place of 2 (p-1)/p, but the ranks meet twice,
    // and stage what they sum up: not measured. Its halves spare the ranks' work, not their links'.
    {{C::allreduce, 4, 8, any, any, yes, yes},
     {{{8 * KiB, "oneshot"}, {256 * KiB, "direct"}, {kAlways, "nvls"}, {kAlways, "direct"}}}},
    {{C::allreduce, 9, kMany, any, any, yes, yes},
     {{{8 * KiB, "butterfly"},
       {256 * KiB, "halving_doubling"},
       {kAlways, "nvls"},
       {kAlways, "ring"},
       {kAlways, "direct"}}}},

    // One message each way beats two: 16 KiB 2.8 and 3.2 us, 64 KiB 9.0 and 7.4 us.
    {{C::allreduce, 1, 2}, {{{32 * KiB, "oneshot"}, {kAlways, "direct"}}}},
    // 4 ranks, 8 B: butterfly 13, oneshot 20 us.
    {{C::allreduce, 3, 4, yes, yes},
     {{{32 * KiB, "butterfly"}, {kAlways, "halving_doubling"}, {kAlways, "direct"}}}},
    // In shared memory a message to everybody is cheaper than a second round while it is tiny: 8 B
    // 1.8 and 2.2 us, 1 KiB 3.0 and 2.6 us.
    {{C::allreduce, 4, 4, yes, no},
     {{{256, "oneshot"},
       {32 * KiB, "butterfly"},
       {1 * MiB, "halving_doubling"},
       {kAlways, "ring"},
       {kAlways, "direct"}}}},
    {{C::allreduce, 5, 8, yes, yes},
     {{{128 * KiB, "parameter_server"}, {512 * KiB, "halving_doubling"}, {kAlways, "direct"}}}},
    // 8 ranks, 1 KiB: parameter_server 11, butterfly 16, direct 15 us.
    {{C::allreduce, 3, 8, yes, no}, {{{64 * KiB, "parameter_server"}, {kAlways, "direct"}}}},
    // 64 ranks, 8 B: parameter_server 52, tree 204, butterfly 147 us.
    {{C::allreduce, 9, kMany, yes, no},
     {{{256 * KiB, "parameter_server"},
       {1 * MiB, "tree"},
       {kAlways, "ring"},
       {kAlways, "direct"}}}},
    {{C::allreduce, 3, 8}, {{{8 * KiB, "oneshot"}, {kAlways, "direct"}}}},
    {{C::allreduce, 9},
     {{{8 * KiB, "butterfly"},
       {256 * KiB, "halving_doubling"},
       {kAlways, "ring"},
       {kAlways, "direct"}}}},

    // 8 B: 4 ranks 17.8 and 24.3 us, 8 ranks 54 and 106 us, 3 ranks 12.1 and 13.3 us.
    {{C::reducescatter, 1, 8, yes, yes}, {{{64 * KiB, "halving"}, {kAlways, "direct"}}}},
    {{C::reducescatter, 1, 8}, {{{kAlways, "direct"}}}},
    {{C::reducescatter, 9}, {{{256 * KiB, "halving"}, {kAlways, "ring"}, {kAlways, "direct"}}}},

    // 4 ranks, 8 B 15.3 and 21.6 us, 64 KiB 130 and 80 us; 3 ranks, 8 B 15.8 and 13.1 us.
    {{C::allgather, 4, 8, yes, yes}, {{{8 * KiB, "bruck"}, {kAlways, "direct"}}}},
    {{C::allgather, 1, 8}, {{{kAlways, "direct"}}}},
    {{C::allgather, 9}, {{{8 * KiB, "bruck"}, {kAlways, "ring"}}}},

    // 4 ranks: 8 B 2.6 (tree 3.5, linear 5.3), 8 KiB 4.3 us (tree 7.9, linear 7.7).
    {{C::broadcast, 1, 4, yes, yes},
     {{{8 * KiB, "chain"}, {256 * KiB, "linear"}, {kAlways, "chain"}}}},
    {{C::broadcast, 1, 8, yes}, {{{8 * KiB, "tree"}, {256 * KiB, "linear"}, {kAlways, "chain"}}}},
    {{C::broadcast}, {{{8 * KiB, "tree"}, {kAlways, "chain"}}}},

    {{C::reduce, 1, 8, yes}, {{{256 * KiB, "linear"}, {kAlways, "chain"}, {kAlways, "linear"}}}},
    {{C::reduce, 1, 8}, {{{8 * KiB, "linear"}, {kAlways, "chain"}, {kAlways, "linear"}}}},
    {{C::reduce, 9}, {{{8 * KiB, "tree"}, {kAlways, "chain"}, {kAlways, "linear"}}}},

    // The root's own system calls are what the others wait for: 4 ranks, 8 B 5.9 and 2.5 us.
    {{C::scatter, 1, kMany, yes, yes}, {{{8 * KiB, "tree"}, {kAlways, "linear"}}}},
    {{C::scatter, 1, 8}, {{{kAlways, "linear"}}}},
    {{C::scatter, 9}, {{{8 * KiB, "tree"}, {kAlways, "linear"}}}},

    // In several lanes the root takes messages as they come, from up to 4 senders: 4 processes, 16
    // MiB, one lane and three, TCP 21.5 and 16.2 ms, shared memory 12.3 and 11.2 ms. On devices
    // each
    // lane takes a multiprocessor.
    {{C::gather, 1, 8, any, any, yes}, {{{kAlways, "linear"}}}},
    {{C::gather, 9, kMany, any, any, yes}, {{{8 * KiB, "tree"}, {kAlways, "linear"}}}},
    {{C::gather, 1, 2}, {{{kAlways, "linear"}}}},
    {{C::gather, 3, 3}, {{{kAlways, "linear", 2}}}},
    {{C::gather, 4, 4}, {{{kAlways, "linear", 3}}}},
    {{C::gather, 5, 8}, {{{kAlways, "linear", 4}}}},
    {{C::gather, 9}, {{{8 * KiB, "tree"}, {kAlways, "linear", 4}}}},

    // In turn means to wait for everybody's turn, until the bytes decide: 4 ranks over TCP, 4 MiB
    // 15.8 and 11.4 ms.
    {{C::alltoall, 1, 8, yes, yes},
     {{{1 * KiB, "bruck"}, {2 * MiB, "direct"}, {kAlways, "pairwise"}}}},
    // Shared memory: 4 ranks, 8 B 5.9 and 2.7 us; 8 ranks, 64 KiB 936 and 612 us.
    {{C::alltoall, 1, 8, yes, no}, {{{kAlways, "direct"}}}},
    {{C::alltoall, 1, 8}, {{{kAlways, "pairwise"}}}},
    {{C::alltoall, 9}, {{{512, "bruck"}, {kAlways, "pairwise"}}}},

    {{C::barrier}, {{{kAlways, "dissemination"}}}},
};

/// What the links between nodes carry decides from where the ways of all bytes but theirs are
/// hidden. 4 nodes of 2 ranks on 2 processors, links of 1 Gb/s that let the first 1.25 MB through
/// at once, ms, the rules' choice and hierarchical: see each row.
struct Composed {
  Collective collective;
  std::size_t from; ///< bytes of a block
};
constexpr Composed kComposed[] = {
    // direct: 1 MiB 24 and 36, 2 MiB 48 and 36, 4 MiB 100 and 63, 16 MiB 417 and 220.
    {C::allreduce, 2 * MiB},
    // direct: 256 KiB 20 and 13, 2 MiB 206 and 117.
    {C::allgather, 256 * KiB},
    // direct: 256 KiB 20 and 17, 2 MiB 207 and 140.
    {C::reducescatter, 256 * KiB},
    // chain: 2 MiB 13 and 10, 16 MiB 127 and 125; ranks dealt out to the nodes in turn: 19 and 8,
    // 243 and 123.
    {C::broadcast, 2 * MiB},
    // chain: 2 MiB 12 and 10, 16 MiB 128 and 114; dealt out: 21 and 6, 242 and 106.
    {C::reduce, 2 * MiB},
};

} // namespace

std::optional<std::size_t> composedFrom(Collective collective) {
  for (const Composed& row : kComposed)
    if (row.collective == collective) return row.from;
  return {};
}

std::span<const Rule> rulesFor(Collective collective, int ranks, const Policy& policy) {
  for (const Group& group : kGroups)
    if (group.environment.holds(collective, ranks, policy)) return group.rules;
  return {};
}

} // namespace rondo::planner
