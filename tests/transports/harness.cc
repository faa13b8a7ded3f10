// Runs ranks of a transport in one process.
#include "harness.h"

#include <exception>
#include <mutex>
#include <thread>

#include "worked_transport.h"

namespace rondo::test {

using namespace transport;

void Watch::check() const {
  if (std::chrono::steady_clock::now() > end_)
    throw std::runtime_error(std::string("waited too long: ") + what_);
  std::this_thread::yield();
}

void inParallel(const std::vector<std::function<void()>>& functions) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (const auto& function : functions)
    threads.emplace_back([&] {
      try {
        function();
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

Bytes patternOf(std::uint64_t number, std::size_t size) {
  Bytes out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = pattern(number, i);
  return out;
}

void requirePattern(std::uint64_t number, const std::byte* data, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i)
    if (data[i] != pattern(number, i))
      throw std::runtime_error("message " + std::to_string(number) + " of " + std::to_string(size) +
                               " bytes differs at " + std::to_string(i));
}

bool Out::start(std::uint64_t signature, std::span<const ConstBytes> body) {
  std::size_t size = 0;
  for (const auto& piece : body) size += piece.size;
  if (worker_) worker_->progress();
  if (sender_) return sender_->start({signature, size}, body);
  if (!ring_->writable(size)) return false;
  std::byte* to = ring_->writeBody(size);
  for (const auto& piece : body)
    if (piece.size > 0)
      to = static_cast<std::byte*>(std::memcpy(to, piece.data, piece.size)) + piece.size;
  ring_->publish({signature, size});
  return true;
}

void Out::send(std::uint64_t signature, const Bytes& body) {
  if (pending() == 0) kept_.clear();
  kept_.push_back(body);
  for (const Watch watch("to start a message"); !start(signature, kept_.back());) watch.check();
}

void Out::flush() {
  for (const Watch watch("to send what is pending"); pending() > 0; progress()) watch.check();
}

bool In::receive(std::span<const MutableBytes> body) {
  if (worker_) worker_->progress();
  if (receiver_) return receiver_->receive(body);
  std::size_t size = 0;
  for (const auto& piece : body) size += piece.size;
  const std::byte* from = ring_->readBody(size);
  for (const auto& piece : body) {
    if (piece.size > 0) std::memcpy(piece.data, from, piece.size);
    from += piece.size;
  }
  ring_->release();
  return true;
}

Bytes In::next(std::uint64_t& signature) {
  const Watch watch("for a message");
  const MessageHeader* header = nullptr;
  while ((header = peek()) == nullptr) watch.check();
  signature = header->signature;
  Bytes body(static_cast<std::size_t>(header->bytes));
  const MutableBytes one{body.data(), body.size()};
  while (!receive(std::span(&one, 1))) watch.check();
  return body;
}

std::vector<Kind> conformingKinds() {
  std::vector<Kind> all;
  for (const Kind& kind : kinds())
    if (!kind.missing || kind.missing().empty()) all.push_back(kind);
  all.push_back(k_worked);
  return all;
}

std::unique_ptr<Port> wait(PendingPort& pending) {
  for (const Watch watch("for a port");; watch.check())
    if (auto port = pending.poll()) return port;
}

Context makeContext(int rank, int ranks, std::uint64_t communicator, const Options& options,
                    const net::Secret& secret, std::shared_ptr<base::Board> board) {
  Context context;
  context.communicator = communicator;
  context.job = 99;
  context.rank = rank;
  context.size = ranks;
  context.secret = secret;
  context.bind_address = net::SocketAddress::parse("127.0.0.1:0", "");
  context.board = std::move(board);
  context.options = options;
  return context;
}

World::World(const Kind& kind, int ranks, const Options& options, std::uint64_t communicator) {
  const auto board = std::make_shared<base::Board>();
  const net::Secret secret = net::Secret::random();
  for (int rank = 0; rank < ranks; ++rank) {
    contexts_.push_back(makeContext(rank, ranks, communicator, options, secret, board));
    contexts_.back().options.transports = kind.name; // some transports must be selected by name
    ranks_.push_back(kind.make(contexts_.back()));
    if (!ranks_.back()) throw std::runtime_error(std::string(kind.name) + " cannot be used here");
  }
}

std::pair<Out, In> World::connect(int src, int dst, int index) {
  const auto from = open(src, id(src, dst, index));
  const auto to = open(dst, id(src, dst, index));
  // Each end may need polls of the other one, too.
  std::unique_ptr<Port> out, in;
  for (const Watch watch("for both ends"); !out || !in; watch.check()) {
    if (!out) out = from->poll();
    if (!in) in = to->poll();
  }
  return {Out(std::move(out), (*this)[src].worker()), In(std::move(in), (*this)[dst].worker())};
}

} // namespace rondo::test
