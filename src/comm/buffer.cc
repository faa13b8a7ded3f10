// Implements the public handle of shared memory.
#include "rondo/buffer.h"

#include <utility>

#include "base/log.h"
#include "comm/communicator_impl.h"
#include "comm/region.h"
#include "rondo/error.h"

namespace rondo {

namespace {
constexpr char kReleased[] = "Buffer: released";
}

Buffer::Buffer() = default;
Buffer Buffer::allocate(std::size_t bytes) { return {{}, comm::Region::allocate(bytes)}; }
Buffer::Buffer(std::weak_ptr<comm::CommunicatorImpl> communicator,
               std::shared_ptr<comm::Region> region)
    : communicator_(std::move(communicator)), region_(std::move(region)) {}
Buffer::Buffer(Buffer&& other) noexcept = default;
Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(communicator_, other.communicator_);
  std::swap(region_, other.region_);
  return *this;
}

Buffer::~Buffer() {
  try {
    release();
  } catch (const Error& error) {
    base::log(LogLevel::error, error.what());
    // Leaks on purpose: the call in flight goes on reading and writing the memory.
    static_cast<void>(new std::shared_ptr<comm::Region>(std::move(region_)));
  }
}

void* Buffer::data() const { return region_ ? region_->data() : nullptr; }
std::size_t Buffer::size() const { return region_ ? region_->size() : 0; }

void Buffer::release() {
  if (!region_) return;
  // Registered memory is the program's, so calls of other communicators may rightly use it.
  if (region_->adopted()) {
    comm::Region::drop(region_, kReleased);
  } else if (const auto communicator = communicator_.lock()) {
    communicator->refuseInUse(region_->memory(), kReleased);
  }
  region_.reset();
  communicator_.reset();
}

} // namespace rondo
