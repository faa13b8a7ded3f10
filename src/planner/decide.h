// Computes decisions: the candidates with the least predicted time.
#pragma once

#include <vector>

#include "model/profile.h"
#include "planner/choose.h"
#include "planner/table.h"

namespace rondo::planner {

/// The collectives that tables decide. The others are left to the rules.
inline constexpr Collective kDecided[] = {
    Collective::allreduce, Collective::reducescatter, Collective::allgather, Collective::broadcast,
    Collective::reduce,    Collective::scatter,       Collective::gather,    Collective::alltoall};

/// With more ranks nothing is decided: a table would take longer than a communicator may.
inline constexpr int kMostDecidedRanks = 16;

/// Predictions closer than this are a tie: the default profile's median error is 5% for 2 ranks,
/// and more for others (model/README.md).
inline constexpr double kTie = 0.05;

/// What may serve the spec: every algorithm that supports it, also with a few parameters. A new
/// file of an algorithm is a candidate by itself.
std::vector<plan::Choice> candidates(const plan::Spec& spec);

/// The decisions for ranks like these: the fastest candidate, or the rules' choice in a tie. Empty
/// for devices, one rank, or more ranks than kMostDecidedRanks. Depends only on the arguments, and
/// not on what the user asks for in the policy. In deterministic mode only candidates that reduce
/// in rank order count. Throws Error(invalid_argument) if the profile lacks a kind of link that the
/// ranks use.
Table decide(int ranks, const Policy& policy, const model::Profile& profile);

} // namespace rondo::planner
