// Measures pairs of ranks: all at the same time first, and those that look slow again, alone.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rondo/rondo.h"
#include "tools/doctor_job.h"

namespace rondo::tools {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPings = 8;
/// Pairs that look slow are measured again, at most this many times.
constexpr int kLooksAlone = 5;
/// Bytes that all pairs move together: about two seconds of one machine's memory.
constexpr std::size_t kTogether = std::size_t{1} << 30;
constexpr std::size_t kLeast = 64 << 10, kMost = 1 << 20;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

std::byte patternAt(std::size_t i, int from, int to) {
  return static_cast<std::byte>((i * 2654435761u >> 13) + static_cast<std::size_t>(from * 31 + to));
}

/// One rank's part in measuring its pairs.
class Pairs {
 public:
  Pairs(Communicator& comm, std::size_t bytes)
      : comm_(comm), all_(static_cast<std::size_t>(comm.size())), data_(bytes) {}

  /// Both ranks of a pair call it. Throws Error(mismatch) if data arrive wrong.
  void measure(int peer) {
    const bool first = comm_.rank() < peer;
    PairFacts& pair = all_[static_cast<std::size_t>(peer)];
    pair = {std::min(comm_.rank(), peer), std::max(comm_.rank(), peer)};
    exchangeByte(peer, first); // connects, and waits until the peer is here
    double trip = 1e9;
    for (int i = 0; i < kPings; ++i) {
      const auto begin = Clock::now();
      exchangeByte(peer, first);
      trip = std::min(trip, seconds(Clock::now() - begin));
    }
    pair.latency = trip / 2;
    for (const bool sends : {first, !first}) {
      fill(sends ? comm_.rank() : peer, sends ? peer : comm_.rank(), sends);
      exchangeByte(peer, first);
      const auto begin = Clock::now();
      if (!sends) {
        receiveAll(peer);
        continue;
      }
      sendAll(peer);
      pair.bandwidth =
          static_cast<double>(data_.size()) / std::max(seconds(Clock::now() - begin), 1e-9);
    }
  }
  /// By peer; the bandwidth is that from this rank.
  const std::vector<PairFacts>& all() const { return all_; }

 private:
  void exchangeByte(int peer, bool first) {
    std::uint64_t word = 0;
    if (first) comm_.send(&word, 8, DataType::uint8, peer);
    comm_.recv(&word, 8, DataType::uint8, peer);
    if (!first) comm_.send(&word, 8, DataType::uint8, peer);
  }
  void fill(int from, int to, bool right) {
    for (std::size_t i = 0; i < data_.size(); i += 64)
      data_[i] = right ? patternAt(i, from, to) : ~patternAt(i, from, to);
  }
  void sendAll(int peer) {
    comm_.send(data_.data(), data_.size(), DataType::uint8, peer);
    std::uint64_t word = 0;
    comm_.recv(&word, 8, DataType::uint8, peer); // has arrived
  }
  void receiveAll(int peer) {
    std::uint64_t word = 0;
    comm_.recv(data_.data(), data_.size(), DataType::uint8, peer);
    comm_.send(&word, 8, DataType::uint8, peer);
    for (std::size_t i = 0; i < data_.size(); i += 64)
      if (data_[i] != patternAt(i, peer, comm_.rank()))
        throw Error(ErrorCode::mismatch, "byte " + std::to_string(i) + " of a message from rank " +
                                             std::to_string(peer) + " to rank " +
                                             std::to_string(comm_.rank()) + " is wrong");
  }

