// Collects lanes, channels and scratch size of one rank's plan.
#include "plan/builder.h"

#include <algorithm>
#include <cassert>

namespace rondo::plan {

Builder::Builder(const Spec& spec, int rank, int chunks_per_block, int message_chunks) {
  plan_.spec = spec;
  plan_.rank = rank;
  plan_.chunks_per_block = static_cast<std::uint32_t>(chunks_per_block);
  plan_.message_chunks = static_cast<std::uint32_t>(message_chunks);
}

LaneWriter Builder::lane() {
  plan_.lanes.emplace_back();
  return {*this, static_cast<std::uint32_t>(plan_.lanes.size() - 1)};
}

int Builder::channel(int src, int dst, int index) {
  assert(src != dst);
  const Channel wanted{src, dst, index};
  const auto [at, added] = numbers_.try_emplace(wanted, static_cast<int>(plan_.channels.size()));
  if (added) plan_.channels.push_back(wanted);
  return at->second;
}

Piece Builder::use(const Piece& piece) {
  if (piece.space == Space::scratch)
    plan_.scratch_chunks = std::max(plan_.scratch_chunks, piece.chunk + piece.count);
  if (piece.space == Space::window)
    plan_.window_chunks = std::max(plan_.window_chunks, piece.chunk + piece.count);
  return piece;
}

StepWriter LaneWriter::step() {
  auto& steps = builder_->plan_.lanes[lane_].steps;
  steps.emplace_back();
  steps.back().shape.count = 0; // until a piece gives it
  return {*builder_, lane_, static_cast<std::uint32_t>(steps.size() - 1)};
}

void LaneWriter::meet() { step().step().is_barrier = true; }

StepWriter& StepWriter::recv(int peer, int index) {
  const int channel = builder_->channel(peer, builder_->plan_.rank, index);
  step().inputs.push_back({.channel = channel});
  return *this;
}

StepWriter& StepWriter::with(const Piece& piece) {
  step().inputs.push_back({.piece = builder_->use(piece)});
  return shaped(piece);
}

StepWriter& StepWriter::withSum(const Piece& piece) {
  with(piece);
  step().inputs.back().of_all = true;
  return *this;
}

StepWriter& StepWriter::to(const Piece& piece) {
  assert(!step().output);
  step().output = builder_->use(piece);
  return shaped(piece);
}

StepWriter& StepWriter::toAll(const Piece& piece) {
  step().to_all = true;
  return to(piece);
}

StepWriter& StepWriter::send(int peer, int index) {
  const int channel = builder_->channel(builder_->plan_.rank, peer, index);
  step().sends.push_back(channel);
  return *this;
}

StepWriter& StepWriter::after(const StepWriter& other) {
  step().after.push_back({other.lane_, other.step_});
  return *this;
}

StepWriter& StepWriter::shaped(const Piece& piece) {
  Piece& shape = step().shape;
  if (shape.count == 0) shape = {Space::input, piece.chunk, piece.count};
  assert(shape.count == piece.count && shape.chunk % builder_->plan_.chunks_per_block ==
                                           piece.chunk % builder_->plan_.chunks_per_block);
  return *this;
}

RankPlan alone(const Spec& spec) {
  Builder builder(spec, 0);
  if (traits(spec.collective).movesData() && outputBlocks(spec, 0) > 0)
    builder.lane().copy(in(0), out(0));
  return builder.take();
}

bool plain(const Spec& spec) {
  return spec.ranks >= 1 && spec.root >= 0 && spec.root < spec.ranks && spec.parameter == 0 &&
         spec.inner == 0 && spec.outer == 0;
}

} // namespace rondo::plan
