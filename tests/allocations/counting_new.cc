// Replaces the global allocation functions, in every form: a sanitizer brings its own of what is
// left out, and those do not go together.
#include "allocations/counting_new.h"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t made = 0;

void* plain(std::size_t bytes) { return std::malloc(bytes > 0 ? bytes : 1); }

void* aligned(std::size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(align, (bytes + align - 1) / align * align);
}

void* counted(void* memory) {
  ++made;
  return memory;
}

void* needed(void* memory) {
  if (!memory) throw std::bad_alloc();
  return counted(memory);
}

} // namespace

namespace rondo::test {
std::size_t allocations() { return made; }
} // namespace rondo::test

void* operator new(std::size_t bytes) { return needed(plain(bytes)); }
void* operator new[](std::size_t bytes) { return needed(plain(bytes)); }
void* operator new(std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept {
  return counted(plain(bytes));
}
void* operator new[](std::size_t bytes, const std::nothrow_t& /*nothrow*/) noexcept {
  return counted(plain(bytes));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return needed(aligned(bytes, alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return needed(aligned(bytes, alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment,
                   const std::nothrow_t& /*nothrow*/) noexcept {
  return counted(aligned(bytes, alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment,
                     const std::nothrow_t& /*nothrow*/) noexcept {
  return counted(aligned(bytes, alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
