// Ranks that call different things, where no message between them would show it.
#include <string>

#include "job.h"
#include "support/test.h"

using namespace rondo::test;

namespace {

constexpr int kRanks = 4;

struct Case {
  const char* call;
  const char* title;       ///< what ranks call ...
  const char *odd, *right; ///< ... and how
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

/// Whether both calls are named. Who else is, depends on which ranks have come so far.
bool names(const std::string& text, const Case& one) {
  const std::string call = std::string(one.title) + " #5 ";
  return text.find("rank 1 calls " + call + one.odd) != std::string::npos &&
         text.find(" calls " + call + one.right) != std::string::npos;
}

} // namespace

TEST_CASE("one rank calls otherwise: the next call of every rank names both calls") {
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
      CHECK(job.logged.empty()); // besides, they have all been told
    }
}

TEST_CASE("one rank calls otherwise, and the program ends: one rank says so for its launcher") {
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

TEST_CASE("one rank calls otherwise, and the program ends: without launcher every rank says so") {
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
