// Decides which processors each rank's thread is bound to. Every rank computes it for itself, from
// the same data.
#include "comm/bind_rank.h"

#include <algorithm>

#include "base/log.h"
#include "rondo/error.h"
#include "topology/bind.h"
#include "topology/place.h"
#include "topology/system.h"

namespace rondo::comm {

namespace {

constexpr std::size_t kMostText = 4096;

thread_local bool bound_here = false;

/// Whether no rank of this machine is bound yet, and all may use the same processors.
bool free(std::span<const Unbound> ranks, const Unbound& one) {
  return std::all_of(ranks.begin(), ranks.end(), [&](const Unbound& other) {
    return other.machine != one.machine || (!other.bound && other.allowed == one.allowed);
  });
}

/// Number of ranks on `machine` among the first `before` ranks.
int onMachine(std::span<const Unbound> ranks, const std::string& machine, std::size_t before) {
  return static_cast<int>(
      std::count_if(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(before),
                    [&](const Unbound& other) { return other.machine == machine; }));
}

/// Throws when the list gives a rank a processor that it may not use.
void checkList(const topology::BindRule& rule, std::span<const Unbound> ranks) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (!free(ranks, ranks[r])) continue;
    const auto index = static_cast<std::size_t>(onMachine(ranks, ranks[r].machine, r));
    const int processor = rule.list[index % rule.list.size()];
    if (!topology::contains(ranks[r].allowed, {processor}))
      throw Error(ErrorCode::invalid_argument,
                  "RONDO_BIND gives processor " + std::to_string(processor) + " to rank " +
                      std::to_string(r) + ", which may use " + topology::text(ranks[r].allowed));
  }
}

} // namespace

Unbound Unbound::own() { return {topology::machineName(), base::ownProcessors(), bound_here}; }

void Unbound::write(base::Writer& out) const {
  out.text(machine);
  out.text(topology::text(allowed));
  out.u8(bound);
}

Unbound Unbound::read(base::Reader& in) {
  Unbound one;
  one.machine = in.text(kMostText);
  one.allowed = base::parseProcessors(in.text(kMostText), "a rank's processors");
  one.bound = in.u8() != 0;
  return one;
}

void bindRank(const std::string& words, std::span<const Unbound> ranks, int own) {
  const topology::BindRule rule = topology::parseBind(words, "RONDO_BIND");
  if (rule.to == topology::BindRule::To::none) return;
  if (rule.to == topology::BindRule::To::list) checkList(rule, ranks);
  const auto self = static_cast<std::size_t>(own);
  const Unbound& mine = ranks[self];
  if (mine.allowed.empty()) return; // the system does not say which processors are allowed
  if (!free(ranks, mine)) {
    base::log(LogLevel::info, "RONDO_BIND=", words,
              " has no effect: ranks of this machine are already bound or restricted");
    return;
  }
  const topology::Machine machine = topology::systemMachine(mine.allowed);
  const int count = onMachine(ranks, mine.machine, ranks.size());
  const auto index = static_cast<std::size_t>(onMachine(ranks, mine.machine, self));
  const topology::Processors to = topology::bindings(machine, rule, mine.allowed, count)[index];
  bound_here = base::bindThread(to);
  if (bound_here)
    base::log(LogLevel::info, "bound to processors ", topology::text(to), ", by RONDO_BIND=", words,
              " as number ", index, " of ", count, " ranks of this machine");
  else base::log(LogLevel::warn, "cannot be bound to processors ", topology::text(to));
}

} // namespace rondo::comm
