// The host engine: runs bound plans on the CPU, over any transport.
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "engine/engine.h"
#include "engine/fast_path.h"
#include "engine/step.h"
#include "rondo/error.h"

namespace rondo::engine {

/// Keeps the runs in queues and selects the next step of each; StepRunner runs it. The first run of
/// a queue is in progress, the others wait. No function blocks.
class HostEngine final : public Engine {
 public:
  using Settings = StepRunner::Settings;
  explicit HostEngine(Fabric& fabric) : HostEngine(fabric, Settings()) {}
  HostEngine(Fabric& fabric, const Settings& settings)
      : Engine(false),
        fabric_(fabric),
        steps_(fabric, settings),
        looks_(settings.oversubscribed ? 0 : kFastPathLooks) {
    active_.reserve(1); // so that runAtOnce() can queue a run without allocating
  }

  BoundPlan bind(plan::Planned& planned, const plan::CallShape& shape) override {
    return engine::bind(planned.plan(), shape, fabric_);
  }
  BoundPlan bindMessage(const plan::RankPlan& plan, const plan::CallShape& shape,
                        std::uint64_t /*signature*/) override {
    return engine::bind(plan, shape, fabric_);
  }
  void setStream(Stream stream) override;
  void requireHostBuffers(const char* /*function*/) const override {}
  void admitFactor(const void* factor) const override;
  void submit(Run& run, int queue) override;
  bool runAtOnce(Run& run, int queue, std::size_t done) override;
  std::size_t sendAtOnce(Run& run) override;
  bool progress() override;
  std::size_t scratchBytes() const override { return steps_.scratchBytes(); }
  std::vector<Standing> standing(base::Clock::time_point now,
                                 base::Clock::duration at_least) override;
  const Run* findRun(const std::function<bool(const Run&)>& wanted) const override {
    for (const Queue* queue : active_)
      for (const Run* run = queue->head; run; run = run->queued_.next)
        if (wanted(*run)) return run;
    return nullptr;
  }
  Position position(const Run& run) override;
  bool arrived(int peer) override;
  void failAll(const Error& error) override;

 private:
  struct Queue {
    Run* head = nullptr;
    Run* tail = nullptr;
  };

  static bool attended(const Queue& queue);
  void complete(Queue& queue, const Error* error);
  bool mayRunAtOnce(const Run& run) const;
  void enqueue(Run& run, int queue, std::size_t step) noexcept;
  bool advanceAll();
  bool advance(Run& run);
  bool connect(BoundPlan& plan);
  bool start(Run& run);
  bool advanceLane(Run& run, std::size_t lane);
  void finish(Run& run);

  Fabric& fabric_;
  StepRunner steps_;
  const int looks_; ///< on the fast path, before a run goes to its queue
  Queue collectives_;
  std::map<int, Queue> point_to_point_;
  std::vector<Queue*> active_;
};

} // namespace rondo::engine
