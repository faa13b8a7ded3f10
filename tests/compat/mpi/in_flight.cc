// Several nonblocking calls in flight at once, on several communicators, together with the
// program's own messages and a nonblocking call that is always passed on. They are completed in
// every way that MPI has.
//
//   compat_mpi_in_flight [ROUNDS]
#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <thread>

#include "case.h"
#include "progress.h"

using namespace rondo::test;

namespace {

using Requests = std::vector<MPI_Request>;

bool allNull(const Requests& requests) {
  for (const MPI_Request request : requests) {
    if (request != MPI_REQUEST_NULL) return false;
  }
  return true;
}

int size(const Requests& requests) { return static_cast<int>(requests.size()); }

void rest() { std::this_thread::sleep_for(std::chrono::microseconds(1)); }

// Each function completes all requests, and returns an empty text or a description of the error.

std::string byWait(Requests& requests) {
  for (std::size_t i = requests.size(); i-- > 0;) MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
  return "";
}

std::string textOf(int code) {
  std::array<char, MPI_MAX_ERROR_STRING + 1> text{};
  int length = 0;
  return MPI_Error_string(code, text.data(), &length) == MPI_SUCCESS ? text.data() : "no text";
}

std::string byWaitall(Requests& requests) {
  std::vector<MPI_Status> statuses(requests.size());
  const int code = MPI_Waitall(size(requests), requests.data(), statuses.data());
  if (code == MPI_SUCCESS) return "";
  std::string text = "Waitall failed";
  if (code != MPI_ERR_IN_STATUS) return text + ": " + textOf(code);
  for (const MPI_Status& status : statuses)
    if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING)
      return text + ": " + textOf(status.MPI_ERROR);
  return text;
}

std::string byWaitany(Requests& requests) {
  std::size_t completed = 0;
  for (int index = 0;; ++completed) {
    MPI_Waitany(size(requests), requests.data(), &index, MPI_STATUS_IGNORE);
    if (index == MPI_UNDEFINED) break;
    if (requests[static_cast<std::size_t>(index)] != MPI_REQUEST_NULL) {
      return "Waitany left a request that it completed";
    }
  }
  return completed == requests.size() ? "" : "Waitany completed another number of requests";
}

std::string byWaitsome(Requests& requests) {
  std::vector<int> indices(requests.size());
  int completed = 0;
  for (;;) {
    int some = 0;
    MPI_Waitsome(size(requests), requests.data(), &some, indices.data(), MPI_STATUSES_IGNORE);
    if (some == MPI_UNDEFINED) break;
    if (some <= 0) return "Waitsome returned with nothing";
    completed += some;
  }
  return completed == size(requests) ? "" : "Waitsome completed another number of requests";
}

std::string byTestall(Requests& requests) {
  for (int done = 0; done == 0; rest()) {
    MPI_Testall(size(requests), requests.data(), &done, MPI_STATUSES_IGNORE);
  }
  return "";
}

std::string byTestany(Requests& requests) {
  for (int index = 0, done = 0;; rest()) {
    MPI_Testany(size(requests), requests.data(), &index, &done, MPI_STATUS_IGNORE);
    if (done != 0 && index == MPI_UNDEFINED) return "";
  }
}

std::string byTestsome(Requests& requests) {
  std::vector<int> indices(requests.size());
  for (int some = 0;; rest()) {
    MPI_Testsome(size(requests), requests.data(), &some, indices.data(), MPI_STATUSES_IGNORE);
    if (some == MPI_UNDEFINED) return "";
  }
}

/// Tests until all are done, without completing them, and then completes them.
std::string byStatus(Requests& requests) {
  for (const MPI_Request request : requests) {
    for (int done = 0; done == 0; rest()) {
      MPI_Request_get_status(request, &done, MPI_STATUS_IGNORE);
    }
  }
  for (MPI_Request& request : requests) {
    int done = 0;
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    if (done == 0) return "Test contradicts Request_get_status";
  }
  return "";
}

