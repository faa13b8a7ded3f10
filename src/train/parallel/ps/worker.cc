#include "train/parallel/ps/worker.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "rondo/detail/hash.h"

namespace rondo::training::servers {

Worker::Worker(const Setup& setup, Replica& replica, Links& links, const Keys& keys, int number)
    : options_(setup.options),
      replica_(replica),
      links_(links),
      number_(static_cast<std::size_t>(number)),
      samples_(setup.options, setup.data,
               links.workers.size() * static_cast<std::size_t>(setup.options.accumulate)),
      gradients_(keys.count),
      part_(setup.options.accumulate > 1 ? keys.count : 0),
      servers_(keys.pieces.size()) {
  for (std::size_t s = 0; s < servers_.size(); ++s)
    for (const Piece& piece : keys.pieces[s]) servers_[s].pieces.push_back({.piece = &piece});
}

/// Messages on their way use the gradients and the replica.
Worker::~Worker() {
  for (Server& server : servers_)
    for (Work& work : server.on_their_way) {
      try {
        if (work.test()) continue;
        links_.up.abort("train: a worker was left by an exception");
        links_.down.abort("train: a worker was left by an exception");
        work.waitFor(std::chrono::seconds(10));
      } catch (const std::exception&) { // how it ended is of no interest
      }
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
    for (Outgoing& one : server.pieces) one.missing = one.piece->weights.size();
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
    for (Outgoing& one : servers_[s].pieces) {
      const auto& in_it = one.piece->weights;
      if (std::binary_search(in_it.begin(), in_it.end(), weight)) --one.missing;
    }
    sendReady(s);
  }
}

void Worker::sendReady(std::size_t s) {
  Server& server = servers_[s];
  for (; server.left < server.pieces.size(); ++server.left) {
    const Outgoing& next = server.pieces[server.left];
    if (next.missing > 0) return;
    server.on_their_way.push_back(links_.up.sendAsync(gradients_.data() + next.piece->begin,
                                                      next.piece->count, DataType::float32,
                                                      static_cast<int>(s)));
  }
}

Notice Worker::pull() {
  for (std::size_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    for (const Outgoing& one : server.pieces)
      server.on_their_way.push_back(
          links_.down.recvAsync(replica_.values().data() + one.piece->begin, one.piece->count,
                                DataType::float32, static_cast<int>(s)));
    server.on_their_way.push_back(recvAsync(links_.down, server.notice, static_cast<int>(s)));
  }
  settle();
  replica_.network().weightsChanged();
  Notice notice = servers_[0].notice;
  for (const Server& server : servers_)
    notice.oldest = std::min(notice.oldest, server.notice.oldest);
  return notice;
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
