// Keeps the list of this process's communicators.
#include "comm/communicators.h"

#include <sys/types.h>
#include <unistd.h>

#include <mutex>
#include <utility>
#include <vector>

#include "comm/communicator_impl.h"

namespace rondo::comm {

namespace {

struct All {
  const pid_t process = ::getpid();
  std::mutex mutex;
  std::vector<std::weak_ptr<CommunicatorImpl>> communicators;
};
All& all() {
  static auto& one = *new All; // never destroyed: programs may call while they exit
  return one;
}

} // namespace

void Communicators::add(std::weak_ptr<CommunicatorImpl> one) {
  if (::getpid() != all().process) return;
  const std::lock_guard lock(all().mutex);
  std::erase_if(all().communicators, [](const auto& known) { return known.expired(); });
  all().communicators.push_back(std::move(one));
}

void Communicators::refuseInUse(std::span<const std::byte> memory, const std::string& what) {
  if (::getpid() != all().process) return; // another thread may have held the mutex at the fork
  std::vector<std::weak_ptr<CommunicatorImpl>> communicators;
  {
    const std::lock_guard lock(all().mutex);
    communicators = all().communicators;
  }
  for (const auto& one : communicators)
    if (const auto communicator = one.lock()) communicator->refuseInUse(memory, what);
}

} // namespace rondo::comm
