// Tests ranks whose calls differ in a way that no message between them shows.
#include <string>

#include "job.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 4;

struct Case {
  const char* call;
  const char* title;       ///< what the ranks call, ...
  const char *odd, *right; ///< ... and how the odd rank and the others call it
};
const Case kCases[] = {
    {"broadcast_root", "Broadcast", "(100 float, root 1)", "(100 float, root 0)"},
    {"broadcast_count", "Broadcast", "(101 float, root 0)", "(100 float, root 0)"},
    {"broadcast_nothing", "Broadcast", "(0 float, root 0)", "(100 float, root 0)"},
    {"gather_root", "Gather", "(100 float, root 1)", "(100 float, root 0)"},
    {"gather_type", "Gather", "(100 int32, root 0)", "(100 float, root 0)"},
    {"scatter_root", "Scatter", "(100 float, root 1)", "(100 float, root 0)"},
    {"reduce_root", "Reduce", "(sum of 100 float, root 1)", "(sum of 100 float, root 0)"},
};

/// Whether both calls are named. The other named rank depends on which ranks have called so far.
bool names(const std::string& text, const Case& one) {
  const std::string call = std::string(one.title) + " #5 ";
  return text.find("rank 1 calls " + call + one.odd) != std::string::npos &&
         text.find(" calls " + call + one.right) != std::string::npos;
}

} // namespace

TEST_CASE("one rank makes a different call: the next call of every rank names both calls") {
  for (const char* transport : {"shm", "tcp"})
    for (const Case& one : kCases) {
      Job job(kRanks, std::string("RONDO_TRANSPORT=") + transport,
              std::string("odd_call ") + one.call + " 1 next");
      INFO(transport << ", " << one.call);
      REQUIRE(job.ended(kRanks));
      for (const auto& [rank, ending] : job.endings) {
        INFO("rank " << rank << " after " << seconds(ending.at - ending.called)
                     << " s:" << ending.text);
        CHECK(ending.code == "mismatch");
        CHECK(names(ending.text, one));
        CHECK(ending.text == job.endings[0].text);
        CHECK(seconds(ending.at - ending.called) < kSlower);
      }
      job.end();
      CHECK(job.logged.empty()); // no rank logs: all have got the error
    }
}

TEST_CASE(
    "one rank makes a different call, and the program ends: one rank of the launched job logs it") {
  for (const char* transport : {"shm", "tcp"})
    for (const Case& one : kCases) {
      Job job(kRanks, std::string("RONDO_TRANSPORT=") + transport,
              std::string("odd_call ") + one.call + " 1 end");
      job.end();
      INFO(transport << ", " << one.call << ", " << job.endings.size() << " ranks threw it");
      REQUIRE(!job.heard.empty());
      for (const auto& [rank, text] : job.heard) {
        INFO("rank " << rank << ":" << text);
        CHECK(names(text, one));
      }
      CHECK(job.logged.size() <= 1);
    }
}

TEST_CASE(
    "one rank makes a different call, and the program ends: without launcher every rank logs it") {
  for (const char* transport : {"shm", "tcp"})
    for (const Case& one : kCases) {
      Job job(Job::withoutLauncher(kRanks, std::string("RONDO_TRANSPORT=") + transport,
                                   std::string("odd_call ") + one.call + " 1 end"),
              kRanks);
      job.end();
      INFO(transport << ", " << one.call);
      REQUIRE(job.heard.size() == kRanks);
      CHECK(job.logged.size() + job.endings.size() == kRanks); // each once
      for (const auto& [rank, text] : job.heard) {
        INFO("rank " << rank << ":" << text);
        CHECK(names(text, one));
      }
    }
}

} // namespace rondo::test
