// The waits of the plan kernel. Every wait ends on a halt of its communicator, on the host's abort,
// and at the deadline.
#pragma once

#include <cstdint>

#include "device/launch.h"

namespace rondo::kernels::cuda {

// The structures of the host side, used in the kernels under the same names.
using device::Batch;
using device::flagOf;
using device::Job;
using device::kJobPlaces;
using device::kSweepMask;
using device::Label;
using device::labelFor;
using device::Lane;
using device::Launch;
using device::Packets;
using device::Place;
using device::Program;
using device::Protocol;
using device::Report;
using device::Ring;
using device::Segment;
using device::Step;

/// The observers of a write: the threads of this device, or also other devices and the host.
enum class Scope { device, system };

/// The position of a thread in the program, and how it waits.
template <class Block>
class Watch {
 public:
  RONDO_HOST_DEVICE Watch(const Launch& launch, Block& block, std::uint32_t index)
      : launch_(launch), block_(block), index_(index) {}

  RONDO_HOST_DEVICE void at(std::uint64_t tile, std::uint32_t step) {
    tile_ = tile;
    step_ = step;
  }

  /// Whether the launch may begin. A launch whose messages have all arrived would never check for
  /// the host's abort. That matters in two cases. If messages are lent, it accesses memory of other
  /// ranks, whose calls may have ended with the error by now. If the program has barriers, it
  /// writes to a window before its first wait, and the window may no longer exist.
  RONDO_HOST_DEVICE bool mayBegin() const {
    if (halted()) return false;
    const bool touches = launch_.program.lends || launch_.program.is_barrier;
    if (!touches || block_.thread() != 0 || !aborted()) return true;
    end({Report::Reason::aborted, Report::Awaited::lane, index_, step_, tile_, index_, 0});
    return false;
  }

  /// Polls until `done` returns true. False: the launch must end.
  template <class Done>
  RONDO_HOST_DEVICE bool until(const Done& done, Report::Awaited awaited,
                               std::uint32_t whom) const {
    std::uint64_t started = 0;
    for (std::uint32_t looks = 1; !done(); ++looks) {
      if (looks % Block::kLooks == 0 && !mayGoOn(started, awaited, whom)) return false;
      block_.pause(looks);
    }
    return true;
  }

  /// Ends the launch because a message of a channel, or the arrival of a rank at a barrier, belongs
  /// to another call. `difference`: of the two labels. Returns false.
  RONDO_HOST_DEVICE bool refuse(std::uint32_t channel, std::uint64_t difference,
                                Report::Awaited awaited = Report::Awaited::message) const {
    end({Report::Reason::mismatch, awaited, index_, step_, tile_, channel,
         launch_.signature ^ difference});
    return false;
  }

  /// Ends the launch because another launch of the communicator runs at the same time.
  RONDO_HOST_DEVICE void overlaps() const {
    end({Report::Reason::overlap, Report::Awaited::lane, index_, step_, tile_, index_, 0});
  }

 private:
  RONDO_HOST_DEVICE bool halted() const {
    return block_.template acquire<Scope::device>(&launch_.halt->halted) != 0;
  }
  RONDO_HOST_DEVICE bool aborted() const {
    return block_.template acquire<Scope::system>(&launch_.panel->abort) != 0;
  }

  /// The expensive poll, of words in remote memory. False: the launch must end.
  RONDO_HOST_DEVICE bool mayGoOn(std::uint64_t& started, Report::Awaited awaited,
                                 std::uint32_t whom) const {
    if (halted()) return false;
    Report::Reason reason = Report::Reason::none;
    const std::uint64_t now = block_.nanoseconds();
    if (started == 0) started = now;
    if (now - started > launch_.timeout_ns) reason = Report::Reason::timeout;
    if (aborted()) reason = Report::Reason::aborted;
    if (reason == Report::Reason::none) return true;
    end({reason, awaited, index_, step_, tile_, whom, 0});
    return false;
  }

  /// Ends the launch. The first thread that does so writes the report.
  RONDO_HOST_DEVICE void end(const Report& report) const {
    if (!block_.claim(&launch_.halt->halted)) return;
    launch_.panel->report = report;
    launch_.panel->report.plan = launch_.plan;
    launch_.panel->report.job = launch_.job;
    block_.template release<Scope::system>(&launch_.panel->ended, std::uint32_t{1});
  }

  const Launch& launch_;
  Block& block_;
  const std::uint32_t index_;
  std::uint32_t step_ = 0;
  std::uint64_t tile_ = 0;
};

} // namespace rondo::kernels::cuda