  Communicator& comm_;
  std::vector<PairFacts> all_;
  std::vector<std::byte> data_;
};

/// The peer of a rank in a round of a tournament in which every pair meets once; -1: none.
int peerIn(int round, int rank, int ranks) {
  const int even = ranks + ranks % 2, last = even - 1;
  int peer = 0;
  if (rank == last) {
    for (peer = 0; peer < last; ++peer)
      if ((2 * peer) % last == round % last) break;
  } else {
    peer = ((round - rank) % last + last) % last;
    if (peer == rank) peer = last;
  }
  return peer < ranks && peer != rank ? peer : -1;
}

template <class T>
std::span<const std::byte> bytesOf(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// What all ranks have measured: the slower direction of each pair. Collective.
std::vector<PairFacts> gathered(Communicator& comm, const std::vector<PairFacts>& own) {
  std::vector<PairFacts> mine;
  for (const PairFacts& pair : own)
    if (pair.bandwidth > 0) mine.push_back(pair);
  std::map<std::pair<int, int>, PairFacts> all;
  constexpr std::size_t kPart = 16384 / sizeof(PairFacts);
  for (std::size_t from = 0; from < own.size(); from += kPart) {
    const std::size_t begin = std::min(mine.size(), from);
    const std::size_t count = std::min(mine.size() - begin, kPart);
    for (const auto& blob : comm.exchange(
             bytesOf(mine).subspan(begin * sizeof(PairFacts), count * sizeof(PairFacts)))) {
      std::vector<PairFacts> theirs(blob.size() / sizeof(PairFacts));
      std::memcpy(theirs.data(), blob.data(), theirs.size() * sizeof(PairFacts));
      for (const PairFacts& pair : theirs) {
        const auto [at, fresh] = all.try_emplace({pair.a, pair.b}, pair);
        if (fresh) continue;
        at->second.bandwidth = std::min(at->second.bandwidth, pair.bandwidth);
        at->second.latency = std::min(at->second.latency, pair.latency);
      }
    }
  }
  std::vector<PairFacts> pairs;
  for (const auto& [ranks, pair] : all) pairs.push_back(pair);
  return pairs;
}

/// The error that a rank has got, the first one; empty if none has. Collective on `control`.
template <class Body>
std::string attempt(Communicator& control, const Body& body) {
  std::string own;
  try {
    body();
  } catch (const Error& error) {
    own = std::string(error.what()).substr(0, 8192);
  }
  for (const auto& blob : control.exchange(std::as_bytes(std::span(own))))
    if (!blob.empty()) return {reinterpret_cast<const char*>(blob.data()), blob.size()};
  return {};
}

/// The pair was measured alone. The best of such measurements counts: what other programs take from
/// a link they take for a moment.
void keepBetter(LinkFacts& links, PairFacts one) {
  one.alone = true;
  for (PairFacts& pair : links.pairs) {
    if (pair.a != one.a || pair.b != one.b) continue;
    if (pair.alone) {
      one.bandwidth = std::max(one.bandwidth, pair.bandwidth);
      one.latency = std::min(one.latency, pair.latency);
    }
    pair = one;
  }
}

/// Measures the pairs of `comm` for which wanted() holds. Returns why that failed, if it did.
/// Collective; `control` has the same ranks.
template <class Wanted>
std::string measureOn(Communicator& control, Communicator& comm, const std::string& way,
                      const Wanted& wanted, JobFacts& job) {
  const auto ranks = static_cast<std::size_t>(comm.size());
  Pairs pairs(comm, std::clamp(kTogether / (ranks * ranks), kLeast, kMost));
  std::string why = attempt(control, [&] {
    for (int round = 0; round < comm.size() + comm.size() % 2 - 1; ++round)
      if (const int peer = peerIn(round, comm.rank(), comm.size());
          peer >= 0 && wanted(comm.rank(), peer))
        pairs.measure(peer);
  });
  if (!why.empty()) return why;
  // Every rank has the same data from here on, and judges them alike.
  LinkFacts links{way, gathered(control, pairs.all())};
  const std::set<int> repeated = ranksToRepeat(job.ranks, links);
  for (int look = 0; look < kLooksAlone; ++look) {
    if (!suspicious(job.ranks, links)) break;
    Pairs alone(comm, kMost);
    why = attempt(control, [&] {
      for (const PairFacts& pair : links.pairs) {
        if (!repeated.contains(pair.a) || !repeated.contains(pair.b)) continue;
        comm.barrier();
        if (comm.rank() == pair.a) alone.measure(pair.b);
        if (comm.rank() == pair.b) alone.measure(pair.a);
      }
    });
    if (!why.empty()) return why;
    for (const PairFacts& one : gathered(control, alone.all())) keepBetter(links, one);
  }
  job.links.push_back(links);
  return {};
}

/// Measures on a new communicator with these options; notes if that fails. `way`: its name; empty:
/// that of the transport to a rank on the same node.
template <class Wanted>
void measureBy(Communicator& control, const Options& options, std::string way, const Wanted& wanted,
               JobFacts& job) {
  UniqueId id;
  std::optional<Communicator> comm;
  std::string why = attempt(control, [&] {
    if (control.rank() == 0) id = UniqueId::create(Options::fromEnvironment());
  });
  if (why.empty()) {
    std::memcpy(id.bytes.data(), control.exchange(id.bytes).at(0).data(), id.bytes.size());
    why = attempt(control, [&] {
      comm.emplace(
          Communicator::create(Rendezvous::uniqueId(id, control.rank(), control.size()), options));
    });
  }
  if (why.empty() && way.empty()) {
    std::string own;
    for (int peer = 0; peer < comm->size() && own.empty(); ++peer)
      if (peer != comm->rank() && wanted(comm->rank(), peer)) own = comm->transportTo(peer);
    for (const auto& blob : control.exchange(std::as_bytes(std::span(own))))
      if (way.empty()) way.assign(reinterpret_cast<const char*>(blob.data()), blob.size());
  }
  if (why.empty()) why = measureOn(control, *comm, way, wanted, job);
  if (why.empty()) return;
  job.failed.push_back(
      {true, "link",
       "the ranks cannot communicate" + (way.empty() ? "" : " by " + way) + ": " + why,
       "allow connections between these hosts on all ports (firewall), or name an interface that "
       "all of them reach in RONDO_SOCKET_IFNAME"});
}

/// What the first rank with such a setting has set; empty if none has. Collective.
std::string anyInterface(Communicator& comm, const std::string& own) {
  for (const auto& blob : comm.exchange(std::as_bytes(std::span(own))))
    if (!blob.empty()) return {reinterpret_cast<const char*>(blob.data()), blob.size()};
  return {};
}

/// The interfaces that all hosts have.
std::vector<std::string> commonInterfaces(const std::vector<RankFacts>& ranks) {
  std::vector<std::string> common = ranks.front().interfaces;
  for (const RankFacts& rank : ranks)
    std::erase_if(common, [&](const std::string& name) {
      return std::count(rank.interfaces.begin(), rank.interfaces.end(), name) == 0;
    });
  return common;
}

} // namespace

void measureLinks(Communicator& comm, JobFacts& job) {
  const auto together = [&](int a, int b) {
    return job.ranks[static_cast<std::size_t>(a)].node ==
           job.ranks[static_cast<std::size_t>(b)].node;
  };
  std::set<std::string> nodes;
  for (const RankFacts& rank : job.ranks) nodes.insert(rank.node);
  const bool apart = nodes.size() > 1;
  Options options = Options::fromEnvironment();
  options.init_timeout = options.timeout = std::chrono::seconds(10);
  options.trace_folder.clear();
  options.dump_folder.clear();
  options.device = -1;
  if (static_cast<int>(nodes.size()) < comm.size()) measureBy(comm, options, "", together, job);
  options.transports = "tcp";
  const std::string given = anyInterface(comm, options.socket_interface);
  std::vector<std::string> interfaces{""};
  if (apart && given.empty() && !commonInterfaces(job.ranks).empty())
    interfaces = commonInterfaces(job.ranks);
  for (const std::string& interface : interfaces) {
    if (!job.failed.empty()) return;
    const std::string named = interface.empty() ? given : interface;
    if (!interface.empty()) options.socket_interface = "=" + interface;
    measureBy(
        comm, options, "tcp" + (named.empty() ? "" : " over " + named),
        [&](int a, int b) { return !apart || !together(a, b); }, job);
  }
}

} // namespace rondo::tools
