// Proves: buffers are aligned and fail with a typed error; futexes wake and time out; deadlines do
// not overflow; all random bytes are filled; a board forgets the names of objects that are gone.
#include <cstring>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/board.h"
#include "base/clock.h"
#include "base/futex.h"
#include "base/random.h"
#include "support/test.h"

namespace rondo::test {

using namespace base;
using namespace std::chrono_literals;

TEST_CASE("an aligned buffer is aligned, large enough, and only grows") {
  for (std::size_t alignment : {std::size_t{64}, std::size_t{128}, AlignedBuffer::kPage}) {
    for (std::size_t bytes : {0u, 1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 1000000u}) {
      CAPTURE(alignment, bytes);
      AlignedBuffer buffer(bytes, alignment);
      CHECK(buffer.size() >= bytes);
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment == 0);
      if (bytes > 0) std::memset(buffer.data(), 1, buffer.size()); // checked by the sanitizer
      const std::byte* before = buffer.data();
      CHECK(buffer.reserve(bytes) == before);
      CHECK(buffer.reserve(bytes / 2) == before);
      const std::size_t more = buffer.size() + 1;
      buffer.reserve(more);
      CHECK(buffer.size() >= more);
      CHECK(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment == 0);
      std::memset(buffer.data(), 2, buffer.size());
    }
  }
}

TEST_CASE("a moved-from buffer is empty and usable") {
  AlignedBuffer a(100);
  std::byte* memory = a.data();
  AlignedBuffer b = std::move(a);
  CHECK(b.data() == memory);
  CHECK(a.size() == 0);
  CHECK(a.data() == nullptr);
  a.reserve(10);
  CHECK(a.size() >= 10);
  a = std::move(b);
  CHECK(a.data() == memory);
}

TEST_CASE("too large an allocation is Error(system), and the buffer stays as it was") {
  AlignedBuffer buffer(64);
  const std::byte* before = buffer.data();
  // Rounding up would overflow; the allocator is not called.
  for (std::size_t bytes : {~std::size_t{0}, ~std::size_t{0} - 62}) {
    try {
      buffer.reserve(bytes);
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::system);
    }
    CHECK(buffer.data() == before);
    CHECK(buffer.size() == 64);
  }
}

TEST_CASE("a futex wait returns at once for another value, at the limit, and on a wake") {
  for (FutexScope scope : {FutexScope::process, FutexScope::shared}) {
    std::atomic<std::uint32_t> word{5};
    CHECK(futexWait(word, 4, 1h, scope));
    CHECK_FALSE(futexWait(word, 5, 1ms, scope));
    CHECK_FALSE(futexWait(word, 5, 0ms, scope));
    CHECK_FALSE(futexWait(word, 5, -1s, scope));

    std::vector<std::thread> sleepers;
    for (int i = 0; i < 3; ++i) {
      sleepers.emplace_back([&] {
        while (word.load(std::memory_order_acquire) == 5) futexWait(word, 5, 1h, scope);
      });
    }
    word.store(6, std::memory_order_release);
    futexWake(word, std::numeric_limits<int>::max(), scope);
    for (std::thread& sleeper : sleepers) sleeper.join();
  }
}

TEST_CASE("deadlines are never negative and never overflow") {
  CHECK(Deadline(Clock::duration::max()).at() == Clock::time_point::max());
  CHECK_FALSE(Deadline(Clock::duration::max()).passed());
  CHECK(Deadline(std::chrono::milliseconds::max()).at() == Clock::time_point::max());
  CHECK(Deadline(std::chrono::hours::max()).at() == Clock::time_point::max());
  CHECK(Deadline(std::chrono::milliseconds::max()).left() > 24h);
  CHECK(Deadline(std::chrono::milliseconds::min()).passed());
  CHECK(Deadline(std::chrono::milliseconds::min()).left() == Clock::duration::zero());
  CHECK(Deadline(-1s).passed());
  CHECK(Deadline(-1s).left() == Clock::duration::zero());
  CHECK(Deadline(1h).left() > 59min);
  CHECK(Deadline(1h).left() <= 1h);
}

TEST_CASE("random bytes fill the whole range and nothing else") {
  for (std::size_t size : {0u, 1u, 32u, 255u, 256u, 257u, 5000u}) {
    std::vector<std::byte> sum(size), bytes(size + 2);
    for (int round = 0; round < 16; ++round) {
      randomBytes(std::span(bytes).subspan(1, size));
      for (std::size_t i = 0; i < size; ++i) sum[i] |= bytes[i + 1];
      CHECK(bytes.front() == std::byte{0});
      CHECK(bytes.back() == std::byte{0});
    }
    // The probability that a byte is zero in all 16 rounds is 2^-128.
    for (std::byte b : sum) CHECK(b != std::byte{0});
  }
  CHECK(randomNumber() != randomNumber());
}

TEST_CASE("a board gives one object per name, and forgets the names of objects that are gone") {
  Board board;
  const auto make = [] { return std::make_shared<int>(7); };
  const auto kept = board.findOrMake<int>("kept", make);
  for (int i = 0; i < 100'000; ++i) {
    const std::string name = "passing/" + std::to_string(i);
    const auto first = board.findOrMake<int>(name, make);
    CHECK(board.findOrMake<int>(name, make) == first);
  }
  CHECK(board.names() <= 100);
  CHECK(board.findOrMake<int>("kept", make) == kept);
}

} // namespace rondo::test
