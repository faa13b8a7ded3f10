// The table of the planner's rules. Each threshold has the measurement that it is based on next to
// it. Thresholds without one come from the cost model: below a few KiB a message costs its latency,
// above some hundred KiB its bytes. After the fastest algorithm follows one that serves
// deterministic mode.
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
  Is oversubscribed = Is::any, network_channels = Is::any, devices = Is::any, multicast = Is::any;

  bool holds(Collective c, int ranks, const Policy& policy) const {
    return c == collective && from <= ranks && ranks <= to &&
           fits(oversubscribed, policy.oversubscribed) &&
           fits(network_channels, policy.network_channels) && fits(devices, policy.devices) &&
           fits(multicast, policy.multicast);
  }
};

struct Group {
  Environment environment;
  std::array<Rule, 5> rules; ///< entries without a name are unused
};

using C = Collective;
constexpr Is any = Is::any, yes = Is::yes, no = Is::no;
constexpr int kMany = std::numeric_limits<int>::max();
constexpr std::size_t KiB = 1 << 10, MiB = 1 << 20;
constexpr std::size_t kAlways = std::numeric_limits<std::size_t>::max();

/// The first group that applies is used. Up to 8 ranks, all ranks may send to all others at once.
/// Oversubscribed ranks take turns on a processor and each message costs a turn, so the fewest
/// messages are fastest: measured with 3 to 64 ranks on 2 processors. The groups with "no, no, no"
/// are for ranks with a processor each, in shared memory: measured with 4 and 8 ranks on 12
/// processors (bench/results/2026-11-27-planner-shm-16.txt has the choices, -times.json the times).
constexpr Group kGroups[] = {
    // With a switch, a link carries 1 + 1/p blocks instead of 2 (p-1)/p, but the ranks pass two
    // barriers and stage their inputs. Not measured. Its two halves as separate collectives save
    // the ranks' work, but no bytes on the links.
    {{C::allreduce, 4, 8, any, any, yes, yes},
     {{{8 * KiB, "oneshot"}, {256 * KiB, "direct"}, {kAlways, "nvls"}, {kAlways, "direct"}}}},
    {{C::allreduce, 9, kMany, any, any, yes, yes},
     {{{8 * KiB, "butterfly"},
       {256 * KiB, "halving_doubling"},
       {kAlways, "nvls"},
       {kAlways, "ring"},
       {kAlways, "direct"}}}},

    // `oneshot` sends one message each way, `direct` two. TCP: 128 KiB 22.2 and 25.8 us, 256
    // KiB 45.3
    // and 41.7 us. Shared memory: 16 KiB 2.8 and 3.2 us, 64 KiB 9.0 and 7.4 us.
    {{C::allreduce, 1, 2, any, yes, no}, {{{128 * KiB, "oneshot"}, {kAlways, "direct"}}}},
    {{C::allreduce, 1, 2}, {{{32 * KiB, "oneshot"}, {kAlways, "direct"}}}},
    // halving_doubling first combines two of 3 ranks, with all bytes. TCP, 1 KiB: butterfly 31,
    // parameter_server 32 us; 256 KiB: two servers 219, direct 272, halving_doubling 420 us; 8 MiB:
    // direct 11.6, two servers 11.6 ms.
    {{C::allreduce, 3, 3, yes, yes},
     {{{32 * KiB, "butterfly"}, {4 * MiB, "parameter_server", 2}, {kAlways, "direct"}}}},
    // Shared memory, 8 B: oneshot 4.1, butterfly 5.1, parameter_server 7.5 us; 1 MiB: two servers
    // 93,
    // direct 108 us; on a Zen 1 708 and 779 us.
    {{C::allreduce, 3, 3, yes, no},
     {{{32 * KiB, "oneshot"}, {2 * MiB, "parameter_server", 2}, {kAlways, "direct"}}}},
    // 4 ranks, 8 B: butterfly 13, oneshot 20 us; 64 KiB: two servers 60, halving_doubling 65 us (on
    // a Zen 1 121 and 142); 1 MiB: two 453, direct 511 us (on a Zen 1 1752 and 1564).
    {{C::allreduce, 4, 4, yes, yes},
     {{{32 * KiB, "butterfly"}, {1 * MiB, "parameter_server", 2}, {kAlways, "direct"}}}},
    // 4 ranks in shared memory, on a Zen 5: 1 KiB oneshot 2.6, butterfly 3.4; 16 KiB two
    // servers 4.9,
    // butterfly 5.2; 1 MiB two servers 101, direct 114, halving_doubling 148; 64 MiB direct 14729,
    // ring 15733 us. On a Zen 1 halving_doubling is fastest for 256 KiB: 154 us, two servers 201.
    {{C::allreduce, 4, 4, yes, no},
     {{{8 * KiB, "oneshot"}, {2 * MiB, "parameter_server", 2}, {kAlways, "direct"}}}},
    // 7 ranks, 256 KiB: one server 1063, two 741, four 1017, halving_doubling 1474 us; 8 MiB: two
    // 34.0, direct 34.6 ms.
    {{C::allreduce, 5, 7, yes, yes},
     {{{32 * KiB, "parameter_server"}, {kAlways, "parameter_server", 2}, {kAlways, "direct"}}}},
    // 64 KiB: one server 197, two 150 us; on a Zen 1 321 and 284 us.
    {{C::allreduce, 8, 8, yes, yes},
     {{{32 * KiB, "parameter_server"},
       {128 * KiB, "parameter_server", 2},
       {512 * KiB, "halving_doubling"},
       {kAlways, "direct"}}}},
    // 5 ranks, 8 B: oneshot 9.5, parameter_server 12.1; 7 ranks: 16.8 and 17.2 us.
    {{C::allreduce, 5, 5, yes, no},
     {{{4 * KiB, "oneshot"},
       {32 * KiB, "parameter_server"},
       {2 * MiB, "parameter_server", 2},
       {kAlways, "direct"}}}},
    // 8 ranks, 1 KiB: parameter_server 11, butterfly 16, direct 15 us. 7 ranks, 64 KiB: one server
    // 105, two 100, direct 123 us; 1 MiB: two 2178, direct 2390 us. 8 ranks, 2 MiB: two 1309,
    // direct
    // 1022 us.
    {{C::allreduce, 6, 8, yes, no},
     {{{32 * KiB, "parameter_server"}, {1 * MiB, "parameter_server", 2}, {kAlways, "direct"}}}},
    // 64 ranks, 8 B: parameter_server 52, tree 204, butterfly 147 us.
    {{C::allreduce, 9, kMany, yes, no},
     {{{256 * KiB, "parameter_server"},
       {1 * MiB, "tree"},
       {kAlways, "ring"},
       {kAlways, "direct"}}}},
    // 8 B: butterfly 0.56, oneshot 0.62; 64 KiB: direct 17.5, butterfly 19.8 us.
    {{C::allreduce, 4, 4, no, no, no},
     {{{32 * KiB, "butterfly"}, {8 * KiB, "oneshot"}, {kAlways, "direct"}}}},
    // 8 B 0.83 (oneshot 1.07), 8 MiB 2428 us (direct 2916).
    {{C::allreduce, 8, 8, no, no, no},
     {{{8 * KiB, "butterfly"},
       {8 * KiB, "oneshot"},
       {4 * MiB, "direct"},
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

    // 4 ranks, 8 B 15.3 and 21.6 us, 64 KiB 130 and 80 us; 3 ranks, 8 B 15.8 and 13.1 us. 4 ranks,
    // 256 KiB: ring 204, direct 217 us (on other machines 625 and 781, 721 and 836); 2 MiB: direct
    // 1938, ring 2000 us. 8 ranks, 1 MiB: ring 14413, direct 17584 us (on a Zen 5 5115 and 5021).
    {{C::allgather, 4, 4, yes, yes},
     {{{8 * KiB, "bruck"}, {32 * KiB, "direct"}, {512 * KiB, "ring"}, {kAlways, "direct"}}}},
    {{C::allgather, 5, 8, yes, yes},
     {{{8 * KiB, "bruck"}, {512 * KiB, "direct"}, {kAlways, "ring"}}}},
    {{C::allgather, 1, 8}, {{{kAlways, "direct"}}}},
    {{C::allgather, 9}, {{{8 * KiB, "bruck"}, {kAlways, "ring"}}}},

    // 4 ranks: 8 B 2.6 (tree 3.5, linear 5.3), 8 KiB 4.3 us (tree 7.9, linear 7.7).
    {{C::broadcast, 1, 4, yes, yes},
     {{{8 * KiB, "chain"}, {256 * KiB, "linear"}, {kAlways, "chain"}}}},
    // Shared memory, 1 MiB, 4 ranks: linear 410, scatter_allgather 458, chain 564 us on an AMD;
    // scatter_allgather 352, chain 394 us on an Intel. 8 ranks: linear 1264, chain 1599 us.
    {{C::broadcast, 3, 4, yes, no},
     {{{8 * KiB, "tree"},
       {256 * KiB, "linear"},
       {2 * MiB, "scatter_allgather"},
       {kAlways, "chain"}}}},
    {{C::broadcast, 5, 8, yes, no}, {{{8 * KiB, "tree"}, {2 * MiB, "linear"}, {kAlways, "chain"}}}},
    {{C::broadcast, 1, 2, yes, no},
     {{{8 * KiB, "tree"}, {256 * KiB, "linear"}, {kAlways, "chain"}}}},
    {{C::broadcast, 5, 8, yes, yes},
     {{{8 * KiB, "tree"}, {256 * KiB, "linear"}, {kAlways, "chain"}}}},
    // 8 ranks, 64 KiB 20 (chain 56), 1 MiB 279 us (chain 382).
    {{C::broadcast, 4, 8, no, no, no}, {{{32 * KiB, "tree"}, {kAlways, "scatter_allgather"}}}},
    {{C::broadcast}, {{{8 * KiB, "tree"}, {kAlways, "chain"}}}},

    // TCP, 8 MiB: 4 ranks 9.9 and 11.5 ms (chain), 8 ranks 22.9 and 26.7 ms.
    {{C::reduce, 1, 8, yes, yes}, {{{kAlways, "linear"}}}},
    // Shared memory, 1 MiB: 4 ranks 327 and 429 us (chain), 8 ranks 1266 and 1375 us.
    {{C::reduce, 4, 8, yes, no}, {{{2 * MiB, "linear"}, {kAlways, "chain"}, {kAlways, "linear"}}}},
    {{C::reduce, 1, 3, yes, no},
     {{{256 * KiB, "linear"}, {kAlways, "chain"}, {kAlways, "linear"}}}},
    // 4 ranks: 64 KiB 14.7 (chain 18.9), 1 MiB 189 us (chain 166).
    {{C::reduce, 4, 4, no, no, no},
     {{{128 * KiB, "tree"}, {kAlways, "chain"}, {kAlways, "linear"}}}},
    // 8 ranks: 1 MiB 223 (chain 275), 8 MiB 2218 us (chain 1861).
    {{C::reduce, 5, 8, no, no, no}, {{{2 * MiB, "tree"}, {kAlways, "chain"}, {kAlways, "linear"}}}},
    {{C::reduce, 1, 8}, {{{8 * KiB, "linear"}, {kAlways, "chain"}, {kAlways, "linear"}}}},
    {{C::reduce, 9}, {{{8 * KiB, "tree"}, {kAlways, "chain"}, {kAlways, "linear"}}}},

    // The other ranks wait for the root's system calls: 4 ranks, 8 B 5.9 and 2.5 us. But blocks of
    // other ranks pass through a tree: 4 ranks, 256 B 6.1 and 8.5 us (on an AMD 13.0 and 12.9); 8
    // ranks, 2 KiB 33 and 44, 8 KiB 63 and 194 us.
    {{C::scatter, 1, 8, yes, yes}, {{{128, "tree"}, {kAlways, "linear"}}}},
    {{C::scatter, 9, kMany, yes, yes}, {{{8 * KiB, "tree"}, {kAlways, "linear"}}}},
    // 8 ranks: 8 B 0.31 (linear 0.62), 64 KiB 19.7 us (linear 6.4).
    {{C::scatter, 5, 8, no, no, no}, {{{2 * KiB, "tree"}, {kAlways, "linear"}}}},
    {{C::scatter, 1, 8}, {{{kAlways, "linear"}}}},
    {{C::scatter, 9}, {{{8 * KiB, "tree"}, {kAlways, "linear"}}}},

    // With several lanes the root takes messages in the order of arrival, from up to 4 senders. 4
    // processes, 16 MiB, one lane and three: TCP 21.5 and 16.2 ms, shared memory 12.3 and 11.2 ms.
    // On devices each lane occupies a multiprocessor, so one is used.
    {{C::gather, 1, 8, any, any, yes}, {{{kAlways, "linear"}}}},
    {{C::gather, 9, kMany, any, any, yes}, {{{8 * KiB, "tree"}, {kAlways, "linear"}}}},
    {{C::gather, 1, 2}, {{{kAlways, "linear"}}}},
    // 8 ranks: 1 KiB 0.35 (4 lanes 0.70), 8 MiB 335 us (4 lanes 605).
    {{C::gather, 3, 8, no, no, no}, {{{kAlways, "linear"}}}},
    // More lanes cost small messages more than they save. Shared memory, 2 processors, us, one lane
    // and several: 3 ranks, 1 KiB 0.27 and 0.42; 4 ranks, 8 B 0.19 and 0.24; 8 ranks, 8 B 0.36 and
    // 0.43. For 16 KiB, and over TCP, there is no difference.
    {{C::gather, 3, 3}, {{{4 * KiB, "linear"}, {kAlways, "linear", 2}}}},
    {{C::gather, 4, 4}, {{{4 * KiB, "linear"}, {kAlways, "linear", 3}}}},
    {{C::gather, 5, 8}, {{{4 * KiB, "linear"}, {kAlways, "linear", 4}}}},
    {{C::gather, 9}, {{{8 * KiB, "tree"}, {kAlways, "linear", 4}}}},

    // "pairwise" waits for every rank's turn, so it is used only when the time depends on the
    // bytes: 4 ranks over TCP, 4 MiB 15.8 and 11.4 ms. Over TCP bruck sends fewer messages than
    // direct: 8 ranks, 2 KiB 182 and 228 us; 4 ranks, 4 KiB 23 and 30 us on an Intel, 60 and 66 us
    // on an AMD. But 3 ranks, 341 B: 43 and 35 us.
    {{C::alltoall, 3, 3, yes, yes}, {{{kAlways, "direct"}}}},
    {{C::alltoall, 1, 8, yes, yes},
     {{{4 * KiB, "bruck"}, {2 * MiB, "direct"}, {kAlways, "pairwise"}}}},
    // Shared memory: 4 ranks, 8 B 5.9 and 2.7 us; 8 ranks, 64 KiB 936 and 612 us.
    {{C::alltoall, 1, 8, yes, no}, {{{kAlways, "direct"}}}},
    // 4 ranks: 8 B 0.59 (pairwise 0.76); 8 ranks: 16 KiB 8.7 us (pairwise 10.8).
    {{C::alltoall, 3, 7, no, no, no}, {{{kAlways, "direct"}}}},
    // 1 KiB: bruck 4.0, direct 5.1 us.
    {{C::alltoall, 8, 8, no, no, no}, {{{1 * KiB, "bruck"}, {kAlways, "direct"}}}},
    {{C::alltoall, 1, 8}, {{{kAlways, "pairwise"}}}},
    {{C::alltoall, 9}, {{{512, "bruck"}, {kAlways, "pairwise"}}}},

    {{C::barrier}, {{{kAlways, "dissemination"}}}},

    {{C::scan, 1, 8},
     {{{8 * KiB, "oneshot"},
       {256 * KiB, "hillis_steele"},
       {kAlways, "chain"},
       {kAlways, "oneshot"}}}},
    {{C::scan, 9}, {{{256 * KiB, "hillis_steele"}, {kAlways, "chain"}, {kAlways, "oneshot"}}}},
    {{C::exclusivescan, 1, 8},
     {{{8 * KiB, "oneshot"},
       {256 * KiB, "hillis_steele"},
       {kAlways, "chain"},
       {kAlways, "oneshot"}}}},
    {{C::exclusivescan, 9},
     {{{256 * KiB, "hillis_steele"}, {kAlways, "chain"}, {kAlways, "oneshot"}}}},
};

/// Block sizes from which the links between nodes dominate the time, so that a composition over
/// nodes is faster. Measured on 4 nodes of 2 ranks on 2 processors, with links of 1 Gb/s that pass
/// the first 1.25 MB at once. Each row lists the ms of the rules' choice and of hierarchical.
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
    // chain: 2 MiB 13 and 10, 16 MiB 127 and 125; with ranks distributed to the nodes in turn: 19
    // and 8, 243 and 123.
    {C::broadcast, 2 * MiB},
    // chain: 2 MiB 12 and 10, 16 MiB 128 and 114; distributed in turn: 21 and 6, 242 and 106.
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
