// Builds the lists of types, layouts and operators.
#include "datatypes.h"

#include <algorithm>
#include <array>

namespace rondo::test {
namespace {

void maximum(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* const a = static_cast<const int*>(in);
  auto* const b = static_cast<int*>(inout);
  for (int i = 0; i < *count; ++i) b[i] = std::max(a[i], b[i]);
}

/// Applies (a, b) of the lower rank after (a, b) of the higher rank: associative, not commutative.
void compose(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* const low = static_cast<const unsigned*>(in);
  auto* const high = static_cast<unsigned*>(inout);
  for (int i = 0; i < 2 * *count; i += 2) {
    high[i + 1] = low[i] * high[i + 1] + low[i + 1];
    high[i] = low[i] * high[i];
  }
}

/// Which bytes of a type's extent are data, by its name, since MPI has no function for that.
void markPadding(BaseType& base) {
  const auto extent = static_cast<std::size_t>(base.extent);
  base.significant.assign(extent, true);
  const auto pad = [&base](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) base.significant[i] = false;
    base.padded = base.padded || from < to;
  };
  if (base.name == "MPI_SHORT_INT") pad(2, 4);
  if (base.name == "MPI_LONG_INT" || base.name == "MPI_DOUBLE_INT") pad(12, extent);
  if (base.name == "MPI_LONG_DOUBLE_INT") pad(20, extent);
  if (base.name.starts_with("struct")) pad(4, 8), pad(16, 17), pad(20, extent);
  // A long double is 10 bytes in 16.
  if (base.name.find("LONG_DOUBLE") != std::string::npos) {
    for (std::size_t i = 0; i + 16 <= (base.kind == Kind::pair ? 16 : extent); i += 16) {
      pad(i + 10, i + 16);
    }
  }
}

/// An int, a double and a char at odd offsets, so that the type has holes and mixed sizes.
MPI_Datatype mixedStruct() {
  std::array<int, 3> lengths{1, 1, 3};
  std::array<MPI_Aint, 3> at{0, 8, 17};
  std::array<MPI_Datatype, 3> types{MPI_INT, MPI_DOUBLE, MPI_SIGNED_CHAR};
  MPI_Datatype packed = MPI_DATATYPE_NULL;
  MPI_Datatype padded = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(3, lengths.data(), at.data(), types.data(), &packed);
  MPI_Type_create_resized(packed, 0, 24, &padded);
  MPI_Type_free(&packed);
  return padded;
}

} // namespace

MPI_Datatype Datatypes::keep(MPI_Datatype type) {
  MPI_Type_commit(&type);
  own_.push_back(type);
  return type;
}

void Datatypes::add(const char* name, MPI_Datatype type, Kind kind) {
  if (type == MPI_DATATYPE_NULL) return;
  BaseType base;
  base.name = name;
  base.type = type;
  base.kind = kind;
  MPI_Aint lb = 0;
  MPI_Type_size(type, &base.size);
  MPI_Type_get_extent(type, &lb, &base.extent);
  // Open MPI defines names for types that this machine does not have; their size is 0.
  if (base.size == 0) return;
  markPadding(base);
  bases_.push_back(base);
  addLayouts(base);
}

void Datatypes::addLayouts(const BaseType& base) {
  std::vector<Layout>& layouts = layouts_.emplace_back();
  layouts.push_back({"plain", base.type, {0}, base.extent});
  if (base.type == MPI_PACKED) return;
  const MPI_Aint e = base.extent;
  const auto put = [&](const char* name, MPI_Datatype type, std::vector<MPI_Aint> at) {
    for (MPI_Aint& each : at) each *= e;
    MPI_Aint lb = 0;
    MPI_Aint extent = 0;
    MPI_Type_commit(&type);
    MPI_Type_get_extent(type, &lb, &extent);
    layouts.push_back({name, type, at, extent});
    own_.push_back(type);
  };
  const std::vector<MPI_Aint> in_a_row{0, 1, 2, 3, 4, 5};
  MPI_Datatype made = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(kLayoutElements, base.type, &made);
  put("contiguous", made, in_a_row);
  const MPI_Datatype contiguous = made;
  MPI_Type_dup(contiguous, &made);
  put("duplicate", made, in_a_row);
  MPI_Type_vector(3, 2, 3, base.type, &made);
  put("vector", made, {0, 1, 3, 4, 6, 7});
  // Data whose order in the type map differs from their order in memory.
  std::array<int, 3> lengths{1, 2, 3};
  std::array<int, 3> at{7, 4, 0};
  MPI_Type_indexed(3, lengths.data(), at.data(), base.type, &made);
  put("indexed", made, {7, 4, 5, 0, 1, 2});
  std::array<int, 3> more_lengths{2, 1, 3};
  std::array<MPI_Aint, 3> bytes{4 * e, -e, 0};
  std::array<MPI_Datatype, 3> types{base.type, base.type, base.type};
  MPI_Type_create_struct(3, more_lengths.data(), bytes.data(), types.data(), &made);
  put("struct", made, {4, 5, -1, 0, 1, 2});
  MPI_Type_create_resized(contiguous, 0, (kLayoutElements + 2) * e, &made);
  put("resized", made, in_a_row);
  MPI_Type_create_resized(contiguous, -e, (kLayoutElements + 1) * e, &made);
  put("resized_below", made, in_a_row);
}

