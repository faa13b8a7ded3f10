// Buffers that are not plain arrays, values at the limits of a type, and ranks that arrive late.
#include <sys/mman.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "semantics.h"

namespace rondo::test {
namespace {

template <typename Value>
void checkLargestOf(MPI_Datatype type, const char* name) {
  const bool last = rankIn(MPI_COMM_WORLD) == sizeOf(MPI_COMM_WORLD) - 1;
  const Value largest = std::numeric_limits<Value>::max();
  const Value mine = last ? largest : 1;
  Value result = 0;
  MPI_Allreduce(&mine, &result, 1, type, MPI_MAX, MPI_COMM_WORLD);
  require(result == largest, std::string("MPI_MAX of ") + name);
  MPI_Allreduce(&mine, &result, 1, type, MPI_MIN, MPI_COMM_WORLD);
  require(result == (sizeOf(MPI_COMM_WORLD) == 1 ? largest : 1), std::string("MPI_MIN of ") + name);
}

/// The numbers of one rank are NaN; in the last round those of all ranks.
template <typename T>
void checkNanOf(MPI_Datatype type, const std::string& what) {
  const int p = sizeOf(MPI_COMM_WORLD);
  const int rank = rankIn(MPI_COMM_WORLD);
  for (const std::size_t count : {1u, 3u, 37u, 5000u, 100'000u})
    for (int who = 0; who <= p; ++who) {
      const bool all = who == p || p == 1;
      const T mine = all || who == rank ? std::numeric_limits<T>::quiet_NaN() : T(rank + 1);
      const std::vector<T> in(count, mine);
      std::vector<T> out(count);
      for (const MPI_Op op : {MPI_MIN, MPI_MAX}) {
        MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), type, op, MPI_COMM_WORLD);
        const T right = op == MPI_MIN ? T(who == 0 ? 2 : 1) : T(who == p - 1 ? p - 1 : p);
        for (const T got : out)
          require(all ? std::isnan(got) : got == right, what + ": rank " + std::to_string(who) +
                                                            " of " + std::to_string(p) +
                                                            " has NaN: got " + std::to_string(got));
      }
    }
}

/// A type of ints: where they are in an element, in the order of the type map.
struct Made {
  const char* name;
  MPI_Datatype type;
  std::vector<int> places;
};

/// Makes a type by `constructor`, whose last argument is the new type.
template <class... Arguments>
Made made(const char* name, std::vector<int> places, int (*constructor)(Arguments...),
          auto... arguments) {
  Made result{name, MPI_DATATYPE_NULL, std::move(places)};
  constructor(arguments..., &result.type);
  MPI_Type_commit(&result.type);
  return result;
}

/// Types of each constructor, and some whose ints are in another order, although they have no gaps.
std::vector<Made> typesOfInts() {
  static const std::array<int, 3> lengths{1, 2, 1}, places{0, 1, 3}, moved{3, 1, 0},
      blocks{2, 4, 6};
  static const std::array<MPI_Aint, 3> bytes{0, 4, 12}, moved_bytes{12, 4, 0};
  static const std::array<MPI_Datatype, 3> ints{MPI_INT, MPI_INT, MPI_INT};
  static const std::array<int, 2> whole{2, 2}, starts{0, 0};
  const std::vector<int> order{0, 1, 2, 3}, other{3, 1, 2, 0};
  const int* const some = lengths.data();
  std::vector<Made> all{
      made("vector", order, MPI_Type_vector, 2, 2, 2, MPI_INT),
      made("hvector", order, MPI_Type_create_hvector, 2, 2, MPI_Aint{8}, MPI_INT),
      made("indexed", order, MPI_Type_indexed, 3, some, places.data(), MPI_INT),
      made("hindexed", order, MPI_Type_create_hindexed, 3, some, bytes.data(), MPI_INT),
      made("indexed_block", {2, 3, 4, 5, 6, 7}, MPI_Type_create_indexed_block, 3, 2, blocks.data(),
           MPI_INT),
      made("struct", order, MPI_Type_create_struct, 3, some, bytes.data(), ints.data()),
      made("subarray", order, MPI_Type_create_subarray, 2, whole.data(), whole.data(),
           starts.data(), MPI_ORDER_FORTRAN, MPI_INT),
      made("indexed in another order", other, MPI_Type_indexed, 3, some, moved.data(), MPI_INT),
      made("struct in another order", other, MPI_Type_create_struct, 3, some, moved_bytes.data(),
           ints.data())};
  all.push_back(
      made("contiguous of struct", {0, 1, 2, 3, 4, 5, 6, 7}, MPI_Type_contiguous, 2, all[5].type));
  all.push_back(made("contiguous in another order", {3, 1, 2, 0, 7, 5, 6, 4}, MPI_Type_contiguous,
                     2, all[8].type));
  all.push_back({"pair", MPI_2INT, {0, 1}});
  all.push_back(made("struct without blocks", {}, MPI_Type_create_struct, 0, some, bytes.data(),
                     ints.data()));
#if MPI_VERSION >= 4
  all.push_back(made("contiguous_c", order, MPI_Type_contiguous_c, MPI_Count{4}, MPI_INT));
  all.push_back(made("vector_c with gaps", {0, 2, 4, 6}, MPI_Type_vector_c, MPI_Count{4},
                     MPI_Count{1}, MPI_Count{2}, MPI_INT));
#endif
  return all;
}

int copied = 0;
int deleted = 0;

/// As MPI_TYPE_DUP_FN.
int copyAttribute(MPI_Datatype, int, void*, void* value, void* copy, int* made) {
  ++copied;
  *static_cast<void**>(copy) = value;
  *made = 1;
  return MPI_SUCCESS;
}

int deleteAttribute(MPI_Datatype, int, void*, void*) {
  ++deleted;
  return MPI_SUCCESS;
}

/// Zeros that take no memory before they are written to.
class Zeros {
 public:
  explicit Zeros(std::size_t bytes)
      : bytes_(bytes),
        memory_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {
    require(memory_ != MAP_FAILED, "address space");
  }
  ~Zeros() { ::munmap(memory_, bytes_); }
  Zeros(const Zeros&) = delete;
  Zeros& operator=(const Zeros&) = delete;
  void* memory() const { return memory_; }

