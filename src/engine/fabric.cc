// Opens the channels of one rank, and records which transport serves which peer.
#include "engine/fabric.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "transports/same_process.h"

namespace rondo::engine {

namespace {
constexpr int kSelfDepth = 8;
}

Fabric::Fabric(int rank, std::uint64_t communicator,
               std::vector<std::unique_ptr<transport::Transport>> transports,
               std::vector<Peer> peers, std::size_t message_bytes, bool network_channels)
    : rank_(rank),
      communicator_(communicator),
      transports_(std::move(transports)),
      peers_(std::move(peers)),
      message_bytes_(message_bytes),
      network_channels_(network_channels) {}

End& Fabric::end(int src, int dst, int index, bool sending) {
  const transport::ChannelId id{communicator_, src, dst, index};
  if (const auto known = ends_.find({id, sending}); known != ends_.end()) return *known->second;
  auto made = std::make_unique<End>();
  made->id = id;
  made->peer = sending ? dst : src;
  made->sends = sending;
  made->over_network = made->peer != rank_ && !peerOf(*made).transport->mapped();
  return *ends_.emplace(std::pair(id, sending), std::move(made)).first->second;
}

const Fabric::Peer& Fabric::peerOf(const End& end) const {
  return peers_[static_cast<std::size_t>(end.peer)];
}

void Fabric::startOpening(End& end) {
  if (end.open() || end.pending) return;
  if (end.peer == rank_) return adopt(end, selfPort(end.id.index));
  const Peer& peer = peerOf(end);
  end.pending = peer.transport->open(end.id, peer.address);
  end.worker = peer.transport->worker();
  if (end.worker && std::find(workers_.begin(), workers_.end(), end.worker) == workers_.end())
    workers_.push_back(end.worker);
}

bool Fabric::ready(End& end) {
  startOpening(end);
  if (end.open()) return true;
  if (auto port = end.pending->poll()) {
    end.pending.reset();
    adopt(end, std::move(port));
    return true;
  }
  return false;
}

bool Fabric::arrived(int peer) {
  End& from = end(peer, rank_, transport::ChannelId::kPointToPoint, false);
  startOpening(from);
  if (from.pending) from.pending->extend();
  if (!ready(from)) return false;
  return from.mapped() ? from.ring->readable() != nullptr : from.receiver->peek() != nullptr;
}

void Fabric::adopt(End& end, std::unique_ptr<transport::Port> port) {
  using namespace transport;
  if (const auto* slots = std::get_if<MappedSlots>(&port->path)) {
    end.ring = slots->ring.get();
    end.loans = slots->loans.get();
  } else if (const auto* sender = std::get_if<std::unique_ptr<NetworkSender>>(&port->path)) {
    end.sender = sender->get();
  } else if (const auto* receiver = std::get_if<std::unique_ptr<NetworkReceiver>>(&port->path)) {
    end.receiver = receiver->get();
  } else {
    end.device = &std::get<DeviceMemory>(port->path);
  }
  end.port = std::move(port);
}

std::unique_ptr<transport::Port> Fabric::selfPort(int index) {
  if (self_device_) {
    auto& both_ends = self_device_memory_[index];
    if (!both_ends.inbox) both_ends = self_device_();
    auto on_device = std::make_unique<transport::Port>();
    on_device->path = both_ends;
    return on_device;
  }
  std::shared_ptr<void>& memory = self_memory_[index];
  if (!memory) {
    const std::size_t bytes = transport::SlotRing::bytesNeeded(kSelfDepth, message_bytes_);
    constexpr std::align_val_t kLine{64};
    memory = {::operator new(bytes, kLine), [](void* p) { ::operator delete(p, kLine); }};
    std::memset(memory.get(), 0, transport::SlotRing::bytesNeeded(kSelfDepth, 0));
  }
  auto port = std::make_unique<transport::Port>();
  port->path = transport::MappedSlots{
      std::make_shared<transport::SlotRing>(memory.get(), kSelfDepth, message_bytes_, memory),
      std::make_shared<transport::SameProcess>()};
  port->slot_bytes = message_bytes_;
  port->depth = kSelfDepth;
  return port;
}

Fabric::Memory Fabric::memory() const {
  Memory sum;
  for (const auto& [key, end] : ends_) {
    if (!end->open()) continue;
    sum.staging += end->staging.size();
    if (end->relayed) sum.slots += end->relayed->inbox_bytes;
    if (!end->sends) continue;
    ++sum.channels;
    if (end->device) sum.slots += end->device->inbox_bytes;
    if (end->ring)
      sum.slots += transport::SlotRing::bytesNeeded(end->ring->depth(), end->ring->slotBytes());
  }
  return sum;
}

std::string_view Fabric::transportTo(int peer) const {
  return peer == rank_ ? "self" : peers_[static_cast<std::size_t>(peer)].transport->name();
}

} // namespace rondo::engine
