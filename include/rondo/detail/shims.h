// Functions for the libraries that offer Rondo as MPI, NCCL, Python or torch (src/compat). Not part
// of the public API.
#pragma once

#include <functional>
#include <string>

#include "rondo/communicator.h"
#include "rondo/error.h"
#include "rondo/export.h"
#include "rondo/options.h"
#include "rondo/rendezvous.h"
#include "rondo/work.h"

namespace rondo::detail {

struct RONDO_API Shims {
  /// Sets a function that threads call while they wait in a call of this communicator, for programs
  /// that have a progress engine of their own. It is called repeatedly, in place of sleeping, once
  /// a wait has lasted about 50 us; Rondo's own threads never call it. It must return soon, and
  /// must not throw. It may itself wait for calls and futures, also of this communicator; it is not
  /// called again on that thread meanwhile. Do not set it while a call is in flight. Communicators
  /// that are made from this one do not have it.
  static void whileWaiting(Communicator& comm, std::function<void()> poll);

  /// If this rank has calls in flight, ends them and every later call of every rank, as abort()
  /// does; the text also names this rank's first call in flight. For a program that fails.
  static void abandon(Communicator& comm, const std::string& why);

  /// Tells the other ranks that this rank will not join: their Communicator::create() throws this
  /// Error, whether they wait already or call it later. If `why` has no culprit, this rank is it.
  /// Waits for the rendezvous, at most for Options::init_timeout. Communicators that this
  /// Rendezvous has made before go on; it cannot make another one. Throws Error(init_failed) if the
  /// rendezvous cannot be reached. If it is lost after that, the others wait until their deadline.
  static void decline(const Rendezvous& meet, const Error& why, const Options& options);

  /// Does what work.test() does, but makes no progress.
  static bool ended(const Work& work);
};

} // namespace rondo::detail
