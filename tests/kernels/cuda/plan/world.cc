// Lays out programs and rings, and runs lanes as threads.
#include "kernels/cuda/plan/world.h"

#include <algorithm>
#include <barrier>
#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>

#include "engine/device_program.h"
#include "engine/scaling.h"
#include "support/nowhere.h"

namespace rondo::test {

namespace {

/// Most channels between the same two ranks in one plan.
constexpr int kPerCopy = 16;
/// Padding at the ends of a window's blocks, for up to 8 ranks.
constexpr std::size_t kPadding = 8 * plan::kWindowAlignBytes;
constexpr std::align_val_t kAlign{device::kRingLine};

} // namespace

Zeroed::Zeroed(std::size_t bytes)
    : memory_(static_cast<std::byte*>(::operator new(std::max<std::size_t>(bytes, 1), kAlign))),
      bytes_(bytes) {
  std::memset(memory_.get(), 0, bytes);
}
void Zeroed::Free::operator()(std::byte* memory) const { ::operator delete(memory, kAlign); }

World::World(int ranks, device::RingSize size, Blocks blocks)
    : size_(size), blocks_(blocks), ranks_(index(ranks)) {
  for (int r = 0; r < ranks; ++r) {
    std::vector<std::unique_ptr<transport::Transport>> transports;
    transports.push_back(std::make_unique<Nowhere>());
    std::vector<engine::Fabric::Peer> peers(index(ranks));
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != r) peers[index(peer)].transport = transports[0].get();
    ranks_[index(r)].fabric = std::make_unique<engine::Fabric>(
        r, 1, std::move(transports), std::move(peers), size.slot_bytes, true);
  }
}

device::Ring World::ringOf(const plan::Channel& channel, bool sending) {
  auto& entry = channels_[channel];
  if (!entry)
    entry = std::make_unique<Channel>(
        Channel{Zeroed(size_.inboxBytes()), Zeroed(device::RingSize::creditBytes()),
                Zeroed(sizeof(device::Position)), Zeroed(sizeof(device::Position))});
  return size_.ring(entry->inbox.data(), entry->credit.data(),
                    (sending ? entry->sender : entry->receiver).as<device::Position>());
}

device::Window World::windowOf(int rank) {
  const auto ranks = static_cast<std::uint32_t>(ranks_.size());
  const device::WindowSize size{blocks_.copies, ranks, blocks_.room};
  if (size.room == 0) return {};
  if (!switch_) {
    auto windows = std::make_shared<std::vector<std::byte*>>();
    for (Rank& one : ranks_) {
      one.window = std::make_unique<Zeroed>(size.bytes());
      one.meetings = std::make_unique<Zeroed>(blocks_.copies * sizeof(std::uint64_t));
      windows->push_back(one.window->data());
    }
    switch_ = std::make_unique<HostSwitch>(windows, size.bytes());
  }
  const Rank& own = ranks_[index(rank)];
  return {own.window->data(),
          switch_->all(),
          own.meetings->as<std::uint64_t>(),
          size.stride(),
          static_cast<std::uint32_t>(rank),
          ranks};
}

