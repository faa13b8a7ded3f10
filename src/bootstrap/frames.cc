// Encodes and decodes the body of every frame. The codec bounds all reads.
#include "bootstrap/frames.h"

#include <algorithm>
#include <concepts>
#include <type_traits>

namespace rondo::bootstrap::frames {

namespace {

/// Largest encoded address.
constexpr std::size_t kAddressBytes = 64;

constexpr ErrorCode lastOf(ErrorCode) { return ErrorCode::wrong_result; }
constexpr Opening lastOf(Opening) { return Opening::started; }

template <class T>
concept Enumeration = std::is_enum_v<T>;
/// Has functions of its own that encode it.
template <class T>
concept Encoded = std::same_as<T, CallReport> || std::same_as<T, CallDifference>;

/// A flag that is false: an optional field that is never there.
struct Nothing {};
constexpr Nothing kNothing;

/// Writes fields, one after the other.
class Put {
 public:
  explicit Put(base::Writer& out) : out_(out) {}
  void operator()(const auto&... fields) { (put(fields), ...); }

 private:
  void put(bool flag) { out_.u8(flag ? 1 : 0); }
  void put(Nothing) { out_.u8(0); }
  void put(std::uint32_t number) { out_.u32(number); }
  void put(std::uint64_t number) { out_.u64(number); }
  void put(std::int32_t number) { out_.i32(number); }
  template <Enumeration T>
  void put(const T& value) {
    out_.u8(static_cast<std::uint8_t>(value));
  }
  void put(const std::string& text) { out_.text(bounded(text)); }
  void put(const std::vector<std::byte>& blob) { out_.blob(blob); }
  void put(const net::SocketAddress& address) { out_.blob(address.encode()); }
  void put(const net::Secret& secret) {
    put(secret.present);
    out_.raw(secret.bytes);
  }
  /// One bit per rank.
  void put(const std::vector<bool>& ranks) {
    std::vector<std::byte> bits((ranks.size() + 7) / 8);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      if (ranks[rank]) bits[rank / 8] |= std::byte{1} << rank % 8;
    put(static_cast<std::uint32_t>(ranks.size()));
    put(bits);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class T>
  void put(const std::vector<T>& all) {
    put(static_cast<std::uint32_t>(all.size()));
    for (const T& one : all) put(one);
  }
  template <Encoded T>
  void put(const T& value) {
    value.write(out_);
  }
  template <class T>
  void put(const T& value) {
    fields(*this, value);
  }

  base::Writer& out_;
};

/// Reads what Put wrote.
class Take {
 public:
  explicit Take(base::Reader& in) : in_(in) {}
  void operator()(auto&... fields) { (take(fields), ...); }

 private:
  void take(bool& flag) {
    const std::uint8_t value = in_.u8();
    if (value > 1) in_.fail("holds a flag that is neither 0 nor 1");
    flag = value == 1;
  }
  void take(const Nothing&) {
    if (in_.u8() != 0) in_.fail("holds a field that this frame does not have");
  }
  void take(std::uint32_t& number) { number = in_.u32(); }
  void take(std::uint64_t& number) { number = in_.u64(); }
  void take(std::int32_t& number) { number = in_.i32(); }
  template <Enumeration T>
  void take(T& value) {
    const std::uint8_t code = in_.u8();
    if (code > static_cast<std::uint8_t>(lastOf(T()))) in_.fail("holds an unknown code");
    value = static_cast<T>(code);
  }
  void take(std::string& text) { text = in_.text(kTextBytes); }
  void take(std::vector<std::byte>& blob) {
    const auto bytes = in_.blob(kBlobBytes);
    blob.assign(bytes.begin(), bytes.end());
  }
  void take(net::SocketAddress& address) {
    address = net::SocketAddress::decode(in_.blob(kAddressBytes));
  }
  void take(net::Secret& secret) {
    take(secret.present);
    in_.raw(secret.bytes);
  }
  void take(std::vector<bool>& ranks) {
    const std::uint32_t size = in_.u32();
    const auto bits = in_.blob(kBodyBytes);
    if (bits.size() != (std::size_t{size} + 7) / 8) in_.fail("holds a bitmap of the wrong size");
    for (std::size_t rank = 0; rank < size; ++rank)
      ranks.push_back((bits[rank / 8] >> rank % 8 & std::byte{1}) != std::byte{0});
  }
  template <class T>
  void take(std::optional<T>& value) {
    bool there = false;
    take(there);
    if (there) take(value.emplace());
  }
  template <class T>
  void take(std::vector<T>& all) {
    const std::uint32_t count = in_.u32();
    if (count > in_.left() / 4) in_.fail("announces more elements than it has bytes for");
    for (std::uint32_t i = 0; i < count; ++i) take(all.emplace_back());
  }
  template <Encoded T>
  void take(T& value) {
    value = T::read(in_);
  }
  template <class T>
  void take(T& value) {
    fields(*this, value);
  }

