// Explanation: why a call uses its algorithm.
#pragma once

#include <string>
#include <vector>

namespace rondo {

/// The algorithms that could serve a call, with the times that the model predicts for them.
struct Explanation {
  /// Seconds until the last rank is done, if all ranks call at the same time, and their causes,
  /// which add up to `seconds`.
  struct Candidate {
    std::string algorithm;
    double seconds = 0;
    double latency = 0;    ///< seconds that messages cost independently of their size
    double bytes = 0;      ///< seconds for moving the bytes
    double reduction = 0;  ///< seconds for combining operands
    double contention = 0; ///< seconds of waiting for a shared processor or network interface
    /// Measured seconds of the slowest rank, for blocks of this size class; 0: not measured.
    double measured = 0;
  };

  std::string algorithm; ///< what the call uses
  /// "RONDO_ALGO", "NCCL_ALGO", "rules file FILE:LINE" (RONDO_RULES_FILE), "measurement", "model"
  /// or "rules".
  std::string decided_by;
  /// Fastest first. Algorithms that the model cannot predict are missing, so `algorithm` may be.
  /// Empty on devices and for blocks of different sizes.
  std::vector<Candidate> candidates;
  /// One sentence on the fastest candidate, and whether the call uses it. After it, the lines of
  /// the rules file that are for the call, but whose algorithm cannot serve it.
  std::string why;
  /// The network that the prediction assumes, for people, for example "profile 'default', links
  /// shm, 2 processors a node".
  std::string network;
};

} // namespace rondo
