// Finds, maps or copies memory that another process lends.
#include "transports/shm/loans.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <limits>
#include <new>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/memory_file.h"
#include "base/shared_region.h"
#include "base/unique_fd.h"
#include "rondo/error.h"
#include "transports/shm/process_memory.h"
#include "transports/slot_ring.h"
#include "transports/support.h"

namespace rondo::transport::shm {

namespace {

/// A process can have 65,530 mappings. Above this number of one communicator's, the least recently
/// used region is unmapped; it is mapped again when it is needed.
constexpr std::size_t kMostMappings = 4096;

/// Stored in SlotRing::notes().
struct Notes {
  std::uint64_t pid_namespace = 0; ///< of the sender
  std::uint64_t sender_token_at = 0, reader_token_at = 0;
  std::uint32_t sender_token = 0, reader_token = 0;
  std::int32_t sender = 0, reader = 0;   ///< process ids
  std::atomic<std::uint32_t> reaches{0}; ///< what the receiver can read: kRegions | kAll
};
constexpr std::uint32_t kRegions = 1, kAll = 2;
static_assert(sizeof(Notes) <= SlotRing::kNotesBytes &&
              std::atomic<std::uint32_t>::is_always_lock_free);

Notes& notesOf(void* channel_memory) {
  return *std::launder(reinterpret_cast<Notes*>(SlotRing::notes(channel_memory)));
}

/// Logs it once for each process, with the first such peer only: programs open many channels.
void tellOnce(int peer, const std::string& why) {
  static std::atomic<bool> told{false};
  if (!told.exchange(true))
    base::log(LogLevel::info, "cannot read the private memory of rank ", peer,
              " (process_vm_readv: ", why,
              "): large messages from it are copied twice, "
              "through shared memory; other ranks are not reported");
}

/// Identifies the PID namespace; 0: unknown.
std::uint64_t pidNamespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

/// Loan::words of memory in a region: process id and descriptor; inode; offset. Of private memory:
/// process id and kNoRegion; address; 1 if the sender copies parts, else 0.
constexpr std::uint32_t kNoRegion = ~std::uint32_t{0};
std::uint64_t firstWord(std::int32_t pid, std::uint32_t descriptor) {
  return static_cast<std::uint64_t>(pid) << 32 | descriptor;
}
pid_t processOf(const Loan& loan) { return static_cast<pid_t>(loan.words[0] >> 32); }
bool inRegion(const Loan& loan) { return static_cast<std::uint32_t>(loan.words[0]) != kNoRegion; }

class ProcessLoans final : public Loans {
 public:
  ProcessLoans(std::shared_ptr<void> memory, Side side, int peer,
               std::shared_ptr<PeerRegions> regions, bool slots_faster)
      : memory_(std::move(memory)),
        side_(side),
        peer_(peer),
        slots_faster_(slots_faster),
        regions_(std::move(regions)) {}

  std::optional<Loan> offer(const void* data, std::size_t size, Use use) override {
    const auto place = base::SharedRegions::ofProcess().find(data, size);
    if (!place && (refused_ || size < copiedFrom(use))) return {};
    // Checked last, because the consumer writes to this cache line.
    if (!(notes().reaches.load(std::memory_order_acquire) & (place ? kRegions : kAll))) return {};
    if (!place)
      return Loan{{firstWord(notes().sender, kNoRegion), reinterpret_cast<std::uintptr_t>(data),
                   use == Use::one_way && writes()}};
    return Loan{{firstWord(place->pid, static_cast<std::uint32_t>(place->fd)), place->inode,
                 place->offset}};
  }
  const std::byte* find(const Loan& loan, std::size_t size) override {
    if (!inRegion(loan)) return nullptr;
    try {
      body_ = regions_->find(loan, size);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::transport) throw; // this process's fault
      requireAlive(processOf(loan));
      throw Error(error.code(),
                  "a message of rank " + std::to_string(peer_) + " cannot be read: " + error.what(),
                  peer_);
    }
    return body_.get();
  }
  bool read(const Loan& loan, std::size_t offset, void* to, std::size_t size) override {
    if (inRegion(loan)) return Loans::read(loan, offset, to, size);
    const pid_t process = processOf(loan);
    const int error = readMemory(process, loan.words[1] + offset, to, size);
    if (error == 0) return true;
    requireAlive(process);
    tellOnce(peer_, errnoText(error));
    return false;
  }
  void refused() override { refused_ = true; }
  bool shared(const Loan& loan) const override { return !inRegion(loan) && loan.words[2] != 0; }
  bool write(const void* from, std::uint64_t to, std::size_t size) override {
    writes_ = writeMemory(notes().reader, to, from, size) == 0;
    return *writes_;
  }
  bool peerEnded() const override {
    return ended(side_ == Side::sender ? notes().reader : notes().sender);
  }

