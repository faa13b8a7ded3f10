// Sends rank 0's clock to each rank, as NTP does.
#include "comm/clocks.h"

#include <cstring>
#include <ctime>
#include <limits>
#include <span>

#include "comm/communicator_impl.h"

namespace rondo::comm {

namespace {

constexpr int kRounds = 16;
/// Reading a clock, and turning ticks of the processor into its time.
constexpr std::int64_t kReading = 200;

std::int64_t nanoseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

/// What rank 0 answers.
struct Answer {
  std::int64_t now = 0;                 ///< its monotonic clock
  std::int64_t zero = 0, zero_unix = 0; ///< its clocks when the trace's time was 0
};

void send(CommunicatorImpl& comm, const Answer& data, int peer) {
  comm.runNow({Collective::sendrecv, &data, nullptr, sizeof(data), DataType::uint8, ReduceOp::sum,
               peer, true});
}
void receive(CommunicatorImpl& comm, Answer& data, int peer) {
  comm.runNow({Collective::sendrecv, nullptr, &data, sizeof(data), DataType::uint8, ReduceOp::sum,
               peer, false});
}

observe::ClockOffset byWallClock(CommunicatorImpl& comm) {
  const std::int64_t unix_now = nanoseconds(CLOCK_REALTIME), now = nanoseconds(CLOCK_MONOTONIC);
  const auto all = comm.exchange(std::as_bytes(std::span(&unix_now, 1)), comm.nextTurn());
  std::int64_t zero = 0;
  std::memcpy(&zero, all.at(0).data(), sizeof(zero));
  return {unix_now - now - zero, -1, zero};
}

} // namespace

observe::ClockOffset compareClocks(CommunicatorImpl& comm, bool on_device) {
  if (on_device) return byWallClock(comm);
  Answer answer, question;
  if (comm.rank() == 0) {
    answer.zero = nanoseconds(CLOCK_MONOTONIC);
    answer.zero_unix = nanoseconds(CLOCK_REALTIME);
    for (int peer = 1; peer < comm.size(); ++peer)
      for (int round = 0; round < kRounds; ++round) {
        receive(comm, question, peer);
        answer.now = nanoseconds(CLOCK_MONOTONIC);
        send(comm, answer, peer);
      }
    return {-answer.zero, 0, answer.zero_unix};
  }
  observe::ClockOffset best;
  std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t before = nanoseconds(CLOCK_MONOTONIC);
    send(comm, question, 0);
    receive(comm, answer, 0);
    const std::int64_t trip = nanoseconds(CLOCK_MONOTONIC) - before;
    if (trip >= shortest) continue;
    shortest = trip;
    best = {answer.now - (before + trip / 2) - answer.zero, trip / 2 + kReading, answer.zero_unix};
  }
  return best;
}

} // namespace rondo::comm
