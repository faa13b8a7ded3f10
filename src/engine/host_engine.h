// The host engine: runs bound plans on the CPU, over any transport.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/aligned_buffer.h"
#include "engine/crew.h"
#include "engine/engine.h"
#include "rondo/error.h"

namespace rondo::engine {

/// No function blocks.
class HostEngine final : public Engine {
 public:
  struct Settings {
    int threads = 1;             ///< see Options::threads
    bool oversubscribed = false; ///< ranks share processors
    bool checksum = false;       ///< see Options::checksum
  };
  explicit HostEngine(Fabric& fabric) : HostEngine(fabric, Settings()) {}
  HostEngine(Fabric& fabric, const Settings& settings)
      : Engine(false),
        fabric_(fabric),
        oversubscribed_(settings.oversubscribed),
        checksum_(settings.checksum),
        crew_(settings.threads > 1 ? std::make_unique<Crew>(settings.threads) : nullptr) {}

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
  bool progress() override;
  std::size_t scratchBytes() const override { return scratch_.size(); }
  std::vector<Standing> standing(base::Clock::time_point now,
                                 base::Clock::duration at_least) override;
  const Run* findRun(const std::function<bool(const Run&)>& wanted) const override {
    for (const Queue* queue : active_)
      for (const Run* run = queue->head; run; run = run->next_)
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
  /// The operands of one pass over a segment.
  struct Operands {
    const void** ins;
    std::size_t in_count;
    void** outs;
    std::size_t out_count;
  };

  static bool attended(const Queue& queue);
  void complete(Queue& queue, const Error* error);
  bool advanceAll();
  bool advance(Run& run);
  bool connect(BoundPlan& plan);
  bool start(Run& run);
  bool advanceLane(Run& run, std::size_t lane);
  static void check(const Run& run, const BoundStep& step, const End& end,
                    const transport::MessageHeader& header);
  bool attempt(Run& run, const BoundStep& step, std::size_t tile);
  bool carriersReady(Run& run, const BoundStep& step, std::size_t tile);
  bool arrive(Run& run, const BoundStep& step, End& end, std::size_t tile);
  bool mayOverwrite(Run& run, const BoundStep& step, std::size_t tile);
  bool takeBodies(const Run& run, const BoundStep& step, std::size_t tile);
  bool fetch(const Run& run, const BoundStep& step, End& end, std::size_t tile,
             const transport::Loan& loan);
  bool fetchParts(End& end, std::size_t bytes);
  void shareLater(const Run& run, const BoundStep& step, End& end, std::size_t tile) const;
  static bool helpPeers(BoundPlan& plan);
  bool reclaim(Run& run, const BoundStep& step, std::size_t tile);
  transport::Use useOf(const Run& run) const;
  std::optional<transport::Loan> loanFor(const Run& run, const BoundStep& step, End& end,
                                         std::size_t tile) const;
  static void note(BoundPlan& plan, const BoundPlan::OpenLoan& loan);
  static bool settleLoans(Run& run);
  static void endParts(End& end, base::Clock::time_point deadline);
  static void endLoans(Run& run);
  static bool alreadyInPlace(const Run& run, const BoundStep& step);
  bool copySmall(Run& run, const BoundStep& step, std::size_t tile);
  void compute(Run& run, const BoundStep& step, std::size_t tile);
  void combineTogether(const Run& run, const BoundStep& step, const Operands& operands,
                       std::size_t count, std::size_t parts);
  static void combine(const Run& run, const BoundStep& step, const Operands& operands,
                      std::size_t count);
  static const plan::PieceOffsets* sourceOf(const Run& run, const BoundStep& step);
  std::byte* stagingOf(End& end) const;
  void sendCarriers(Run& run, const BoundStep& step, std::size_t tile, std::uint32_t checksum);
  std::byte* at(const Run& run, const plan::PieceOffsets& piece, std::size_t segment,
                std::size_t tile) const;
  std::uint32_t checksumOf(const Run& run, const BoundStep& step, std::size_t tile);
  void requireBodies(const Run& run, const BoundStep& step) const;
  void requireArrived(const Run& run, const BoundStep& step, const End& end,
                      std::uint32_t sent) const;
  bool flush(Run& run);
  void finish(Run& run);

  Fabric& fabric_;
  const bool oversubscribed_;
  const bool checksum_;
  const std::unique_ptr<Crew> crew_; ///< null: this rank has one thread
  Queue collectives_;
  std::map<int, Queue> point_to_point_;
  std::vector<Queue*> active_;
  base::AlignedBuffer scratch_;
  std::vector<const void*> ins_; ///< sized for the largest step of any plan so far
  std::vector<void*> outs_;
  struct WorkerOperands {
    std::vector<const void*> ins;
    std::vector<void*> outs;
  };
  std::vector<WorkerOperands> parts_; ///< operands for the crew's threads
  std::vector<transport::ConstBytes> pieces_;
  std::vector<transport::MutableBytes> arriving_;
  bool moved_ = false; ///< the step in progress moved bytes but is not complete
};

} // namespace rondo::engine
