// Measures how long a communicator takes to create: by the rules, and with the model's table.
//
//   rondo run -p 8 -- bench_create [ROUNDS]    default: 31 rounds
//
// Each round creates a communicator in each of three ways, one after the other. A time begins when
// all ranks have met in another communicator, and ends when the last rank has the new one. RONDO_*
// variables count, for example RONDO_PROFILE. Rank 0 prints milliseconds.
#include <stdlib.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "rondo/rondo.h"

namespace {

using namespace rondo;

/// A folder for tables, made and removed by rank 0.
class Cache {
 public:
  explicit Cache(Communicator& comm) : mine_(comm.rank() == 0) {
    const std::string pattern = std::filesystem::temp_directory_path() / "rondo-create.XXXXXX";
    std::array<char, 4096> path{};
    pattern.copy(path.data(), path.size() - 1);
    if (mine_ && !::mkdtemp(path.data()))
      throw std::system_error(errno, std::generic_category(), pattern);
    comm.broadcast(path.data(), path.data(), path.size(), DataType::uint8, 0);
    path_ = path.data();
  }
  ~Cache() {
    std::error_code ignored;
    if (mine_) std::filesystem::remove_all(path_, ignored);
  }
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  /// From now on, tables are kept in this folder of the cache.
  void use(const std::string& folder) const {
    ::setenv("XDG_CACHE_HOME", (path_ + "/" + folder).c_str(), 1);
  }

 private:
  const bool mine_;
  std::string path_;
};

/// Milliseconds of the slowest rank.
double create(Communicator& comm, const char* planner) {
  Options options = Options::fromEnvironment();
  options.planner = planner;
  UniqueId id;
  if (comm.rank() == 0) id = UniqueId::create(options);
  comm.broadcast(id.bytes.data(), id.bytes.data(), id.bytes.size(), DataType::uint8, 0);
  comm.barrier();
  const auto begin = std::chrono::steady_clock::now();
  const Communicator made =
      Communicator::create(Rendezvous::uniqueId(id, comm.rank(), comm.size()), options);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  double most = took.count();
  comm.allReduce(&most, &most, 1, DataType::float64, ReduceOp::max);
  return most;
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}

int measure(int rounds) {
  Options options = Options::fromEnvironment();
  options.planner = "rules";
  Communicator comm = Communicator::create(Rendezvous::environment(), options);
  const Cache cache(comm);
  std::array<std::vector<double>, 3> times, more;
  for (int round = -1; round < rounds; ++round) { // the first one also makes the table
    std::array<double, 3> now;
    now[0] = create(comm, "rules");
    cache.use("kept");
    now[1] = create(comm, "model");
    cache.use(std::to_string(round));
    now[2] = create(comm, "model");
    for (std::size_t i = 0; i < now.size() && round >= 0; ++i) {
      times[i].push_back(now[i]);
      more[i].push_back(now[i] - now[0]);
    }
  }
  comm.barrier(); // before the cache is removed
  if (comm.rank() != 0) return 0;
  std::printf("%d ranks, %d rounds: ms, median (90%% below); more than by the rules\n", comm.size(),
              rounds);
  const char* const ways[] = {"rules", "model, table in the cache", "model, empty cache"};
  for (std::size_t i = 0; i < times.size(); ++i)
    std::printf("%-26s %7.2f (%7.2f)   %+7.2f (%+7.2f)\n", ways[i], quantile(times[i], 0.5),
                quantile(times[i], 0.9), quantile(more[i], 0.5), quantile(more[i], 0.9));
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 31;
  if (argc > 2 || rounds < 1) {
    std::fputs("usage: rondo run -p 8 -- bench_create [ROUNDS]\n", stderr);
    return 2;
  }
  try {
    return measure(rounds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_create: %s\n", error.what());
    return 1;
  }
}
