// The ring of places for programs: which places are kept, and when there is no room.
#include "engine/program_ring.h"

#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "device/ring.h"
#include "support/host_devices.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace engine;

constexpr std::size_t kLine = device::kRingLine;

/// A place with the bytes that were written to it, on the device and in its staging memory.
struct Kept {
  std::shared_ptr<ProgramPlace> place;
  std::size_t bytes = 0;
  int value = 0;

  void fill() const {
    std::memset(place->staged, value, bytes);
    std::memset(place->memory.get(), value, bytes);
  }
  bool intact() const {
    const std::vector<std::byte> due(bytes, static_cast<std::byte>(value));
    return std::memcmp(place->staged, due.data(), bytes) == 0 &&
           std::memcmp(place->memory.get(), due.data(), bytes) == 0;
  }
};

} // namespace

// Proves: the oldest places are replaced first, and only when their memory is needed. A place in
// use stays, and others are allocated around it.
TEST_CASE("program ring: places are taken in turn, around those in use") {
  const HostDevices host;
  ProgramRing ring(*device::openDevice(0), 4 * kLine);
  std::vector<std::weak_ptr<ProgramPlace>> places;
  const auto take = [&](std::size_t bytes) {
    const auto place = ring.take(bytes);
    REQUIRE(place);
    places.push_back(place);
    return place;
  };
  const std::byte* const start = take(1)->memory.get();
  const auto at = [start](const std::shared_ptr<ProgramPlace>& place) {
    return (place->memory.get() - start) / static_cast<std::ptrdiff_t>(kLine);
  };
  std::shared_ptr<ProgramPlace> used = take(kLine);
  CHECK(at(used) == 1);
  CHECK(at(take(kLine + 1)) == 2);
  for (const auto& place : places) CHECK(!place.expired());
  CHECK(at(take(kLine)) == 0); // the first place's memory
  CHECK(places[0].expired());
  CHECK(at(take(kLine)) == 2); // after the place in use
  CHECK(places[2].expired());
  CHECK(!places[3].expired());
  CHECK(at(take(2 * kLine)) == 2); // one line is left at the end, and one in front
  CHECK(places[4].expired());
  used = nullptr;
  CHECK(!places[1].expired()); // its memory was not needed
  CHECK(at(take(2 * kLine)) == 0);
  CHECK(places[1].expired());
}

// Proves: memory in use is never allocated again, on the device or on the host. If it leaves no
// room, take() returns null. Freed memory can be allocated again.
TEST_CASE("program ring: places in use keep their bytes") {
  constexpr std::size_t kSize = 64 * kLine;
  const HostDevices host;
  ProgramRing ring(*device::openDevice(0), kSize);
  std::mt19937 random(7);
  std::deque<Kept> kept;
  int refused = 0;
  for (int turn = 0; turn < 5000; ++turn) {
    Kept one{nullptr, 1 + random() % (10 * kLine), turn % 251};
    one.place = ring.take(one.bytes);
    if (one.place) {
      CHECK(reinterpret_cast<std::uintptr_t>(one.place->memory.get()) % kLine == 0);
      one.fill();
      if (random() % 4 != 0) kept.push_back(one);
      continue;
    }
    ++refused;
    for (auto gone = 1 + random() % 4; gone > 0 && !kept.empty(); --gone) {
      const auto at = kept.begin() + static_cast<std::ptrdiff_t>(random() % kept.size());
      REQUIRE(at->intact());
      kept.erase(at);
    }
  }
  CHECK(refused > 0);
  for (const Kept& one : kept) CHECK(one.intact());
  CHECK(ring.take(kSize + 1) == nullptr);
  kept.clear();
  CHECK(ring.take(kSize) != nullptr);
}

} // namespace rondo::test
