// Assigns nodes, GPUs, processors and network cards to ranks.
#include "topology/seats.h"

#include <algorithm>
#include <map>
#include <utility>

#include "rondo/error.h"

namespace rondo::topology {
namespace {

/// The nearest cards, in order, among those that may be used (those of a rail, if there are rails).
std::vector<int> nearestCards(const Machine& machine, const Seat& seat) {
  std::vector<int> nearest;
  Link best{LinkClass::network};
  for (const int card : machine.all(Kind::card)) {
    if (!machine.rails.empty() && railOf(machine, card).empty()) continue;
    const Link link = seat.gpu >= 0
                          ? linkBetween(machine, seat.gpu, card)
                          : linkBetween(machine, seat.processors, machine.at(card).processors);
    // To a rank without a GPU all devices of its package count as equally near.
    Link rated = link;
    if (seat.gpu < 0 && link.kind < LinkClass::socket) rated = {LinkClass::socket};
    if (rated.kind < best.kind) nearest.clear();
    if (rated.kind <= best.kind) {
      nearest.push_back(card);
      best.kind = rated.kind;
    }
  }
  return nearest;
}

void seatNode(const Machine& machine, const BindRule& rule, std::vector<Seat*> seats) {
  const std::vector<int> gpus = machine.all(Kind::gpu);
  std::map<Processors, std::vector<Seat*>> alike; // by the processors that they may use
  for (std::size_t i = 0; i < seats.size(); ++i) {
    Processors near = machine.allowed;
    if (seats.size() <= gpus.size()) {
      const auto numbered = std::find_if(gpus.begin(), gpus.end(), [&](int gpu) {
        return machine.at(gpu).number == static_cast<int>(i);
      });
      seats[i]->gpu = *numbered;
      Processors own = both(machine.at(*numbered).processors, near);
      // A list is for all ranks of the node, wherever their GPUs are.
      if (!own.empty() && rule.to != BindRule::To::list) near = std::move(own);
    }
    alike[near].push_back(seats[i]);
  }
  for (const auto& [near_them, group] : alike) {
    const auto shares = bindings(machine, rule, near_them, static_cast<int>(group.size()));
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (!contains(machine.allowed, shares[i]))
        throw Error(ErrorCode::invalid_argument, "ranks cannot be bound to processors " +
                                                     text(shares[i]) + ": programs may use " +
                                                     text(machine.allowed) + " of " + machine.name);
      group[i]->processors = shares[i];
    }
  }
  std::map<std::vector<int>, std::size_t> turns;
  for (Seat* seat : seats)
    if (const auto cards = nearestCards(machine, *seat); !cards.empty())
      seat->card = cards[turns[cards]++ % cards.size()];
}

} // namespace

std::string railOf(const Machine& machine, int card) {
  for (const Rail& rail : machine.rails)
    if (card >= 0 && rail.card == machine.at(card).name) return rail.name;
  return {};
}

std::vector<Seat> seatsFor(const Machine& machine, const BindRule& rule, int ranks) {
  const int nodes = std::max(static_cast<int>(machine.nodes.size()), 1);
  std::vector<Seat> seats(static_cast<std::size_t>(ranks));
  std::vector<std::vector<Seat*>> by_node(static_cast<std::size_t>(nodes));
  for (int rank = 0; rank < ranks; ++rank) {
    Seat& seat = seats[static_cast<std::size_t>(rank)];
    // The first ranks % nodes nodes have one rank more.
    const int more = ranks % nodes, few = ranks / nodes;
    seat.node = rank < more * (few + 1) ? rank / (few + 1) : more + (rank - more * (few + 1)) / few;
    by_node[static_cast<std::size_t>(seat.node)].push_back(&seat);
  }
  for (const auto& node : by_node) seatNode(machine, rule, node);
  return seats;
}

Link linkBetween(const Machine& machine, const Seat& a, const Seat& b) {
  if (a.node == b.node)
    return a.gpu >= 0 && b.gpu >= 0 ? linkBetween(machine, a.gpu, b.gpu)
                                    : linkBetween(machine, a.processors, b.processors);
  const std::string rail = railOf(machine, a.card);
  if (!rail.empty() && rail == railOf(machine, b.card)) return {LinkClass::rail, 0, false, rail};
  return {LinkClass::network};
}

} // namespace rondo::topology
