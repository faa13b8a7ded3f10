// Fills buffers: with random bytes, or with values whose reduction has one exact result.
#include <algorithm>
#include <cstring>

#include "datatypes.h"

namespace rondo::test {
namespace {

void putInteger(std::int64_t value, int size, unsigned char* to) {
  std::memcpy(to, &value, static_cast<std::size_t>(std::min(size, 8)));
}

void putReal(int value, int size, unsigned char* to) {
  if (size == 4) {
    const auto x = static_cast<float>(value);
    std::memcpy(to, &x, sizeof x);
  } else if (size == 8) {
    const auto x = static_cast<double>(value);
    std::memcpy(to, &x, sizeof x);
  } else {
    const auto x = static_cast<long double>(value);
    std::memcpy(to, &x, 10);
  }
}

/// Values whose sums of eight fit a signed byte, and whose products of eight are below 256.
int exactValue(const Operator& op, std::uint64_t random, bool is_signed) {
  if (op.op == MPI_PROD) return random % 3 == 0 ? 2 : 1;
  return static_cast<int>(random % 16) - (is_signed ? 8 : 0);
}

void putPair(const BaseType& base, std::uint64_t random, unsigned char* to) {
  // Few different values, so that the smaller location decides often.
  const int value = static_cast<int>(random % 3);
  const int location = static_cast<int>(random >> 32 & 0xffff);
  int size = 0;
  MPI_Type_size(base.first, &size);
  const bool real =
      base.first == MPI_FLOAT || base.first == MPI_DOUBLE || base.first == MPI_LONG_DOUBLE;
  real ? putReal(value, size, to) : putInteger(value, size, to);
  // The Fortran pairs have two values of one type; those of C a value and an int, aligned.
  const bool fortran = base.name.starts_with("MPI_2") && base.name != "MPI_2INT";
  if (fortran && real) {
    putReal(location, size, to + size);
  } else {
    const int at = std::max(size, 4);
    putInteger(location, 4, to + at);
  }
}

void putOne(const BaseType& base, const Operator& op, std::uint64_t random, unsigned char* to) {
  const bool is_signed = base.kind != Kind::unsigned_integer && base.kind != Kind::address;
  switch (base.kind) {
    case Kind::signed_integer:
    case Kind::unsigned_integer:
    case Kind::fortran_integer:
    case Kind::address:
      putInteger(op.exact_values_only ? exactValue(op, random, is_signed)
                                      : static_cast<std::int64_t>(random),
                 base.size, to);
      // Random bytes are hardly ever zero, which logical operators test.
      if (op.name[4] == 'L' && random % 3 == 0) putInteger(0, base.size, to);
      // MPICH 4.0.2 compares unsigned types as signed ones; Open MPI 4.1.4 unsigned long, and
      // MPI_OFFSET the other way round.
      if ((op.op == MPI_MAX || op.op == MPI_MIN) && !is_signed) to[base.size - 1] &= 0x7f;
      break;
    case Kind::real: putReal(exactValue(op, random, true), base.size, to); break;
    case Kind::complex: {
      // In products of eight, powers of 3 + i stay below 10^4, and no part is ever zero (its sign
      // would depend on the order).
      const bool one = op.op == MPI_PROD && random % 2 == 0;
      const int re = op.op != MPI_PROD ? exactValue(op, random, true) : one ? 1 : 3;
      const int im = op.op != MPI_PROD ? exactValue(op, random >> 8, true) : one ? 0 : 1;
      putReal(re, base.size / 2, to);
      putReal(im, base.size / 2, to + base.size / 2);
      break;
    }
    case Kind::logical:
      putInteger(static_cast<std::int64_t>(random >> 7 & 1), base.size, to);
      break;
    case Kind::pair: putPair(base, random, to); break;
    case Kind::byte:
    case Kind::character:
    case Kind::opaque:
    case Kind::affine: std::memcpy(to, &random, static_cast<std::size_t>(std::min(base.size, 8)));
  }
}

} // namespace

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

void fillValues(const BaseType& base, const Operator& op, std::uint64_t seed, std::size_t count,
                unsigned char* to) {
  for (std::size_t i = 0; i < count; ++i) {
    putOne(base, op, mix(seed + i), to + i * static_cast<std::size_t>(base.extent));
  }
}

void fillBytes(std::uint64_t seed, std::size_t bytes, unsigned char* to) {
  std::uint64_t state = mix(seed) | 1U;
  for (std::size_t i = 0; i < bytes; i += 8) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(to + i, &state, std::min<std::size_t>(8, bytes - i));
  }
}

} // namespace rondo::test
