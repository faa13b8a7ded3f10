// Replaces the global allocation functions; the other forms call these.
#include "allocations/counting_new.h"

#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t made = 0;

void* counted(void* memory) {
  if (!memory) throw std::bad_alloc();
  ++made;
  return memory;
}

} // namespace

namespace rondo::test {
std::size_t allocations() { return made; }
} // namespace rondo::test

void* operator new(std::size_t bytes) { return counted(std::malloc(bytes > 0 ? bytes : 1)); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto align = static_cast<std::size_t>(alignment);
  return counted(std::aligned_alloc(align, (bytes + align - 1) / align * align));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
