// Tests that a repeated call allocates no memory, in any of its forms.
#include <chrono>
#include <functional>

#include "allocations/counting_new.h"
#include "support/ranks.h"
#include "support/test.h"
#include "support/uneven_case.h"

namespace rondo::test {
namespace {

constexpr auto kType = DataType::uint32;
constexpr int kRoot = 1;
constexpr int kBefore = 99, kCounted = 50;
/// A call that is stalled for 50 ms is reported to the control plane with a text. On a busy machine
/// that happens, and its allocation is no cost of the call; so slower calls may allocate.
constexpr std::chrono::milliseconds kQuick{25};

/// The buffers of a rank, and the calls that it repeats.
class Repeated {
 public:
  Repeated(Communicator& comm, std::size_t most)
      : comm_(comm),
        sizes_(sizesOf(comm.size(), most)),
        own_(sizes_[static_cast<std::size_t>(comm.rank())]),
        from_(sizes_),
        to_(sizes_),
        same_from_(Sizes(sizes_.size(), own_)),
        input_(most),
        output_(most) {}

  struct Form {
    const char* name;
    std::function<void()> blocking;
    std::function<Work()> async;
  };

  std::vector<Form> forms() {
    std::uint32_t* const from = from_.words.data();
    std::uint32_t* const to = to_.words.data();
    const auto in_place = [this] { return to_.block(static_cast<std::size_t>(comm_.rank())); };
    return {
        {"gatherv",
         [=, this] { comm_.gatherv(input_.data(), own_, to, to_.blocks(), kType, kRoot); },
         [=, this] {
           return comm_.gathervAsync(input_.data(), own_, to, to_.blocks(), kType, kRoot);
         }},
        {"scatterv",
         [=, this] { comm_.scatterv(from, from_.blocks(), output_.data(), own_, kType, kRoot); },
         [=, this] {
           return comm_.scattervAsync(from, from_.blocks(), output_.data(), own_, kType, kRoot);
         }},
        {"allGatherv",
         [=, this] { comm_.allGatherv(input_.data(), own_, to, to_.blocks(), kType); },
         [=, this] { return comm_.allGathervAsync(input_.data(), own_, to, to_.blocks(), kType); }},
        {"allGatherv in place",
         [=, this] { comm_.allGatherv(in_place(), own_, to, to_.blocks(), kType); },
         [=, this] { return comm_.allGathervAsync(in_place(), own_, to, to_.blocks(), kType); }},
        {"allToAllv",
         [=, this] {
           comm_.allToAllv(same_from_.words.data(), same_from_.blocks(), to, to_.blocks(), kType);
         },
         [=, this] {
           return comm_.allToAllvAsync(same_from_.words.data(), same_from_.blocks(), to,
                                       to_.blocks(), kType);
         }},
        {"reduceScatterv",
         [=, this] {
           comm_.reduceScatterv(from, from_.blocks(), output_.data(), kType, ReduceOp::sum);
         },
         [=, this] {
           return comm_.reduceScattervAsync(from, from_.blocks(), output_.data(), kType,
                                            ReduceOp::sum);
         }},
        {"allReduce",
         [=, this] {
           comm_.allReduce(input_.data(), output_.data(), input_.size(), kType, ReduceOp::sum);
         },
         [=, this] {
           return comm_.allReduceAsync(input_.data(), output_.data(), input_.size(), kType,
                                       ReduceOp::sum);
         }},
    };
  }

 private:
  static Sizes sizesOf(int ranks, std::size_t most) {
    Sizes sizes;
    for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r)
      sizes.push_back(r == 0 ? 0 : most / r); // one block is empty
    return sizes;
  }

  Communicator& comm_;
  Sizes sizes_;
  std::size_t own_;
  UnevenBuffer from_, to_, same_from_;
  Words input_, output_;
};

/// Empty if all quick calls after the first kBefore ones made exactly the allowed allocations.
std::string afterMany(const char* name, std::size_t allowed, const std::function<void()>& call) {
  for (int i = 0; i < kBefore; ++i) call();
  int right = 0, wrong = 0;
  std::size_t unexpected = 0;
  for (int i = 0; i < kCounted; ++i) {
    const auto began = std::chrono::steady_clock::now();
    const std::size_t before = allocations();
    call();
    const std::size_t made = allocations() - before;
    if (made == allowed) {
      ++right;
    } else if (std::chrono::steady_clock::now() - began < kQuick) {
      ++wrong;
      unexpected = made;
    }
  }
  if (right > 0 && wrong == 0) return {};
  return std::string(name) + ": " + std::to_string(wrong) + " of " + std::to_string(kCounted) +
         " calls made " + std::to_string(unexpected) + " allocations where " +
         std::to_string(allowed) + " are due";
}

} // namespace

TEST_CASE("the counter sees what a thread allocates", "[allocations]") {
  const std::size_t before = allocations();
  const Words some(100);
  REQUIRE(allocations() == before + 1);
}

TEST_CASE("the 100th call with the same blocks allocates nothing", "[allocations]") {
  for (const char* transport : {"inproc", "shm"})
    for (const std::size_t most : {std::size_t{12}, std::size_t{200'000}}) {
      auto ranks = Communicator::createAll(3, plainOptions(transport));
      const auto complaint = firstComplaint(onRanks(ranks, [&](Communicator& comm) {
        Repeated repeated(comm, most);
        std::string found;
        for (const auto& form : repeated.forms())
          if (auto wrong = afterMany(form.name, 0, form.blocking); !wrong.empty())
            found += (found.empty() ? "" : "; ") + wrong;
        return found;
      }));
      INFO(transport << ", blocks of up to " << most << " words");
      CHECK(complaint == "");
    }
}

TEST_CASE("the 100th asynchronous call with the same blocks allocates its state alone",
          "[allocations]") {
  for (const char* transport : {"inproc", "shm"}) {
    auto ranks = Communicator::createAll(3, plainOptions(transport));
    const auto complaint = firstComplaint(onRanks(ranks, [&](Communicator& comm) {
      Repeated repeated(comm, 12);
      std::string found;
      for (const auto& form : repeated.forms())
        if (auto wrong = afterMany(form.name, 1, [&] { form.async().wait(); }); !wrong.empty())
          found += (found.empty() ? "" : "; ") + wrong;
      return found;
    }));
    INFO(transport);
    CHECK(complaint == "");
  }
}

} // namespace rondo::test
