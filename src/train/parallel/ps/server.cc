#include "train/parallel/ps/server.h"

#include "train/loop/elastic.h"
#include "train/parallel/end_work.h"

namespace rondo::training::servers {

Server::Server(Links& links, std::deque<PieceServer>& pieces, const ServerPlan& plan)
    : links_(links),
      pieces_(pieces),
      plan_(plan),
      grants_(static_cast<int>(links.workers.size()), plan.staleness),
      tally_(static_cast<int>(links.workers.size()), static_cast<int>(plan.batch)),
      clients_(links.workers.size()) {
  for (std::size_t w = 0; w < clients_.size(); ++w) {
    clients_[w].rank = links_.workers[w];
    Client& client = clients_[w];
    client.buffers.resize(window());
    client.messages.resize(window());
    for (std::size_t p = 0; p < pieces_.size(); ++p) {
      const std::size_t count = pieces_[p].piece().count;
      auto& buffer = client.buffers[p % window()];
      const std::size_t floats = sparse() ? answerWords(count, count) : count;
      if (buffer.size() < floats) buffer.resize(floats);
      auto& message = client.messages[p % window()];
      if (coded(pieces_[p].piece()) && message.size() < plan.codec->bytes(count))
        message = AlignedBytes(plan.codec->bytes(count));
    }
    client.told.resize(pieces_.size());
    client.has.resize(pieces_.size());
    for (auto* works : {&client.received, &client.announced, &client.sent})
      works->resize(pieces_.size());
  }
}

/// Pending messages use the buffers.
Server::~Server() {
  const auto end = [this](Work& work) {
    endWork(work, {&links_.up, &links_.down}, "the server of this rank");
  };
  for (Client& client : clients_) {
    end(client.requested);
    end(client.noticed);
    for (Work& work : client.received) end(work);
    for (Work& work : client.announced) end(work);
    for (Work& work : client.sent) end(work);
  }
}

void Server::begin(std::int64_t total, std::int64_t steps, double losses) {
  total_ = total;
  stopped_ = false;
  grants_.begin(steps);
  tally_.begin(losses);
  open_ = static_cast<int>(clients_.size());
  for (Client& client : clients_) {
    client.open = true;
    std::fill(client.has.begin(), client.has.end(), 0);
    listen(client);
  }
}

void Server::serve(std::int64_t steps) {
  try {
    while (!ended() && tally_.steps() < steps) lookAtAll();
  } catch (const std::exception& error) {
    tellWorkers(error);
    throw;
  }
}

void Server::lookAtAll() {
  bool moved = false;
  for (std::size_t w = 0; w < clients_.size(); ++w) moved = look(w) || moved;
  if (moved) nap_ = kShortestNap;
  else if (!ended()) rest();
}

/// After the death of a rank all three fail by themselves, and an abort would blame this rank.
void Server::tellWorkers(const std::exception& error) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  if (links_.all->failure() || (known && failureOf(*links_.all, *known))) return;
  for (Communicator* one : {links_.all, &links_.up, &links_.down})
    if (!one->failure()) one->abort(std::string("train: the server failed: ") + error.what());
}

/// Waits for a message of one worker; messages of other workers are noticed after this wait.
void Server::rest() {
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    Client& client = clients_[turn_++ % clients_.size()];
    if (!client.open) continue;
    const bool pieces = client.pushing && client.arrived < client.receiving;
    // This worker waits for this server, or for another worker.
    if (client.pushing && !pieces) continue;
    Work& work = pieces ? client.received[client.arrived] : client.requested;
    work.waitFor(nap_);
    nap_ = std::min(2 * nap_, kLongestNap);
    return;
  }
}

bool Server::look(std::size_t worker) {
  Client& client = clients_[worker];
  if (!client.open) return false;
  bool moved = false;
  if (!client.pushing) {
    if (!client.requested.test()) return false;
    client.requested.wait();
    take(client);
    moved = true;
    if (!client.open) return true;
  }
  moved = takePieces(worker) || moved;
  return answer(worker) || moved;
}

void Server::listen(Client& client) {
  client.requested = recvAsync(links_.up, client.request, client.rank);
}

void Server::take(Client& client) {
  if (client.request.stop != 0 && !stopped_) {
    stopped_ = true;
    grants_.stop();
  }
  if (client.request.kind == Request::end) {
    client.open = false;
    --open_;
    return;
  }
  client.pushing = true;
  client.arrived = client.answered = client.receiving = 0;
  while (client.receiving < window()) receive(client);
}

