// Buffers that are not plain arrays, values at the limits of a type, and ranks that arrive late.
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
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

} // namespace

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
