// An error in one rank's use of a reducer is named on every rank, and no rank waits for ever.
#include <array>
#include <barrier>
#include <memory>
#include <stdexcept>

#include "gradients/model.h"
#include "support/caught.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

const std::vector<std::vector<std::size_t>> kShapes = {{10}, {20}, {30}};

/// Runs `body` on 3 ranks. Rank 1 must get Error(invalid_argument) with all the words. The others
/// must get Error(aborted) with the same words and rank 1 as culprit.
void requireNamed(const GradientOptions& options, std::initializer_list<const char*> words,
                  const std::function<void(GradientReducer&, int rank)>& body) {
  auto ranks = Communicator::createAll(3, plainOptions());
  std::vector<Caught> seen(3);
  std::barrier made(3);
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            Model model(kShapes, true);
            GradientReducer reducer(comm, model.parameters(), options);
            made.arrive_and_wait(); // an abort would disturb the other ranks' constructors
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

void step(GradientReducer& reducer) {
  reducer.begin();
  for (std::size_t i : {2U, 1U, 0U}) reducer.ready(i);
  reducer.wait();
}

} // namespace

TEST_CASE("a gradient that is missing or ready twice is named with its rank on every rank") {
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

TEST_CASE("a change of a static graph is an error that names the parameter") {
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

TEST_CASE("if models differ, every rank names the first parameter that differs") {
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
      // The communicator stays usable.
      comm.barrier();
      return {};
    }));
    INFO(row.what);
    REQUIRE(complaint == "");
  }
}

TEST_CASE("calls in the wrong order are named with their rank on every rank") {
  struct Row {
    std::initializer_list<const char*> words;
    /// What rank 1 does while the other ranks make a step.
    std::function<void(GradientReducer&)> wrong;
  };
  const Row rows[] = {
      {{"ready", "parameter 99", "there are 3"},
       [](GradientReducer& r) {
         r.begin();
         r.ready(2);
         r.ready(99);
       }},
      {{"\"p0\" of rank 1", "outside"}, [](GradientReducer& r) { r.ready(0); }},
      {{"begin", "wait()"},
       [](GradientReducer& r) {
         r.begin();
         r.ready(2);
         r.begin();
       }},
      {{"wait", "begun"}, [](GradientReducer& r) { r.wait(); }},
      {{"shadow", "uneven_inputs"}, [](GradientReducer& r) { r.shadow(); }},
      {{"begin", "open Group"},
       [](GradientReducer& r) {
         Group group;
         r.begin();
       }},
      {{"ready", "open Group"},
       [](GradientReducer& r) {
         r.begin();
         Group group;
         r.ready(2);
       }},
      {{"wait", "open Group"},
       [](GradientReducer& r) {
         r.begin();
         Group group;
         r.wait();
       }},
  };
  for (const Row& row : rows)
    requireNamed({}, row.words, [&](GradientReducer& reducer, int rank) {
      step(reducer);
      if (rank == 1) row.wrong(reducer);
      else step(reducer);
    });
  // A wrong number in gradient() does not abort the communicator.
  auto ranks = Communicator::createAll(1, plainOptions());
  Model model(kShapes, true);
  GradientReducer reducer(ranks.front(), model.parameters());
  CHECK(says(caught([&] { reducer.gradient(3); }), ErrorCode::invalid_argument, {"3"}));
  step(reducer);
}

// Proves: the call does not read results that it does not have, nor leave calls that write to freed
// memory.
TEST_CASE("broadcastParameters and a GradientReducer are refused in an open Group") {
  auto ranks = Communicator::createAll(2, plainOptions());
  std::vector<std::array<Caught, 2>> seen(2);
  std::barrier both(2);
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            Model model(kShapes, true);
            const auto parameters = model.parameters();
            auto& [broadcast, reducer] = seen[static_cast<std::size_t>(comm.rank())];
            {
              Group group;
              broadcast = caught([&] { broadcastParameters(comm, parameters); });
              group.end();
            }
            broadcastParameters(comm, parameters); // the refused one has changed nothing
            both.arrive_and_wait();                // the reducer aborts the communicator
            Group group;
            reducer = caught([&] { GradientReducer made(comm, parameters); });
            return {};
          })) == "");
  for (const auto& [broadcast, reducer] : seen) {
    constexpr auto kBad = ErrorCode::invalid_argument;
    CHECK(says(broadcast, kBad, {"broadcastParameters", "open Group"}));
    CHECK(says(reducer, kBad, {"GradientReducer", "open Group"}));
  }
}

