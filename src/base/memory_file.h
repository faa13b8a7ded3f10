// Shared memory without a name: a sealed memfd that one process makes, and another checks and maps.
#pragma once

#include <cstddef>
#include <memory>

#include "base/unique_fd.h"

namespace rondo::base {

/// Makes a zeroed memory file of exactly `bytes`, all of it allocated, whose size can never change.
/// Throws Error(system); a lack of memory is reported here, not by a signal later.
UniqueFd makeMemoryFile(std::size_t bytes);
/// Does what makeMemoryFile(bytes) does, but allocates only the first `head` bytes. The rest must
/// not be accessed before allocateMapped().
UniqueFd makeMemoryFile(std::size_t bytes, std::size_t head);

/// Throws what makeMemoryFile(bytes) would throw now because of rules of the system or limits of
/// this process; it does not detect a lack of memory.
void tryMemoryFile(std::size_t bytes);

/// Checks that `fd`, which a peer sent, is a file as makeMemoryFile(bytes) makes it. Throws
/// Error(transport) that says what is wrong, or Error(system) if this process gets no memory for
/// it. Without the seals the peer could shrink the file; an access to the mapping would raise
/// SIGBUS.
void checkMemoryFile(int fd, std::size_t bytes);
/// The same for makeMemoryFile(bytes, head).
void checkMemoryFile(int fd, std::size_t bytes, std::size_t head);

/// Maps the file from `offset` on, a multiple of the page size. It stays mapped until the last copy
/// of the pointer is gone; `fd` may be closed. `protection` as for mmap(). Children made by fork()
/// do not have the mapping: they would keep the memory allocated, and could change data that two
/// other processes exchange. Throws Error(system).
std::shared_ptr<void> mapMemoryFile(int fd, std::size_t bytes, int protection,
                                    std::size_t offset = 0);
/// As mapMemoryFile(), but maps each page when it is first accessed.
std::shared_ptr<void> mapMemoryFileLazily(int fd, std::size_t bytes, int protection);
/// Maps all of a file made by makeMemoryFile(bytes, head), for reading and writing.
std::shared_ptr<void> mapMemoryFileHead(int fd, std::size_t bytes, std::size_t head);

/// Whether allocateMapped() works: Linux supports it from 5.14 on.
bool canAllocateMapped();
/// Allocates the missing pages of a range of a mapped memory file; contents stay. Throws
/// Error(system) if memory is lacking. Any thread.
void allocateMapped(void* at, std::size_t bytes);

} // namespace rondo::base
