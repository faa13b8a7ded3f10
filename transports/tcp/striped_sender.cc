// The sending end over several lines: sends each part of a message over the line on which it should
// arrive first, and again over another line if it does not arrive.
#include <bitset>
#include <deque>

#include "rondo/error.h"
#include "transports/tcp/message.h"
#include "transports/tcp/queueing_sender.h"
#include "transports/tcp/socket_io.h"
#include "transports/tcp/split.h"

namespace rondo::transport::tcp {
namespace {

using Clock = base::Clock;

/// Calls of progress() between two checks for lines that are not connected yet.
constexpr std::uint64_t kCallsPerConnect = 16;
constexpr int kNobody = -1;
/// Longest time, in seconds, for which a part may wait for its line. Without a limit, each wait
/// could be longer than the last, as the line's measured pace gets slower.
constexpr double kLongestWait = 0.5;
/// Times in seconds below this count as equal.
constexpr double kLeastRepeat = 0.001;

/// Identifies a part of a message.
struct PartId {
  std::uint64_t message = 0;
  std::size_t part = 0;
};

struct Message {
  MessageHeader header;
  OutgoingBody body;
  std::array<std::byte, kGatherBytes> small; ///< a copy of a small body
  struct Part {
    bool arrived = false;
    std::bitset<kMostLines> lines; ///< over which the part was sent
  };
  std::vector<Part> parts;
  std::size_t handed = 0;  ///< parts that were assigned to a line
  std::size_t missing = 0; ///< parts that have not arrived

  void set(const MessageHeader& of, std::span<const ConstBytes> pieces,
           const SocketSettings& /*settings*/) {
    header = of;
    body.set(static_cast<std::size_t>(of.bytes), pieces, small.data());
    missing = partsOf(body.bytes);
    parts.assign(missing, {});
    handed = 0;
  }
  bool reads(const void* data, std::size_t size) const {
    return missing > 0 && body.overlaps(data, size);
  }
};

/// A part in flight on one line.
struct Cargo {
  PartId what;
  std::size_t bytes = 0; ///< of its body
  std::uint64_t end = 0; ///< offset of its end in the line's bytes
  Clock::time_point handed_over, due;
  int instead_of = kNobody; ///< the line that should have delivered it
  bool repeated = false;    ///< it was also assigned to other lines
};

struct Line {
  net::Socket socket; ///< empty: not connected yet, or lost
  bool lost = false;
  Pace pace;
  std::deque<Cargo> cargo; ///< not acknowledged; all except the last are sent completely
  std::uint64_t end = 0;   ///< bytes assigned to it
  std::uint64_t taken = 0; ///< of these, taken by its socket
  std::uint64_t acknowledged = 0;
  Clock::time_point last_arrival{}, last_use{};
  Clock::time_point measured_since{}; ///< start of the measurement; used while it carries anything
  std::size_t measured = 0;           ///< bytes that have arrived since then
  Seconds latency{};                  ///< time from assignment to arrival of the last part
  std::array<std::byte, kPartHeaderBytes + kSealBytes> header{}; ///< of the last cargo
  /// The rest of the last cargo with its header, if its message was completed by other lines.
  std::vector<std::byte> rest;
  Clock::time_point unanswered_since{};
  std::string trouble; ///< why other lines replace it; not reported yet
  bool was_late = false;

  bool open() const { return static_cast<bool>(socket); }
  bool full() const { return taken < end; }
};

class StripedSender final : public QueueingSender<Message> {
 public:
  StripedSender(Lines lines, const SocketSettings& settings)
      : QueueingSender(settings),
        connect_(std::move(lines.connect)),
        replaced_(std::move(lines.replaced)),
        lines_(lines.sockets.size()),
        loads_(lines_.size()) {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      lines_[i].socket = std::move(lines.sockets[i]);
      lines_[i].last_use = Clock::now();
    }
  }

