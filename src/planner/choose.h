// Which algorithm a call uses.
#pragma once

#include <cstddef>
#include <string>

#include "plan/plan_cache.h"
#include "plan/registry.h"

namespace rondo::planner {

/// What all ranks agreed on when the communicator was made.
struct Policy {
  std::string algorithms; ///< Options::algorithm
  bool deterministic = false;
  bool oversubscribed = false; ///< on some machine ranks outnumber processors
  bool carriers = false; ///< some ranks talk over a carrier, where every message costs system calls
  bool devices = false;  ///< buffers are on devices, where each lane takes a multiprocessor
  plan::Layout layout = {}; ///< where the ranks are
  /// A switch between the ranks' devices was proved: Spec::multicast says for which calls it
  /// serves.
  bool multicast = false;
};

/// Instead of bytes: blocks of different sizes (v-forms).
inline constexpr std::size_t kUneven = ~std::size_t{0};

/// The algorithm for blocks of `bytes`, or kUneven: then only plans that serve these are considered
/// (plan/uneven.h). What must be proved of algorithms, `plans` knows or gets to know. All ranks
/// come to the same answer, whatever the cache holds. Throws Error(unsupported) when the policy's
/// choice cannot serve the call, and is no wish: it does not support the collective, rank count or
/// uneven blocks, or does not reduce in rank order in deterministic mode. A general list
/// ("ring") restricts only the collectives that one of its words supports.
plan::Choice choose(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                    plan::PlanCache& plans);
/// For one question only: keeps nothing.
plan::Choice choose(const plan::Spec& spec, std::size_t bytes, const Policy& policy);

} // namespace rondo::planner