  base::Reader& in_;
};

template <class T, class Of>
concept Is = std::same_as<std::remove_const_t<T>, Of>;

// Conditions on the values of a frame, beyond the types of its fields. Throw if one is broken.

void check(const auto&, base::Reader&) {}
void check(const Succeed& offer, base::Reader& in) {
  if (offer.departed.size() > Succeed::kMostDeparted)
    in.fail("names too many ranks that have left");
}
void check(const Seat& seat, base::Reader& in) {
  if (seat.rank < 0 || seat.rank >= seat.size) in.fail("names a rank that cannot exist");
}

// The fields of each type, in the order in which they are sent; `wire` is a Put or a Take.
#define FIELDS(Type, ...) \
  void fields(auto& wire, Is<Type> auto& it) { wire(__VA_ARGS__); }

FIELDS(Failure, it.code, it.culprit, it.text, it.difference)
FIELDS(Stall, it.sequence, it.waiting_for, it.text, it.again)
FIELDS(Departed, it.communicator, it.rank, it.progress.entered, it.progress.completed)
FIELDS(ProgressReport::Board, it.communicator, it.completed, it.calls)
using Place = std::pair<std::int32_t, net::SocketAddress>;
FIELDS(Place, it.first, it.second)

} // namespace

#define FRAME(Frame, ...)                                         \
  namespace {                                                     \
  FIELDS(Frame, __VA_ARGS__)                                      \
  }                                                               \
  void Frame::write(base::Writer& out) const { Put{out}(*this); } \
  Frame Frame::read(base::Reader& in) {                           \
    Frame frame;                                                  \
    Take{in}(frame);                                              \
    check(frame, in);                                             \
    return frame;                                                 \
  }

FRAME(Join, it.heartbeat_ms, it.hosts_hub, it.patient, it.generation, it.standby)
FRAME(Welcome, it.host, it.job, it.secret)
FRAME(Refused, it.code, it.culprit, it.text, kNothing)
FRAME(Gather, it.communicator, it.index, it.split, it.blob)
FRAME(Gathered, it.communicator, it.index, it.first, it.blobs)
FRAME(Fail, it.communicator, it.failure, it.stall, it.round)
FRAME(Failed, it.communicator, it.failure)
FRAME(Ask, it.number, it.communicator)
FRAME(Beat, it.number)
FRAME(ProgressReport, it.heard, it.answer_to, it.boards)
FRAME(Stalled, it.communicator, it.stall)
FRAME(Leave, it.board)
FRAME(Left, it.communicator, it.first)
FRAME(Succeed, it.expected, it.departed)
FRAME(Succeeded, it.address)
FRAME(Moved, it.host, it.address)
FRAME(Shrink, it.communicator, it.child, it.stay)
FRAME(Present, it.generation, it.host, it.ranks, it.maybe_moved)
FRAME(Standbys, it.fresh, it.candidates, it.ranks)
FRAME(Agree, it.communicator)
FRAME(Agreed, it.made, it.failure)
FRAME(Seat, it.rank, it.size)
FRAME(Roster, it.communicator, it.size, it.first, it.ranks, it.opening, it.by_agreement)

#undef FRAME
#undef FIELDS

std::vector<Gathered> Gathered::parts(std::uint64_t communicator, std::uint64_t index,
                                      const Blobs& blobs) {
  constexpr std::size_t kFixed = 8 + 8 + 4 + 4;
  std::vector<Gathered> parts;
  std::size_t room = 0;
  for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
    const std::size_t needed = 4 + blobs[rank].size();
    if (parts.empty() || needed > room) {
      parts.push_back({communicator, index, static_cast<std::uint32_t>(rank), {}});
      room = kBodyBytes - kFixed;
    }
    parts.back().blobs.push_back(blobs[rank]);
    room -= needed;
  }
  return parts;
}

std::vector<ProgressReport> ProgressReport::parts(std::uint64_t heard, std::uint64_t answer_to,
                                                  std::vector<Board> boards) {
  constexpr std::size_t kRoom = kBodyBytes - 8 - 8 - 4;
  std::vector<ProgressReport> parts(1);
  std::size_t room = kRoom;
  for (Board& board : boards) {
    const std::size_t needed = 8 + 8 + board.calls.wireBytes();
    if (needed > room) {
      parts.emplace_back();
      room = kRoom;
    }
    parts.back().boards.push_back(std::move(board));
    room -= needed;
  }
  for (ProgressReport& part : parts) part.heard = heard;
  parts.back().answer_to = answer_to;
  return parts;
}

std::vector<Standbys> Standbys::parts(bool fresh, bool candidates,
                                      const std::map<int, net::SocketAddress>& ranks) {
  constexpr std::size_t kMost = (kBodyBytes - 2 - 4) / (4 + 4 + kAddressBytes);
  std::vector<Standbys> parts{{fresh, candidates, {}}};
  for (const auto& [rank, address] : ranks) {
    if (parts.back().ranks.size() == kMost) parts.push_back({false, candidates, {}});
    parts.back().ranks.emplace_back(rank, address);
  }
  return parts;
}

std::vector<Roster> Roster::parts(std::uint64_t communicator, const std::vector<int>& ranks,
                                  Opening opening, bool by_agreement) {
  constexpr std::size_t kMost = (kBodyBytes - 8 - 4 - 4 - 4 - 1 - 1) / 4;
  std::vector<Roster> parts;
  for (std::size_t at = 0; at < ranks.size(); at += kMost) {
    const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(at);
    const std::size_t count = std::min(kMost, ranks.size() - at);
    parts.push_back({communicator,
                     static_cast<std::uint32_t>(ranks.size()),
                     static_cast<std::uint32_t>(at),
                     {begin, begin + static_cast<std::ptrdiff_t>(count)},
                     opening,
                     by_agreement});
  }
  return parts;
}

} // namespace rondo::bootstrap::frames
