// Ends an operation that an exception has left pending.
#pragma once

#include <chrono>
#include <exception>
#include <initializer_list>
#include <string>

#include "rondo/communicator.h"

namespace rondo::training {

/// For the destructor of an object whose memory the operation uses. If the operation is not done,
/// aborts the communicators (null ones are left out) and waits until it is. `ended`: what the
/// exception ended, for example "a step of this rank".
inline void endWork(Work& work, std::initializer_list<Communicator*> communicators,
                    const char* ended) noexcept {
  try {
    if (work.test()) return;
    for (Communicator* one : communicators)
      if (one != nullptr) one->abort(std::string("train: an exception ended ") + ended);
    work.waitFor(std::chrono::seconds(10)); // much longer than an abort takes
  } catch (const std::exception&) {         // the result no longer matters
  }
}

} // namespace rondo::training
