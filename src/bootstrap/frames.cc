// Encodes and decodes the body of every frame. The codec bounds all reads.
#include "bootstrap/frames.h"

#include <algorithm>

namespace rondo::bootstrap::frames {

namespace {

/// Largest encoded address.
constexpr std::size_t kAddressBytes = 64;

bool readFlag(base::Reader& in) {
  const std::uint8_t flag = in.u8();
  if (flag > 1) in.fail("holds a flag that is neither 0 nor 1");
  return flag == 1;
}

void writeAddress(base::Writer& out, const std::optional<net::SocketAddress>& address) {
  out.u8(address ? 1 : 0);
  if (address) out.blob(address->encode());
}

std::optional<net::SocketAddress> readAddress(base::Reader& in) {
  if (!readFlag(in)) return std::nullopt;
  return net::SocketAddress::decode(in.blob(kAddressBytes));
}

void write(base::Writer& out, const Failure& failure) {
  out.u8(static_cast<std::uint8_t>(failure.code));
  out.i32(failure.culprit);
  out.text(bounded(failure.text));
  out.u8(failure.difference ? 1 : 0);
  if (failure.difference) failure.difference->write(out);
}

Failure readFailure(base::Reader& in) {
  Failure failure;
  const std::uint8_t code = in.u8();
  if (code > static_cast<std::uint8_t>(ErrorCode::data)) in.fail("holds an unknown error code");
  failure.code = static_cast<ErrorCode>(code);
  failure.culprit = in.i32();
  failure.text = in.text(kTextBytes);
  if (readFlag(in)) failure.difference = CallDifference::read(in);
  return failure;
}

void write(base::Writer& out, const Stall& stall) {
  out.u64(stall.sequence);
  out.i32(stall.waiting_for);
  out.text(bounded(stall.text));
  out.u8(stall.again);
}

Stall readStall(base::Reader& in) {
  Stall stall;
  stall.sequence = in.u64();
  stall.waiting_for = in.i32();
  stall.text = in.text(kTextBytes);
  stall.again = readFlag(in);
  return stall;
}

/// One bit per rank.
void writeRanks(base::Writer& out, const std::vector<bool>& ranks) {
  std::vector<std::byte> bits((ranks.size() + 7) / 8);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank]) bits[rank / 8] |= std::byte{1} << rank % 8;
  out.u32(static_cast<std::uint32_t>(ranks.size()));
  out.blob(bits);
}
std::vector<bool> readRanks(base::Reader& in) {
  std::vector<bool> ranks;
  const std::uint32_t size = in.u32();
  const auto bits = in.blob(kBodyBytes);
  if (bits.size() != (std::size_t{size} + 7) / 8) in.fail("holds a bitmap of the wrong size");
  for (std::size_t rank = 0; rank < size; ++rank)
    ranks.push_back((bits[rank / 8] >> rank % 8 & std::byte{1}) != std::byte{0});
  return ranks;
}

} // namespace

void Join::write(base::Writer& out) const {
  out.u32(heartbeat_ms);
  out.u8(hosts_hub ? 1 : 0);
  out.u8(patient ? 1 : 0);
  out.u64(generation);
  writeAddress(out, standby);
}
Join Join::read(base::Reader& in) {
  Join join;
  join.heartbeat_ms = in.u32();
  join.hosts_hub = readFlag(in);
  join.patient = readFlag(in);
  join.generation = in.u64();
  join.standby = readAddress(in);
  return join;
}

void Welcome::write(base::Writer& out) const {
  out.i32(host);
  out.u64(job);
  out.u8(secret.present ? 1 : 0);
  out.raw(secret.bytes);
}
Welcome Welcome::read(base::Reader& in) {
  Welcome welcome;
  welcome.host = in.i32();
  welcome.job = in.u64();
  welcome.secret.present = readFlag(in);
  in.raw(welcome.secret.bytes);
  return welcome;
}

void Refused::write(base::Writer& out) const {
  frames::write(out, Failure{code, text, culprit, {}});
}
Refused Refused::read(base::Reader& in) {
  const Failure failure = readFailure(in);
  return {failure.text, failure.code, failure.culprit};
}

