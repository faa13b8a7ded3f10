// Shared memory without a name: a sealed memfd, made by one process, checked and mapped by another.
#pragma once

#include <cstddef>
#include <memory>

#include "base/unique_fd.h"

namespace rondo::base {

/// A zeroed memory file of exactly `bytes`, all of it allocated, its size sealed for good.
/// Throws Error(system): a lack of memory shows here, not later as a signal.
UniqueFd makeMemoryFile(std::size_t bytes);
/// As makeMemoryFile(bytes), but only the first `head` bytes are allocated. The rest must not be
/// touched before allocateMapped().
UniqueFd makeMemoryFile(std::size_t bytes, std::size_t head);

/// Throws as makeMemoryFile(bytes) would now, but for a lack of memory: what the system or a limit
/// of this process forbids.
void tryMemoryFile(std::size_t bytes);

/// Whether `fd`, which came from a peer, is what makeMemoryFile(bytes) makes. Throws
/// Error(transport) that says what is wrong. Without the size's seals the peer could cut off mapped
/// memory.
void checkMemoryFile(int fd, std::size_t bytes);
/// The same for makeMemoryFile(bytes, head).
void checkMemoryFile(int fd, std::size_t bytes, std::size_t head);

/// Mapped until the last copy is gone, from `offset` on, a multiple of the page's size; `fd` may be
/// closed. `protection` as mmap takes it. Not mapped in children that fork() makes: they would hold
/// the memory, and could change what two other processes tell each other. Throws Error(system).
std::shared_ptr<void> mapMemoryFile(int fd, std::size_t bytes, int protection,
                                    std::size_t offset = 0);
/// The same for all of makeMemoryFile(bytes, head), to read and write.
std::shared_ptr<void> mapMemoryFileHead(int fd, std::size_t bytes, std::size_t head);

/// Whether allocateMapped() is there: Linux has it from 5.14 on.
bool canAllocateMapped();
/// Allocates what the range of a mapping of a memory file lacks; its content stays. Throws
/// Error(system) for a lack of memory. Any thread.
void allocateMapped(void* at, std::size_t bytes);

} // namespace rondo::base
