// The receiving end over one socket.
#include <cassert>
#include <numeric>

#include "rondo/error.h"
#include "transports/tcp/ends.h"
#include "transports/tcp/inlet.h"
#include "transports/tcp/message.h"

namespace rondo::transport::tcp {
namespace {

class Receiver final : public NetworkReceiver {
 public:
  Receiver(net::Socket socket, const SocketSettings& settings)
      : settings_(settings), inlet_(std::move(socket)) {}

  const MessageHeader* peek() override {
    if (started_) return &header_;
    const std::byte* head = inlet_.next(settings_.headerBytes(kHeaderBytes), settings_);
    if (!head) return nullptr;
    requireSeal(head, kHeaderBytes, settings_);
    header_ = decodeHeader(decodeWord(head), decodeWord(head + 8), settings_);
    done_ = 0;
    started_ = true;
    return &header_;
  }

  bool receive(std::span<const MutableBytes> body) override {
    assert(started_);
    assert(header_.bytes == std::accumulate(body.begin(), body.end(), std::size_t{0},
                                            [](std::size_t sum, const MutableBytes& piece) {
                                              return sum + piece.size;
                                            }));
    const std::size_t bytes = header_.bytes;
    done_ += inlet_.read(body, {done_, bytes}, settings_);
    started_ = done_ < bytes;
    return !started_;
  }

 private:
  const SocketSettings settings_;
  bool started_ = false; ///< header_ belongs to the message in progress
  MessageHeader header_;
  std::size_t done_ = 0; ///< bytes of its body
  Inlet inlet_;
};

} // namespace

std::unique_ptr<NetworkReceiver> makeReceiver(net::Socket socket, const SocketSettings& settings) {
  return std::make_unique<Receiver>(std::move(socket), settings);
}

} // namespace rondo::transport::tcp
