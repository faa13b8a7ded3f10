// `rondo doctor` in a job: it collects facts about all ranks and measures the links between them.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tools/doctor_checks.h"

namespace rondo {
class Communicator;
}

namespace rondo::tools {

/// A finding of the local checks, or about several ranks.
struct DoctorFinding {
  bool fatal = false;
  std::string name, text, remedy;
};

/// What a rank tells rank 0.
struct RankFacts {
  std::string host, node, version, libraries;
  std::vector<std::string> interfaces; ///< that other machines may reach
  double share = 1;             ///< of a processor's time that it gets while all ranks compute
  std::int64_t clock = 0;       ///< nanoseconds by which its wall clock is ahead of rank 0's
  std::int64_t clock_error = 0; ///< at most
  std::vector<DoctorFinding> findings;
};

/// A pair of ranks on one way to move bytes.
struct PairFacts {
  int a = 0, b = 0;     ///< a < b
  double latency = 0;   ///< seconds, one way; 0: not measured
  double bandwidth = 0; ///< bytes per second, of the slower direction
  bool alone = false;   ///< while the other ranks waited; otherwise together with other pairs
};

/// All pairs that use the same way.
struct LinkFacts {
  std::string way; ///< "shm", "tcp over eth0"
  std::vector<PairFacts> pairs;
};

struct JobFacts {
  std::vector<RankFacts> ranks;
  std::vector<LinkFacts> links;
  std::vector<DoctorFinding> failed; ///< ways on which the ranks cannot communicate
};

/// Which ranks are slow, and which pairs, compared with the median of their kind. Empty: none.
/// `ignored`: ranks whose slowness has another cause.
std::vector<DoctorFinding> judgeLinks(const std::vector<RankFacts>& ranks, const LinkFacts& links,
                                      const std::vector<int>& ignored);
/// Whether to measure pairs again: something is below a quarter of the median, and on an idle
/// machine the median might be higher.
bool suspicious(const std::vector<RankFacts>& ranks, const LinkFacts& links);
/// Which ranks to measure again, pair by pair, if something is suspicious. Up to 16 ranks: all.
/// More: if the transport connects hosts, one rank of each host; if it works within hosts, at most
/// 8 ranks of the hosts with the slowest pairs, the slowest pair among them.
std::set<int> ranksToRepeat(const std::vector<RankFacts>& ranks, const LinkFacts& links);
/// All findings: of each rank, with the ranks that have it, and of ranks compared with each other.
std::vector<DoctorFinding> judgeJob(const JobFacts& job);
/// Ranks that get far less processor time than the others.
std::vector<int> starved(const std::vector<RankFacts>& ranks);

/// Measures the links between all pairs on every way that the ranks have. Collective; the result is
/// rank 0's.
void measureLinks(Communicator& comm, JobFacts& job);

/// The bandwidth and latency of each pair, as a heat map for each way.
std::string linksSvg(const JobFacts& job);

/// Joins the job of the launcher, checks and prints. Returns the exit status, equal on all ranks.
int examineJob(const DoctorConfig& config, const std::vector<DoctorFinding>& own);

} // namespace rondo::tools
