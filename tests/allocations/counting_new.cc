// Replaces all forms of the global allocation functions: a sanitizer would supply the missing ones,
// which do not work together with these.
#include "allocations/counting_new.h"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t made = 0, large = 0;

void* plain(std::size_t bytes) { return std::malloc(bytes > 0 ? bytes : 1); }

void* aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(align, (bytes + align - 1) / align * align);
}

void* counted(std::size_t bytes, void* memory) {
  ++made;
  if (bytes >= rondo::test::kLarge) ++large;
  return memory;
}

void* needed(std::size_t bytes, void* memory) {
  if (!memory) throw std::bad_alloc();
  return counted(bytes, memory);
}

} // namespace

namespace rondo::test {
std::size_t allocations() { return made; }
std::size_t largeAllocations() { return large; }
} // namespace rondo::test

void* operator new(std::size_t bytes) { return needed(bytes, plain(bytes)); }
void* operator new[](std::size_t bytes) { return needed(bytes, plain(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept {
  return counted(bytes, plain(bytes));
}
void* operator new[](std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept {
  return counted(bytes, plain(bytes));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return needed(bytes, aligned(bytes, alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return needed(bytes, aligned(bytes, alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment,
                   const std::nothrow_t& /*nothrow*/) noexcept {
  return counted(bytes, aligned(bytes, alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t& /*nothrow*/) noexcept {
  return counted(bytes, aligned(bytes, alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
