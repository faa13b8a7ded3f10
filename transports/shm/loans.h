// Reading a peer process's memory where it stands: shared regions, mapped on first use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "transports/transport.h"

namespace rondo::transport::shm {

/// Peers' regions that this rank has mapped, for all channels of one communicator. One thread.
///
/// A region whose owner has released it is unmapped at the latest when another one is mapped; its
/// memory is given back before, unless the owner had to leave it to a reader.
class PeerRegions {
 public:
  /// Where the loan stands here, as long as what is returned lives. Throws Error(transport) when it
  /// names nothing that may be read.
  std::shared_ptr<const std::byte> find(const Loan& loan, std::size_t size);

 private:
  struct Key {
    std::uint64_t process_and_descriptor = 0, inode = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Mapping {
    std::shared_ptr<void> file;
    std::size_t file_bytes = 0;
    std::uint64_t used = 0;
  };
  Mapping map(const Key& key) const;
  /// Unmaps what is gone, and what was not used for longest until so many bytes more may be mapped.
  void makeRoom(std::size_t bytes);

  std::map<Key, Mapping> mappings_;
  std::size_t mapped_bytes_ = 0;
  std::uint64_t uses_ = 0;
};

/// The sender's end writes into the channel's notes who it is, before the receiver's end sees them;
/// the receiver's end writes whether it may map that process's memory.
void introduce(void* channel_memory);
void answer(void* channel_memory);

/// Of either end.
std::shared_ptr<Loans> loansOn(std::shared_ptr<void> channel_memory,
                               std::shared_ptr<PeerRegions> regions);

} // namespace rondo::transport::shm