void Gather::write(base::Writer& out) const {
  out.u64(communicator);
  out.u64(index);
  out.u8(split ? 1 : 0);
  out.blob(blob);
}
Gather Gather::read(base::Reader& in) {
  Gather gather;
  gather.communicator = in.u64();
  gather.index = in.u64();
  gather.split = readFlag(in);
  const auto bytes = in.blob(kBlobBytes);
  gather.blob.assign(bytes.begin(), bytes.end());
  return gather;
}

void Gathered::write(base::Writer& out) const {
  out.u64(communicator);
  out.u64(index);
  out.u32(first);
  out.u32(static_cast<std::uint32_t>(blobs.size()));
  for (const auto& blob : blobs) out.blob(blob);
}
Gathered Gathered::read(base::Reader& in) {
  Gathered gathered;
  gathered.communicator = in.u64();
  gathered.index = in.u64();
  gathered.first = in.u32();
  const std::uint32_t count = in.u32();
  if (count > in.left() / 4) in.fail("announces more blobs than it has bytes for");
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto bytes = in.blob(kBlobBytes);
    gathered.blobs.emplace_back(bytes.begin(), bytes.end());
  }
  return gathered;
}
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

void Fail::write(base::Writer& out) const {
  out.u64(communicator);
  frames::write(out, failure);
  out.u8(stall ? 1 : 0);
  if (stall) frames::write(out, *stall);
  out.u8(round ? 1 : 0);
  if (round) out.u64(*round);
}
Fail Fail::read(base::Reader& in) {
  Fail fail;
  fail.communicator = in.u64();
  fail.failure = readFailure(in);
  if (readFlag(in)) fail.stall = readStall(in);
  if (readFlag(in)) fail.round = in.u64();
  return fail;
}

void Failed::write(base::Writer& out) const {
  out.u64(communicator);
  frames::write(out, failure);
}
Failed Failed::read(base::Reader& in) {
  Failed failed;
  failed.communicator = in.u64();
  failed.failure = readFailure(in);
  return failed;
}

void Ask::write(base::Writer& out) const {
  out.u64(number);
  out.u64(communicator);
}
Ask Ask::read(base::Reader& in) {
  Ask ask;
  ask.number = in.u64();
  ask.communicator = in.u64();
  return ask;
}

void Beat::write(base::Writer& out) const { out.u64(number); }
Beat Beat::read(base::Reader& in) { return {in.u64()}; }

void ProgressReport::Board::write(base::Writer& out) const {
  out.u64(communicator);
  out.u64(completed);
  calls.write(out);
}
ProgressReport::Board ProgressReport::Board::read(base::Reader& in) {
  Board board;
  board.communicator = in.u64();
  board.completed = in.u64();
  board.calls = CallReport::read(in);
  return board;
}

