// Writes and reads messages of the wire format field by field: little-endian, with checked lengths.
// Structs are never copied as raw memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "rondo/error.h"

namespace rondo::base {

class Writer {
 public:
  void u8(std::uint8_t value) { integer(value); }
  void u16(std::uint16_t value) { integer(value); }
  void u32(std::uint32_t value) { integer(value); }
  void u64(std::uint64_t value) { integer(value); }
  void i32(std::int32_t value) { integer(static_cast<std::uint32_t>(value)); }
  void i64(std::int64_t value) { integer(static_cast<std::uint64_t>(value)); }

  /// Bytes without a length; the reader must know how many there are.
  void raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  /// A 32-bit length, then the bytes.
  void blob(std::span<const std::byte> bytes) {
    u32(static_cast<std::uint32_t>(bytes.size()));
    raw(bytes);
  }
  void text(std::string_view text) { blob(std::as_bytes(std::span(text))); }

  std::span<const std::byte> bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <std::unsigned_integral T>
  void integer(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i)));
    }
  }

  std::vector<std::byte> bytes_;
};

/// Reads what Writer wrote. If the bytes end too early or a length exceeds its limit, every
/// function throws Error(transport) that names `what`. Nothing is allocated before that check.
class Reader {
 public:
  /// `bytes` and `what` must outlive the reader.
  Reader(std::span<const std::byte> bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  std::uint8_t u8() { return integer<std::uint8_t>(); }
  std::uint16_t u16() { return integer<std::uint16_t>(); }
  std::uint32_t u32() { return integer<std::uint32_t>(); }
  std::uint64_t u64() { return integer<std::uint64_t>(); }
  std::int32_t i32() { return static_cast<std::int32_t>(u32()); }
  std::int64_t i64() { return static_cast<std::int64_t>(u64()); }

  /// A view into the input.
  std::span<const std::byte> raw(std::size_t size) {
    if (size > bytes_.size()) {
      fail("ends early: " + std::to_string(bytes_.size()) + " bytes left, " + std::to_string(size) +
           " needed");
    }
    const auto part = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return part;
  }
  void raw(std::span<std::byte> out) {
    const auto part = raw(out.size());
    if (!out.empty()) std::memcpy(out.data(), part.data(), out.size());
  }
  std::span<const std::byte> blob(std::size_t limit) {
    const std::uint32_t size = u32();
    if (size > limit) {
      fail("holds a length of " + std::to_string(size) + ", at most " + std::to_string(limit) +
           " is allowed");
    }
    return raw(size);
  }
  std::string text(std::size_t limit) {
    const auto part = blob(limit);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

  std::size_t left() const { return bytes_.size(); }
  /// Throws if bytes are left.
  void finish() const {
    if (!bytes_.empty()) fail("has " + std::to_string(bytes_.size()) + " bytes too many");
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error(ErrorCode::transport, std::string(what_) + " " + why);
  }

 private:
  template <std::unsigned_integral T>
  T integer() {
    const auto part = raw(sizeof(T));
    T value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      value = static_cast<T>(value | static_cast<T>(static_cast<T>(part[i]) << (8 * i)));
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  std::string_view what_;
};

} // namespace rondo::base
