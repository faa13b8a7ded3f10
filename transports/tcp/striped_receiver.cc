// The receiving end over several lines: assembles the next message from parts of any line.
#include <cassert>
#include <map>
#include <numeric>

#include "base/clock.h"
#include "rondo/error.h"
#include "transports/tcp/ends.h"
#include "transports/tcp/inlet.h"
#include "transports/tcp/message.h"
#include "transports/tcp/split.h"

namespace rondo::transport::tcp {
namespace {

using Clock = base::Clock;

/// Calls without progress between two checks of the clock and of missing lines.
constexpr std::uint64_t kLooksPerCare = 16;

/// A message whose parts are arriving.
struct Incoming {
  MessageHeader header;
  std::vector<bool> arrived; ///< by part
  std::size_t missing = 0;
  /// Buffer for the parts of a later message. Empty for the next message, whose parts go directly
  /// to the caller.
  std::vector<std::byte> aside;

  Incoming() = default;
  explicit Incoming(const MessageHeader& h)
      : header(h), arrived(partsOf(static_cast<std::size_t>(h.bytes))), missing(arrived.size()) {}
};

/// The part at the head of a line.
struct Head {
  std::uint64_t message = 0;
  MessageHeader header;
  std::size_t part = 0;
  std::size_t done = 0; ///< bytes that were read
  bool unwanted = false;

  bool wantedFrom(std::uint64_t next) const { return message >= next && !unwanted; }
  Range range() const { return partOf(static_cast<std::size_t>(header.bytes), part); }
};

struct Line {
  std::optional<Inlet> inlet; ///< nothing: not connected yet, or ended
  bool ended = false;
  std::optional<Head> head;
};

class StripedReceiver final : public NetworkReceiver {
 public:
  StripedReceiver(Lines lines, const SocketSettings& settings)
      : settings_(settings), connect_(std::move(lines.connect)), lines_(lines.sockets.size()) {
    for (std::size_t i = 0; i < lines_.size(); ++i)
      if (lines.sockets[i]) lines_[i].inlet.emplace(std::move(lines.sockets[i]));
  }

  const MessageHeader* peek() override {
    if (started_) return &current_.header;
    moved_ = false;
    if (const auto aside = aside_.find(next_); aside != aside_.end()) {
      current_ = std::move(aside->second);
      aside_.erase(aside);
      started_ = true;
    }
    for (std::size_t i = 0; i < lines_.size() && !started_; ++i)
      if (lookAt(lines_[i]) && lines_[i].head->message == next_) {
        current_ = Incoming(lines_[i].head->header);
        started_ = true;
      }
    if (started_) return &current_.header;
    care();
    return nullptr;
  }

  bool receive(std::span<const MutableBytes> body) override {
    assert(started_);
    assert(current_.header.bytes == std::accumulate(body.begin(), body.end(), std::size_t{0},
                                                    [](std::size_t sum, const MutableBytes& piece) {
                                                      return sum + piece.size;
                                                    }));
    moved_ = false;
    for (Line& line : lines_)
      while (current_.missing > 0 && lookAt(line) && line.head->message == next_)
        if (!fill(line, current_, body)) break;
    if (current_.missing == 0) {
      complete(body);
      return true;
    }
    care();
    return false;
  }

 private:
  // One line --------------------------------------------------------------------------------------

  /// Runs act(). An error or the end of one line is thrown only if no line is left.
  template <class Act>
  void guarded(Line& line, const Act& act) {
    try {
      act();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::system || error.code() == ErrorCode::transport) throw;
      line.inlet.reset();
      line.head.reset();
      line.ended = true;
      last_end_ = error;
      requireLines();
    }
  }

  void requireLines() const {
    if (last_end_ && !anyWorks()) throw Error(*last_end_);
  }
  bool anyWorks() const {
    return std::ranges::any_of(lines_, [](const Line& line) { return line.inlet.has_value(); });
  }

  /// Reads the next part's header from the line, and skips parts of messages that are complete.
  /// Returns whether there is a part of the next message or of a later one.
  bool lookAt(Line& line) {
    guarded(line, [&] {
      while (line.inlet) {
        if (!line.head) {
          const std::byte* bytes =
              line.inlet->next(settings_.headerBytes(kPartHeaderBytes), settings_);
          if (!bytes) return;
          line.head = decode(bytes);
        }
        if (line.head->wantedFrom(next_) || !skip(line)) return;
      }
    });
    return line.head && line.head->wantedFrom(next_);
  }

  Head decode(const std::byte* bytes) const {
    requireSeal(bytes, kPartHeaderBytes, settings_);
    Head head;
    head.message = decodeWord(bytes);
    head.header = decodeHeader(decodeWord(bytes + 8), decodeWord(bytes + 16), settings_);
    const std::uint64_t begin = decodeWord(bytes + 24);
    head.part = static_cast<std::size_t>(begin / kPartBytes);
    if (begin % kPartBytes != 0 ||
        head.part >= partsOf(static_cast<std::size_t>(head.header.bytes)))
      fail(head);
    return head;
  }

