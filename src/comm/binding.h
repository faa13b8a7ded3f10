// Binding a rank's thread to processors, as Options::bind says.
#pragma once

#include <span>
#include <string>

#include "base/codec.h"
#include "base/processors.h"

namespace rondo::comm {

/// What ranks tell each other before any of them is bound.
struct Unbound {
  std::string machine;
  base::Processors allowed;
  bool bound = false; ///< by an earlier communicator: its thread stays where it is

  static Unbound own();
  void write(base::Writer& out) const;
  static Unbound read(base::Reader& in);
};

/// Binds the calling thread, whose rank is `own`, unless a rank of its machine is bound already, or
/// they may use different processors. Throws Error(invalid_argument), the same on all ranks, for a
/// list with a processor that ranks of a machine may not use.
void bindRank(const std::string& rule, std::span<const Unbound> ranks, int own);

} // namespace rondo::comm
