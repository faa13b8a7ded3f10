// Tests steps that differ between ranks: unused parameters, static graphs, unequal numbers of
// steps.
#include "gradients/model.h"
#include "support/ranks.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr float kOld = -77;

/// Writes the gradients of `parameters` and reports them ready. Others keep their values.
void give(GradientReducer& reducer, const Model& model, const std::vector<std::size_t>& parameters,
          int rank, int step) {
  for (std::size_t i : parameters) {
    backward(reducer, i, model.values[i].size(), rank, step);
    reducer.ready(i);
  }
}

void fillOld(GradientReducer& reducer, const Model& model) {
  for (std::size_t i = 0; i < model.shapes.size(); ++i) {
    auto* const gradient = static_cast<float*>(reducer.gradient(i));
    std::fill_n(gradient, model.values[i].size(), kOld);
  }
}

GradientOptions summing() {
  GradientOptions options;
  options.average = false;
  options.bucket_bytes = {100};
  return options;
}

} // namespace

TEST_CASE(
    "a parameter unused on some ranks counts as zeros there, unused on all it stays as it was") {
  for (const char* transport : {"inproc", "tcp"})
    for (bool views : {true, false})
      for (int size : {1, 2, 3, 5}) {
        auto ranks = Communicator::createAll(size, plainOptions(transport));
        const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
          Model model({{10}, {20}, {30}, {40}}, views);
          GradientOptions options = summing();
          options.find_unused = true;
          GradientReducer reducer(comm, model.parameters(), options);
          for (int s = 0; s < 3; ++s) {
            // No rank uses parameter 1; only rank 0 uses parameter 2.
            fillOld(reducer, model);
            reducer.begin();
            give(reducer, model,
                 comm.rank() == 0 ? std::vector<std::size_t>{3, 2, 0}
                                  : std::vector<std::size_t>{3, 0},
                 comm.rank(), s);
            reducer.wait();
            const auto bad = differs(reducer, model, [&](std::size_t i, std::size_t e) {
              if (i == 1) return kOld;
              float sum = 0;
              for (int r = 0; r < (i == 2 ? 1 : size); ++r) sum += gradientOf(r, s, i, e);
              return sum;
            });
            if (!bad.empty()) return "step " + std::to_string(s) + ": " + bad;
          }
          return {};
        }));
        INFO(transport << ", " << size << " ranks, views " << views);
        REQUIRE(wrong == "");
      }
}

TEST_CASE("a parameter used in a step without synchronisation counts in the next one with it") {
  auto ranks = Communicator::createAll(2, plainOptions());
  REQUIRE(firstComplaint(onRanks(ranks, [](Communicator& comm) -> std::string {
            Model model({{10}, {20}}, true);
            GradientOptions options = summing();
            options.find_unused = true;
            GradientReducer reducer(comm, model.parameters(), options);
            reducer.begin(false);
            give(reducer, model, {1, 0}, comm.rank(), 0);
            reducer.wait();
            reducer.begin();
            give(reducer, model, {1}, comm.rank(), 1);
            reducer.wait();
            return differs(reducer, model, [](std::size_t i, std::size_t e) {
              const int s = i == 0 ? 0 : 1;
              return gradientOf(0, s, i, e) + gradientOf(1, s, i, e);
            });
          })) == "");
}

TEST_CASE("a static graph learns unused and repeated parameters in the first step") {
  struct Row {
    bool views, find_unused, overlap;
  };
  for (const Row& row : {Row{true, false, true}, Row{false, false, true}, Row{true, true, true},
                         Row{false, true, true}, Row{true, true, false}}) {
    INFO("views " << row.views << ", find_unused " << row.find_unused << ", overlap "
                  << row.overlap);
    auto ranks = Communicator::createAll(3, plainOptions());
    REQUIRE(firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
              Model model({{10}, {20}, {30}, {40}}, row.views);
              GradientOptions options = summing();
              options.static_graph = true;
              options.find_unused = row.find_unused;
              options.overlap = row.overlap;
              GradientReducer reducer(comm, model.parameters(), options);
              for (int s = 0; s < 4; ++s) {
                fillOld(reducer, model);
                reducer.begin();
                // No rank uses parameter 1; only rank 0 uses 2; 0 is ready twice, and complete the
                // second time.
                give(reducer, model,
                     comm.rank() == 0 ? std::vector<std::size_t>{3, 0, 2, 0}
                                      : std::vector<std::size_t>{3, 0, 0},
                     comm.rank(), s);
                reducer.wait();
                const auto bad = differs(reducer, model, [s](std::size_t i, std::size_t e) {
                  if (i == 1) return kOld;
                  float sum = 0;
                  for (int r = 0; r < (i == 2 ? 1 : 3); ++r) sum += gradientOf(r, s, i, e);
                  return sum;
                });
                if (!bad.empty()) return "step " + std::to_string(s) + ": " + bad;
              }
              return {};
            })) == "");
  }
}

TEST_CASE("ranks without steps shadow the others, and averages are over the ranks with data") {
  for (bool find_unused : {false, true})
    for (int size : {1, 2, 4}) {
      auto ranks = Communicator::createAll(size, plainOptions());
      const auto wrong = firstComplaint(onRanks(ranks, [&](Communicator& comm) -> std::string {
        Model model({{10}, {20}, {30}}, true);
        GradientOptions options;
        options.bucket_bytes = {100};
        options.uneven_inputs = true;
        options.find_unused = find_unused;
        GradientReducer reducer(comm, model.parameters(), options);
        // Two epochs in which rank r has r steps, so the last rank has most.
        for (int epoch = 0; epoch < 2; ++epoch) {
          int s = 0;
          const auto check = [&] {
            int live = 0;
            for (int r = 0; r < size; ++r) live += s < r ? 1 : 0;
            return differs(reducer, model, [&](std::size_t i, std::size_t e) {
              float sum = 0;
              for (int r = 0; r < size; ++r)
                if (s < r) sum += gradientOf(r, s, i, e) * static_cast<float>(1.0 / live);
              return sum;
            });
          };
          for (; s < comm.rank(); ++s) {
            reducer.begin();
            give(reducer, model, {2, 1, 0}, comm.rank(), s);
            reducer.wait();
            if (const auto bad = check(); !bad.empty())
              return "step " + std::to_string(s) + ": " + bad;
          }
          for (; reducer.shadow(); ++s)
            if (const auto bad = check(); !bad.empty())
              return "shadowed step " + std::to_string(s) + ": " + bad;
          if (s != size - 1) return "saw " + std::to_string(s) + " steps";
        }
        return {};
      }));
      INFO(size << " ranks, find_unused " << find_unused);
      REQUIRE(wrong == "");
    }
}

} // namespace rondo::test
