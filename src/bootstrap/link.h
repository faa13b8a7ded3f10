// One control connection: bounded frames with a sequenced HMAC each, on the event loop.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fork.h"
#include "bootstrap/frames.h"
#include "net/connection.h"
#include "net/event_loop.h"
#include "net/hmac.h"

namespace rondo::bootstrap {

/// All functions and handlers run on the loop thread.
class Link : public std::enable_shared_from_this<Link> {
 public:
  enum class Side { hub, member };
  struct Handlers {
    /// An exception from it ends the link and calls closed().
    std::function<void(frames::Type, base::Reader&)> frame;
    /// The peer ended the connection, it broke, or a frame was invalid. Called once, and never
    /// after close().
    std::function<void(const std::string& why)> closed;
    /// Called in place of closed() if a frame was of this other version. The peer has been sent a
    /// frame, so it also learns that the versions differ. If this is empty, closed() is called.
    std::function<void(int version)> other_version = {};
  };

  static std::shared_ptr<Link> open(std::shared_ptr<net::EventLoop> loop, net::Socket socket,
                                    const net::Key& key, Side side, Handlers handlers);
  ~Link();

  template <class Body>
  void send(frames::Type type, const Body& body) {
    base::Writer writer;
    body.write(writer);
    sendBytes(type, writer.bytes());
  }
  void send(frames::Type type) { sendBytes(type, {}); }

  /// Ends the connection. Frames that were sent before still arrive, unless the peer does not read
  /// them within three seconds. No handler is called afterwards.
  void close();
  bool open() const { return socket_ && parting_ == 0; }
  /// Whether the peer has sent a frame.
  bool heard() const { return received_ > 0; }
  /// Waits until no closed link of this process has frames to send. Any thread; does not wait on
  /// the loop thread.
  static void awaitParted();
  int descriptor() const { return socket_.get(); }

 private:
  Link(std::shared_ptr<net::EventLoop> loop, net::Socket socket, const net::Key& key, Side side,
       Handlers handlers);
  void sendBytes(frames::Type type, std::span<const std::byte> body);
  /// Closes the socket. Frames that are still queued are lost.
  void shut();
  void ready(std::uint32_t events);
  void readSome();
  /// If TLS holds received bytes or has failed, which epoll does not report, posts a call of
  /// readSome().
  void readBuffered();
  void parse();
  bool flush();
  ssize_t receive(std::span<std::byte> into);
  ssize_t sendSome(std::span<const std::byte> bytes);
  void watchFor(bool writing);
  void end(const std::string& why);
  void endFor(int version);
  net::Mac mac(bool outgoing, std::uint64_t sequence, std::span<const std::byte> bytes) const;

  const std::shared_ptr<net::EventLoop> loop_;
  net::Socket socket_;
  const net::Key key_;
  const Side side_;
  const base::Maker maker_;
  Handlers handlers_;
  net::EventLoop::Id watch_ = 0;
  bool writing_ = false;
  net::EventLoop::Id parting_ = 0; ///< after close(): holds this object while frames are queued
  std::vector<std::byte> in_;
  std::uint64_t received_ = 0, sent_ = 0; ///< number of frames, for the MACs
  std::deque<std::vector<std::byte>> out_;
  std::size_t out_at_ = 0, out_bytes_ = 0;
};

/// What an error says of a peer whose frames are of another version: "has version 4 of ...".
/// `own` is how the error names this side.
std::string differentVersions(int theirs, const std::string& own);
/// What an error says of a peer that closed its connection without a frame, as builds do that do
/// not tell their version: "may have another version of ...".
std::string unknownVersion(const std::string& own);

} // namespace rondo::bootstrap
