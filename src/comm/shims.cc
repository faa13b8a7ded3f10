// Functions for the libraries that offer Rondo as MPI, NCCL, Python or torch.
#include "rondo/detail/shims.h"

#include <string>
#include <utility>

#include "bootstrap/session.h"
#include "comm/communicator_impl.h"
#include "comm/work_state.h"

namespace rondo::detail {

void Shims::whileWaiting(Communicator& comm, std::function<void()> poll) {
  comm.impl_->progressLoop().whileWaiting(std::move(poll));
}

void Shims::abandon(Communicator& comm, const std::string& why) { comm.impl_->abandon(why); }

void Shims::decline(const Rendezvous& meet, const Error& why, const Options& options) {
  options.validate();
  const int culprit = why.culprit() < 0 ? meet.rank() : why.culprit();
  bootstrap::Session::decline(meet, {why.code(), why.what(), culprit}, options);
}

bool Shims::ended(const Work& work) { return comm::WorkState::ended(work); }

} // namespace rondo::detail
