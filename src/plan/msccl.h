// Reads and writes plans in the XML of MSCCL, Microsoft's collective-communication library.
//
// An algo has a gpu for each rank; a gpu has thread blocks (tb), each with at most one peer that it
// sends to and one that it receives from, on a channel; a thread block has steps:
//
//   s      send src                      rcs    receive, store to dst, send it
//   r      receive, store to dst         rrs    receive, reduce with src, send
//   rrc    receive, reduce with src,     rrcs   receive, reduce with src, store to dst, send it
//          store to dst
//   cpy    copy src to dst               re     reduce src into dst
//   nop    wait only
//
// A step waits for step `deps` of thread block `depid`. Buffers are input, output and scratch, in
// chunks; `nchunksperloop` is the number of chunks in the larger one of input and output.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"

namespace rondo::plan {

struct ImportedPlans {
  std::string name;
  std::vector<RankPlan> plans; ///< element r is rank r's
  /// The line of each step of the plans, by rank, lane and step; 0: the step is not in the file.
  std::vector<std::vector<std::vector<int>>> lines;
};

/// Parses a file and proves its plans (plan/check.h, without closed form). An algorithm that works
/// in place is surrounded by steps that copy input and result. Throws Error(invalid_argument)
/// "FILE:LINE: WHY" for text that is not such a file, for a file that asks for more memory than a
/// real one needs, and for plans that the checker refuses; `file` only names the text.
ImportedPlans parseMsccl(std::string_view text, const std::string& file);

/// Writes plans of all ranks. A lane becomes several thread blocks if it has several peers, and a
/// step several steps. Throws Error(unsupported) for windows and barriers, which MSCCL does not
/// have, and for a root other than 0.
std::string mscclText(std::span<const RankPlan> plans, std::string_view name);

/// "allreduce", "reduce_scatter"
std::string_view mscclName(Collective collective);

} // namespace rondo::plan
