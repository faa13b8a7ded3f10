// What is wrong with one rank's gradients is named on every rank, and nobody waits for ever.
#include <barrier>

#include "gradients/model.h"
#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

const std::vector<std::vector<std::size_t>> kShapes = {{10}, {20}, {30}};

/// Runs `body` on 3 ranks: rank 1's error must be Error(invalid_argument) with all the words, the
/// others' Error(aborted) with the same, and rank 1 as culprit.
void requireNamed(const GradientOptions& options, std::initializer_list<const char*> words,
                  const std::function<void(GradientReducer&, int rank)>& body) {
  auto ranks = Communicator::createAll(3, plainOptions());
  std::vector<Caught> seen(3);
  std::barrier made(3);
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            Model model(kShapes, true);
            GradientReducer reducer(comm, model.parameters(), options);
            made.arrive_and_wait(); // an abort would end what makes the others' reducers
            seen[static_cast<std::size_t>(comm.rank())] =
                caught([&] { body(reducer, comm.rank()); });
            return {};
          })) == "");
  for (int r = 0; r < 3; ++r) {
    INFO("rank " << r);
    const Caught& one = seen[static_cast<std::size_t>(r)];
    CHECK(says(one, r == 1 ? ErrorCode::invalid_argument : ErrorCode::aborted, words));
    if (r != 1) CHECK(one.culprit == 1);
  }
}

} // namespace

TEST_CASE("a gradient that never came, or came twice, is named with its rank everywhere") {
  requireNamed({}, {"\"p1\"", "no gradient", "rank 1"}, [](GradientReducer& reducer, int rank) {
    reducer.begin();
    for (std::size_t i : {2U, 1U, 0U})
      if (rank != 1 || i != 1) reducer.ready(i);
    reducer.wait();
  });
  requireNamed({}, {"\"p2\"", "twice", "rank 1"}, [](GradientReducer& reducer, int rank) {
    reducer.begin();
    for (std::size_t i : {2U, 1U, 0U}) {
      reducer.ready(i);
      if (rank == 1) reducer.ready(2);
    }
    reducer.wait();
  });
}

TEST_CASE("a static graph that changes is named") {
  GradientOptions options;
  options.static_graph = true;
  const auto steps = [](GradientReducer& reducer, const std::vector<std::size_t>& second) {
    reducer.begin();
    for (std::size_t i : {2U, 1U}) reducer.ready(i);
    reducer.wait();
    reducer.begin();
    for (std::size_t i : second) reducer.ready(i);
    reducer.wait();
  };
  requireNamed(options, {"\"p0\"", "more often", "static_graph", "rank 1"},
               [&](GradientReducer& reducer, int rank) {
                 steps(reducer, rank == 1 ? std::vector<std::size_t>{2, 0, 1}
                                          : std::vector<std::size_t>{2, 1});
               });
  requireNamed(
      options, {"\"p1\"", "fewer", "static_graph", "rank 1"},
      [&](GradientReducer& reducer, int rank) {
        steps(reducer, rank == 1 ? std::vector<std::size_t>{2} : std::vector<std::size_t>{2, 1});
      });
}

TEST_CASE("models that differ are told apart on every rank, by the first parameter that does") {
  struct Row {
    const char* what;
    std::function<void(std::vector<Parameter>&)> change;
    std::initializer_list<const char*> words;
  };
  float spare[64] = {};
  const Row rows[] = {
      {"name", [](auto& p) { p[1].name = "other"; }, {"parameter 1", "p1 float [20]", "other"}},
      {"shape",
       [](auto& p) {
         p[2].shape = {5, 6};
       },
       {"parameter 2", "[30]", "[5, 6]"}},
      {"type", [](auto& p) { p[0].type = DataType::float16; }, {"parameter 0", "float16"}},
      {"missing", [](auto& p) { p.pop_back(); }, {"parameter 2", "p2", "nothing", "rank 2"}},
      {"more",
       [&spare](auto& p) {
         p.push_back({.name = "p3", .value = spare, .shape = {64}, .gradient = nullptr});
       },
       {"parameter 3", "nothing", "p3"}},
      {"order", [](auto& p) { std::swap(p[0], p[1]); }, {"parameter 0", "p0", "p1"}},
  };
  for (const Row& row : rows) {
    auto ranks = Communicator::createAll(4, plainOptions());
    const auto complaint = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
      Model model(kShapes, true);
      auto parameters = model.parameters();
      if (comm.rank() == 2) row.change(parameters);
      try {
        const GradientReducer reducer(comm, parameters);
        return "no error";
      } catch (const Error& error) {
        if (error.code() != ErrorCode::mismatch || error.culprit() != 2) return error.what();
        for (const char* word : row.words)
          if (std::string(error.what()).find(word) == std::string::npos) return error.what();
      }
      // Nothing is lost: the communicator goes on.
      comm.barrier();
      return {};
    }));
    INFO(row.what);
    REQUIRE(complaint == "");
  }
}

TEST_CASE("calls and lists that make no sense are refused and change nothing") {
  auto ranks = Communicator::createAll(1, plainOptions());
  Communicator& comm = ranks.front();
  Model model(kShapes, true);
  const auto make = [&](const std::function<void(std::vector<Parameter>&)>& change,
                        const GradientOptions& options = {}) {
    return caught([&] {
      auto parameters = model.parameters();
      change(parameters);
      const GradientReducer reducer(comm, parameters, options);
    });
  };
  using P = std::vector<Parameter>;
  constexpr auto kBad = ErrorCode::invalid_argument;
  CHECK(says(make([](P& p) { p[1].name = ""; }), kBad, {"name"}));
  CHECK(says(make([](P& p) { p[1].name = "p0"; }), kBad, {"\"p0\"", "twice"}));
  CHECK(says(make([](P& p) { p[1].type = DataType::int32; }), kBad, {"\"p1\"", "int32"}));
  CHECK(says(make([](P& p) { p[1].value = nullptr; }), kBad, {"\"p1\"", "memory"}));
  GradientOptions options;
  options.bucket_bytes = {};
  CHECK(says(make([](P&) {}, options), kBad, {"bucket_bytes"}));
  options = {};
  options.hook = compressGradients(DataType::bfloat16);
  CHECK(says(make([](P& p) { p[1].type = DataType::float64; }, options), ErrorCode::unsupported,
             {"bfloat16", "double", "p1"}));

  GradientReducer reducer(comm, model.parameters());
  CHECK(says(caught([&] { reducer.ready(0); }), kBad, {"\"p0\"", "outside"}));
  CHECK(says(caught([&] { reducer.wait(); }), kBad, {"begun"}));
  CHECK(says(caught([&] { reducer.shadow(); }), kBad, {"uneven_inputs"}));
  reducer.begin();
  CHECK(says(caught([&] { reducer.begin(); }), kBad, {"wait()"}));
  CHECK(says(caught([&] { reducer.ready(3); }), kBad, {"3"}));
  for (std::size_t i : {0U, 1U, 2U}) reducer.ready(i);
  reducer.wait();
}

} // namespace rondo::test