/// Posts the receive of the next piece of the push, if there is one.
void Server::receive(Client& client) {
  const std::size_t p = client.receiving;
  if (p == pieces_.size()) return;
  ++client.receiving;
  client.sent[p].wait(); // its buffer is reused for this push
  const Piece& piece = pieces_[p].piece();
  if (coded(piece))
    client.received[p] =
        links_.up.recvAsync(client.messages[p % window()].data(), plan_.codec->bytes(piece.count),
                            DataType::uint8, client.rank);
  else
    client.received[p] = links_.up.recvAsync(client.buffers[p % window()].data(), piece.count,
                                             DataType::float32, client.rank);
}

bool Server::takePieces(std::size_t worker) {
  Client& client = clients_[worker];
  bool moved = false;
  for (; client.pushing && client.arrived < client.receiving; moved = true) {
    Work& work = client.received[client.arrived];
    if (!work.test()) return moved;
    work.wait();
    PieceServer& piece = pieces_[client.arrived];
    const std::size_t place = client.arrived % window();
    float* const push = client.buffers[place].data();
    if (coded(piece.piece()))
      plan_.codec->decode(client.messages[place].data(), {push, piece.piece().count});
    const std::int64_t step = total_ + piece.pushes() / static_cast<std::int64_t>(clients_.size());
    piece.push(static_cast<int>(worker), push, plan_.rate(step));
    ++client.arrived;
    if (plan_.staleness.bulk() && piece.clock(static_cast<int>(worker)) == piece.oldest())
      for (Client& each : clients_) receive(each);
    if (client.arrived == pieces_.size()) complete(worker);
  }
  return moved;
}

/// Called when all pieces of a push have arrived.
void Server::complete(std::size_t worker) {
  Client& client = clients_[worker];
  tally_.add(static_cast<int>(worker), client.request.loss);
  if (client.request.kind != Request::last) return;
  client.pushing = client.open = false;
  --open_;
}

/// Answers in the order of the pieces, each as soon as its values are new enough.
bool Server::answer(std::size_t worker) {
  Client& client = clients_[worker];
  if (client.request.kind == Request::last) return false; // it needs no values
  bool moved = false;
  for (; client.pushing && client.answered < client.arrived; ++client.answered, moved = true) {
    const std::size_t p = client.answered;
    PieceServer& piece = pieces_[p];
    const std::int64_t oldest = piece.oldest();
    if (!plan_.staleness.allows(piece.clock(static_cast<int>(worker)), oldest)) return moved;
    // Does not block: the worker has pushed since it received this.
    if (p == 0) client.noticed.wait();
    client.notice.oldest = p == 0 ? oldest : std::min(client.notice.oldest, oldest);
    if (sparse()) sendChanges(client, p);
    else sendValues(client, p);
  }
  if (client.pushing && client.answered == pieces_.size()) endPush(worker);
  return moved;
}

/// In BSP values do not change before every worker has received them, so they are sent without a
/// copy.
void Server::sendValues(Client& client, std::size_t p) {
  const std::span<float> values = pieces_[p].values();
  const float* from = values.data();
  if (!plan_.staleness.bulk()) {
    std::copy(values.begin(), values.end(), client.buffers[p % window()].begin());
    from = client.buffers[p % window()].data();
  }
  client.sent[p] = links_.down.sendAsync(from, values.size(), DataType::float32, client.rank);
  pulled_.told += values.size();
  pulled_.all += values.size();
}

void Server::sendChanges(Client& client, std::size_t p) {
  const std::span<float> values = pieces_[p].values();
  const Changes& changes = pieces_[p].changes();
  client.announced[p].wait(); // does not block: the worker has pushed since it received this
  const std::size_t told = changes.answer(values, client.has[p], client.buffers[p].data());
  client.has[p] = changes.newest();
  client.told[p] = {static_cast<std::int64_t>(told)};
  client.announced[p] = sendAsync(links_.down, client.told[p], client.rank);
  if (told > 0)
    client.sent[p] = links_.down.sendAsync(
        client.buffers[p].data(), answerWords(values.size(), told), DataType::float32, client.rank);
  pulled_.told += told;
  pulled_.all += values.size();
}

void Server::endPush(std::size_t worker) {
  Client& client = clients_[worker];
  const Grant grant = grants_.next(static_cast<int>(worker));
  client.notice.part = grant.go ? grant.part : -1;
  client.notice.last = grant.last;
  client.notice.steps = tally_.steps();
  client.notice.losses = tally_.losses();
  client.notice.loss = tally_.newest();
  client.noticed = sendAsync(links_.down, client.notice, client.rank);
  client.pushing = false;
  listen(client);
}

} // namespace rondo::training::servers
