// Binds a rank's thread to processors, as Options::bind says.
#pragma once

#include <span>
#include <string>

#include "base/codec.h"
#include "base/processors.h"

namespace rondo::comm {

/// A rank's state before binding, which all ranks exchange.
struct Unbound {
  std::string machine;
  base::Processors allowed;
  bool bound = false; ///< by an earlier communicator; its thread is not bound again

  static Unbound own();
  void write(base::Writer& out) const;
  static Unbound read(base::Reader& in);
};

/// Binds the calling thread, which runs rank `own`. Does nothing when a rank of the same machine is
/// bound already, or when the machine's ranks may use different processors. Throws
/// Error(invalid_argument), the same on all ranks, for a list with a processor that a rank may not
/// use.
void bindRank(const std::string& rule, std::span<const Unbound> ranks, int own);

} // namespace rondo::comm
