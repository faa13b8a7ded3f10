// The public class Communicator: turns each function into a Call.
#include "rondo/communicator.h"

#include <algorithm>
#include <exception>
#include <future>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "bootstrap/session.h"
#include "comm/call.h"
#include "comm/communicator_impl.h"
#include "comm/region.h"
#include "rondo/detail/shims.h"

namespace rondo {

using comm::UnevenCall;

Communicator::Communicator(std::shared_ptr<comm::CommunicatorImpl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}
Communicator::~Communicator() {
  if (impl_) impl_->close();
}

Communicator Communicator::create(const Rendezvous& meet, const Options& options) {
  options.validate();
  base::configureLog(options.log_level, options.log_file);
  return Communicator(
      comm::CommunicatorImpl::open(bootstrap::Session::open(meet, options), options, {}));
}

namespace {

/// Runs `make` on a new thread. A future that is kept also keeps `make`, which must therefore drop
/// its communicator at its end.
template <class Make>
auto onThread(Make make) {
  try {
    return std::async(std::launch::async, std::move(make));
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::system,
                std::string("cannot start a thread to create a communicator: ") + error.what());
  }
}

/// The same for an operation that all ranks of `parent` take part in: they do not wait for this
/// rank if there is no thread.
template <class Make>
auto onThread(comm::CommunicatorImpl& parent, Make make) {
  try {
    return onThread(std::move(make));
  } catch (const Error& error) {
    parent.abort(error.what());
    throw;
  }
}

} // namespace