 private:
  std::size_t bytes_;
  void* memory_;
};

} // namespace

/// Elements of many types are sent; the other ranks receive them as numbers.
void checkContiguous() {
  constexpr int kCount = 3;
  const bool first = rankIn(MPI_COMM_WORLD) == 0;
  std::vector<Made> types = typesOfInts();
  for (Made& one : types) {
    MPI_Aint lb = 0, extent = 0;
    MPI_Type_get_extent(one.type, &lb, &extent);
    const int width = static_cast<int>(extent) / 4;
    const int ints = static_cast<int>(one.places.size());
    std::vector<int> data(static_cast<std::size_t>(kCount * width + 8), -1);
    for (std::size_t i = 0; first && i < data.size(); ++i) data[i] = static_cast<int>(i);
    MPI_Bcast(data.data(), first ? kCount : kCount * ints, first ? one.type : MPI_INT, 0,
              MPI_COMM_WORLD);
    for (int i = 0; !first && i < kCount * ints; ++i)
      require(data[static_cast<std::size_t>(i)] ==
                  i / ints * width + one.places[static_cast<std::size_t>(i % ints)],
              one.name);
    if (one.type != MPI_2INT) MPI_Type_free(&one.type);
  }
}

/// Collectives neither copy a type's attributes nor keep the type longer than the program does.
void checkAttributes() {
  constexpr int kCount = 1000;
  const int rank = rankIn(MPI_COMM_WORLD);
  std::vector<int> data(2 * kCount, rank);
  int key = MPI_KEYVAL_INVALID;
  MPI_Type_create_keyval(copyAttribute, deleteAttribute, &key, nullptr);
  const auto with_attribute = [key](Made type) {
    MPI_Type_set_attr(type.type, key, nullptr);
    return type.type;
  };
  MPI_Datatype gaps = with_attribute(made("vector", {}, MPI_Type_vector, kCount, 1, 2, MPI_INT));
  MPI_Bcast(data.data(), 1, gaps, 0, MPI_COMM_WORLD);
  require(copied == 0 && deleted == 0, "the attribute after Bcast");
  data.assign(data.size(), rank);
  MPI_Request request = MPI_REQUEST_NULL;
  const int last = sizeOf(MPI_COMM_WORLD) - 1;
  MPI_Ibcast(data.data(), 1, gaps, last, MPI_COMM_WORLD, &request);
  require(copied == 0 && deleted == 0, "the attribute after Ibcast");
  MPI_Type_free(&gaps);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  require(copied == 0 && deleted == 1, "the attribute of a type that was freed during Ibcast");
  for (std::size_t i = 0; rank != last && i < data.size(); i += 2)
    require(data[i] == last && data[i + 1] == rank, "the data of Ibcast");

  static const std::array<int, 1> lengths{};
  static const std::array<MPI_Aint, 1> places{};
  static const std::array<MPI_Datatype, 1> types{};
  MPI_Datatype inner = with_attribute(
      made("struct", {}, MPI_Type_create_struct, 0, lengths.data(), places.data(), types.data()));
  MPI_Datatype outer = made("contiguous", {}, MPI_Type_contiguous, 2, inner).type;
  MPI_Bcast(data.data(), 1, outer, 0, MPI_COMM_WORLD);
  MPI_Type_free(&outer);
  MPI_Type_free(&inner);
  require(copied == 0 && deleted == 2, "the attribute of a struct without blocks");
  MPI_Type_free_keyval(&key);
}

/// Single elements above 2 GiB, on one rank. MPI_Pack could not copy them.
void checkLargeElement() {
  constexpr int kBlock = 1 << 30;
  constexpr MPI_Aint kBlocks = 2;
  const Zeros zeros(static_cast<std::size_t>(kBlock) * 3);
  MPI_Datatype block = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(kBlock, MPI_BYTE, &block);
  const std::array<int, 2> lengths{kBlocks, 8};
  const std::array<MPI_Aint, 2> places{0, kBlocks * kBlock};
  const std::array<MPI_Datatype, 2> types{block, MPI_BYTE};
  Made dense =
      made("dense", {}, MPI_Type_create_struct, 2, lengths.data(), places.data(), types.data());
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  require(MPI_Bcast(zeros.memory(), 1, dense.type, 0, MPI_COMM_SELF) == MPI_SUCCESS,
          "Bcast of a large contiguous element");
  MPI_Type_free(&dense.type);
#if MPI_VERSION >= 4
  const std::array<MPI_Aint, 2> apart{0, kBlocks * kBlock + 16};
  Made gaps =
      made("gaps", {}, MPI_Type_create_struct, 2, lengths.data(), apart.data(), types.data());
  require(MPI_Bcast(zeros.memory(), 1, gaps.type, 0, MPI_COMM_SELF) == MPI_SUCCESS,
          "Bcast of a large element with a gap");
  MPI_Type_free(&gaps.type);
#endif
  MPI_Type_free(&block);
}

/// Transposes a matrix that is distributed by rows: columns are sent, whose types interleave.
void checkColumns() {
  const int rank = rankIn(MPI_COMM_WORLD);
  const int p = sizeOf(MPI_COMM_WORLD);
  const int rows = 3;
  const int width = rows * p;
  std::vector<int> mine(static_cast<std::size_t>(rows * width));
  for (int i = 0; i < rows * width; ++i) {
    mine[static_cast<std::size_t>(i)] = rank * rows * width + i;
  }
  MPI_Datatype column = MPI_DATATYPE_NULL;
  MPI_Datatype stepping = MPI_DATATYPE_NULL;
  MPI_Type_vector(rows, 1, width, MPI_INT, &column);
  MPI_Type_create_resized(column, 0, sizeof(int), &stepping);
  MPI_Type_commit(&stepping);
  std::vector<int> got(mine.size(), -1);
  MPI_Alltoall(mine.data(), rows, stepping, got.data(), rows * rows, MPI_INT, MPI_COMM_WORLD);
  // From rank r: this rank's columns of r's rows, one column after the other.
  for (int r = 0; r < p; ++r) {
    for (int c = 0; c < rows; ++c) {
      for (int i = 0; i < rows; ++i) {
        const int expected = (r * rows + i) * width + rank * rows + c;
        require(got[static_cast<std::size_t>((r * rows + c) * rows + i)] == expected,
                "a transposed element");
      }
    }
  }
  // The first columns of all ranks, next to each other in the root's matrix.
  std::vector<int> gathered(static_cast<std::size_t>(rows * width), -1);
  MPI_Gather(mine.data(), 1, stepping, gathered.data(), 1, stepping, p - 1, MPI_COMM_WORLD);
  for (int r = 0; rank == p - 1 && r < p; ++r) {
    for (int i = 0; i < rows; ++i) {
      require(gathered[static_cast<std::size_t>(i * width + r)] == (r * rows + i) * width,
              "a gathered column");
    }
  }
  MPI_Type_free(&stepping);
  MPI_Type_free(&column);
}

/// Two variables at absolute addresses, sent from MPI_BOTTOM.
void checkBottom() {
  const int rank = rankIn(MPI_COMM_WORLD);
  int number = rank == 0 ? 42 : -1;
  double fraction = rank == 0 ? 0.25 : -1;
  std::array<int, 2> lengths{1, 1};
  std::array<MPI_Aint, 2> at{};
  std::array<MPI_Datatype, 2> types{MPI_INT, MPI_DOUBLE};
  MPI_Get_address(&number, at.data());
  MPI_Get_address(&fraction, &at[1]);
  MPI_Datatype both = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(2, lengths.data(), at.data(), types.data(), &both);
  MPI_Type_commit(&both);
  MPI_Bcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD);
  require(number == 42 && fraction == 0.25, "Bcast from MPI_BOTTOM");
  MPI_Request request = MPI_REQUEST_NULL;
  if (rank == 0) number = 43;
  MPI_Ibcast(MPI_BOTTOM, 1, both, 0, MPI_COMM_WORLD, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  require(number == 43, "Ibcast from MPI_BOTTOM");
  MPI_Type_free(&both);
}

/// The maximum is right for unsigned types. MPICH 4.0.2, and Open MPI 4.1.4 for unsigned long,
/// compare them as signed, so the grid cannot compare with these libraries.
void checkUnsigned() {
  checkLargestOf<unsigned char>(MPI_UNSIGNED_CHAR, "MPI_UNSIGNED_CHAR");
  checkLargestOf<unsigned short>(MPI_UNSIGNED_SHORT, "MPI_UNSIGNED_SHORT");
  checkLargestOf<unsigned>(MPI_UNSIGNED, "MPI_UNSIGNED");
  checkLargestOf<unsigned long>(MPI_UNSIGNED_LONG, "MPI_UNSIGNED_LONG");
  checkLargestOf<unsigned long long>(MPI_UNSIGNED_LONG_LONG, "MPI_UNSIGNED_LONG_LONG");
  checkLargestOf<std::uint8_t>(MPI_UINT8_T, "MPI_UINT8_T");
  checkLargestOf<std::uint16_t>(MPI_UINT16_T, "MPI_UINT16_T");
  checkLargestOf<std::uint32_t>(MPI_UINT32_T, "MPI_UINT32_T");
  checkLargestOf<std::uint64_t>(MPI_UINT64_T, "MPI_UINT64_T");
}

/// NaN loses against a number, wherever it is. The MPI libraries have no rule: the result depends
/// on which ranks are combined first, differs between the elements of one call, and a NaN may drop
/// the numbers before it.
void checkNan() {
  checkNanOf<float>(MPI_FLOAT, "MPI_FLOAT");
  checkNanOf<double>(MPI_DOUBLE, "MPI_DOUBLE");
}

/// A rank that computes for seconds without a call only delays the other ranks.
void checkLate() {
  if (rankIn(MPI_COMM_WORLD) == 0) std::this_thread::sleep_for(std::chrono::seconds(3));
  int one = 1;
  int sum = 0;
  MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  require(sum == sizeOf(MPI_COMM_WORLD), "Allreduce with a late rank");
}

} // namespace rondo::test
