#include "train/parallel/ps/exchange.h"

#include <algorithm>

#include "train/parallel/end_work.h"

namespace rondo::training::servers {

Exchange::Exchange(Links& links, const Keys& keys, const Ends& ends, GradientCodec* codec)
    : links_(links), ends_(ends), codec_(codec), servers_(keys.pieces.size()) {
  for (std::size_t s = 0; s < servers_.size(); ++s)
    for (const Piece& piece : keys.pieces[s]) {
      Traffic& one = servers_[s].pieces.emplace_back();
      one.piece = &piece;
      if (codec && !piece.state) one.message = AlignedBytes(codec->bytes(piece.count));
      if (sparse()) one.changes.resize(answerWords(piece.count, piece.count));
    }
}

/// Pending messages use memory of both ranks.
Exchange::~Exchange() {
  const auto end = [this](Work& work) {
    endWork(work, {&links_.up, &links_.down}, "a step of this worker");
  };
  for (Server& server : servers_) {
    for (Work& work : server.on_their_way) end(work);
    for (Traffic& one : server.pieces) end(one.announced);
  }
}

void Exchange::settle() {
  for (Server& server : servers_) {
    for (Work& work : server.on_their_way) work.wait();
    server.on_their_way.clear();
  }
}

void Exchange::begin(const Request& request) {
  request_ = request;
  for (std::size_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    server.left = 0;
    for (Traffic& one : server.pieces) one.missing = one.piece->weights.size();
    server.on_their_way.push_back(sendAsync(links_.up, request_, static_cast<int>(s)));
    sendReady(s);
  }
}

void Exchange::gradientStands(std::size_t weight) {
  for (std::size_t s = 0; s < servers_.size(); ++s) {
    for (Traffic& one : servers_[s].pieces) {
      const auto& in_it = one.piece->weights;
      if (std::binary_search(in_it.begin(), in_it.end(), weight)) --one.missing;
    }
    sendReady(s);
  }
}

void Exchange::sendReady(std::size_t s) {
  Server& server = servers_[s];
  for (; server.left < server.pieces.size(); ++server.left) {
    Traffic& next = server.pieces[server.left];
    if (next.missing > 0) return;
    send(s, next);
  }
}

/// Running statistics are not gradients: they are sent without the codec.
void Exchange::send(std::size_t s, Traffic& one) {
  const Piece& piece = *one.piece;
  const std::span gradients = ends_.gradients.subspan(piece.begin, piece.count);
  const bool coded = codec_ && !piece.state;
  if (coded)
    codec_->encode(gradients, 1,
                   sparse() ? ends_.kept.subspan(piece.begin, piece.count) : ends_.kept,
                   one.message.data());
  servers_[s].on_their_way.push_back(
      coded ? links_.up.sendAsync(one.message.data(), one.message.size(), DataType::uint8,
                                  static_cast<int>(s))
            : links_.up.sendAsync(gradients.data(), gradients.size(), DataType::float32,
                                  static_cast<int>(s)));
}

Notice Exchange::pull() {
  if (sparse()) pullChanges();
  else pullAll();
  for (std::size_t s = 0; s < servers_.size(); ++s) {
    Server& server = servers_[s];
    server.on_their_way.push_back(recvAsync(links_.down, server.notice, static_cast<int>(s)));
  }
  settle();
  if (sparse()) takeChanges();
  Notice notice = servers_[0].notice;
  for (const Server& server : servers_)
    notice.oldest = std::min(notice.oldest, server.notice.oldest);
  return notice;
}

/// Receives all pieces of all servers at the same time.
void Exchange::pullAll() {
  for (std::size_t s = 0; s < servers_.size(); ++s)
    for (const Traffic& one : servers_[s].pieces)
      servers_[s].on_their_way.push_back(
          links_.down.recvAsync(ends_.values.data() + one.piece->begin, one.piece->count,
                                DataType::float32, static_cast<int>(s)));
}

/// The length of a piece's answer is known only after its server has announced it. While one
/// server's announcement is awaited, pieces of other servers are in flight.
void Exchange::pullChanges() {
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

void Exchange::takeChanges() {
  for (const Server& server : servers_)
    for (const Traffic& one : server.pieces)
      if (one.told.keys > 0)
        take(one.changes.data(), ends_.values.subspan(one.piece->begin, one.piece->count));
}

void Exchange::end() {
  settle();
  request_ = {.kind = Request::end};
  for (std::size_t s = 0; s < servers_.size(); ++s)
    servers_[s].on_their_way.push_back(sendAsync(links_.up, request_, static_cast<int>(s)));
  settle();
}

} // namespace rondo::training::servers