#define COMPAT_TYPE(type, kind) add(#type, type, Kind::kind)

void Datatypes::addTypesOfBoth() {
  COMPAT_TYPE(MPI_SIGNED_CHAR, signed_integer);
  COMPAT_TYPE(MPI_SHORT, signed_integer);
  COMPAT_TYPE(MPI_INT, signed_integer);
  COMPAT_TYPE(MPI_LONG, signed_integer);
  COMPAT_TYPE(MPI_LONG_LONG, signed_integer);
  COMPAT_TYPE(MPI_INT8_T, signed_integer);
  COMPAT_TYPE(MPI_INT16_T, signed_integer);
  COMPAT_TYPE(MPI_INT32_T, signed_integer);
  COMPAT_TYPE(MPI_INT64_T, signed_integer);
  COMPAT_TYPE(MPI_AINT, address);
  COMPAT_TYPE(MPI_OFFSET, address);
  COMPAT_TYPE(MPI_COUNT, address);
  COMPAT_TYPE(MPI_UNSIGNED_CHAR, unsigned_integer);
  COMPAT_TYPE(MPI_UNSIGNED_SHORT, unsigned_integer);
  COMPAT_TYPE(MPI_UNSIGNED, unsigned_integer);
  COMPAT_TYPE(MPI_UNSIGNED_LONG, unsigned_integer);
  COMPAT_TYPE(MPI_UNSIGNED_LONG_LONG, unsigned_integer);
  COMPAT_TYPE(MPI_UINT8_T, unsigned_integer);
  COMPAT_TYPE(MPI_UINT16_T, unsigned_integer);
  COMPAT_TYPE(MPI_UINT32_T, unsigned_integer);
  COMPAT_TYPE(MPI_UINT64_T, unsigned_integer);
  COMPAT_TYPE(MPI_INTEGER, fortran_integer);
  COMPAT_TYPE(MPI_INTEGER1, fortran_integer);
  COMPAT_TYPE(MPI_INTEGER2, fortran_integer);
  COMPAT_TYPE(MPI_INTEGER4, fortran_integer);
  COMPAT_TYPE(MPI_INTEGER8, fortran_integer);
  COMPAT_TYPE(MPI_FLOAT, real);
  COMPAT_TYPE(MPI_DOUBLE, real);
  COMPAT_TYPE(MPI_LONG_DOUBLE, real);
  COMPAT_TYPE(MPI_REAL, real);
  COMPAT_TYPE(MPI_DOUBLE_PRECISION, real);
  COMPAT_TYPE(MPI_REAL4, real);
  COMPAT_TYPE(MPI_REAL8, real);
  COMPAT_TYPE(MPI_REAL16, opaque);
  COMPAT_TYPE(MPI_C_FLOAT_COMPLEX, complex);
  COMPAT_TYPE(MPI_C_DOUBLE_COMPLEX, complex);
  COMPAT_TYPE(MPI_C_LONG_DOUBLE_COMPLEX, complex);
  COMPAT_TYPE(MPI_CXX_FLOAT_COMPLEX, complex);
  COMPAT_TYPE(MPI_CXX_DOUBLE_COMPLEX, complex);
  COMPAT_TYPE(MPI_CXX_LONG_DOUBLE_COMPLEX, complex);
  COMPAT_TYPE(MPI_COMPLEX, complex);
  COMPAT_TYPE(MPI_DOUBLE_COMPLEX, complex);
  COMPAT_TYPE(MPI_COMPLEX8, complex);
  COMPAT_TYPE(MPI_COMPLEX16, complex);
  COMPAT_TYPE(MPI_COMPLEX32, opaque);
  COMPAT_TYPE(MPI_C_BOOL, logical);
  COMPAT_TYPE(MPI_CXX_BOOL, logical);
  COMPAT_TYPE(MPI_LOGICAL, logical);
  COMPAT_TYPE(MPI_BYTE, byte);
  COMPAT_TYPE(MPI_CHAR, character);
  COMPAT_TYPE(MPI_WCHAR, character);
  COMPAT_TYPE(MPI_CHARACTER, character);
  COMPAT_TYPE(MPI_PACKED, opaque);
}