/// Completes them one by one, in the order in which they were started.
std::string byTest(Requests& requests) {
  for (MPI_Request& request : requests) {
    for (int done = 0; done == 0; rest()) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
  return "";
}

struct Way {
  const char* name;
  std::string (*finish)(Requests&);
};
constexpr auto kWays = std::to_array<Way>({{"Wait", byWait},
                                           {"Waitall", byWaitall},
                                           {"Waitany", byWaitany},
                                           {"Waitsome", byWaitsome},
                                           {"Testall", byTestall},
                                           {"Testany", byTestany},
                                           {"Testsome", byTestsome},
                                           {"Request_get_status", byStatus},
                                           {"Test", byTest}});

Shape drawShape(const Datatypes& types, const Communicator& where, std::uint64_t seed) {
  Shape shape;
  std::uint64_t state = seed;
  const auto draw = [&state](std::uint64_t below) { return (state = mix(state)) % below; };
  shape.what = kCollectives[draw(kCollectives.size())];
  shape.count = std::array<int, 4>{1, 101, 1021, 20011}[draw(4)];
  shape.root = static_cast<int>(draw(static_cast<std::uint64_t>(where.size)));
  shape.spread = {draw(2) == 0, draw(2) == 0, draw(2) == 0};
  // MPICH 4.0.2 ignores the displacement of the block in an Allgatherv on one rank.
  if (where.size == 1) shape.spread.gaps = false;
  shape.seed = state;
  const MPI_Datatype type = draw(2) == 0 ? MPI_INT : MPI_DOUBLE;
  while (types.bases()[shape.base].type != type) ++shape.base;
  const std::vector<Operator> operators = types.operators(types.bases()[shape.base]);
  shape.op = operators[draw(operators.size())];
  return shape;
}

/// A ring of the program's own messages, and a scan of a type that is not taken over.
struct OwnTraffic {
  explicit OwnTraffic(const Communicator& world)
      : out(20000, world.rank), in(20000, -1), summand(world.rank + 1) {
    requests.resize(3);
    const int next = (world.rank + 1) % world.size;
    const int previous = (world.rank + world.size - 1) % world.size;
    MPI_Irecv(in.data(), static_cast<int>(in.size()), MPI_INT, previous, 7, world.comm,
              &requests[0]);
    MPI_Isend(out.data(), static_cast<int>(out.size()), MPI_INT, next, 7, world.comm, &requests[1]);
    MPI_Iscan(&summand, &sum, 1, MPI_LONG_DOUBLE, MPI_SUM, world.comm, &requests[2]);
    expected_in = previous;
    expected_sum = (world.rank + 1) * (world.rank + 2) / 2;
  }
  bool right() const {
    return in.front() == expected_in && in.back() == expected_in && sum == expected_sum;
  }

  std::vector<int> out;
  std::vector<int> in;
  long double summand;
  long double sum = 0;
  int expected_in = 0;
  int expected_sum = 0;
  Requests requests;
};

void round(const Datatypes& types, const Communicators& communicators, std::uint64_t seed,
           Progress& progress) {
  const Communicator& world = communicators.all()[0];
  // Ranks complete requests in different ways, and so in different orders.
  const Way& way = kWays[(seed + static_cast<std::uint64_t>(world.rank)) % kWays.size()];
  std::deque<Case> cases;
  Requests requests;
  OwnTraffic own(world);
  for (int i = 0; i < 8; ++i) {
    for (const char* where : {"world", "dup", "odd_even"}) {
      if (mix(seed + static_cast<std::uint64_t>(i)) % 3 == 0 && where[0] != 'w') continue;
      const Communicator& on = *communicators.find(where);
      Case& one = cases.emplace_back(
          types, drawShape(types, on, seed * 1000 + static_cast<std::uint64_t>(i)), on);
      progress.begin("start of " + one.describe());
      if (const int code = call(called(), one.actual(), &requests.emplace_back());
          code != MPI_SUCCESS)
        progress.end(way.name, "an error at its start: " + textOf(code));
    }
    if (i == 3) requests.insert(requests.end(), own.requests.begin(), own.requests.end());
  }
  progress.begin(way.name);
  std::string problem = way.finish(requests);
  if (problem.empty() && !allNull(requests)) problem = "a request is left";
  progress.end(way.name, problem);
  progress.begin("own messages and Iscan among nonblocking calls");
  progress.end("own", own.right() ? "" : "other values");
  for (const Case& one : cases) {
    progress.begin(std::string(way.name) + " of " + one.describe());
    call(original(), one.expected(), nullptr);
    progress.end(way.name, one.difference());
  }
}

} // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 18;
  MPI_Init(&argc, &argv);
  bool same = false;
  {
    const Communicators communicators;
    const Datatypes types;
    Progress progress(communicators.all()[0].rank);
    for (int i = 0; i < rounds; ++i) {
      // A blocking call makes a communicator's counterpart: nonblocking calls before it are passed
      // on.
      if (i == 1) {
        for (const Communicator& each : communicators.all()) MPI_Barrier(each.comm);
      }
      round(types, communicators, static_cast<std::uint64_t>(i), progress);
    }
    same = progress.report("compat_mpi_in_flight");
  }
  MPI_Finalize();
  return same ? 0 : 1;
}