TEST_CASE("a null pointer in broadcastParameters on one rank is an error on all ranks") {
  Options plain = plainOptions();
  plain.timeout = std::chrono::seconds(10);
  auto ranks = Communicator::createAll(3, plain);
  std::vector<Caught> seen(3);
  REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
            Model model(kShapes, true);
            auto parameters = model.parameters();
            if (comm.rank() == 1) parameters[1].value = nullptr;
            seen[static_cast<std::size_t>(comm.rank())] =
                caught([&] { broadcastParameters(comm, parameters); });
            comm.barrier(); // the communicator stays usable
            return {};
          })) == "");
  for (const Caught& one : seen) {
    CHECK(says(one, ErrorCode::mismatch, {"p1", "null", "rank 1"}));
    CHECK(one.culprit == 1);
  }
}

TEST_CASE("invalid options or parameters on one rank are errors on all ranks") {
  using P = std::vector<Parameter>;
  using O = GradientOptions;
  struct Row {
    ErrorCode code;
    std::initializer_list<const char*> words;
    std::function<void(P&, O&)> change;
  };
  constexpr auto kBad = ErrorCode::invalid_argument;
  const Row rows[] = {
      {kBad, {"name"}, [](P& p, O&) { p[1].name = ""; }},
      {kBad, {"\"p0\"", "twice"}, [](P& p, O&) { p[1].name = "p0"; }},
      {kBad, {"\"p1\"", "int32"}, [](P& p, O&) { p[1].type = DataType::int32; }},
      {kBad, {"\"p1\"", "null"}, [](P& p, O&) { p[1].value = nullptr; }},
      {kBad, {"bucket_bytes"}, [](P&, O& o) { o.bucket_bytes = {}; }},
      {kBad,
       {"static_graph", "uneven_inputs"},
       [](P&, O& o) { o.static_graph = o.uneven_inputs = true; }},
      {ErrorCode::unsupported,
       {"bfloat16", "double", "p1"},
       [](P& p, O& o) {
         o.hook = compressGradients(DataType::bfloat16);
         p[1].type = DataType::float64;
       }},
  };
  for (const Row& row : rows) {
    auto ranks = Communicator::createAll(3, plainOptions());
    std::vector<Caught> seen(3);
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              Model model(kShapes, true);
              auto parameters = model.parameters();
              GradientOptions options;
              if (comm.rank() == 1) row.change(parameters, options);
              seen[static_cast<std::size_t>(comm.rank())] =
                  caught([&] { const GradientReducer reducer(comm, parameters, options); });
              return {};
            })) == "");
    for (int r = 0; r < 3; ++r) {
      INFO("rank " << r);
      const Caught& one = seen[static_cast<std::size_t>(r)];
      CHECK(says(one, r == 1 ? row.code : ErrorCode::aborted, row.words));
      if (r != 1) CHECK(one.culprit == 1);
    }
  }
}

TEST_CASE("if options differ, every rank names the first one that differs") {
  struct Row {
    std::initializer_list<const char*> words;
    std::function<void(GradientOptions&)> change;
  };
  using O = GradientOptions;
  const Row rows[] = {
      {{"bucket_bytes [1048576, 26214400] on rank 0", "bucket_bytes [4] on rank 2"},
       [](O& o) { o.bucket_bytes = {4}; }},
      {{"average true", "average false"}, [](O& o) { o.average = false; }},
      {{"follow_observed_order true", "false"}, [](O& o) { o.follow_observed_order = false; }},
      {{"find_unused false", "find_unused true on rank 2"}, [](O& o) { o.find_unused = true; }},
      {{"static_graph false", "true"}, [](O& o) { o.static_graph = true; }},
      {{"uneven_inputs false", "true"}, [](O& o) { o.uneven_inputs = true; }},
      {{"hook none", "hook top_k on rank 2"}, [](O& o) { o.hook = topKGradients(0.5); }},
  };
  for (const Row& row : rows) {
    auto ranks = Communicator::createAll(4, plainOptions());
    std::vector<Caught> seen(4);
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              Model model(kShapes, true);
              GradientOptions options;
              options.overlap = comm.rank() != 3; // may differ between ranks
              if (comm.rank() == 2) row.change(options);
              seen[static_cast<std::size_t>(comm.rank())] =
                  caught([&] { const GradientReducer reducer(comm, model.parameters(), options); });
              comm.barrier(); // the communicator stays usable
              return {};
            })) == "");
    for (const Caught& one : seen) {
      CHECK(says(one, ErrorCode::mismatch, row.words));
      CHECK(one.culprit == 2);
    }
  }
}

