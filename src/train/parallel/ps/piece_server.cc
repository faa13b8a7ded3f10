#include "train/parallel/ps/piece_server.h"

#include <algorithm>

#include "train/add.h"
#include "train/layers/values.h"

namespace rondo::training::servers {

namespace {

/// Keys of a block: 16 KiB. Two blocks fit in a first-level cache.
constexpr std::size_t kBlock = 4096;

} // namespace

PieceServer::PieceServer(const Piece& piece, std::span<const float> keys,
                         std::span<Weight* const> weights, std::string_view optimizer,
                         const OptimizerSettings& settings, const Application& how)
    : piece_(piece),
      how_(how),
      values_(piece.count),
      slices_(servers::slices(piece, keys, weights, values_.data())),
      clocks_(static_cast<std::size_t>(how.workers)),
      pushed_(static_cast<std::size_t>(how.workers)) {
  const auto own = keys.subspan(piece.begin, piece.count);
  std::copy(own.begin(), own.end(), values_.begin());
  if (how.sparse) changes_.emplace(piece.count);
  if (piece.state && !how.in_order) sum_.resize(piece.count);
  if (piece.state) return;
  std::vector<Weight*> pointers;
  for (Weight& slice : slices_) pointers.push_back(&slice);
  optimizer_ = makeOptimizer(optimizer, pointers, settings);
}

void PieceServer::begin(std::uint64_t optimizer_steps) {
  std::fill(clocks_.begin(), clocks_.end(), 0);
  pushes_ = 0;
  if (optimizer_) optimizer_->setSteps(optimizer_steps);
  if (changes_) changes_->begin();
}

void PieceServer::push(int worker, float* gradient, double learning_rate) {
  const auto w = static_cast<std::size_t>(worker);
  ++clocks_[w];
  ++pushes_;
  if (!how_.in_order) return gather(gradient, learning_rate);
  pushed_[w] = gradient;
  addInOrder(learning_rate);
}

/// When the pushes of all workers have arrived, adds them into the gradient of the first worker. It
/// adds one block of all workers at a time, so that the sum stays in a cache and memory is read
/// once.
void PieceServer::addInOrder(double learning_rate) {
  if (++added_ < how_.workers) return;
  added_ = 0;
  float* const sum = pushed_[0];
  for (std::size_t begin = 0; begin < piece_.count; begin += kBlock) {
    const std::size_t count = std::min(kBlock, piece_.count - begin);
    for (std::size_t w = 1; w < pushed_.size(); ++w) add(sum + begin, pushed_[w] + begin, count);
  }
  move(sum, learning_rate);
}

void PieceServer::gather(float* gradient, double learning_rate) {
  if (!piece_.state) return move(gradient, learning_rate);
  if (added_ == 0) std::fill(sum_.begin(), sum_.end(), 0.0F);
  add(sum_.data(), gradient, piece_.count);
  if (++added_ < how_.workers) return;
  added_ = 0;
  move(sum_.data(), learning_rate);
}

void PieceServer::move(float* gradient, double learning_rate) {
  if (changes_) changes_->before(values_);
  step(gradient, learning_rate);
  if (changes_) changes_->behind(values_);
}

/// Running statistics are updated as in Network::moveState().
void PieceServer::step(float* gradient, double learning_rate) {
  if (piece_.state) {
    const float scale = 1.0F / static_cast<float>(how_.samples);
    for (std::size_t i = 0; i < piece_.count; ++i)
      values_[i] += BatchNorm::kNewest * (scale * gradient[i] - values_[i]);
    return;
  }
  for (Weight& slice : slices_) slice.gradient = gradient + (slice.value - values_.data());
  const int parts = how_.in_order ? 1 : how_.workers;
  optimizer_->step(learning_rate / parts, how_.scale * static_cast<float>(parts));
}

std::int64_t PieceServer::oldest() const {
  return *std::min_element(clocks_.begin(), clocks_.end());
}

} // namespace rondo::training::servers
