// The messages of UCX channels: the sender starts them as the receiver's credit allows; the
// receiver puts them in order, and copies or fetches their bodies.
#include <cassert>
#include <cstring>
#include <numeric>

#include "base/copy.h"
#include "rondo/error.h"
#include "transports/ucx/channels.h"

namespace rondo::transport::ucx {

namespace {

template <class Bytes>
std::size_t sizeOf(std::span<const Bytes> body) {
  return std::accumulate(body.begin(), body.end(), std::size_t{0},
                         [](std::size_t sum, const Bytes& piece) { return sum + piece.size; });
}

/// Assigns the pieces that are not empty.
template <class Bytes>
void assign(std::vector<Piece>& pieces, std::span<const Bytes> body) {
  pieces.clear();
  for (const Bytes& piece : body)
    if (piece.size > 0)
      pieces.push_back({const_cast<void*>(static_cast<const void*>(piece.data)), piece.size});
}

void scatter(const void* from, std::span<const MutableBytes> body) {
  const auto* at = static_cast<const std::byte*>(from);
  for (const MutableBytes& piece : body) {
    if (piece.size > 0) base::copyBytes(piece.data, at, piece.size);
    at += piece.size;
  }
}

} // namespace

bool Channels::start(Outbox& box, const MessageHeader& header, std::span<const ConstBytes> body) {
  assert(header.bytes <= box.settings.size.slot_bytes);
  assert(header.bytes == sizeOf(body));
  const std::lock_guard lock(lock_);
  reap(box);
  if (box.pending() == box.queue.size()) return false;
  Outbox::Message& message = box.message(box.end++);
  message.signature = header.signature;
  message.checksum = header.checksum;
  message.bytes = header.bytes;
  assign(message.body, body);
  issue(box);
  reap(box);
  return true;
}

/// Passes as many messages to UCX as the receiver has room for.
void Channels::issue(Outbox& box) {
  for (; box.issued != box.end; ++box.issued) {
    const auto number = static_cast<std::uint32_t>(box.issued);
    if (number - box.done_with >= kUcxWindow) return;
    Outbox::Message& message = box.message(box.issued);
    message.header =
        Short{Word::body, number, box.receiver_key, message.signature, message.checksum}.encode();
    const bool announce = message.bytes > kUcxEagerBytes;
    if (announce) box.needed = number + 1;
    worker_->send(*peer(box.settings.peer).endpoint, message.header, message.body, announce,
                  message.sent);
  }
}

/// Drops the messages that UCX has sent.
void Channels::skipDone(Outbox& box) noexcept {
  for (; box.begin != box.issued; ++box.begin) {
    const Operation& sent = box.message(box.begin).sent;
    if (sent.pending || sent.error) return;
  }
}

/// The same; throws if UCX has failed to send, or can no longer send.
void Channels::reap(Outbox& box) {
  skipDone(box);
  if (box.pending() == 0) return;
  if (box.begin != box.issued && !box.message(box.begin).sent.pending)
    fail(box.settings, box.message(box.begin).sent.error);
  if (over(box.settings)) fail(box.settings, "");
}

bool Channels::settle(Outbox& box) {
  const std::size_t before = box.pending();
  if (before == 0) return false;
  const std::lock_guard lock(lock_);
  reap(box);
  return box.pending() < before;
}

std::size_t Channels::pending(Outbox& box) {
  if (box.pending() == 0) return 0;
  const std::lock_guard lock(lock_);
  skipDone(box);
  return box.pending();
}

bool Channels::reads(const Outbox& box, const void* data, std::size_t size) {
  // Compared as numbers, because the ranges may belong to different objects.
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::lock_guard lock(lock_);
  for (std::uint64_t number = box.begin; number != box.end; ++number) {
    const Outbox::Message& message = box.queue[number % box.queue.size()];
    if (number < box.issued && !message.sent.pending) continue;
    for (const Piece& piece : message.body) {
      const auto from = reinterpret_cast<std::uintptr_t>(piece.data);
      if (from < begin + size && begin < from + piece.size) return true;
    }
  }
  return false;
}

/// Messages of one connection may overtake each other: small ones overtake announced ones.
bool Channels::takeBody(const Short& header, const Arrival& arrival) {
  const auto found = inboxes_.find(header.key);
  if (found == inboxes_.end()) return false;
  Inbox& box = *found->second;
  Inbox::Place& place = box.place(header.number);
  if (header.number - box.next >= kUcxWindow || place.taken) {
    box.wrong = "sent message " + std::to_string(header.number) + " out of turn";
    return false;
  }
  if (arrival.bytes > box.settings.size.slot_bytes) {
    box.wrong = "announced a message of " + std::to_string(arrival.bytes) + " bytes, more than " +
                std::to_string(box.settings.size.slot_bytes);
    return false;
  }
  place.taken = true;
  place.announced = arrival.announced;
  place.header = {header.signature, arrival.bytes, header.checksum};
  place.kept = nullptr;
  if (arrival.announced || (arrival.keepable && arrival.bytes > kUcxKeepBytes)) {
    place.kept = arrival.data;
    return true;
  }
  const auto* body = static_cast<const std::byte*>(arrival.data);
  if (arrival.bytes > 0) place.copy.assign(body, body + arrival.bytes);
  return false;
}

void Channels::takeCredit(const Short& header) {
  const auto found = outboxes_.find(header.key);
  if (found == outboxes_.end()) return;
  Outbox& box = *found->second;
  // Ignores a number beyond what was sent, or below an earlier one.
  const auto sent = static_cast<std::uint32_t>(box.issued);
  if (sent - header.number <= sent - box.done_with) box.done_with = header.number;
  if (box.received()) box.needed = box.done_with; // so that the difference stays small
  issue(box);
}

void Channels::takeClosed(const Short& header) {
  if (const auto found = outboxes_.find(header.key); found != outboxes_.end())
    found->second->closed = true;
}

const MessageHeader* Channels::peek(Inbox& box) {
  const std::lock_guard lock(lock_);
  const Inbox::Place& place = box.place(box.next);
  // The announced body of a peer that has ended never arrives.
  if (place.taken && !(place.announced && !peer(box.settings.peer).end.empty()))
    return &place.header;
  if (!box.wrong.empty())
    throw Error(
        ErrorCode::transport,
        box.settings.channel + ": rank " + std::to_string(box.settings.peer) + " " + box.wrong,
        box.settings.peer);
  if (over(box.settings)) fail(box.settings, "");
  return nullptr;
}

bool Channels::receive(Inbox& box, std::span<const MutableBytes> body) {
  const std::lock_guard lock(lock_);
  Inbox::Place& place = box.place(box.next);
  assert(place.taken && place.header.bytes == sizeOf(body));
  if (!place.announced) {
    scatter(place.kept ? place.kept : place.copy.data(), body);
    if (place.kept) worker_->drop(place.kept);
    done(box);
    return true;
  }
  if (!box.fetching) {
    box.fetching = true;
    assign(box.into, body);
    worker_->fetch(std::exchange(place.kept, nullptr), box.into, box.fetched);
  }
  if (box.fetched.pending) {
    if (over(box.settings)) fail(box.settings, "");
    return false;
  }
  if (box.fetched.error) fail(box.settings, box.fetched.error);
  box.fetching = false;
  done(box);
  return true;
}

/// The sender may not close before it has the receipt of an announced message.
void Channels::done(Inbox& box) {
  Inbox::Place& place = box.place(box.next);
  place.taken = false;
  ++box.next;
  if (place.announced || box.next - box.credited >= kUcxWindow / 2) credit(box);
}

/// One receipt at a time: a later one includes all earlier ones.
void Channels::credit(Inbox& box) {
  if (box.paid.pending) {
    unpaid_.push_back(&box);
    return;
  }
  box.credited = box.next;
  box.receipt = Short{Word::credit, box.next, box.sender_key, 0, 0}.encode();
  worker_->send(*peer(box.settings.peer).endpoint, box.receipt, {}, false, box.paid);
}

} // namespace rondo::transport::ucx
