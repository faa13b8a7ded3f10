// The control plane of ranks that are threads of one process: no sockets and no thread of its own.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/condition.h"
#include "base/fork.h"
#include "bootstrap/ledger.h"
#include "bootstrap/session.h"

namespace rondo::bootstrap {

/// The data that all communicators of a group share.
struct LocalJob {
  std::uint64_t job = 0;
  net::Secret secret;
  std::shared_ptr<base::Board> board;
};

/// One communicator, shared by its ranks' sessions. Any thread may call any function.
class LocalCommunicator {
 public:
  /// `members`: see Session::members().
  LocalCommunicator(std::shared_ptr<const LocalJob> job, std::uint64_t id,
                    std::vector<int> members);

  /// Exchanges blobs. Throws the communicator's failure. After the deadline it fails the
  /// communicator with `late` and the missing ranks, because the ranks would no longer agree which
  /// exchange is next.
  std::shared_ptr<const Round> gather(int rank, std::uint64_t index, bool is_split,
                                      std::vector<std::byte> blob, std::chrono::milliseconds limit,
                                      const Failure& late);
  std::unique_ptr<Session> split(int rank, std::uint64_t index, int color, int key,
                                 std::chrono::milliseconds limit, const Failure& late,
                                 const net::SocketAddress& bind);
  /// `index`: see shrunkId().
  std::unique_ptr<Session> shrink(int rank, std::uint64_t index, const std::vector<bool>& stay,
                                  const net::SocketAddress& bind);
  std::unique_ptr<Session> survivors(int rank, std::chrono::milliseconds limit,
                                     const net::SocketAddress& bind);
  Failure fail(int rank, const Failure& failure, const std::optional<Stall>& stall);
  void stalled(int rank, const Stall& stall);
  void leave(int rank);

  std::uint64_t id() const { return id_; }
  int size() const { return ledger_.size(); }
  const std::vector<int>& members() const { return members_; }
  const LocalJob& job() const { return *job_; }
  const std::atomic<std::uint32_t>& failedWord() const { return failed_; }
  Failure failure() const;
  ProgressBoard& board(int rank) { return *boards_[static_cast<std::size_t>(rank)]; }

 private:
  struct Children {
    std::map<int, std::vector<int>> ranks; ///< by color
    std::map<int, std::shared_ptr<LocalCommunicator>> communicators;
    int unclaimed = 0;
  };
  struct Shrunk {
    std::shared_ptr<LocalCommunicator> communicator;
    std::size_t unclaimed = 0;
  };
  /// Ranks that want a communicator of those that have not left.
  struct Agreement {
    std::vector<bool> asking;
    std::shared_ptr<LocalCommunicator> communicator; ///< null: some have not asked yet
  };
  std::vector<int> membersOf(const std::vector<bool>& stay) const;
  void agreeLocked();
  void failLocked(Failure failure);
  void readBoards();

  const base::Maker maker_;
  const std::shared_ptr<const LocalJob> job_;
  const std::uint64_t id_;
  const std::vector<int> members_;
  std::vector<std::unique_ptr<ProgressBoard>> boards_;
  std::atomic<std::uint32_t> failed_{0};
  mutable std::mutex mutex_;
  base::Condition changed_;
  Ledger ledger_;                            // guarded by mutex_, but for its size
  std::map<std::uint64_t, Children> splits_; // guarded by mutex_
  std::map<std::uint64_t, Shrunk> shrunk_;   // guarded by mutex_, by the child's id
  std::shared_ptr<Agreement> agreement_;     // guarded by mutex_; the open one, or null
  std::uint64_t agreements_ = 0;             // guarded by mutex_
};

/// The object of Rendezvous::inProcess(). Each round of open() by all ranks makes a communicator.
class LocalGroup {
 public:
  explicit LocalGroup(int size);

  /// Returns when all ranks have called it. Throws Error(init_failed) with the missing ranks; later
  /// callers get the same error. Throws Error(invalid_argument) if the rank is already in open().
  std::unique_ptr<Session> open(int rank, const Options& options);
  /// Makes open() throw `why` from now on.
  void decline(int rank, const Failure& why) { world_->fail(rank, why, {}); }

 private:
  const std::shared_ptr<LocalCommunicator> world_;
  std::mutex mutex_;
  std::vector<bool> opening_;
  std::vector<std::uint64_t> opened_;
};

} // namespace rondo::bootstrap
