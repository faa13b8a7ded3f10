// Memory of this process that peers can map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/bound_plan.h"

namespace rondo::comm {

/// A listed region (base/shared_region.h) and its mapping.
class Region {
 public:
  /// New zeroed memory, at least `bytes` of it. Throws Error(system).
  static std::unique_ptr<Region> allocate(std::size_t bytes);
  /// The memory at `data`, which keeps its contents. Throws Error(invalid_argument) when it is not
  /// whole pages, Error(unsupported) when it is not private anonymous memory, Error(system).
  static std::unique_ptr<Region> adopt(void* data, std::size_t bytes);
  /// Allocated memory is unmapped, adopted memory becomes private again.
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  /// Whether a call that uses these bytes of the buffer at `address` uses memory of the region.
  bool overlaps(const void* address, const engine::UsedBytes& used) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    const auto begin = reinterpret_cast<std::uintptr_t>(data_);
    return used.begin < used.end && at + used.begin < begin + mapped_ && at + used.end > begin;
  }

 private:
  Region(void* data, std::size_t bytes, std::size_t mapped, bool adopted)
      : data_(data), bytes_(bytes), mapped_(mapped), adopted_(adopted) {}

  void* const data_;
  const std::size_t bytes_, mapped_; ///< requested size, and size in whole pages
  const bool adopted_;
};

} // namespace rondo::comm
