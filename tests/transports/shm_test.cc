// Properties of shm that the conformance tests do not cover: its memory is sealed, checked and
// allocated, and has no name.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/codec.h"
#include "base/memory_file.h"
#include "harness.h"
#include "rondo/error.h"
#include "support/test.h"
#include "transports/mailbox.h"

namespace rondo::test {
namespace {

using namespace transport;

const Kind& shmKind() {
  for (const Kind& kind : kinds())
    if (kind.name == "shm") return kind;
  throw std::runtime_error("shm is not registered");
}

base::UniqueFd memoryFile(std::size_t bytes, int seals) {
  base::UniqueFd fd(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0, "ftruncate");
  require(seals == 0 || ::fcntl(fd.get(), F_ADD_SEALS, seals) == 0, "seals");
  return fd;
}

ErrorCode codeOf(const std::function<void()>& function) {
  try {
    function();
  } catch (const Error& error) {
    return error.code();
  }
  throw std::runtime_error("no error");
}

} // namespace

TEST_CASE("a segment is sealed, has its exact size and all of its memory") {
  for (const std::size_t bytes : {64u, 4096u, 1'000'000u}) {
    const base::UniqueFd fd = base::makeMemoryFile(bytes);
    const int seals = ::fcntl(fd.get(), F_GET_SEALS);
    for (const int seal : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL}) CHECK((seals & seal) == seal);
    struct stat info {};
    REQUIRE(::fstat(fd.get(), &info) == 0);
    CHECK(static_cast<std::size_t>(info.st_size) == bytes);
    CHECK(static_cast<std::size_t>(info.st_blocks) * 512 >= bytes);
    CHECK(::ftruncate(fd.get(), 0) != 0);
    CHECK(::ftruncate(fd.get(), static_cast<off_t>(bytes) * 2) != 0);
    CHECK((::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0);
    base::checkMemoryFile(fd.get(), bytes); // the other side accepts it
  }
}

TEST_CASE("a channel allocates only the memory that messages need, before they are written") {
  if (!base::canAllocateMapped()) return; // in that case all memory is allocated at once
  constexpr int kDepth = 8;
  constexpr std::size_t kSlot = 128 << 10, kBytes = SlotRing::bytesNeeded(kDepth, kSlot),
                        kHead = SlotRing::bytesNeeded(kDepth, 0);
  const base::UniqueFd fd = base::makeMemoryFile(kBytes, kHead);
  const auto allocated = [&] {
    struct stat info {};
    require(::fstat(fd.get(), &info) == 0, "fstat");
    return static_cast<std::size_t>(info.st_blocks) * 512;
  };
  base::checkMemoryFile(fd.get(), kBytes, kHead);
  const auto memory = base::mapMemoryFileHead(fd.get(), kBytes, kHead);
  CHECK(allocated() == kHead);
  SlotRing out(memory.get(), kDepth, kSlot, memory, SlotRing::Slots::grow),
      in(memory.get(), kDepth, kSlot, memory);
  const auto send = [&](std::size_t bytes, int value) {
    require(out.writable(bytes), "room");
    std::memset(out.writeBody(bytes), value, bytes);
    out.publish({1, bytes});
  };
  const auto receive = [&](std::size_t bytes, int value) {
    const MessageHeader* header = in.readable();
    require(header && header->bytes == bytes, "a message");
    const std::byte* body = in.readBody(bytes);
    CHECK(body[0] == static_cast<std::byte>(value));
    CHECK(body[bytes - 1] == static_cast<std::byte>(value));
    in.release();
  };
  // Small bodies share a slot; its memory doubles each time it is too small.
  const std::size_t pages_after[] = {1, 2, 4, 4, 8};
  for (int i = 0; i < 5; ++i) {
    send(4096, i);
    receive(4096, i);
    CHECK(allocated() == kHead + pages_after[i] * 4096);
  }
  // If the receiver keeps up, such bodies use three quarters of kReuseBytes, and no more.
  for (int i = 0; i < 1000; ++i) {
    for (const std::size_t bytes : {8u, 40u, 4096u}) {
      send(bytes, i);
      receive(bytes, i);
    }
  }
  CHECK(allocated() == kHead + kReuseBytes / 4 * 3);
  // A sender that runs ahead uses all slots, and a larger body gets the memory that its slot lacks.
  for (int i = 0; i < kDepth; ++i) send(kSlot, i);
  CHECK_FALSE(out.writable(kSlot));
  for (int i = 0; i < kDepth; ++i) receive(kSlot, i);
  CHECK(allocated() == kBytes);
  CHECK(codeOf([] { base::allocateMapped(nullptr, 4096); }) == ErrorCode::system);
}

// Proves: the memory of a slot is allocated where the slot is, also within a page.
TEST_CASE("slots that begin within a page have their memory before they are written") {
  if (!base::canAllocateMapped()) return;
  constexpr int kDepth = 8;
  constexpr std::size_t kSlot = 6400, kBytes = SlotRing::bytesNeeded(kDepth, kSlot),
                        kHead = SlotRing::bytesNeeded(kDepth, 0);
  const base::UniqueFd fd = base::makeMemoryFile(kBytes, kHead);
  const auto memory = base::mapMemoryFileHead(fd.get(), kBytes, kHead);
  SlotRing out(memory.get(), kDepth, kSlot, memory, SlotRing::Slots::grow);
  const auto allocated = [&] {
    struct stat info {};
    require(::fstat(fd.get(), &info) == 0, "fstat");
    return info.st_blocks;
  };
  for (int i = 0; out.writable(1000); ++i) {
    INFO("body " << i);
    std::byte* const body = out.writeBody(1000);
    const auto before = allocated();
    std::memset(body, 1, 1000);
    CHECK(allocated() == before);
    out.publish({1, 1000});
  }
}

TEST_CASE("memory that a peer could truncate, or of another size, is refused") {
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  for (int seals = 0; seals < 8; ++seals) {
    const int mask = (seals & 1 ? F_SEAL_SHRINK : 0) | (seals & 2 ? F_SEAL_GROW : 0) |
                     (seals & 4 ? F_SEAL_SEAL : 0);
    const auto fd = memoryFile(8192, mask);
    if (mask == kAll) {
      base::checkMemoryFile(fd.get(), 8192);
      // Its holes were filled before it could be accessed.
      struct stat info {};
      REQUIRE(::fstat(fd.get(), &info) == 0);
      CHECK(info.st_blocks * 512 >= 8192);
    } else {
      CHECK(codeOf([&] { base::checkMemoryFile(fd.get(), 8192); }) == ErrorCode::transport);
    }
  }
  const auto fd = memoryFile(8192, kAll);
  for (const std::size_t bytes : {0u, 8191u, 8193u})
    CHECK(codeOf([&] { base::checkMemoryFile(fd.get(), bytes); }) == ErrorCode::transport);
  const base::UniqueFd plain(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  CHECK(codeOf([&] { base::checkMemoryFile(plain.get(), 8192); }) == ErrorCode::transport);
  const auto read_only = memoryFile(8192, kAll | F_SEAL_WRITE);
  CHECK(codeOf([&] { base::checkMemoryFile(read_only.get(), 8192); }) == ErrorCode::transport);
}

TEST_CASE("a lack of memory is an error when a channel is opened, never a signal") {
  World world(shmKind(), 2);
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 4096;
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  ErrorCode code{};
  try {
    world.open(0, world.id(0, 1));
  } catch (const Error& error) {
    code = error.code();
  }
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
  CHECK(code == ErrorCode::system);
  // No state is left over: the same channel can be opened now.
  auto [out, in] = world.connect(0, 1);
  CHECK(out.start(1, patternOf(1, 8)));
}

TEST_CASE("a peer that passes no, several, or unsealed descriptors is refused with a typed error") {
  World world(shmKind(), 2);
  const std::size_t bytes = SlotRing::bytesNeeded(8, 128 << 10);
  const base::UniqueFd good = base::makeMemoryFile(bytes), small = base::makeMemoryFile(4096);
  const auto unsealed = memoryFile(bytes, 0);
  const std::vector<std::vector<int>> passed = {
      {}, {good.get(), good.get()}, {small.get()}, {unsealed.get()}};
  // The listener's address follows version, boot id, namespace and user.
  const Address address = world.address(1);
  const auto listener = net::SocketAddress::decode(std::span(address).subspan(1 + 36 + 8 + 4));
  for (int i = 0; i < static_cast<int>(passed.size()); ++i) {
    INFO("case " << i);
    auto settings = dialSettings(world.context(0), listener, world.id(0, 1, i), 0);
    settings.pass = passed[static_cast<std::size_t>(i)];
    net::Dial dial(settings);
    auto pending = world.open(1, world.id(0, 1, i));
    const Watch watch("for the refusal");
    try {
      while (!pending->poll()) watch.check();
      FAIL("it was accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::transport);
      CHECK(error.culprit() == 0);
    }
  }
}

TEST_CASE("ranks on another machine, network or of another user are not reached") {
  World world(shmKind(), 2);
  const Address good = world.address(1);
  for (const std::size_t at : {1u, 36u, 37u, 44u, 45u, 48u}) {
    Address other = good;
    other[at] ^= std::byte{1};
    CHECK_FALSE(world[0].reaches(other));
    CHECK(codeOf([&] { world[0].open(world.id(0, 1), other); }) == ErrorCode::transport);
  }
}

TEST_CASE("nothing has a name in /dev/shm") {
  const auto count = [] {
    std::size_t files = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (entry.path().filename().string().find("rondo") != std::string::npos) ++files;
    return files;
  };
  const std::size_t before = count();
  World world(shmKind(), 2);
  auto [out, in] = world.connect(0, 1);
  CHECK(count() == before);
}

} // namespace rondo::test