 private:
  /// Size from which private memory should be lent.
  std::size_t copiedFrom(Use use) const {
    if (use == Use::one_way && !slots_faster_) return kShareBytes;
    return use == Use::keep ? kReadBytes : std::numeric_limits<std::size_t>::max();
  }
  Notes& notes() const { return notesOf(memory_.get()); }
  /// Throws the error for a message whose sender's process has ended.
  void requireAlive(pid_t process) const {
    if (ended(process))
      throw Error(
          ErrorCode::peer_dead,
          "a message of rank " + std::to_string(peer_) + " cannot be read: its process has ended",
          peer_);
  }
  /// Whether this process may write the receiver's memory. The kernel asks for the same permission
  /// as for reading, so this tries to read. If process_vm_writev itself is forbidden (seccomp), the
  /// first write() fails, and later calls return false.
  bool writes() {
    if (!writes_)
      writes_ = tryRead(notes().reader, {notes().reader_token_at, notes().reader_token}) == 0;
    return *writes_;
  }

  const std::shared_ptr<void> memory_; ///< of the channel; contains the notes
  const Side side_;
  const int peer_;
  const bool slots_faster_;
  std::optional<bool> writes_;
  bool refused_ = false;
  const std::shared_ptr<PeerRegions> regions_;
  /// Last result of find(), kept while other channels call find().
  std::shared_ptr<const std::byte> body_;
};

} // namespace

std::shared_ptr<const std::byte> PeerRegions::find(const Loan& loan, std::size_t size) {
  const Key key{loan.words[0], loan.words[1]};
  auto found = mappings_.find(key);
  if (found == mappings_.end()) {
    makeRoom();
    found = mappings_.emplace(key, map(key)).first;
    complete_bytes_ += found->second.complete_bytes;
  }
  Mapping& mapping = found->second;
  mapping.used = ++uses_;
  const std::uint64_t offset = loan.words[2];
  const std::size_t bytes = base::SharedRegion::bytesOf(mapping.file_bytes);
  if (offset > bytes || size > bytes - offset)
    throw Error(ErrorCode::transport, "a peer lent memory after the end of its region");
  return {mapping.file, static_cast<const std::byte*>(mapping.file.get()) + offset};
}

void PeerRegions::makeRoom() {
  std::erase_if(mappings_, [this](const auto& entry) {
    const Mapping& mapping = entry.second;
    const bool gone = base::SharedRegion::gone(mapping.file.get(), mapping.file_bytes);
    if (gone) complete_bytes_ -= mapping.complete_bytes;
    return gone;
  });
  while (mappings_.size() >= kMostMappings) {
    const auto oldest = std::min_element(
        mappings_.begin(), mappings_.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    complete_bytes_ -= oldest->second.complete_bytes;
    mappings_.erase(oldest);
  }
}

PeerRegions::Mapping PeerRegions::map(const Key& key) const {
  const auto pid = static_cast<std::int32_t>(key.process_and_descriptor >> 32);
  const auto number = static_cast<std::uint32_t>(key.process_and_descriptor);
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(number);
  const auto fd = base::UniqueFd::of([&] { return ::open(path.c_str(), O_RDWR | O_CLOEXEC); });
  if (!fd)
    throw Error(base::lacksResources(errno) ? ErrorCode::system : ErrorCode::transport,
                "cannot open lent memory " + path + ": " + errnoText(errno));
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0 || info.st_ino != key.inode)
    throw Error(ErrorCode::transport, path + " is not the memory that the peer lent");
  const auto bytes = static_cast<std::size_t>(info.st_size);
  if (base::SharedRegion::bytesOf(bytes) == 0)
    throw Error(ErrorCode::transport, path + " is too small for a region");
  base::checkMemoryFile(fd.get(), bytes);
  if (bytes > most_complete_ - complete_bytes_)
    return {base::mapMemoryFileLazily(fd.get(), bytes, PROT_READ), bytes, 0, 0};
  return {base::mapMemoryFile(fd.get(), bytes, PROT_READ), bytes, bytes, 0};
}

void introduce(void* channel_memory) {
  Notes& notes = notesOf(channel_memory);
  const Token token = ownToken();
  notes.sender = ::getpid();
  notes.pid_namespace = pidNamespace();
  notes.sender_token_at = token.address;
  notes.sender_token = token.value;
}

void answer(void* channel_memory, int peer) {
  Notes& notes = notesOf(channel_memory);
  const Token token = ownToken();
  notes.reader = ::getpid();
  notes.reader_token_at = token.address;
  notes.reader_token = token.value;
  const bool known = notes.pid_namespace != 0 && notes.pid_namespace == pidNamespace();
  std::array<char, 8> some{};
  // The kernel lets a process read the name of another's executable if it lets it open the other's
  // descriptors.
  const std::string probe = "/proc/" + std::to_string(notes.sender) + "/exe";
  const bool maps = known && ::readlink(probe.c_str(), some.data(), some.size()) > 0;
  const int refused =
      known ? tryRead(notes.sender, {notes.sender_token_at, notes.sender_token}) : ESRCH;
  if (refused != 0) tellOnce(peer, known ? errnoText(refused) : "it is in another PID namespace");
  notes.reaches.store((maps ? kRegions : 0) | (refused == 0 ? kAll : 0), std::memory_order_release);
}

std::shared_ptr<Loans> loansOn(std::shared_ptr<void> channel_memory, Side side, int peer,
                               std::shared_ptr<PeerRegions> regions, bool slots_faster) {
  return std::make_shared<ProcessLoans>(std::move(channel_memory), side, peer, std::move(regions),
                                        slots_faster);
}

} // namespace rondo::transport::shm