std::vector<Communicator> Communicator::createAll(int size, const Options& given) {
  Options options = given;
  options.bind.clear(); // of threads that are gone when the ranks begin
  const Rendezvous meet = Rendezvous::inProcess(size);
  std::vector<std::future<Communicator>> made;
  try {
    for (int rank = 0; rank < size; ++rank) made.push_back(createAsync(meet.as(rank), options));
  } catch (const Error& error) {
    const auto rank = static_cast<int>(made.size());
    if (rank > 0)
      detail::Shims::decline(meet.as(rank), {error.code(), error.what(), rank}, options);
    throw;
  }
  std::vector<Communicator> all;
  std::exception_ptr first;
  for (std::future<Communicator>& one : made) {
    try {
      all.push_back(one.get());
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
  return all;
}

std::future<Communicator> Communicator::createAsync(const Rendezvous& meet,
                                                    const Options& options) {
  return onThread([meet, options] { return create(meet, options); });
}

std::future<std::optional<Communicator>> Communicator::splitAsync(int color, int key) {
  return onThread(*impl_,
                  [impl = impl_, color, key,
                   turn = impl_->nextTurn()]() mutable -> std::optional<Communicator> {
                    const auto own = std::move(impl);
                    auto made = own->split(color, key, turn);
                    if (!made) return std::nullopt;
                    return Communicator(std::move(made));
                  });
}

std::vector<std::vector<std::byte>> Communicator::exchange(std::span<const std::byte> own) {
  return impl_->exchange(own, impl_->nextTurn());
}

std::future<std::vector<std::vector<std::byte>>> Communicator::exchangeAsync(
    std::span<const std::byte> own) {
  return onThread(*impl_, [impl = impl_, own = std::vector(own.begin(), own.end()),
                           turn = impl_->nextTurn()]() mutable {
    const auto last = std::move(impl);
    return last->exchange(own, turn);
  });
}

Communicator Communicator::shrink(std::span<const int> excluded) {
  return Communicator(impl_->openChild(impl_->shrink(excluded), true));
}

std::future<Communicator> Communicator::shrinkAsync(std::span<const int> excluded) {
  return onThread(*impl_, [impl = impl_, session = impl_->shrink(excluded)]() mutable {
    const auto own = std::move(impl);
    return Communicator(own->openChild(std::move(session), true));
  });
}

Communicator Communicator::shrink() { return Communicator(impl_->shrink()); }

std::future<Communicator> Communicator::shrinkAsync() {
  return onThread(*impl_, [impl = impl_]() mutable {
    const auto own = std::move(impl);
    return Communicator(own->shrink());
  });
}

Communicator Communicator::grow(int newcomers) {
  return Communicator(impl_->grow(newcomers, std::nullopt, impl_->nextTurn()));
}

Communicator Communicator::grow(int newcomers, const UniqueId& id) {
  return Communicator(impl_->grow(newcomers, id, impl_->nextTurn()));
}

std::future<Communicator> Communicator::growAsync(int newcomers,
                                                  const std::optional<UniqueId>& id) {
  return onThread(*impl_, [impl = impl_, newcomers, id, turn = impl_->nextTurn()]() mutable {
    const auto own = std::move(impl);
    return Communicator(own->grow(newcomers, id, turn));
  });
}

std::future<Communicator> Communicator::joinAsync(const UniqueId& id, const Options& options) {
  return onThread([id, options] { return join(id, options); });
}

Communicator Communicator::join(const UniqueId& id, const Options& options) {
  options.validate();
  base::configureLog(options.log_level, options.log_file);
  return Communicator(
      comm::CommunicatorImpl::open(bootstrap::Session::join(id, options), options, {}));
}

std::optional<Error> Communicator::failure() const { return impl_->failure(); }

int Communicator::rank() const { return impl_->rank(); }
int Communicator::size() const { return impl_->size(); }

std::optional<Communicator> Communicator::split(int color, int key) {
  auto impl = impl_->split(color, key, impl_->nextTurn());
  if (!impl) return std::nullopt;
  return Communicator(std::move(impl));
}

void Communicator::abort(const std::string& reason) { impl_->abort(reason); }

void Communicator::setTimeout(std::chrono::milliseconds timeout) { impl_->setTimeout(timeout); }

void Communicator::setStream(Stream stream) { impl_->setStream(stream); }

Buffer Communicator::allocate(std::size_t bytes) {
  impl_->requireHostBuffers("allocate");
  return impl_->keep(comm::Region::allocate(bytes));
}

Buffer Communicator::registerBuffer(void* data, std::size_t bytes) {
  impl_->requireHostBuffers("registerBuffer");
  return impl_->keep(comm::Region::adopt(data, bytes));
}

bool Communicator::tracing() const { return impl_->tracing(); }
void Communicator::trace(const TraceSpan& span) { impl_->trace(span); }

std::string Communicator::algorithmFor(Collective collective, std::size_t count,
                                       DataType type) const {
  return impl_->planner().algorithmFor(collective, count, type);
}
Explanation Communicator::explain(const CollectiveCall& call) const {
  return impl_->planner().explain(call);
}
MemoryUse Communicator::memory() const { return impl_->memory(); }
const Place& Communicator::placeOf(int rank) const { return impl_->placeOf(rank); }
std::string Communicator::transportTo(int peer) const { return impl_->transportTo(peer); }

// Each collective in its blocking and its asynchronous form.

void Communicator::call(const CollectiveCall& call) {
  // All collectives before the barrier in collectives.def move data.
  static_assert(std::ranges::all_of(kCollectives, [](Collective c) {
    return c >= Collective::barrier || traits(c).movesData();
  }));
  if (call.collective >= Collective::barrier) {
    comm::checkCollective(call.collective);
    if (call.collective == Collective::barrier) return barrier(); // ignores count and type
  }
  impl_->call(call);
}
Work Communicator::callAsync(const CollectiveCall& call) {
  comm::checkCollective(call.collective);
  if (call.collective == Collective::barrier) return barrierAsync();
  return impl_->start(call);
}

namespace {

/// A Barrier ignores all arguments.
CollectiveCall used(const CollectiveCall& call) {
  return call.collective == Collective::barrier ? CollectiveCall() : call;
}

} // namespace

void Communicator::call(const CollectiveCall& call, std::string_view algorithm) {
  impl_->call(used(call), comm::CallPlanner::parse(call, algorithm));
}
Work Communicator::callAsync(const CollectiveCall& call, std::string_view algorithm) {
  const plan::Choice named = comm::CallPlanner::parse(call, algorithm);
  return impl_->start(used(call), &named);
}

#define RONDO_CALL(function, collective, parameters)                                         \
  void Communicator::function(const void* input, void* output, std::size_t count,            \
                              DataType type RONDO_PARAMETERS_##parameters) {                 \
    impl_->call(                                                                             \
        {Collective::collective, input, output, count, type, RONDO_ARGUMENTS_##parameters}); \
  }                                                                                          \
  Work Communicator::function##Async(const void* input, void* output, std::size_t count,     \
                                     DataType type RONDO_PARAMETERS_##parameters) {          \
    return impl_->start(                                                                     \
        {Collective::collective, input, output, count, type, RONDO_ARGUMENTS_##parameters}); \
  }
#include "rondo/detail/collectives.def"

namespace {

constexpr std::size_t kNone = 0;

/// The table of a buffer with one block. Keeps a reference to `count`.
Blocks single(const std::size_t& count) { return {{&count, 1}, {&kNone, 1}}; }

/// Count `i` of a table; 0 if the table is too short, which validate() refuses later.
const std::size_t& countOf(const Blocks& blocks, int i) {
  const auto at = static_cast<std::size_t>(i);
  return at < blocks.counts.size() ? blocks.counts[at] : kNone;
}

UnevenCall reduceScattervCall(int rank, const void* input, const Blocks& blocks, void* output,
                              DataType type, ReduceOp op) {
  const std::size_t& count = countOf(blocks, rank);
  return {{Collective::reducescatter, input, output, count, type, op}, blocks, single(count)};
}

UnevenCall scattervCall(int rank, const void* input, const Blocks& blocks, void* output,
                        const std::size_t& count, DataType type, int root) {
  return {{Collective::scatter, input, output, count, type, ReduceOp::sum, root},
          rank == root ? blocks : Blocks{},
          single(count)};
}

UnevenCall gathervCall(int rank, const void* input, const std::size_t& count, void* output,
                       const Blocks& blocks, DataType type, int root) {
  return {{Collective::gather, input, output, count, type, ReduceOp::sum, root},
          single(count),
          rank == root ? blocks : Blocks{}};
}

UnevenCall allGathervCall(const void* input, const std::size_t& count, void* output,
                          const Blocks& blocks, DataType type) {
  return {{Collective::allgather, input, output, count, type}, single(count), blocks};
}

UnevenCall allToAllvCall(const void* input, const Blocks& input_blocks, void* output,
                         const Blocks& output_blocks, DataType type) {
  return {{Collective::alltoall, input, output, 0, type}, input_blocks, output_blocks};
}

} // namespace

void Communicator::reduceScatterv(const void* input, Blocks blocks, void* output, DataType type,
                                  ReduceOp op) {
  impl_->call(reduceScattervCall(rank(), input, blocks, output, type, op));
}
Work Communicator::reduceScattervAsync(const void* input, Blocks blocks, void* output,
                                       DataType type, ReduceOp op) {
  return impl_->start(reduceScattervCall(rank(), input, blocks, output, type, op));
}

void Communicator::scatterv(const void* input, Blocks blocks, void* output, std::size_t count,
                            DataType type, int root) {
  impl_->call(scattervCall(rank(), input, blocks, output, count, type, root));
}
Work Communicator::scattervAsync(const void* input, Blocks blocks, void* output, std::size_t count,
                                 DataType type, int root) {
  return impl_->start(scattervCall(rank(), input, blocks, output, count, type, root));
}

void Communicator::gatherv(const void* input, std::size_t count, void* output, Blocks blocks,
                           DataType type, int root) {
  impl_->call(gathervCall(rank(), input, count, output, blocks, type, root));
}
Work Communicator::gathervAsync(const void* input, std::size_t count, void* output, Blocks blocks,
                                DataType type, int root) {
  return impl_->start(gathervCall(rank(), input, count, output, blocks, type, root));
}

void Communicator::allGatherv(const void* input, std::size_t count, void* output, Blocks blocks,
                              DataType type) {
  impl_->call(allGathervCall(input, count, output, blocks, type));
}
Work Communicator::allGathervAsync(const void* input, std::size_t count, void* output,
                                   Blocks blocks, DataType type) {
  return impl_->start(allGathervCall(input, count, output, blocks, type));
}

void Communicator::allToAllv(const void* input, Blocks input_blocks, void* output,
                             Blocks output_blocks, DataType type) {
  impl_->call(allToAllvCall(input, input_blocks, output, output_blocks, type));
}
Work Communicator::allToAllvAsync(const void* input, Blocks input_blocks, void* output,
                                  Blocks output_blocks, DataType type) {
  return impl_->start(allToAllvCall(input, input_blocks, output, output_blocks, type));
}

void Communicator::barrier() { impl_->call({}); }
Work Communicator::barrierAsync() { return impl_->start({}); }

void Communicator::send(const void* input, std::size_t count, DataType type, int peer) {
  impl_->call({Collective::sendrecv, input, nullptr, count, type, ReduceOp::sum, peer, true});
}
Work Communicator::sendAsync(const void* input, std::size_t count, DataType type, int peer) {
  return impl_->start(
      {Collective::sendrecv, input, nullptr, count, type, ReduceOp::sum, peer, true});
}
bool Communicator::arrived(int peer) { return impl_->arrived(peer); }

void Communicator::recv(void* output, std::size_t count, DataType type, int peer) {
  impl_->call({Collective::sendrecv, nullptr, output, count, type, ReduceOp::sum, peer, false});
}
Work Communicator::recvAsync(void* output, std::size_t count, DataType type, int peer) {
  return impl_->start(
      {Collective::sendrecv, nullptr, output, count, type, ReduceOp::sum, peer, false});
}

} // namespace rondo
