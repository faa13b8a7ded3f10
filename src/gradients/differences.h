// Finds the first difference between lists of texts that ranks describe themselves with.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "rondo/communicator.h"

namespace rondo::gradients {

/// The first place where two ranks' lists of texts differ.
struct Difference {
  std::size_t number = 0; ///< index of the text
  int odd = 0;            ///< the lowest rank whose list differs from rank 0's
  /// The only rank whose list differs from rank 0's; -1 if several do.
  int culprit = -1;
  /// The text of rank 0 and of rank `odd`; "nothing" after the end of a list.
  std::string ours, theirs;

  /// "OURS on rank 0 and THEIRS on rank ODD"
  std::string text() const {
    return ours + " on rank 0 and " + theirs + " on rank " + std::to_string(odd);
  }
};

/// Collective. Returns the same on all ranks: no value if all lists are equal.
std::optional<Difference> firstDifference(Communicator& comm, std::span<const std::string> texts);

} // namespace rondo::gradients