void Datatypes::addTypesOfOne() {
#ifdef MPI_INTEGER16
  COMPAT_TYPE(MPI_INTEGER16, opaque);
#endif
#ifdef MPI_REAL2
  COMPAT_TYPE(MPI_REAL2, opaque);
#endif
#ifdef MPI_LOGICAL1
  COMPAT_TYPE(MPI_LOGICAL1, logical);
  COMPAT_TYPE(MPI_LOGICAL2, logical);
  COMPAT_TYPE(MPI_LOGICAL4, logical);
  COMPAT_TYPE(MPI_LOGICAL8, logical);
#endif
}

#undef COMPAT_TYPE

void Datatypes::addPairs() {
  const auto pair = [this](const char* name, MPI_Datatype type, MPI_Datatype first) {
    const std::size_t before = bases_.size();
    add(name, type, Kind::pair);
    if (bases_.size() > before) bases_.back().first = first;
  };
  pair("MPI_2INT", MPI_2INT, MPI_INT);
  pair("MPI_SHORT_INT", MPI_SHORT_INT, MPI_SHORT);
  pair("MPI_LONG_INT", MPI_LONG_INT, MPI_LONG);
  pair("MPI_FLOAT_INT", MPI_FLOAT_INT, MPI_FLOAT);
  pair("MPI_DOUBLE_INT", MPI_DOUBLE_INT, MPI_DOUBLE);
  pair("MPI_LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, MPI_LONG_DOUBLE);
  pair("MPI_2INTEGER", MPI_2INTEGER, MPI_INT);
  pair("MPI_2REAL", MPI_2REAL, MPI_FLOAT);
  pair("MPI_2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION, MPI_DOUBLE);
}

Datatypes::Datatypes() {
  addTypesOfBoth();
  addPairs();
  addTypesOfOne();
  add("struct{int,double,char[3]}", keep(mixedStruct()), Kind::opaque);
  MPI_Datatype affine = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_UNSIGNED, &affine);
  add("contiguous(2, MPI_UNSIGNED)", keep(affine), Kind::affine);
  MPI_Op_create(maximum, 1, &maximum_of_ours_);
  MPI_Op_create(compose, 0, &composition_);
}

Datatypes::~Datatypes() {
  for (MPI_Datatype& type : own_) MPI_Type_free(&type);
  MPI_Op_free(&maximum_of_ours_);
  MPI_Op_free(&composition_);
}

std::vector<Operator> Datatypes::operators(const BaseType& base) const {
  const std::vector<Operator> order{{"MPI_MAX", MPI_MAX}, {"MPI_MIN", MPI_MIN}};
  const std::vector<Operator> sums{{"MPI_SUM", MPI_SUM, true}, {"MPI_PROD", MPI_PROD, true}};
  const std::vector<Operator> truth{
      {"MPI_LAND", MPI_LAND}, {"MPI_LOR", MPI_LOR}, {"MPI_LXOR", MPI_LXOR}};
  const std::vector<Operator> bits{
      {"MPI_BAND", MPI_BAND}, {"MPI_BOR", MPI_BOR}, {"MPI_BXOR", MPI_BXOR}};
  std::vector<Operator> all;
  const auto take = [&all](const std::vector<Operator>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  switch (base.kind) {
    case Kind::signed_integer:
    case Kind::unsigned_integer: take(order), take(sums), take(truth), take(bits); break;
    case Kind::fortran_integer:
    case Kind::address: take(order), take(sums), take(bits); break;
    case Kind::real: take(order), take(sums); break;
    case Kind::complex: take(sums); break;
    case Kind::logical: take(truth); break;
    case Kind::byte: take(bits); break;
    case Kind::pair: take({{"MPI_MAXLOC", MPI_MAXLOC}, {"MPI_MINLOC", MPI_MINLOC}}); break;
    case Kind::affine: take({{"composition (ours)", composition_}}); break;
    case Kind::character:
    case Kind::opaque: break;
  }
  if (base.type == MPI_INT) take({{"maximum (ours)", maximum_of_ours_}});
  return all;
}

} // namespace rondo::test