TEST_CASE("if an exception leaves a step, the other ranks get an error that names the rank") {
  const std::vector<std::function<std::shared_ptr<GradientHook>()>> hooks = {
      [] { return nullptr; }, [] { return topKGradients(0.5); },
      [] { return powerSgdGradients(1, 0); }};
  for (const auto& hook : hooks)
    for (bool started : {true, false}) {
      Options plain = plainOptions();
      plain.timeout = std::chrono::seconds(20);
      auto ranks = Communicator::createAll(3, plain);
      std::vector<Caught> seen(3);
      std::barrier made(3), left(3); // so that rank 1's buckets are in flight when it leaves
      REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
                Model model({{100, 200}, {300, 400}}, true);
                GradientOptions options;
                options.bucket_bytes = {0};
                options.hook = hook();
                auto reducer = std::make_unique<GradientReducer>(comm, model.parameters(), options);
                made.arrive_and_wait(); // an abort would disturb the other ranks' constructors
                if (comm.rank() == 1) {
                  try {
                    const auto unwound = std::move(reducer);
                    unwound->begin();
                    if (started) unwound->ready(1);
                    throw std::runtime_error("the backward pass failed");
                  } catch (const std::runtime_error&) {
                  }
                }
                left.arrive_and_wait();
                if (!reducer) return {};
                seen[static_cast<std::size_t>(comm.rank())] = caught([&] {
                  reducer->begin();
                  for (std::size_t i : {1U, 0U}) reducer->ready(i);
                  reducer->wait();
                });
                return {};
              })) == "");
      for (int r : {0, 2}) {
        const Caught& one = seen[static_cast<std::size_t>(r)];
        CHECK(says(one, ErrorCode::aborted, {"rank 1", "step was left"}));
        CHECK(one.culprit == 1);
      }
    }
}

TEST_CASE("if an exception ends wait() or shadow(), the others get an error that names the rank") {
  struct Failing final : GradientHook {
    bool in_start = false, in_finish = false;
    std::string name() const override { return "failing"; }
    bool supports(DataType) const override { return true; }
    Work start(Communicator& comm, GradientBucket& bucket) override {
      if (in_start) throw std::runtime_error("the start failed");
      return comm.allReduceAsync(bucket.data, bucket.data, bucket.count, bucket.type,
                                 ReduceOp::sum);
    }
    void finish(Communicator&, GradientBucket&) override {
      if (in_finish) throw std::runtime_error("the finish failed");
    }
  };
  for (const bool in_start : {true, false})
    for (const bool shadows : {true, false}) {
      Options plain = plainOptions();
      plain.timeout = std::chrono::seconds(20);
      auto ranks = Communicator::createAll(3, plain);
      std::vector<Caught> seen(3);
      std::barrier made(3);
      REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
                Model model(kShapes, true);
                auto hook = std::make_shared<Failing>();
                GradientOptions options;
                options.overlap = false;
                options.uneven_inputs = shadows;
                options.hook = hook;
                auto reducer = std::make_unique<GradientReducer>(comm, model.parameters(), options);
                const bool fails = comm.rank() == 1;
                hook->in_start = fails && in_start;
                hook->in_finish = fails && !in_start;
                made.arrive_and_wait(); // an abort would disturb the other ranks' constructors
                seen[static_cast<std::size_t>(comm.rank())] = caught([&] {
                  if (!fails)
                    for (;;) step(*reducer);
                  try {
                    const auto unwound = std::move(reducer);
                    if (shadows) unwound->shadow();
                    else step(*unwound);
                  } catch (const std::runtime_error&) {
                  }
                });
                return {};
              })) == "");
      INFO("in start(): " << in_start << ", in shadow(): " << shadows);
      for (const int r : {0, 2}) {
        const Caught& one = seen[static_cast<std::size_t>(r)];
        CHECK(says(one, ErrorCode::aborted, {"rank 1", "step was left"}));
        CHECK(one.culprit == 1);
      }
    }
}

} // namespace rondo::test
