// v-forms with blocks of many sizes.
#include "support/uneven_case.h"

#include <chrono>
#include <thread>

namespace rondo::test {

namespace {

/// Block sizes: `seed` 0: all zero; 1: all zero except one block; other: sizes around the slot of
/// 1024 words.
std::size_t sizeOfBlock(int seed, int a, int b) {
  static constexpr std::size_t kSizes[] = {0, 1, 17, 1023, 1024, 1025, 5000, 3};
  if (seed == 0) return 0;
  if (seed == 1) return a == 0 && b <= 0 ? 2500 : 0;
  return kSizes[static_cast<std::size_t>(a * 3 + b * 5 + seed) % 8];
}

Sizes sizesFor(const UnevenCase& one, int ranks, int of = -1) {
  Sizes sizes;
  for (int r = 0; r < ranks; ++r) sizes.push_back(sizeOfBlock(one.seed, r, of));
  return sizes;
}

} // namespace

std::uint32_t word(int from, int to, std::size_t i) {
  return static_cast<std::uint32_t>(from + 1) << 26 | static_cast<std::uint32_t>(to + 1) << 20 |
         static_cast<std::uint32_t>(i & 0xfffff);
}

Words single(int from, int to, std::size_t count) {
  Words words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = word(from, to, i);
  return words;
}

std::string gatherv(const UnevenCase& one, Communicator& comm) {
  const int rank = comm.rank();
  const auto own = static_cast<std::size_t>(rank);
  const Sizes sizes = sizesFor(one, comm.size());
  const Words input = single(rank, -1, sizes[own]);
  const bool root = rank == one.root;
  UnevenBuffer output(root ? sizes : Sizes{}), due = output;
  for (std::size_t r = 0; r < due.counts.size(); ++r) due.fill(r, static_cast<int>(r), -1);
  const bool in_place = one.in_place && root;
  if (in_place) output.fill(own, rank, -1);
  const void* from = in_place ? output.block(own) : input.data();
  if (one.async)
    comm.gathervAsync(from, sizes[own], output.words.data(), output.blocks(), DataType::uint32,
                      one.root)
        .wait();
  else
    comm.gatherv(from, sizes[own], output.words.data(), output.blocks(), DataType::uint32,
                 one.root);
  return output == due ? "" : "gatherv: wrong output";
}

std::string scatterv(const UnevenCase& one, Communicator& comm) {
  const int rank = comm.rank();
  const auto own = static_cast<std::size_t>(rank);
  const Sizes sizes = sizesFor(one, comm.size());
  const bool root = rank == one.root;
  UnevenBuffer input(root ? sizes : Sizes{});
  for (std::size_t r = 0; r < input.counts.size(); ++r) input.fill(r, -1, static_cast<int>(r));
  const UnevenBuffer before = input;
  Words output(sizes[own] + 1, kGap), due = single(-1, rank, sizes[own]);
  const bool in_place = one.in_place && root;
  void* to = in_place ? input.block(own) : output.data();
  if (one.async)
    comm.scattervAsync(input.words.data(), input.blocks(), to, sizes[own], DataType::uint32,
                       one.root)
        .wait();
  else
    comm.scatterv(input.words.data(), input.blocks(), to, sizes[own], DataType::uint32, one.root);
  if (input != before) return "scatterv: input changed";
  due.push_back(kGap);
  return in_place || output == due ? "" : "scatterv: wrong output";
}

std::string allGatherv(const UnevenCase& one, Communicator& comm) {
  const auto own = static_cast<std::size_t>(comm.rank());
  const Sizes sizes = sizesFor(one, comm.size());
  const Words input = single(comm.rank(), -1, sizes[own]);
  UnevenBuffer output(sizes), due = output;
  for (std::size_t r = 0; r < sizes.size(); ++r) due.fill(r, static_cast<int>(r), -1);
  if (one.in_place) output.fill(own, comm.rank(), -1);
  const void* from = one.in_place ? output.block(own) : input.data();
  if (one.async)
    comm.allGathervAsync(from, sizes[own], output.words.data(), output.blocks(), DataType::uint32)
        .wait();
  else comm.allGatherv(from, sizes[own], output.words.data(), output.blocks(), DataType::uint32);
  return output == due ? "" : "allGatherv: wrong output";
}

std::string allToAllv(const UnevenCase& one, Communicator& comm) {
  const int rank = comm.rank(), ranks = comm.size();
  Sizes to, from;
  for (int r = 0; r < ranks; ++r) {
    to.push_back(sizeOfBlock(one.seed, rank, r));
    from.push_back(sizeOfBlock(one.seed, r, rank));
  }
  UnevenBuffer input(to), output(from), due(from);
  for (std::size_t r = 0; r < to.size(); ++r) {
    input.fill(r, rank, static_cast<int>(r));
    due.fill(r, static_cast<int>(r), rank);
  }
  if (one.async)
    comm.allToAllvAsync(input.words.data(), input.blocks(), output.words.data(), output.blocks(),
                        DataType::uint32)
        .wait();
  else
    comm.allToAllv(input.words.data(), input.blocks(), output.words.data(), output.blocks(),
                   DataType::uint32);
  return output == due ? "" : "allToAllv: wrong output";
}

std::string reduceScatterv(const UnevenCase& one, Communicator& comm) {
  const int rank = comm.rank(), ranks = comm.size();
  const auto own = static_cast<std::size_t>(rank);
  const Sizes sizes = sizesFor(one, ranks);
  UnevenBuffer input(sizes);
  for (std::size_t r = 0; r < sizes.size(); ++r) input.fill(r, rank, static_cast<int>(r));
  Words output(sizes[own], kGap);
  void* to = one.in_place ? input.block(own) : output.data();
  if (one.async)
    comm.reduceScattervAsync(input.words.data(), input.blocks(), to, DataType::uint32,
                             ReduceOp::sum)
        .wait();
  else comm.reduceScatterv(input.words.data(), input.blocks(), to, DataType::uint32, ReduceOp::sum);
  for (std::size_t i = 0; i < sizes[own]; ++i) {
    std::uint32_t due = 0;
    for (int r = 0; r < ranks; ++r) due += word(r, rank, i);
    if (static_cast<std::uint32_t*>(to)[i] != due) return "reduceScatterv: wrong output";
  }
  return {};
}

std::string lateAllGatherv(Communicator& comm, std::size_t words) {
  if (std::string wrong = allGatherv({2, 0, false, false}, comm); !wrong.empty())
    return wrong; // the channels are open now
  const int sender = comm.size() / 2;
  const auto ranks = static_cast<std::size_t>(comm.size());
  Sizes counts(ranks), offsets(ranks);
  counts[static_cast<std::size_t>(sender)] = words;
  const Words input = single(sender, -1, comm.rank() == sender ? words : 0);
  Words output(words, kGap);
  comm.barrier();
  if (comm.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  comm.allGatherv(input.data(), input.size(), output.data(), {counts, offsets}, DataType::uint32);
  return output == single(sender, -1, words) ? "" : "allGatherv: wrong output";
}

std::string everyUneven(Communicator& comm, int seeds) {
  for (int seed = 0; seed < seeds; ++seed)
    for (bool in_place : {false, true})
      for (bool async : {false, true})
        for (int root : {0, comm.size() / 2, comm.size() - 1})
          for (UnevenForm form : {gatherv, scatterv, allGatherv, allToAllv, reduceScatterv})
            if (const std::string bad = form({seed, root, in_place, async}, comm); !bad.empty())
              return bad + ", seed " + std::to_string(seed) + ", root " + std::to_string(root) +
                     (in_place ? ", in place" : "");
  return {};
}

} // namespace rondo::test
