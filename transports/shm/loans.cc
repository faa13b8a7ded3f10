// Finds and maps memory that another process lends.
#include "transports/shm/loans.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <new>
#include <string>

#include "base/memory_file.h"
#include "base/shared_region.h"
#include "base/unique_fd.h"
#include "rondo/error.h"
#include "transports/slot_ring.h"
#include "transports/support.h"

namespace rondo::transport::shm {

namespace {

/// Limits of the mapped regions of one communicator: page tables take 1/512 of the mapped size, and
/// a process can have 65,530 mappings. Above a limit, the least recently used region is unmapped;
/// it is mapped again when it is needed.
constexpr std::size_t kMostMappedBytes = std::size_t{16} << 30;
constexpr std::size_t kMostMappings = 4096;

/// Stored in SlotRing::notes().
struct Notes {
  std::uint64_t pid_namespace = 0;
  std::int32_t pid = 0;
  std::atomic<std::uint32_t> readable{0};
};
static_assert(sizeof(Notes) <= SlotRing::kNotesBytes &&
              std::atomic<std::uint32_t>::is_always_lock_free);

Notes& notesOf(void* channel_memory) {
  return *std::launder(reinterpret_cast<Notes*>(SlotRing::notes(channel_memory)));
}

/// Identifies the namespace of process ids; 0: unknown.
std::uint64_t pidNamespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

class RegionLoans final : public Loans {
 public:
  RegionLoans(std::shared_ptr<void> memory, std::shared_ptr<PeerRegions> regions)
      : memory_(std::move(memory)), regions_(std::move(regions)) {}

  std::optional<Loan> offer(const void* data, std::size_t size) override {
    const auto place = base::SharedRegions::ofProcess().find(data, size);
    if (!place) return {};
    // Checked last, because the consumer writes to this cache line.
    if (notesOf(memory_.get()).readable.load(std::memory_order_acquire) == 0) return {};
    return Loan{
        {static_cast<std::uint64_t>(place->pid) << 32 | static_cast<std::uint32_t>(place->fd),
         place->inode, place->offset}};
  }
  const std::byte* find(const Loan& loan, std::size_t size) override {
    body_ = regions_->find(loan, size);
    return body_.get();
  }
  bool outliveSender() const override {
    // This is called while the peer may be reading, so memory that is freed from now on must keep
    // its contents.
    base::SharedRegions::ofProcess().keepAll();
    return true;
  }

 private:
  const std::shared_ptr<void> memory_; ///< of the channel; contains the notes
  const std::shared_ptr<PeerRegions> regions_;
  /// Last result of find(), kept while other channels call find().
  std::shared_ptr<const std::byte> body_;
};

} // namespace

std::shared_ptr<const std::byte> PeerRegions::find(const Loan& loan, std::size_t size) {
  const Key key{loan.words[0], loan.words[1]};
  auto found = mappings_.find(key);
  if (found == mappings_.end()) {
    Mapping mapping = map(key);
    makeRoom(mapping.file_bytes);
    mapped_bytes_ += mapping.file_bytes;
    found = mappings_.emplace(key, std::move(mapping)).first;
  }
  Mapping& mapping = found->second;
  mapping.used = ++uses_;
  const std::uint64_t offset = loan.words[2];
  const std::size_t bytes = base::SharedRegion::bytesOf(mapping.file_bytes);
  if (offset > bytes || size > bytes - offset)
    throw Error(ErrorCode::transport, "a peer lent memory after the end of its region");
  return {mapping.file, static_cast<const std::byte*>(mapping.file.get()) + offset};
}

void PeerRegions::makeRoom(std::size_t bytes) {
  std::erase_if(mappings_, [this](const auto& entry) {
    const Mapping& mapping = entry.second;
    const bool gone = base::SharedRegion::gone(mapping.file.get(), mapping.file_bytes);
    if (gone) mapped_bytes_ -= mapping.file_bytes;
    return gone;
  });
  while (!mappings_.empty() &&
         (mappings_.size() >= kMostMappings || mapped_bytes_ + bytes > kMostMappedBytes)) {
    const auto oldest = std::min_element(
        mappings_.begin(), mappings_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    mapped_bytes_ -= oldest->second.file_bytes;
    mappings_.erase(oldest);
  }
}

PeerRegions::Mapping PeerRegions::map(const Key& key) const {
  const auto pid = static_cast<std::int32_t>(key.process_and_descriptor >> 32);
  const auto number = static_cast<std::uint32_t>(key.process_and_descriptor);
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  const auto fd = base::UniqueFd::of([&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); });
  if (!fd)
    throw Error(ErrorCode::transport, "cannot open lent memory " + path + ": " + errnoText(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_ino != key.inode)
    throw Error(ErrorCode::transport, path + " is not the memory that the peer lent");
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (base::SharedRegion::bytesOf(bytes) == 0)
    throw Error(ErrorCode::transport, path + " is too small for a region");
  base::checkMemoryFile(fd.get(), bytes);
  return {base::mapMemoryFile(fd.get(), bytes, PROT_READ), bytes, 0};
}

void introduce(void* channel_memory) {
  Notes& notes = notesOf(channel_memory);
  notes.pid = ::getpid();
  notes.pid_namespace = pidNamespace();
}

void answer(void* channel_memory) {
  Notes& notes = notesOf(channel_memory);
  std::array<char, 8> some{};
  // The kernel lets a process read the name of another's executable if it lets it open the other's
  // descriptors.
  const std::string probe = "/proc/" + std::to_string(notes.pid) + "/exe";
  const bool readable = notes.pid_namespace != 0 && notes.pid_namespace == pidNamespace() &&
                        ::readlink(probe.c_str(), some.data(), some.size()) > 0;
  notes.readable.store(readable ? 1 : 0, std::memory_order_release);
}

std::shared_ptr<Loans> loansOn(std::shared_ptr<void> channel_memory,
                               std::shared_ptr<PeerRegions> regions) {
  return std::make_shared<RegionLoans>(std::move(channel_memory), std::move(regions));
}

} // namespace rondo::transport::shm
