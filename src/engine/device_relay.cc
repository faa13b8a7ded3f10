// The host's side of a ring between a kernel and a port. kernels/cuda/plan/PROOFS.md justifies the
// memory orders.
#include "engine/device_relay.h"

#include <array>
#include <span>
#include <utility>

#include "rondo/error.h"

namespace rondo::engine {

namespace {

std::uint64_t acquire(std::uint64_t* word) {
  return std::atomic_ref(*word).load(std::memory_order_acquire);
}
void release(std::uint64_t* word, std::uint64_t value) {
  std::atomic_ref(*word).store(value, std::memory_order_release);
}

} // namespace

DeviceRelay::DeviceRelay(Settings settings, std::unique_ptr<transport::PendingPort> pending)
    : settings_(std::move(settings)),
      ring_(settings_.size.ring(settings_.memory.inbox.get(), settings_.memory.credit.get(),
                                nullptr)),
      pending_(std::move(pending)) {}

bool DeviceRelay::step() {
  if (error_) {
    if (settings_.sends || marked_ || !room()) return false;
    label() = {kEndLabel, 0, nullptr};
    publish();
    return marked_ = true;
  }
  try {
    if (pending_) {
      port_ = pending_->poll();
      if (!port_) return false;
      pending_.reset();
      if (settings_.sends)
        sender_ = std::get<std::unique_ptr<transport::NetworkSender>>(port_->path).get();
      else receiver_ = std::get<std::unique_ptr<transport::NetworkReceiver>>(port_->path).get();
    }
    return settings_.sends ? send() : receive();
  } catch (...) {
    error_ = std::current_exception();
    ended_.store(true, std::memory_order_release);
    return true;
  }
}

std::exception_ptr DeviceRelay::error() const {
  return ended_.load(std::memory_order_acquire) ? error_ : nullptr;
}

bool DeviceRelay::drained() const {
  return !settings_.sends || acquire(ring_.consumed) == acquire(ring_.published);
}

bool DeviceRelay::send() {
  bool moved = sender_->progress();
  for (const std::uint64_t published = acquire(ring_.published); moved_ < published; ++moved_) {
    const device::Label& what = label();
    const transport::ConstBytes body{slot(), what.bytes};
    if (!sender_->start({what.call, what.bytes}, {&body, 1})) break;
    moved = true;
  }
  const std::uint64_t taken = moved_ - sender_->pending();
  if (taken != returned_) release(ring_.consumed, returned_ = taken);
  return moved;
}

bool DeviceRelay::receive() {
  bool moved = false;
  for (; room(); moved = true) {
    const transport::MessageHeader* header = receiver_->peek();
    if (!header) break;
    check(*header);
    const device::Label what{header->signature, header->bytes, nullptr};
    const transport::MutableBytes body{slot(), what.bytes};
    if (!receiver_->receive({&body, 1})) break;
    label() = what;
    publish();
  }
  return moved;
}

void DeviceRelay::check(const transport::MessageHeader& header) const {
  std::string wrong;
  if (header.bytes > settings_.size.slot_bytes)
    wrong = "announced a message of " + std::to_string(header.bytes) +
            " bytes, more than a slot of " + std::to_string(settings_.size.slot_bytes);
  else if (marksEnd(header.signature)) wrong = "sent a message of no call";
  else return;
  throw Error(ErrorCode::transport,
              "rank " + std::to_string(settings_.id.src) + ", channel " +
                  std::to_string(settings_.id.index) + ": " + wrong,
              settings_.id.src);
}

bool DeviceRelay::room() const { return moved_ - acquire(ring_.consumed) < ring_.depth; }

std::byte* DeviceRelay::slot() const { return ring_.slots + moved_ % ring_.depth * ring_.stride; }
device::Label& DeviceRelay::label() const { return ring_.labels[moved_ % ring_.depth]; }

void DeviceRelay::publish() { release(ring_.published, ++moved_); }

} // namespace rondo::engine
