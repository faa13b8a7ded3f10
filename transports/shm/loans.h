// Lends memory to another process. The other process maps shared regions on first use, and copies
// private memory.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "transports/transport.h"

namespace rondo::transport::shm {

/// The peers' regions that this rank has mapped, for all channels of one communicator. One thread.
///
/// A region that its owner has released is unmapped when another one is mapped, or earlier. Its
/// memory is freed as soon as the owner releases it, unless the owner had to leave it to a reader.
class PeerRegions {
 public:
  /// Regions of up to this size together are mapped with all their pages, so that the first reads
  /// cause no page faults. Of further ones only those pages are mapped that are read: page tables
  /// take 1/512 of the mapped size, and mapping all pages takes 45 to 120 ms for each GiB.
  static constexpr std::size_t kMostComplete = std::size_t{16} << 30;
  explicit PeerRegions(std::size_t most_complete = kMostComplete) : most_complete_(most_complete) {}

  /// The address of the loan in this process, valid as long as the result exists. Throws
  /// Error(transport) if the loan refers to memory that may not be read.
  std::shared_ptr<const std::byte> find(const Loan& loan, std::size_t size);

 private:
  struct Key {
    std::uint64_t process_and_descriptor = 0, inode = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Mapping {
    std::shared_ptr<void> file;
    std::size_t file_bytes = 0;
    std::size_t complete_bytes = 0; ///< mapped with all their pages
    std::uint64_t used = 0;
  };
  Mapping map(const Key& key) const;
  /// Unmaps regions that their owners have released, then the least recently used ones, until one
  /// more may be mapped.
  void makeRoom();

  const std::size_t most_complete_;
  std::map<Key, Mapping> mappings_;
  std::size_t complete_bytes_ = 0; ///< of all mappings
  std::uint64_t uses_ = 0;
};

/// introduce(): the sender's end writes its process id and token into the channel's notes, before
/// the receiver's end sees them. answer(): the receiver's end tests whether it can map that
/// process's regions and read its private memory, and writes the result.
void introduce(void* channel_memory);
void answer(void* channel_memory, int peer);

enum class Side { sender, receiver };
/// `slots_faster`: one-way calls do not lend private memory.
std::shared_ptr<Loans> loansOn(std::shared_ptr<void> channel_memory, Side side, int peer,
                               std::shared_ptr<PeerRegions> regions, bool slots_faster);

} // namespace rondo::transport::shm