World::Launchable World::prepare(const Call& call, int number) {
  const Part& part = call.parts[index(number)];
  Rank& rank = ranks_[index(number)];
  Launchable made;
  made.bound = engine::bind(part.plan, part.shape, *rank.fabric,
                            part.plan.window_chunks > 0 ? blocks_.room - kPadding : 0);
  if (made.bound.window_bytes > blocks_.room) throw std::logic_error("a window is too small");
  const bool uneven = part.shape.uneven();
  std::optional<plan::Lending> lending;
  std::optional<plan::Puts> puts;
  if (blocks_.lends && size_.protocol == device::Protocol::simple) { // packets are never lent
    std::vector<plan::RankPlan> plans;
    for (const Part& one : call.parts) plans.push_back(one.plan);
    const bool scaled = engine::scales(part.shape.op, part.shape.type) == engine::Scales::inputs;
    lending.emplace(plans, scaled, uneven);
    if (!uneven) puts.emplace(plans);
  }
  const engine::DeviceSteps steps = engine::deviceSteps(part.plan, lending ? &*lending : nullptr,
                                                        puts ? &*puts : nullptr, !uneven);
  const device::ProgramTables tables =
      engine::flatten(made.bound, steps, size_.protocol, blocks_.copies);
  made.image = std::make_unique<Zeroed>(tables.bytes());
  tables.write(made.image->data());
  for (int copy = 0; copy < static_cast<int>(blocks_.copies); ++copy)
    for (const plan::Channel& channel : part.plan.channels)
      made.rings.push_back(ringOf({channel.src, channel.dst, channel.index + kPerCopy * copy},
                                  channel.src == part.plan.rank));
  const std::uint32_t blocks = tables.header.blocks();
  made.clocks = std::make_unique<Zeroed>(blocks * sizeof(device::LaneClock));
  made.scratch = std::make_unique<Zeroed>(made.bound.scratch_bytes * blocks_.copies);
  for (std::uint32_t b = 0; b < blocks; ++b)
    made.blocks.push_back(std::make_unique<BlockMemory>(blocks_.threads, tables.header.max_places));
  made.block = laneFunction(tables.header);
  made.launch = {.program = tables.at(made.image->data()),
                 .rings = made.rings.data(),
                 .clocks = made.clocks->as<device::LaneClock>(),
                 .window = windowOf(number),
                 .input = static_cast<const std::byte*>(part.input),
                 .output = static_cast<std::byte*>(part.output),
                 .scratch = made.scratch->data(),
                 .factor = part.factor,
                 .divisor = part.divisor,
                 .signature = part.signature,
                 .timeout_ns = static_cast<std::uint64_t>(timeout.count()),
                 .halt = rank.halt.as<device::Halt>(),
                 .panel = rank.panel.as<device::Panel>()};
  return made;
}

std::string World::report(int rank, const engine::BoundPlan& bound) {
  device::Panel& panel = this->panel(rank);
  if (HostBlock::acquire<kernels::cuda::Scope::system>(&panel.ended) == 0) return {};
  static constexpr const char* kReasons[] = {"none", "aborted", "timeout", "mismatch"};
  return std::string(kReasons[static_cast<int>(panel.report.reason)]) + ": " +
         engine::position(bound, panel.report).text;
}

std::string World::run(const std::vector<Call>& calls, int launches) {
  std::vector<std::vector<Launchable>> prepared(ranks_.size()); // by rank and call
  std::mutex mutex;
  std::string complaint;
  const auto complain = [&](int rank, const Call& call, const std::string& what) {
    const std::lock_guard lock(mutex);
    if (complaint.empty())
      complaint = "rank " + std::to_string(rank) + ", " + call.text + ": " + what;
  };

  std::vector<std::unique_ptr<std::barrier<>>> barriers;
  std::vector<std::pair<std::size_t, std::size_t>> seats; ///< rank and thread
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    std::size_t most = 1;
    for (const Call& call : calls) {
      prepared[r].push_back(prepare(call, static_cast<int>(r)));
      most = std::max(most, prepared[r].back().blocks.size());
    }
    barriers.push_back(std::make_unique<std::barrier<>>(most * blocks_.threads));
    for (std::size_t t = 0; t < most * blocks_.threads; ++t) seats.emplace_back(r, t);
  }
  std::vector<std::jthread> threads;
  for (const auto& [rank_index, thread_index] : seats)
    threads.emplace_back([&, r = rank_index, t = thread_index] {
      const std::size_t block = t / blocks_.threads;
      const int rank = static_cast<int>(r);
      for (std::size_t c = 0; c < calls.size(); ++c)
        for (int n = 0; n < launches; ++n) {
          Launchable& call = prepared[r][c];
          if (t == 0 && calls[c].parts[r].before) calls[c].parts[r].before();
          barriers[r]->arrive_and_wait();
          if (block < call.blocks.size())
            call.block(call.launch, static_cast<std::uint32_t>(block), *call.blocks[block],
                       static_cast<std::uint32_t>(t % blocks_.threads));
          // The stream's order: a kernel ends when all its blocks have ended.
          barriers[r]->arrive_and_wait();
          if (t != 0) continue;
          ranks_[r].reported = report(rank, call.bound);
          if (!reported(rank).empty()) complain(rank, calls[c], reported(rank));
          else if (halt(rank).halted != 0) complain(rank, calls[c], "halted without a report");
          else if (calls[c].parts[r].after)
            if (std::string wrong = calls[c].parts[r].after(); !wrong.empty())
              complain(rank, calls[c], wrong);
        }
    });
  threads.clear(); // joins the threads
  return complaint;
}

} // namespace rondo::test
