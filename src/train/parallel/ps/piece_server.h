// Holds one piece of the parameters on its server: adds up pushes and moves the values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "train/aligned.h"
#include "train/optim/optimizer.h"
#include "train/parallel/ps/changes.h"
#include "train/parallel/ps/keys.h"

namespace rondo::training::servers {

/// How pushes become moves of the values.
struct Application {
  int workers = 1;
  bool in_order = false; ///< bulk-synchronous: one move for one push from every worker
  int samples = 1;       ///< in one push from every worker
  float scale = 1;       ///< of the sum of one push from every worker: 1 / batch
  bool sparse = false;   ///< records which keys each move changes
};

/// Bulk-synchronous pushes are added in the order of the workers and make one optimizer step: the
/// result equals, bit for bit, a rank-order reduction followed by one optimizer step. Otherwise
/// each push is an optimizer step of its own, in the order of arrival. It uses the mean gradient of
/// the push and 1/workers of the rate, so that one push from every worker moves the values, and
/// decays them, about as far as one bulk-synchronous step. Running statistics always move once per
/// as many pushes as there are workers.
class PieceServer {
 public:
  /// `keys` and `weights` are those of the replica, as in layOut(); they must outlive this object.
  PieceServer(const Piece& piece, std::span<const float> keys, std::span<Weight* const> weights,
              std::string_view optimizer, const OptimizerSettings& settings,
              const Application& how);

  /// Called at a synchronization point, where the run's optimizer has made `optimizer_steps` steps.
  void begin(std::uint64_t optimizer_steps);

  /// Takes a push of this worker. May change `gradient`. The caller must keep it in place until the
  /// round of pushes has moved the values; if not bulk-synchronous, until the worker's next push.
  void push(int worker, float* gradient, double learning_rate);

  /// clock(): pushes of this worker since the synchronization point. oldest(): the minimum over all
  /// workers.
  std::int64_t clock(int worker) const { return clocks_[static_cast<std::size_t>(worker)]; }
  std::int64_t oldest() const;
  /// Pushes of all workers since the synchronization point.
  std::int64_t pushes() const { return pushes_; }

  std::span<float> values() { return values_; }
  /// Valid only with Application::sparse.
  const Changes& changes() const { return *changes_; }
  /// The arrays that the optimizer keeps: for each kind of array, one array for each slice of the
  /// piece.
  std::vector<StateArray> state() {
    return optimizer_ ? optimizer_->state() : std::vector<StateArray>();
  }
  const std::vector<Weight>& slices() const { return slices_; }
  const Piece& piece() const { return piece_; }

 private:
  void addInOrder(double learning_rate);
  void gather(float* gradient, double learning_rate);
  void move(float* gradient, double learning_rate);
  void step(float* gradient, double learning_rate);

  const Piece piece_;
  const Application how_;
  AlignedVector<float> values_, sum_;
  std::optional<Changes> changes_;
  std::vector<Weight> slices_;
  std::unique_ptr<Optimizer> optimizer_; ///< null for running statistics
  std::vector<std::int64_t> clocks_;     ///< by worker
  std::vector<float*> pushed_;           ///< the pushes of the current round, by worker
  std::int64_t pushes_ = 0;
  int added_ = 0; ///< number of pushes in the current round
};

} // namespace rondo::training::servers
