// Ranks find out where what they say of themselves differs.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "rondo/communicator.h"

namespace rondo::gradients {

/// The first place at which two ranks' lists of texts are not the same.
struct Difference {
  std::size_t number = 0;   ///< of the text
  int odd = 0;              ///< the lowest rank whose list is not that of rank 0
  int culprit = -1;         ///< the one rank whose list is not that of rank 0, if it is one
  std::string ours, theirs; ///< the text of rank 0 and of `odd`; "nothing" behind the last one

  /// "OURS on rank 0 and THEIRS on rank ODD"
  std::string text() const {
    return ours + " on rank 0 and " + theirs + " on rank " + std::to_string(odd);
  }
};

/// Collective. The same on all ranks; nothing where all lists are equal.
std::optional<Difference> firstDifference(Communicator& comm, std::span<const std::string> texts);

} // namespace rondo::gradients
