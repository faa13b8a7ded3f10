#include "train/parallel/ps/worker.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "rondo/detail/hash.h"

namespace rondo::training::servers {

Worker::Worker(const Setup& setup, Replica& replica, Links& links, const Keys& keys, int number,
               GradientCodec* codec, std::span<float> kept)
    : options_(setup.options),
      replica_(replica),
      links_(links),
      number_(static_cast<std::size_t>(number)),
      codec_(codec),
      kept_(kept),
      samples_(setup.options, setup.data,
               links.workers.size() * static_cast<std::size_t>(setup.options.accumulate)),
      gradients_(keys.count),
      part_(setup.options.accumulate > 1 ? keys.count : 0),
      servers_(keys.pieces.size()) {
  for (std::size_t s = 0; s < servers_.size(); ++s)
    for (const Piece& piece : keys.pieces[s]) {
      Traffic& one = servers_[s].pieces.emplace_back();
      one.piece = &piece;
      if (codec && !piece.state) one.message = AlignedBytes(codec->bytes(piece.count));
      if (sparse()) one.changes.resize(answerWords(piece.count, piece.count));
    }
}

/// Messages on their way use the gradients and the replica.
Worker::~Worker() {
  const auto end = [this](Work& work) {
    try {
      if (work.test()) return;
      links_.up.abort("train: a worker was left by an exception");
      links_.down.abort("train: a worker was left by an exception");
      work.waitFor(std::chrono::seconds(10));
    } catch (const std::exception&) { // how it ended is of no interest
    }
  };
  for (Server& server : servers_) {
    for (Work& work : server.on_their_way) end(work);
    for (Traffic& one : server.pieces) end(one.announced);
  }
}

void Worker::push(const Position& at, Request::Kind kind, StepClock& clock) {
  settle();
  const auto number = static_cast<std::uint64_t>(at.total);
  const Pass pass{.seed = detail::mix(options_.seed + detail::mix(number)), .sum_over_ranks = {}};
  request_ = {};
  for (micro_ = 0; micro_ < options_.accumulate; ++micro_) {
    aim(micro_ == 0 ? gradients_.data() : part_.data());
    const Batch batch = samples_.load(
        at.epoch, at.step,
        number_ * static_cast<std::size_t>(options_.accumulate) + static_cast<std::size_t>(micro_));
    clock.lap(&TrainTimes::data, "data");
    const double loss = replica_.network().forward(batch, pass);
    request_.loss += loss;
    if (!std::isfinite(loss) && layer_.empty()) layer_ = replica_.network().firstNotFinite();
    for (Weight* weight : replica_.state())
      if (micro_ > 0) {
        float* const sum = gradients_.data() + (weight->value - replica_.values().data());
        std::transform(sum, sum + weight->size(), weight->gradient, sum, std::plus<>());
      }
    clock.lap(&TrainTimes::forward, "forward");
    if (micro_ + 1 == options_.accumulate) begin(kind);
    replica_.network().backward([this](std::size_t weight) { gradientStands(weight); });
    clock.lap(&TrainTimes::backward, "backward");
  }
}

/// Tells all servers what comes; running statistics are complete.
void Worker::begin(Request::Kind kind) {
  request_.kind = kind;
  request_.stop = !layer_.empty() || (options_.stop && options_.stop());
  for (std::size_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    server.left = 0;
    for (Traffic& one : server.pieces) one.missing = one.piece->weights.size();
    server.on_their_way.push_back(sendAsync(links_.up, request_, static_cast<int>(s)));
    sendReady(s);
  }
}

/// Lets the passes write here.
void Worker::aim(float* gradients) {
  for (const auto list : {replica_.weights(), replica_.state()})
    for (Weight* weight : list)
      weight->gradient = gradients + (weight->value - replica_.values().data());
}

void Worker::gradientStands(std::size_t weight) {
  if (micro_ > 0) {
    const Weight& part = *replica_.weights()[weight];
    float* const sum = gradients_.data() + (part.value - replica_.values().data());
    std::transform(sum, sum + part.size(), part.gradient, sum, std::plus<>());
  }
  if (micro_ + 1 < options_.accumulate) return;
  for (std::size_t s = 0; s < servers_.size(); ++s) {
    for (Traffic& one : servers_[s].pieces) {
      const auto& in_it = one.piece->weights;
      if (std::binary_search(in_it.begin(), in_it.end(), weight)) --one.missing;
    }
    sendReady(s);
  }
}

void Worker::sendReady(std::size_t s) {
  Server& server = servers_[s];
  for (; server.left < server.pieces.size(); ++server.left) {
    Traffic& next = server.pieces[server.left];
    if (next.missing > 0) return;
    send(s, next);
  }
}

/// Running statistics are no gradients: they travel as they are.
void Worker::send(std::size_t s, Traffic& one) {
  const Piece& piece = *one.piece;
  const std::span gradients(gradients_.data() + piece.begin, piece.count);
  const bool coded = codec_ && !piece.state;
  if (coded)
    codec_->encode(gradients, 1, sparse() ? kept_.subspan(piece.begin, piece.count) : kept_,
                   one.message.data());
  servers_[s].on_their_way.push_back(
      coded ? links_.up.sendAsync(one.message.data(), one.message.size(), DataType::uint8,
                                  static_cast<int>(s))
            : links_.up.sendAsync(gradients.data(), gradients.size(), DataType::float32,
                                  static_cast<int>(s)));
}

Notice Worker::pull() {
  if (sparse()) pullChanges();
  else askForValues();
  for (std::size_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    server.on_their_way.push_back(recvAsync(links_.down, server.notice, static_cast<int>(s)));
  }
  settle();
  if (sparse())
    for (const Server& server : servers_)
      for (const Traffic& one : server.pieces)
        if (one.told.keys > 0)
          take(one.changes.data(), replica_.values().subspan(one.piece->begin, one.piece->count));
  replica_.network().weightsChanged();
  Notice notice = servers_[0].notice;
  for (const Server& server : servers_)
    notice.oldest = std::min(notice.oldest, server.notice.oldest);
  return notice;
}

/// All pieces of all servers at once.
void Worker::askForValues() {
  for (std::size_t s = 0; s < servers_.size(); ++s)
    for (const Traffic& one : servers_[s].pieces)
      servers_[s].on_their_way.push_back(
          links_.down.recvAsync(replica_.values().data() + one.piece->begin, one.piece->count,
                                DataType::float32, static_cast<int>(s)));
}

/// How much comes of a piece is known when its server has said so; until then the other servers'
/// pieces are on their way.
void Worker::pullChanges() {
  const auto listen = [this](std::size_t s, std::size_t p) {
    Traffic& one = servers_[s].pieces[p];
    one.announced = recvAsync(links_.down, one.told, static_cast<int>(s));
  };
  std::size_t most = 0;
  for (std::size_t s = 0; s < servers_.size(); ++s) {
    most = std::max(most, servers_[s].pieces.size());
    listen(s, 0);
  }
  for (std::size_t p = 0; p < most; ++p)
    for (std::size_t s = 0; s < servers_.size(); ++s) {
      Server& server = servers_[s];
      if (p >= server.pieces.size()) continue;
      Traffic& one = server.pieces[p];
      one.announced.wait();
      const std::size_t words =
          answerWords(one.piece->count, static_cast<std::size_t>(one.told.keys));
      if (words > 0)
        server.on_their_way.push_back(links_.down.recvAsync(
            one.changes.data(), words, DataType::float32, static_cast<int>(s)));
      if (p + 1 < server.pieces.size()) listen(s, p + 1);
    }
}

void Worker::end() {
  settle();
  request_ = {.kind = Request::end};
  for (std::size_t s = 0; s < servers_.size(); ++s)
    servers_[s].on_their_way.push_back(sendAsync(links_.up, request_, static_cast<int>(s)));
  settle();
}

/// Waits until nothing is on its way.
void Worker::settle() {
  for (Server& server : servers_) {
    for (Work& work : server.on_their_way) work.wait();
    server.on_their_way.clear();
  }
}

} // namespace rondo::training::servers
