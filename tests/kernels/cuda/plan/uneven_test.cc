// v-forms on the plan kernel: blocks of any size, in reverse order with gaps between them.
#include <memory>

#include "engine/device_program.h"
#include "kernels/cuda/plan/world.h"
#include "plan/facts.h"
#include "plan/registry.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using device::Protocol;
using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kGap = 0xa5a5a5a5;
/// Slots of 256 bytes hold 64 words.
constexpr std::size_t kSizes[] = {0, 1, 17, 63, 64, 65, 300, 3};

/// The number of words that rank `from` has for rank `to`. A reduction's blocks have the same size
/// for all senders.
std::size_t sizeOfBlock(const plan::Spec& spec, int seed, int from, int to) {
  if (seed == 0) return 0;
  switch (spec.collective) {
    case Collective::allgather:
    case Collective::gather: to = 0; break;
    case Collective::scatter:
    case Collective::reducescatter: from = 0; break;
    default: break;
  }
  return kSizes[static_cast<std::size_t>(from * 3 + to * 5 + seed) % 8];
}
std::uint32_t word(const plan::Spec& spec, int from, int to, std::size_t i) {
  if (spec.collective == Collective::allgather || spec.collective == Collective::gather) to = 0;
  return static_cast<std::uint32_t>(from + 1) << 24 | static_cast<std::uint32_t>(to + 1) << 16 |
         static_cast<std::uint32_t>(i);
}

/// Blocks for or from each rank, or a single block.
struct Side {
  plan::BlockTable table;
  Words words, due;

  void addBlocks(const std::vector<std::size_t>& sizes) {
    table.counts = sizes;
    table.offsets.resize(sizes.size());
    std::size_t at = 3;
    for (std::size_t b = sizes.size(); b-- > 0;) {
      table.offsets[b] = at;
      at += sizes[b] + b % 3;
    }
    words.assign(at + 2, kGap);
    due = words;
  }
};

Part partOf(const plan::Algorithm& algorithm, const plan::Spec& spec, int rank, int seed) {
  const auto size = [&](int from, int to) { return sizeOfBlock(spec, seed, from, to); };
  const int ranks = spec.ranks;
  auto input = std::make_shared<Side>(), output = std::make_shared<Side>();
  std::vector<std::size_t> in, out;
  const std::size_t ins = plan::inputBlocks(spec, rank), outs = plan::outputBlocks(spec, rank);
  const auto block = [](std::size_t b) { return static_cast<int>(b); };
  for (std::size_t b = 0; b < ins; ++b)
    in.push_back(size(rank, ins > 1 || ranks == 1 ? block(b) : 0));
  const int sender = spec.collective == Collective::scatter ? spec.root : 0;
  for (std::size_t b = 0; b < outs; ++b)
    out.push_back(outs > 1 || ranks == 1 ? size(block(b), rank) : size(sender, rank));
  input->addBlocks(in);
  output->addBlocks(out);

  for (std::size_t b = 0; b < ins; ++b)
    for (std::size_t i = 0; i < in[b]; ++i)
      input->words[input->table.offsets[b] + i] = word(spec, rank, ins > 1 ? block(b) : 0, i);
  for (std::size_t b = 0; b < outs; ++b)
    for (std::size_t i = 0; i < out[b]; ++i) {
      std::uint32_t& due = output->due[output->table.offsets[b] + i];
      if (spec.collective == Collective::reducescatter) {
        due = 0;
        for (int r = 0; r < ranks; ++r) due += word(spec, r, rank, i);
      } else {
        due = word(spec, outs > 1 ? block(b) : sender, rank, i);
      }
    }
  input->due = input->words;

  Part part;
  part.plan = algorithm.build(spec, rank);
  part.shape = {.count = outs == 1 ? out[0] : 0,
                .type = DataType::uint32,
                .input = input->table,
                .output = output->table};
  part.input = input->words.data();
  part.output = output->words.data();
  part.before = [output] { std::fill(output->words.begin(), output->words.end(), kGap); };
  part.after = [input, output]() -> std::string {
    if (input->words != input->due) return "input changed";
    return output->words == output->due ? "" : "wrong output";
  };
  return part;
}

} // namespace

// Proves: each step takes part in the tiles that its block covers, at both ends of a channel. A
// block's neighbours and gaps do not change.
TEST_CASE("the plan kernel moves blocks of any size, order and gap to their places") {
  for (Protocol protocol : {Protocol::simple, Protocol::low_latency})
    for (int ranks : kRankCounts)
      for (const plan::Algorithm* algorithm : plan::algorithms()) {
        World world(ranks, {protocol, 2, 256},
                    {.copies = 1, .lends = protocol == Protocol::simple && ranks % 2 == 1});
        std::vector<Call> calls;
        for (Collective collective :
             {Collective::gather, Collective::scatter, Collective::allgather, Collective::alltoall,
              Collective::reducescatter})
          for (int root :
               hasRoot(collective) ? std::vector<int>{0, ranks - 1} : std::vector<int>{0}) {
            const plan::Spec spec{collective, ranks, root, 0};
            if (!algorithm->supports(spec) || !plan::Facts(*algorithm, spec).servesUneven() ||
                (protocol == Protocol::low_latency && !plan::Facts(*algorithm, spec).oneLane()))
              continue;
            for (int seed = 0; seed < 6; ++seed) {
              Call& call = calls.emplace_back();
              call.text = std::string(algorithm->name) + ", " + std::string(name(collective)) +
                          "v, root " + std::to_string(root) + ", sizes " + std::to_string(seed);
              for (int r = 0; r < ranks; ++r)
                call.parts.push_back(partOf(*algorithm, spec, r, seed));
            }
          }
        INFO(ranks << " ranks");
        REQUIRE(world.run(calls) == "");
      }
}

} // namespace rondo::test