void ProgressReport::write(base::Writer& out) const {
  out.u64(heard);
  out.u64(answer_to);
  out.u32(static_cast<std::uint32_t>(boards.size()));
  for (const Board& board : boards) board.write(out);
}
ProgressReport ProgressReport::read(base::Reader& in) {
  ProgressReport report;
  report.heard = in.u64();
  report.answer_to = in.u64();
  const std::uint32_t count = in.u32();
  if (count > in.left() / (8 + 8 + CallReport{}.wireBytes()))
    in.fail("announces more reports than it has bytes for");
  for (std::uint32_t i = 0; i < count; ++i) report.boards.push_back(Board::read(in));
  return report;
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

void Stalled::write(base::Writer& out) const {
  out.u64(communicator);
  frames::write(out, stall);
}
Stalled Stalled::read(base::Reader& in) {
  Stalled stalled;
  stalled.communicator = in.u64();
  stalled.stall = readStall(in);
  return stalled;
}

void Leave::write(base::Writer& out) const { board.write(out); }
Leave Leave::read(base::Reader& in) { return {ProgressReport::Board::read(in)}; }

void Left::write(base::Writer& out) const {
  out.u64(communicator);
  out.u8(first ? 1 : 0);
}
Left Left::read(base::Reader& in) {
  Left left;
  left.communicator = in.u64();
  left.first = readFlag(in);
  return left;
}

void Succeed::write(base::Writer& out) const {
  writeRanks(out, expected);
  out.u32(static_cast<std::uint32_t>(departed.size()));
  for (const Departed& one : departed) {
    out.u64(one.communicator);
    out.i32(one.rank);
    out.u64(one.progress.entered);
    out.u64(one.progress.completed);
  }
}
Succeed Succeed::read(base::Reader& in) {
  Succeed offer{readRanks(in), {}};
  const std::uint32_t count = in.u32();
  if (count > kMostDeparted) in.fail("names too many ranks that have left");
  for (std::uint32_t i = 0; i < count; ++i) {
    Departed& one = offer.departed.emplace_back();
    one.communicator = in.u64();
    one.rank = in.i32();
    one.progress.entered = in.u64();
    one.progress.completed = in.u64();
  }
  return offer;
}

void Shrink::write(base::Writer& out) const {
  out.u64(communicator);
  out.u64(child);
  writeRanks(out, stay);
}
Shrink Shrink::read(base::Reader& in) {
  Shrink shrink;
  shrink.communicator = in.u64();
  shrink.child = in.u64();
  shrink.stay = readRanks(in);
  return shrink;
}

void Present::write(base::Writer& out) const {
  out.u64(generation);
  out.i32(host);
  writeRanks(out, ranks);
  writeRanks(out, maybe_moved);
}
Present Present::read(base::Reader& in) {
  Present present;
  present.generation = in.u64();
  present.host = in.i32();
  present.ranks = readRanks(in);
  present.maybe_moved = readRanks(in);
  return present;
}

void Standbys::write(base::Writer& out) const {
  out.u8(fresh ? 1 : 0);
  out.u8(candidates ? 1 : 0);
  out.u32(static_cast<std::uint32_t>(ranks.size()));
  for (const auto& [rank, address] : ranks) {
    out.i32(rank);
    out.blob(address.encode());
  }
}
Standbys Standbys::read(base::Reader& in) {
  Standbys standbys;
  standbys.fresh = readFlag(in);
  standbys.candidates = readFlag(in);
  const std::uint32_t count = in.u32();
  if (count > in.left() / (4 + 4)) in.fail("announces more addresses than it has bytes for");
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::int32_t rank = in.i32();
    standbys.ranks.emplace_back(rank, net::SocketAddress::decode(in.blob(kAddressBytes)));
  }
  return standbys;
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

void Agree::write(base::Writer& out) const { out.u64(communicator); }
Agree Agree::read(base::Reader& in) { return {in.u64()}; }

void Agreed::write(base::Writer& out) const {
  made.write(out);
  out.u8(failure ? 1 : 0);
  if (failure) frames::write(out, *failure);
}
Agreed Agreed::read(base::Reader& in) {
  Agreed agreed{Shrink::read(in), {}};
  if (readFlag(in)) agreed.failure = readFailure(in);
  return agreed;
}

void Succeeded::write(base::Writer& out) const { writeAddress(out, address); }
Succeeded Succeeded::read(base::Reader& in) { return {readAddress(in)}; }

void Moved::write(base::Writer& out) const {
  out.i32(host);
  out.blob(address.encode());
}
Moved Moved::read(base::Reader& in) {
  Moved moved;
  moved.host = in.i32();
  moved.address = net::SocketAddress::decode(in.blob(kAddressBytes));
  return moved;
}

void Seat::write(base::Writer& out) const {
  out.i32(rank);
  out.i32(size);
}
Seat Seat::read(base::Reader& in) {
  Seat seat;
  seat.rank = in.i32();
  seat.size = in.i32();
  if (seat.rank < 0 || seat.rank >= seat.size) in.fail("names a rank that cannot exist");
  return seat;
}

void Roster::write(base::Writer& out) const {
  out.u64(communicator);
  out.u32(size);
  out.u32(first);
  out.u32(static_cast<std::uint32_t>(ranks.size()));
  for (const std::int32_t rank : ranks) out.i32(rank);
  out.u8(static_cast<std::uint8_t>(opening));
  out.u8(by_agreement ? 1 : 0);
}
Roster Roster::read(base::Reader& in) {
  Roster roster;
  roster.communicator = in.u64();
  roster.size = in.u32();
  roster.first = in.u32();
  const std::uint32_t count = in.u32();
  if (count > in.left() / 4) in.fail("announces more ranks than it has bytes for");
  for (std::uint32_t i = 0; i < count; ++i) roster.ranks.push_back(in.i32());
  const std::uint8_t opening = in.u8();
  if (opening > static_cast<std::uint8_t>(Opening::started)) in.fail("has an unknown state");
  roster.opening = static_cast<Opening>(opening);
  roster.by_agreement = readFlag(in);
  return roster;
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
