// Passes Rondo's id from rank 0 to the other ranks through torch's store.
#include "compat/torch/meeting.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "rondo/error.h"
#include "rondo/rendezvous.h"

namespace rondo::compat {

namespace {

constexpr const char* kKey = "rondo_id";

UniqueId give(c10d::Store& store, const Options& options) {
  try {
    const UniqueId id = UniqueId::create(options);
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(id.bytes.data());
    store.set(kKey, std::vector<std::uint8_t>(bytes, bytes + id.bytes.size()));
    return id;
  } catch (const Error& error) {
    store.set(kKey, error.what()); // not as long as an id, so the readers see that it is an error
    throw;
  }
}

UniqueId take(c10d::Store& store, const Options& options) {
  UniqueId id;
  const auto began = std::chrono::steady_clock::now();
  try {
    store.wait({kKey}, options.init_timeout); // the store's own timeout may be different
  } catch (const c10::Error& error) {
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(
        std::chrono::steady_clock::now() - began);
    const std::string how = waited >= options.init_timeout * 9 / 10
                                ? "timed out after " + std::to_string(waited.count()) +
                                      " ms: rank 0 did not come; its id is not in the store: "
                                : "failed: the store cannot be read: ";
    throw Error(ErrorCode::init_failed,
                "waiting for rank 0 " + how + error.what_without_backtrace(), 0);
  }
  const std::vector<std::uint8_t> bytes = store.get(kKey);
  if (bytes.size() != id.bytes.size())
    throw Error(ErrorCode::init_failed,
                "rank 0 made no id: " + std::string(bytes.begin(), bytes.end()), 0);
  std::memcpy(id.bytes.data(), bytes.data(), bytes.size());
  return id;
}

} // namespace

Communicator meet(c10d::Store& store, int rank, int size, const Options& options) {
  if (rank < 0 || rank >= size)
    throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(rank) + " is not one of " +
                                                 std::to_string(size) + " ranks (0 to " +
                                                 std::to_string(size - 1) + ")");
  if (size == 1) return Communicator::create(Rendezvous::inProcess(1).as(0), options);
  const UniqueId id = rank == 0 ? give(store, options) : take(store, options);
  Communicator comm = Communicator::create(Rendezvous::uniqueId(id, rank, size), options);
  if (rank == 0) store.deleteKey(kKey);
  comm.barrier(); // so that no rank can read the old id again for the next group
  return comm;
}

} // namespace rondo::compat
