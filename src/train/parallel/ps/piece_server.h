// One piece of the parameters on its server: adds up pushes and moves the values.
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
  bool in_order = false; ///< bulk-synchronous: one move for one push of every worker
  int parts = 1;         ///< micro-batches in as many pushes as there are workers
  float scale = 1;       ///< of gradients: 1 / batch
  bool sparse = false;   ///< notes which keys move
};

/// Bulk-synchronous workers' pushes are added in the order of workers, from left to right, and make
/// one step of the optimizer: bit for bit what the rank-order reduction and one optimizer make.
/// Else each push is a step by itself, as it comes, with the same scale: as many pushes as there
/// are workers go about as far as one bulk-synchronous step. Running statistics always move once
/// for as many pushes as there are workers.
class PieceServer {
 public:
  /// `keys` and `weights` are the replica's, as of layOut(); they must live as long.
  PieceServer(const Piece& piece, std::span<const float> keys, std::span<Weight* const> weights,
              std::string_view optimizer, const OptimizerSettings& settings,
              const Application& how);

  /// At a meeting, behind which the run's optimizer has made so many steps.
  void begin(std::uint64_t optimizer_steps);

  /// A push of this worker, which stays where it is until its round has moved the values (with a
  /// bound on staleness other than 0: until the worker's next one); may be changed.
  void push(int worker, float* gradient, double learning_rate);

  /// Steps of this worker that have come since the meeting, and the least over all workers.
  std::int64_t clock(int worker) const { return clocks_[static_cast<std::size_t>(worker)]; }
  std::int64_t oldest() const;
  /// Pushes that have come since the meeting.
  std::int64_t pushes() const { return pushes_; }

  std::span<float> values() { return values_; }
  /// With Application::sparse.
  const Changes& changes() const { return *changes_; }
  /// The arrays that the optimizer keeps, one array for each of the piece's slices, then the next.
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
  std::unique_ptr<Optimizer> optimizer_; ///< null: running statistics
  std::vector<std::int64_t> clocks_;     ///< by worker
  std::vector<float*> pushed_;           ///< by worker: of the round at work
  std::int64_t pushes_ = 0;
  int added_ = 0; ///< pushes of the round at work
};

} // namespace rondo::training::servers
