// The host engine: runs bound plans on the CPU, over any transport.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/clock.h"
#include "engine/bound_plan.h"
#include "engine/crew.h"
#include "rondo/error.h"

namespace rondo::engine {

/// One call in flight. Owned by the caller of HostEngine::submit().
struct Run {
  BoundPlan* plan = nullptr;
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::uint64_t signature = 0;
  std::uint64_t sequence = 0; ///< 0: Send or Recv
  double factor = 1.0;        ///< every read of the input buffer is multiplied by it
  long long divisor = 1;      ///< integer average: divides the output at the end

  /// Set last, with release: everything the run wrote is visible to who reads true with acquire.
  std::atomic<bool> done{false};
  std::exception_ptr error;   ///< set before done when the run failed
  std::shared_ptr<void> keep; ///< holds an asynchronous run alive until it is done
  /// Somebody has waited for it: from then on a Send or Recv has a deadline, as a collective always.
  std::atomic<bool> attended{false};
  bool told = false; ///< the control plane knows that it stands still; cleared by a move

  bool scaled() const { return factor != 1.0; }

 private:
  friend class HostEngine;
  Run* next_ = nullptr;
  bool started_ = false;
  std::uint32_t loan_looks_ = 0; ///< looks at the end of the run for what is not returned
  std::uint32_t moves_ = 0;      ///< counts what moved; compared by standing()
  std::uint32_t seen_moves_ = 0;
  base::Clock::time_point seen_at_{};
};

/// A peer's message belongs to another call than ours.
class ForeignCall : public std::exception {
 public:
  ForeignCall(int from, std::uint64_t signature, const Run& run)
      : peer(from), theirs(signature), ours(run.signature), sequence(run.sequence) {}
  const char* what() const noexcept override { return "call signatures differ"; }

  int peer;
  std::uint64_t theirs, ours, sequence;
};

/// Where a run waits.
struct Position {
  int peer = -1;    ///< whom it waits for; -1: nobody in particular
  std::string text; ///< "lane 0 step 3, tile 2 of 8, waiting to receive from rank 1"
};

/// A run at the head of its queue that did not move between two looks.
struct Standing {
  Run* run = nullptr;
  base::Clock::duration since{};
};

/// Runs of one communicator. Collectives run one after the other; so do the sends to one peer, and
/// the receives from one peer; these queues are independent of each other. Not thread-safe: the
/// communicator serialises calls. Nothing here blocks.
class HostEngine {
 public:
  /// `threads`: see Options::threads. `crowded`: ranks share processors.
  explicit HostEngine(Fabric& fabric, int threads = 1, bool crowded = false)
      : fabric_(fabric),
        crowded_(crowded),
        crew_(threads > 1 ? std::make_unique<Crew>(threads) : nullptr) {}

  /// Puts the run at the end of its queue. `queue`: kCollectives, or sendQueue/recvQueue(peer).
  static constexpr int kCollectives = 0;
  static constexpr int sendQueue(int peer) { return 1 + peer; }
  static constexpr int recvQueue(int peer) { return -1 - peer; }
  void submit(Run& run, int queue);

  /// Moves what can be moved; true if anything did. Throws ForeignCall, or Error from a transport:
  /// the communicator is then broken, and failAll() must follow.
  bool progress();

  /// Whether nothing is in flight. Any thread.
  bool idle() const { return in_flight_.load(std::memory_order_acquire) == 0; }
  /// Memory for partial results, bytes.
  std::size_t scratchBytes() const { return scratch_.size(); }
  /// The runs that have not moved for `at_least`, as far as looks like this one can tell; without
  /// Sends and Recvs that nobody has waited for (the peer's program may not be so far).
  std::vector<Standing> standing(base::Clock::time_point now, base::Clock::duration at_least);
  /// The first run in flight that `wanted` is true for, or null.
  template <class Wanted>
  const Run* findRun(const Wanted& wanted) const {
    for (const Queue* queue : active_)
      for (const Run* run = queue->head; run; run = run->next_)
        if (wanted(*run)) return run;
    return nullptr;
  }
  /// The run that progress() was at when it threw.
  const Run* current() const { return current_; }
  /// Sequence number of the last collective that was completed.
  std::uint64_t completed() const { return completed_; }
  Position position(const Run& run);

  /// Ends every run with the error.
  void failAll(const std::exception_ptr& error);

 private:
  struct Queue {
    Run* head = nullptr;
    Run* tail = nullptr;
  };
  /// What a pass over a segment reads and writes.
  struct Operands {
    const void** ins;
    std::size_t in_count;
    void** outs;
    std::size_t out_count;
  };

  static bool attended(const Queue& queue);
  void complete(Queue& queue, const std::exception_ptr& error);
  bool advance(Run& run);
  bool connect(BoundPlan& plan);
  bool start(Run& run);
  bool advanceLane(Run& run, std::size_t lane);
  static void check(const Run& run, const BoundStep& step, const End& end,
                    const transport::MessageHeader& header);
  bool attempt(Run& run, const BoundStep& step, std::size_t tile);
  bool arrivalsComplete(Run& run, const BoundStep& step, std::size_t tile);
  bool arrive(Run& run, const BoundStep& step, End& end, std::size_t tile);
  bool mayOverwrite(Run& run, const BoundStep& step, std::size_t tile);
  bool takeBodies(const BoundStep& step);
  bool reclaim(Run& run, const BoundStep& step, std::size_t tile);
  std::optional<transport::Loan> loanFor(const Run& run, const BoundStep& step, End& end,
                                         std::size_t tile) const;
  static void note(BoundPlan& plan, const BoundPlan::OpenLoan& loan);
  static bool settleLoans(Run& run);
  static void endLoans(Run& run);
  void move(const Run& run, const BoundStep& step, std::size_t tile);
  void compute(Run& run, const BoundStep& step, std::size_t tile);
  void combineTogether(const Run& run, const BoundStep& step, const Operands& operands,
                       std::size_t count, std::size_t parts);
  static void combine(const Run& run, const BoundStep& step, const Operands& operands,
                      std::size_t count);
  static const BoundPiece* sourceOf(const Run& run, const BoundStep& step);
  std::byte* stagingOf(End& end) const;
  void sendStreams(Run& run, const BoundStep& step, std::size_t tile);
  std::byte* at(const Run& run, const BoundPiece& piece, std::size_t segment,
                std::size_t tile) const;
  bool flush(Run& run);
  void finish(Run& run);

  Fabric& fabric_;
  const bool crowded_;
  const std::unique_ptr<Crew> crew_; ///< null: this rank has one thread
  Queue collectives_;
  std::map<int, Queue> point_to_point_;
  std::vector<Queue*> active_;
  const Run* current_ = nullptr;
  std::uint64_t completed_ = 0;
  std::atomic<std::size_t> in_flight_{0};
  base::AlignedBuffer scratch_;
  std::vector<const void*> ins_; ///< as many as a step of any plan so far has
  std::vector<void*> outs_;
  struct Part {
    std::vector<const void*> ins;
    std::vector<void*> outs;
  };
  std::vector<Part> parts_; ///< of the crew's threads
  std::vector<transport::ConstBytes> pieces_;
  std::vector<transport::MutableBytes> arriving_;
  bool moved_ = false; ///< a step in progress moved bytes without being done
};

} // namespace rondo::engine
