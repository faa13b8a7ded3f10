// Chooses the algorithm of a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "plan/plan_cache.h"
#include "plan/registry.h"
#include "planner/site.h"

namespace rondo::planner {

class RulesFile;
class Table;

/// The settings that all ranks agreed on when the communicator was made.
struct Policy {
  std::string algorithms = {}; ///< Options::algorithm
  bool deterministic = false;
  bool oversubscribed = false; ///< on some machine there are more ranks than processors
  bool network_channels =
      false;                ///< some ranks talk over a network, with system calls for each message
  bool devices = false;     ///< buffers are on devices, where each lane occupies a multiprocessor
  plan::Layout layout = {}; ///< nodes and sockets of the ranks
  /// A switch between the ranks' devices was proved to work. Spec::multicast says for which calls
  /// it can be used.
  bool multicast = false;
  Site site = {};
  /// The user's rules (Options::rules_file); null: there are none.
  std::shared_ptr<const RulesFile> rules_file = nullptr;
  /// Decisions by predicted times; null: the rules decide.
  std::shared_ptr<const Table> table = nullptr;
};

/// In place of a size in bytes: the blocks have different sizes (v-forms).
inline constexpr std::size_t kUneven = ~std::size_t{0};

/// Chooses the algorithm for blocks of `bytes`. For kUneven only plans that serve such blocks are
/// considered (plan/uneven.h). `plans` caches the plans whose properties must be checked. All ranks
/// get the same answer, whatever their caches hold. Throws Error(unsupported) when the policy's
/// algorithm, unless it is only a wish, cannot serve the call: it does not support the collective,
/// the number of ranks or uneven blocks, or does not reduce in rank order in deterministic mode. A
/// general list ("ring") restricts only those collectives that one of its words supports.
plan::Choice choose(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                    plan::PlanCache& plans);
/// What the built-in rules based a choice on.
struct Basis {
  enum class Kind : std::uint8_t {
    none,  ///< the rules did not decide
    size,  ///< the rule for blocks of more than `above` and up to `up_to` bytes
    nodes, ///< several nodes have several ranks, and blocks have at least `up_to` bytes
    cost,  ///< the user excludes what the rules name; of the others, its formula is the least
    first, ///< no rule names an algorithm that can serve; it is the first one that can
  };

  Kind kind = Kind::none;
  std::size_t above = 0, up_to = 0;
  plan::Choice instead_of = {};    ///< what the rules prefer, if it was passed over
  std::string_view objection = {}; ///< why it was
};

/// The same as choose(), with who decided.
struct Decision {
  enum class By : std::uint8_t { user, rules_file, measurement, model, rules };

  plan::Choice choice;
  By by = By::rules;
  Basis basis = {};               ///< if the rules decided
  std::string_view variable = {}; ///< RONDO_ALGO or NCCL_ALGO, if the user decided
  std::string line = {};          ///< "FILE:LINE" of the rules file, if it decided
  /// Earlier lines of the rules file that are for the call, but whose algorithm cannot serve it:
  /// "FILE:LINE: bruck does not support it; ...".
  std::string passed_over = {};
};
Decision decision(const plan::Spec& spec, std::size_t bytes, const Policy& policy,
                  plan::PlanCache& plans);
/// The same without a cache, for a single query.
Decision decision(const plan::Spec& spec, std::size_t bytes, const Policy& policy);
plan::Choice choose(const plan::Spec& spec, std::size_t bytes, const Policy& policy);

} // namespace rondo::planner