  bool progress() override {
    if (calls_++ % kCallsPerConnect == 0) connectMore();
    if (begin_ == end_) return false;
    looked_ = std::exchange(now_, Clock::now());
    bool moved = false;
    const auto each = [&](const auto& act) {
      for (Line& line : lines_)
        if (line.open()) guarded(line, [&] { moved |= act(line); });
    };
    each([&](Line& line) { return settle(line); });
    each([&](Line& line) { return line.full() && write(line); });
    while (const auto next = nextPart())
      if (!handOver(*next)) break;
      else moved = true;
    while (begin_ != end_ && at(begin_).missing == 0) ++begin_;
    if (moved) fruitless_ = 0;
    else if (++fruitless_ % kLooksPerCheck == 0) each([&](Line& line) { return check(line); });
    return moved;
  }

 private:
  struct Next {
    PartId what;
    int instead_of = kNobody;
  };

  bool wanted(const PartId& what) const {
    return what.message >= begin_ && !at(what.message).parts[what.part].arrived;
  }
  int indexOf(const Line& line) const { return static_cast<int>(&line - lines_.data()); }

  // Connecting and losing lines -------------------------------------------------------------------

  void connectMore() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      Line& line = lines_[i];
      if (line.open() || line.lost) continue;
      try {
        if (auto socket = connect_(i)) {
          line.socket = std::move(*socket);
          line.last_use = Clock::now();
        }
      } catch (const Error& error) { // also a lack of this process: the other lines need nothing
        lose(line, error);
        say(i);
      }
    }
  }

  /// Runs act(). An error of one line is thrown only if no line is left.
  template <class Act>
  void guarded(Line& line, const Act& act) {
    try {
      act();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::system) throw;
      lose(line, error);
    }
  }

  /// Only while the error is handled, which is thrown if no line is left.
  void lose(Line& line, const Error& error) {
    line.lost = true;
    line.socket.reset();
    line.trouble = error.what();
    for (const Cargo& cargo : line.cargo) again_.push_back({cargo.what, indexOf(line)});
    line.cargo.clear();
    if (std::none_of(lines_.begin(), lines_.end(), [](const Line& l) { return l.open(); })) throw;
  }

  void say(std::size_t line) {
    replaced_(line, lines_[line].trouble);
    lines_[line].trouble.clear();
  }

  bool check(Line& line) {
    if (fruitless_ == kLooksPerCheck) line.unanswered_since = now_;
    line.unanswered_since = checkAnswered(line.socket.get(), line.unanswered_since, settings_);
    return false;
  }

  // Arrivals --------------------------------------------------------------------------------------

  /// True if a part has arrived.
  bool settle(Line& line) {
    if (line.cargo.empty()) return false;
    const std::uint64_t owed = unacknowledged(line.socket.get());
    line.acknowledged = std::max(line.acknowledged, line.taken - std::min(owed, line.taken));
    bool moved = false;
    while (!line.cargo.empty() && line.cargo.front().end <= line.acknowledged) {
      const Cargo cargo = line.cargo.front();
      line.cargo.pop_front();
      arrived(cargo);
      line.measured += cargo.bytes;
      line.latency = now_ - cargo.handed_over;
      moved = true;
    }
    if (moved) measure(line);
    if (!line.cargo.empty() && now_ > line.cargo.front().due) late(line);
    return moved;
  }

  /// Measures the line's pace. Small parts are skipped, because they measure round trips instead of
  /// speed. So are short measurements, because a part that arrived since the last check may have
  /// arrived long ago.
  void measure(Line& line) {
    line.last_arrival = now_;
    const auto busy = now_ - line.measured_since;
    if (line.measured < kPartBytes || busy < kLooksApart * (now_ - looked_)) return;
    line.pace.measured(line.measured, busy);
    line.measured_since = now_;
    line.measured = 0;
  }

  void arrived(const Cargo& cargo) {
    if (cargo.instead_of != kNobody) {
      Line& other = lines_[static_cast<std::size_t>(cargo.instead_of)];
      // A line with many parts in its queue is also late, but it still delivers some of them.
      const bool silent = !other.cargo.empty() && other.last_arrival < cargo.handed_over;
      if (!other.trouble.empty() && (other.lost || silent))
        say(static_cast<std::size_t>(cargo.instead_of));
    }
    if (!wanted(cargo.what)) return;
    Message& message = at(cargo.what.message);
    message.parts[cargo.what.part].arrived = true;
    if (--message.missing == 0) release(cargo.what.message);
  }

  /// The caller may reuse the message's memory from now on. Copies what lines must still send of
  /// it.
  void release(std::uint64_t number) {
    for (Line& line : lines_) {
      if (line.cargo.empty() || !line.full() || line.cargo.back().what.message != number) continue;
      std::vector<std::byte> rest;
      for (const std::uint64_t taken = line.taken;; line.taken = taken + rest.size()) {
        Pieces pieces;
        gather(line, pieces);
        for (const iovec& piece : pieces.list()) {
          const auto* from = static_cast<const std::byte*>(piece.iov_base);
          rest.insert(rest.end(), from, from + piece.iov_len);
        }
        if (taken + rest.size() == line.end) {
          line.taken = taken;
          break;
        }
      }
      line.rest = std::move(rest);
    }
  }

  /// Sends everything that the line has not delivered over other lines, too.
  void late(Line& line) {
    for (Cargo& cargo : line.cargo) {
      if (!cargo.repeated && wanted(cargo.what)) again_.push_back({cargo.what, indexOf(line)});
      cargo.repeated = true;
    }
    if (!line.was_late) line.trouble = "it is late";
    line.was_late = true;
    const Cargo& first = line.cargo.front();
    if (!line.trouble.empty() && !wanted(first.what) && line.last_arrival < first.handed_over)
      say(static_cast<std::size_t>(indexOf(line)));
  }

  // Sending ---------------------------------------------------------------------------------------

  std::optional<Next> nextPart() {
    while (!again_.empty() && !wanted(again_.front().what)) again_.pop_front();
    if (!again_.empty()) return again_.front();
    for (std::uint64_t number = begin_; number != end_; ++number)
      if (const Message& message = at(number); message.handed < message.parts.size())
        return Next{{number, message.handed}};
    return behind();
  }

  /// A part that its line will not deliver soon, if another line is idle.
  std::optional<Next> behind() {
    double idle = kLongestWait;
    for (const Line& line : lines_)
      if (line.open() && line.cargo.empty())
        idle = std::min(idle, arrival(loadOf(line, false), kPartBytes));
    for (Line& line : lines_)
      for (Cargo& cargo : line.cargo) {
        if (cargo.repeated || !wanted(cargo.what)) continue;
        if (arrival(loadOf(line, false), 0) < kIdleRepeat * std::max(idle, kLeastRepeat)) break;
        cargo.repeated = true;
        again_.push_back({cargo.what, indexOf(line)});
        return again_.front();
      }
    return std::nullopt;
  }

  /// False: the best line for the part has no room.
  bool handOver(const Next& next) {
    Message& message = at(next.what.message);
    Message::Part& part = message.parts[next.what.part];
    for (std::size_t i = 0; i < lines_.size(); ++i) loads_[i] = loadOf(lines_[i], part.lines[i]);
    const std::size_t bytes = partOf(message.body.bytes, next.what.part).size();
    const auto chosen = soonest(loads_, bytes, turn_);
    if (chosen && lines_[*chosen].full()) return false;
    if (next.instead_of == kNobody) ++message.handed;
    else again_.pop_front(); // every line carries it already, or one takes it now
    if (!chosen) return true;
    turn_ = (*chosen + 1) % lines_.size();
    carry(*chosen, next, bytes);
    if (bytes == kPartBytes) probe(next, bytes);
    return true;
  }

  LineLoad loadOf(const Line& line, bool carries) const {
    LineLoad load;
    load.usable = line.open() && !carries;
    load.full = line.full();
    load.pace = line.pace;
    load.ahead = static_cast<std::size_t>(line.end - line.acknowledged);
    if (!line.cargo.empty()) {
      const Cargo& oldest = line.cargo.front();
      load.oldest = settings_.headerBytes(kPartHeaderBytes) + oldest.bytes;
      load.oldest_age = now_ - std::max(oldest.handed_over, line.last_arrival);
    }
    return load;
  }

  /// Sends a copy over each line that was not used for a while, to measure its pace.
  void probe(const Next& next, std::size_t bytes) {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const Line& line = lines_[i];
      if (line.open() && line.cargo.empty() && now_ - line.last_use > kProbePause)
        carry(i, {next.what, kNobody}, bytes);
    }
  }

  void carry(std::size_t index, const Next& next, std::size_t bytes) {
    Line& line = lines_[index];
    Message& message = at(next.what.message);
    message.parts[next.what.part].lines.set(index);
    line.header = encodeWords<4>({next.what.message, message.header.signature,
                                  sizeWord(message.header), next.what.part * kPartBytes},
                                 settings_.sealed);
    line.rest.clear();
    line.end += settings_.headerBytes(kPartHeaderBytes) + bytes;
    line.last_use = now_;
    if (line.cargo.empty()) {
      line.measured_since = now_;
      line.measured = 0;
    }
    const auto due = now_ + patience(arrival(loads_[index], bytes));
    line.cargo.push_back({next.what, bytes, line.end, now_, due, next.instead_of, false});
    guarded(line, [&] { write(line); });
  }

  /// The time limit for a part that should arrive in `seconds`.
  Clock::duration patience(double seconds) const {
    Seconds least = Seconds::max();
    for (const Line& line : lines_)
      if (line.open() && line.latency > Seconds(0)) least = std::min(least, line.latency);
    if (least == Seconds::max()) least = kLeastPatience;
    return std::chrono::duration_cast<Clock::duration>(std::max<Seconds>(
        kLeastPatience, kPatienceTimes * (least + Seconds(std::min(seconds, kLongestWait)))));
  }

  /// The bytes of the line's last cargo that must still be sent.
  void gather(const Line& line, Pieces& pieces) const {
    const auto left = static_cast<std::size_t>(line.end - line.taken);
    if (!line.rest.empty()) {
      pieces.add(line.rest.data() + line.rest.size() - left, left);
      return;
    }
    const Cargo& cargo = line.cargo.back();
    const Message& message = at(cargo.what.message);
    Range range = partOf(message.body.bytes, cargo.what.part);
    if (left > cargo.bytes) {
      const std::size_t of_header = left - cargo.bytes;
      pieces.add(line.header.data() + settings_.headerBytes(kPartHeaderBytes) - of_header,
                 of_header);
    } else {
      range.begin = range.end - left;
    }
    pieces.add(std::span<const ConstBytes>(message.body.pieces), range);
  }

  bool write(Line& line) {
    bool moved = false;
    while (line.full()) {
      Pieces pieces;
      gather(line, pieces);
      const std::size_t sent = sendSome(line.socket, pieces, settings_);
      line.taken += sent;
      moved |= sent > 0;
      if (sent < pieces.bytes()) break;
    }
    return moved;
  }

  const decltype(Lines::connect) connect_;
  const decltype(Lines::replaced) replaced_;
  std::vector<Line> lines_;
  std::vector<LineLoad> loads_;
  std::deque<Next> again_; ///< parts that a line has not delivered, or not yet
  std::size_t turn_ = 0;
  std::uint64_t calls_ = 0;
  std::uint64_t fruitless_ = 0;        ///< consecutive calls of progress() that moved nothing
  Clock::time_point now_{}, looked_{}; ///< time of this call and of the one before
};

} // namespace

std::unique_ptr<NetworkSender> makeStripedSender(Lines lines, const SocketSettings& settings) {
  return std::make_unique<StripedSender>(std::move(lines), settings);
}

} // namespace rondo::transport::tcp
