// The wire form of every frame's body. All reads are bounded by the codec.
#include "bootstrap/frames.h"

namespace rondo::bootstrap::frames {

namespace {

bool readFlag(base::Reader& in) {
  const std::uint8_t flag = in.u8();
  if (flag > 1) in.fail("holds a flag that is neither 0 nor 1");
  return flag == 1;
}

void write(base::Writer& out, const Failure& failure) {
  out.u8(static_cast<std::uint8_t>(failure.code));
  out.i32(failure.culprit);
  out.text(bounded(failure.text));
}

Failure readFailure(base::Reader& in) {
  Failure failure;
  const std::uint8_t code = in.u8();
  if (code > static_cast<std::uint8_t>(ErrorCode::data)) in.fail("holds an unknown error code");
  failure.code = static_cast<ErrorCode>(code);
  failure.culprit = in.i32();
  failure.text = in.text(kTextBytes);
  return failure;
}

void write(base::Writer& out, const Stall& stall) {
  out.u64(stall.sequence);
  out.u64(stall.signature);
  out.i32(stall.waiting_for);
  out.text(bounded(stall.text));
}

Stall readStall(base::Reader& in) {
  Stall stall;
  stall.sequence = in.u64();
  stall.signature = in.u64();
  stall.waiting_for = in.i32();
  stall.text = in.text(kTextBytes);
  return stall;
}

void write(base::Writer& out, const Progress& progress) {
  out.u64(progress.entered);
  out.u64(progress.completed);
  out.u64(progress.signature);
}

Progress readProgress(base::Reader& in) {
  Progress progress;
  progress.entered = in.u64();
  progress.completed = in.u64();
  progress.signature = in.u64();
  return progress;
}

} // namespace

void Join::write(base::Writer& out) const {
  out.u32(heartbeat_ms);
  out.u8(hosts_hub ? 1 : 0);
}
Join Join::read(base::Reader& in) {
  Join join;
  join.heartbeat_ms = in.u32();
  join.hosts_hub = readFlag(in);
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

void Refused::write(base::Writer& out) const { out.text(bounded(text)); }
Refused Refused::read(base::Reader& in) { return {in.text(kTextBytes)}; }

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

void Ask::write(base::Writer& out) const { out.u64(number); }
Ask Ask::read(base::Reader& in) { return {in.u64()}; }

void ProgressReport::write(base::Writer& out) const {
  out.u64(answer_to);
  out.u32(static_cast<std::uint32_t>(boards.size()));
  for (const auto& [communicator, progress] : boards) {
    out.u64(communicator);
    frames::write(out, progress);
  }
}
ProgressReport ProgressReport::read(base::Reader& in) {
  ProgressReport report;
  report.answer_to = in.u64();
  const std::uint32_t count = in.u32();
  if (count > kMost) in.fail("reports on too many communicators");
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t communicator = in.u64();
    report.boards.emplace_back(communicator, readProgress(in));
  }
  return report;
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

void Leave::write(base::Writer& out) const {
  out.u64(communicator);
  frames::write(out, progress);
}
Leave Leave::read(base::Reader& in) {
  Leave leave;
  leave.communicator = in.u64();
  leave.progress = readProgress(in);
  return leave;
}

} // namespace rondo::bootstrap::frames