  [[noreturn]] void fail(const Head& head) const {
    throw Error(ErrorCode::transport,
                settings_.channel + ": rank " + std::to_string(settings_.peer) +
                    " sent a part of message " + std::to_string(head.message) +
                    " that does not fit it",
                settings_.peer);
  }

  /// Reads the rest of a part that is no longer needed; true when it is complete.
  bool skip(Line& line) {
    Head& head = *line.head;
    const std::size_t size = head.range().size();
    scratch_.resize(kPartBytes);
    const MutableBytes all{scratch_.data(), size};
    head.done += line.inlet->read(std::span(&all, 1), {head.done, size}, settings_);
    if (head.done < size) return false;
    line.head.reset();
    return true;
  }

  /// Reads what has arrived of the line's part; true when nothing more of it is needed.
  bool fill(Line& line, Incoming& message, std::span<const MutableBytes> body) {
    Head& head = *line.head;
    if (head.header.bytes != message.header.bytes ||
        head.header.signature != message.header.signature ||
        head.header.checksum != message.header.checksum)
      fail(head);
    head.unwanted = message.arrived[head.part];
    if (head.unwanted) return true;
    const MutableBytes aside{message.aside.data(), message.aside.size()};
    if (!message.aside.empty()) body = std::span(&aside, 1);
    const Range range = head.range();
    std::size_t got = 0;
    guarded(line, [&] {
      got = line.inlet->read(body, {range.begin + head.done, range.end}, settings_);
    });
    if (!line.head) return false;
    moved_ |= got > 0;
    head.done += got;
    if (head.done < range.size()) return false;
    message.arrived[head.part] = true;
    --message.missing;
    line.head.reset();
    return true;
  }

  // The channel -----------------------------------------------------------------------------------

  void complete(std::span<const MutableBytes> body) {
    if (const std::byte* from = current_.aside.data(); !current_.aside.empty())
      for (const MutableBytes& piece : body) {
        if (piece.size > 0) std::memcpy(piece.data, from, piece.size);
        from += piece.size;
      }
    started_ = false;
    ++next_;
    fruitless_ = 0;
  }

  /// Work that is only necessary if nothing arrives.
  void care() {
    requireLines();
    if (moved_) fruitless_ = 0;
    else if (++fruitless_ % kLooksPerCare == 0) {
      connectMore();
      if (fruitless_ == kLooksPerCare) fruitless_since_ = Clock::now();
      else if (Clock::now() - fruitless_since_ > kStashAfter) putAside();
    }
  }

  /// Asks again later for a line that cannot connect. The sender may count what it sends over that
  /// line as arrived, so this end may not give the line up.
  void connectMore() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      Line& line = lines_[i];
      if (line.inlet || line.ended) continue;
      try {
        if (auto socket = connect_(i)) line.inlet.emplace(std::move(*socket));
      } catch (const Error&) {
        if (!anyWorks()) throw;
      }
    }
  }

  /// Stores the parts of later messages at the lines' heads, so that the parts after them can be
  /// read. The sender limits them: it starts a message only when the one `depth` before it has
  /// arrived.
  void putAside() {
    const auto depth = static_cast<std::uint64_t>(settings_.size.depth);
    for (Line& line : lines_)
      while (lookAt(line) && line.head->message != next_ && line.head->message - next_ < depth) {
        const Head& head = *line.head;
        Incoming& message = aside_.try_emplace(head.message, head.header).first->second;
        const auto bytes = static_cast<std::size_t>(message.header.bytes);
        message.aside.resize(std::max<std::size_t>(1, bytes));
        if (!fill(line, message, {})) break;
      }
  }

  const SocketSettings settings_;
  const decltype(Lines::connect) connect_;
  std::vector<Line> lines_;
  std::optional<Error> last_end_;
  std::uint64_t next_ = 0; ///< number of the message that peek() returns
  bool started_ = false;   ///< current_ is that message
  Incoming current_;
  std::map<std::uint64_t, Incoming> aside_; ///< later messages
  std::vector<std::byte> scratch_;          ///< for parts that are skipped
  bool moved_ = false;                      ///< whether this call moved anything
  std::uint64_t fruitless_ = 0;             ///< consecutive calls that moved nothing
  Clock::time_point fruitless_since_{};
};

} // namespace

std::unique_ptr<NetworkReceiver> makeStripedReceiver(Lines lines, const SocketSettings& settings) {
  return std::make_unique<StripedReceiver>(std::move(lines), settings);
}

} // namespace rondo::transport::tcp
