// Memory of this process that peers can map.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace rondo::comm {

/// A listed region (base/shared_region.h) and its mapping.
class Region {
 public:
  /// New zeroed memory, at least `bytes` of it. Throws Error(system).
  static std::unique_ptr<Region> allocate(std::size_t bytes);
  /// The memory at `data`, which keeps its contents; the region that exists if exactly this memory
  /// is adopted already. Throws Error(invalid_argument) when it is not whole pages or a call in
  /// flight uses it, Error(unsupported) when it is not private anonymous memory, Error(system).
  static std::shared_ptr<Region> adopt(void* data, std::size_t bytes);
  /// Drops a reference to adopted memory. If it is the last one and a call in flight uses the
  /// memory, throws Error(invalid_argument) whose text begins with `what`, and changes nothing.
  static void drop(std::shared_ptr<Region>& one, const std::string& what);
  /// Allocated memory is unmapped, adopted memory becomes private again.
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  std::span<const std::byte> memory() const {
    return {static_cast<const std::byte*>(data_), mapped_};
  }
  bool adopted() const { return adopted_; }

 private:
  static std::shared_ptr<Region> newlyAdopted(void* data, std::size_t bytes);
  Region(void* data, std::size_t bytes, std::size_t mapped, bool adopted)
      : data_(data), bytes_(bytes), mapped_(mapped), adopted_(adopted) {}

  void* const data_;
  const std::size_t bytes_, mapped_; ///< requested size, and size in whole pages
  const bool adopted_;
};

} // namespace rondo::comm
