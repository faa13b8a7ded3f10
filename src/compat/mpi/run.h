// Runs one collective call: decides whether it is taken over or passed on, as a blocking call or as
// a request.
//
// A form describes an MPI call's arguments:
//   kFunction             its row of the statistics
//   refuse()              why Rondo cannot run it on any communicator; depends only on values that
//                         are the same on all ranks
//   refuse(counterpart)   why the MPI library must report an error
//   aliasError(counterpart)   the error class that this MPI library uses if both buffers are the
//                         same, or MPI_SUCCESS
//   bytes(rank, size)     bytes for the statistics
//   make(mode, counterpart, staging)   makes the call of Rondo: mode.call<blocking,
//   async>(arguments)
#pragma once

#include <memory>
#include <new>
#include <string>

#include "compat/mpi/communicators.h"
#include "compat/mpi/requests.h"
#include "compat/mpi/stats.h"
#include "rondo/error.h"

namespace rondo::compat {

/// Makes a collective without v-form; `Mode` has makeCall(at, call).
template <class Mode>
struct Makes {
  void make(Counterpart& at, Collective collective, const void* input, void* output,
            std::size_t count, DataType type, ReduceOp op, int root = 0) const {
    static_cast<const Mode&>(*this).makeCall(at,
                                             {collective, input, output, count, type, op, root});
  }
  void make(Counterpart& at, Collective collective, const void* input, void* output,
            std::size_t count, DataType type, int root = 0) const {
    make(at, collective, input, output, count, type, ReduceOp::sum, root);
  }
};

struct Now : Makes<Now> {
  void makeCall(Counterpart& at, const CollectiveCall& call) const { at.rondo->call(call); }
  template <auto blocking, auto async, class... Arguments>
  void call(Counterpart& at, Arguments... arguments) const {
    ((*at.rondo).*blocking)(arguments...);
  }
  void giveUp(Counterpart& at, const std::string& why) const { at.rondo->abort(why); }
};

struct Later : Makes<Later> {
  explicit Later(Work& to) : work(to) {}
  void makeCall(Counterpart& at, const CollectiveCall& call) const {
    work = at.immediate->callAsync(call);
  }
  Work& work;
  template <auto blocking, auto async, class... Arguments>
  void call(Counterpart& at, Arguments... arguments) const {
    work = ((*at.immediate).*async)(arguments...);
  }
  void giveUp(Counterpart& at, const std::string& why) const { at.immediate->abort(why); }
};

/// Makes the call. If this rank cannot, aborts the communicator, so that no rank waits for
/// it, and throws.
template <class Form, class Mode>
void takeTurn(const Form& form, Mode mode, Counterpart& at, Staging& staging) {
  try {
    const int alias_error = form.aliasError(at);
    const auto setApart = [&] {
      staging.setApart();
      if (alias_error != MPI_SUCCESS)
        staging.blame(alias_error, "the send buffer is the receive buffer");
    };
    if (alias_error != MPI_SUCCESS) [[unlikely]]
      setApart();
    try {
      form.make(mode, at, staging);
      return;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::invalid_argument) throw;
    }
    // Of the arguments only the buffers can be invalid for Rondo. This rank does not know whether
    // the other ranks' are valid, so it makes the call on separate memory.
    setApart();
    form.make(mode, at, staging);
  } catch (const CallFailure& failure) {
    mode.giveUp(at, failure.sentence);
    throw;
  } catch (const std::bad_alloc&) {
    mode.giveUp(at, "there is no memory for this rank's part of a call");
    throw;
  }
}

template <class Form>
Reason decide(Form& form, MPI_Comm comm, bool immediate, Counterpart*& at) {
  if (const Reason reason = form.refuse(); reason != Reason::none) return reason;
  // Making a counterpart waits for other ranks, which a nonblocking call must not do.
  at = counterpartFor(comm, !immediate);
  if (!at) {
    if (!communicatorsActive()) return Reason::inactive;
    if (BeingFreed::is(comm)) return Reason::being_freed;
    return immediate && comm != MPI_COMM_NULL ? Reason::early : Reason::erroneous;
  }
  if (at->refused != Reason::none) return at->refused;
  return form.refuse(*at);
}

/// Counts a call that the MPI library has made. The arguments are examined only if it succeeded, so
/// that the program gets no errors that the call itself does not have.
template <class Form>
int countPassedOn(const Form& form, MPI_Comm comm, bool immediate, Reason reason,
                  int result) noexcept {
  if (!statsWanted() || reason == Reason::inactive) return result;
  std::size_t bytes = 0;
  int inter = 1, rank = 0, size = 1;
  // The meaning of an intercommunicator's arguments is not examined.
  if (result == MPI_SUCCESS && reason != Reason::erroneous &&
      mpi().Comm_test_inter(comm, &inter) == MPI_SUCCESS && !inter) {
    mpi().Comm_rank(comm, &rank);
    mpi().Comm_size(comm, &size);
    try {
      bytes = form.bytes(rank, size);
    } catch (const MpiFailure&) {
      // The call itself has succeeded.
    }
  }
  countCall(Form::kFunction, immediate, reason, bytes);
  return result;
}

/// Runs the blocking form. `pass_on` calls the MPI library.
template <class Form, class PassOn>
int run(Form form, MPI_Comm comm, const PassOn& pass_on) noexcept {
  try {
    Counterpart* at = nullptr;
    if (const Reason reason = decide(form, comm, false, at); reason != Reason::none)
      return countPassedOn(form, comm, false, reason, pass_on());
    Staging staging(comm);
    takeTurn(form, Now{}, *at, staging);
    staging.finish();
    if (statsWanted()) [[unlikely]]
      countCall(Form::kFunction, false, Reason::none, form.bytes(at->rank, at->size));
    return MPI_SUCCESS;
  } catch (...) {
    return raise(comm, currentFailure(comm));
  }
}

/// Starts the nonblocking call.
template <class Form, class PassOn>
int start(Form form, MPI_Comm comm, MPI_Request* request, const PassOn& pass_on) noexcept {
  try {
    Counterpart* at = nullptr;
    Reason reason = decide(form, comm, true, at);
    if (reason == Reason::none && !request) reason = Reason::erroneous;
    if (reason != Reason::none) return countPassedOn(form, comm, true, reason, pass_on());
    auto pending = std::make_unique<Pending>(at->shared_from_this(), comm);
    takeTurn(form, Later{pending->work}, *at, pending->staging);
    if (statsWanted())
      countCall(Form::kFunction, true, Reason::none, form.bytes(at->rank, at->size));
    handOver(std::move(pending), request);
    return MPI_SUCCESS;
  } catch (...) {
    return raise(comm, currentFailure(comm));
  }
}

} // namespace rondo::compat
