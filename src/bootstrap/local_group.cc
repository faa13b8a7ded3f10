// In-process sessions, with one mutex and one condition variable per communicator.
#include "bootstrap/local_group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/awake.h"
#include "base/log.h"
#include "base/random.h"

namespace rondo::bootstrap {

namespace {

net::SocketAddress loopback(const Options& options) {
  net::SocketAddress address;
  if (options.socket_family == "AF_INET6") {
    address.family = net::SocketAddress::Family::inet6;
    address.ip[15] = std::byte{1};
  } else {
    address.ip[0] = std::byte{127};
    address.ip[3] = std::byte{1};
  }
  return address;
}

std::shared_ptr<const LocalJob> makeJob() {
  auto job = std::make_shared<LocalJob>();
  job->job = base::randomNumber();
  job->secret = net::Secret::random();
  job->board = std::make_shared<base::Board>();
  return job;
}

class LocalSession final : public Session {
 public:
  LocalSession(std::shared_ptr<LocalCommunicator> communicator, int rank,
               const net::SocketAddress& bind)
      : communicator_(std::move(communicator)), rank_(rank), bind_(bind) {}
  ~LocalSession() override { communicator_->leave(rank_); }

  int rank() const override { return rank_; }
  int size() const override { return communicator_->size(); }
  std::vector<int> members() const override { return communicator_->members(); }
  std::uint64_t communicator() const override { return communicator_->id(); }
  std::uint64_t job() const override { return communicator_->job().job; }
  const net::Secret& secret() const override { return communicator_->job().secret; }
  net::SocketAddress bindAddress() const override { return bind_; }
  std::shared_ptr<base::Board> board() const override { return communicator_->job().board; }

  Blobs gather(std::vector<std::byte> blob, std::chrono::milliseconds limit,
               const Failure& late) override {
    return communicator_
        ->gather(rank_, exchanges_.fetch_add(1), false, std::move(blob), limit, late)
        ->blobs;
  }

  std::unique_ptr<Session> split(int color, int key, std::chrono::milliseconds limit) override {
    const Failure late{ErrorCode::timeout, "split timed out after " + base::text(limit), -1};
    return communicator_->split(rank_, exchanges_.fetch_add(1), color, key, limit, late, bind_);
  }

  void told() override {} // logs only differences that no call reported

  std::unique_ptr<Session> shrink(const std::vector<bool>& stay) override {
    std::uint64_t index = 0;
    {
      std::lock_guard lock(mutex_);
      index = shrunk_[stay]++;
    }
    return communicator_->shrink(rank_, index, stay, bind_);
  }

  void finishOpening(std::chrono::milliseconds limit) override {
    const Failure late{ErrorCode::timeout, "shrink() timed out after " + base::text(limit), -1};
    communicator_->gather(rank_, exchanges_.fetch_add(1), false, {}, limit, late);
  }

  std::unique_ptr<Session> survivors(std::chrono::milliseconds limit) override {
    return communicator_->survivors(rank_, limit, bind_);
  }

  const std::atomic<std::uint32_t>& failedWord() const override {
    return communicator_->failedWord();
  }
  Failure failure() const override { return communicator_->failure(); }
  ProgressBoard& progress() override { return communicator_->board(rank_); }
  void stalled(const Stall& stall) override { communicator_->stalled(rank_, stall); }
  Failure fail(const Failure& failure, const std::optional<Stall>& stall) override {
    return communicator_->fail(rank_, failure, stall);
  }

 private:
  const std::shared_ptr<LocalCommunicator> communicator_;
  const int rank_;
  const net::SocketAddress bind_;
  std::atomic<std::uint64_t> exchanges_{0};
  std::mutex mutex_;
  // Guarded by mutex_: number of shrinks, by staying ranks.
  std::map<std::vector<bool>, std::uint64_t> shrunk_;
};

std::vector<int> allOf(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

} // namespace

LocalCommunicator::LocalCommunicator(std::shared_ptr<const LocalJob> job, std::uint64_t id,
                                     std::vector<int> members)
    : job_(std::move(job)),
      id_(id),
      members_(std::move(members)),
      ledger_(static_cast<int>(members_.size())) {
  for (std::size_t rank = 0; rank < members_.size(); ++rank)
    boards_.push_back(std::make_unique<ProgressBoard>());
}

std::vector<int> LocalCommunicator::membersOf(const std::vector<bool>& stay) const {
  std::vector<int> left;
  for (std::size_t rank = 0; rank < members_.size(); ++rank)
    if (stay[rank]) left.push_back(members_[rank]);
  return left;
}

std::shared_ptr<const Round> LocalCommunicator::gather(int rank, std::uint64_t index, bool is_split,
                                                       std::vector<std::byte> blob,
                                                       std::chrono::milliseconds limit,
                                                       const Failure& late) {
  std::unique_lock lock(mutex_);
  if (ledger_.failure()) throw ledger_.failure()->error();
  const std::shared_ptr<Round> round = ledger_.round(index);
  if (const auto verdict = ledger_.contributing(rank, *round, is_split)) failLocked(*verdict);
  else round->contribute(rank, is_split, std::move(blob));
  if (round->complete()) {
    ledger_.forgetRound(index);
    changed_->notify_all();
  }
  const bool ended = base::waitAwake(changed_, lock, limit,
                                     [&] { return round->complete() || ledger_.failure(); });
  if (!ended) failLocked(ledger_.completeRound(late, index));
  // An exchange that is complete returns its result, even if something failed after it.
  if (!round->complete()) throw ledger_.failure()->error();
  return round;
}

std::unique_ptr<Session> LocalCommunicator::split(int rank, std::uint64_t index, int color, int key,
                                                  std::chrono::milliseconds limit,
                                                  const Failure& late,
                                                  const net::SocketAddress& bind) {
  const auto round = gather(rank, index, true, encodeSplit(color, key), limit, late);
  std::lock_guard lock(mutex_);
  const auto [found, first] = splits_.try_emplace(index);
  Children& children = found->second;
  if (first) {
    std::vector<std::pair<int, int>> color_key;
    for (const auto& blob : round->blobs) color_key.push_back(decodeSplit(blob));
    children.ranks = splitGroups(color_key);
    children.unclaimed = size();
    for (const auto& [of, ranks] : children.ranks) {
      std::vector<int> members;
      for (const int of_this : ranks)
        members.push_back(members_[static_cast<std::size_t>(of_this)]);
      children.communicators[of] =
          std::make_shared<LocalCommunicator>(job_, childId(id_, index, of), std::move(members));
    }
  }
  std::unique_ptr<Session> session;
  if (const auto group = children.ranks.find(color); group != children.ranks.end()) {
    for (std::size_t at = 0; at < group->second.size(); ++at)
      if (group->second[at] == rank)
        session = std::make_unique<LocalSession>(children.communicators[color],
                                                 static_cast<int>(at), bind);
  }
  if (--children.unclaimed == 0) splits_.erase(found);
  return session;
}

std::unique_ptr<Session> LocalCommunicator::shrink(int rank, std::uint64_t index,
                                                   const std::vector<bool>& stay,
                                                   const net::SocketAddress& bind) {
  const auto staying = static_cast<std::size_t>(std::count(stay.begin(), stay.end(), true));
  const auto own = std::count(stay.begin(), stay.begin() + rank, true);
  const std::uint64_t id = shrunkId(id_, index, stay);
  std::lock_guard lock(mutex_);
  const auto [found, first] = shrunk_.try_emplace(id);
  if (first)
    found->second = {std::make_shared<LocalCommunicator>(job_, id, membersOf(stay)), staying};
  auto session =
      std::make_unique<LocalSession>(found->second.communicator, static_cast<int>(own), bind);
  if (--found->second.unclaimed == 0) shrunk_.erase(found);
  return session;
}

std::unique_ptr<Session> LocalCommunicator::survivors(int rank, std::chrono::milliseconds limit,
                                                      const net::SocketAddress& bind) {
  std::unique_lock lock(mutex_);
  if (!agreement_) {
    agreement_ = std::make_shared<Agreement>();
    agreement_->asking.resize(boards_.size());
  }
  const std::shared_ptr<Agreement> agreement = agreement_;
  agreement->asking[static_cast<std::size_t>(rank)] = true;
  agreeLocked();
  if (!base::waitAwake(changed_, lock, limit, [&] { return agreement->communicator != nullptr; })) {
    agreement->asking[static_cast<std::size_t>(rank)] = false;
    throw Error(ErrorCode::timeout, "shrink() timed out after " + base::text(limit) +
                                        ": a rank that lives has not called it");
  }
  const auto& asking = agreement->asking;
  const auto own = std::count(asking.begin(), asking.begin() + rank, true);
  return std::make_unique<LocalSession>(agreement->communicator, static_cast<int>(own), bind);
}

void LocalCommunicator::agreeLocked() {
  if (!agreement_) return;
  std::vector<bool>& asking = agreement_->asking;
  for (std::size_t rank = 0; rank < asking.size(); ++rank) {
    if (ledger_.hasLeft(static_cast<int>(rank))) asking[rank] = false;
    else if (!asking[rank]) return;
  }
  agreement_->communicator =
      std::make_shared<LocalCommunicator>(job_, agreedId(id_, 0, ++agreements_), membersOf(asking));
  agreement_.reset();
  changed_->notify_all();
}

Failure LocalCommunicator::fail(int rank, const Failure& failure,
                                const std::optional<Stall>& stall) {
  std::lock_guard lock(mutex_);
  if (!ledger_.failure()) {
    readBoards();
    const bool ask = failure.code == ErrorCode::timeout || failure.code == ErrorCode::mismatch;
    const auto verdict = ask ? ledger_.different() : std::nullopt;
    failLocked(verdict ? *verdict : ledger_.completeTimeout(failure, rank, stall));
  }
  return *ledger_.failure();
}

void LocalCommunicator::stalled(int rank, const Stall& stall) {
  std::lock_guard lock(mutex_);
  if (ledger_.failure()) return;
  readBoards();
  if (const auto different = ledger_.different()) failLocked(*different);
  else if (const auto verdict = ledger_.stalled(rank, stall)) failLocked(*verdict);
}

void LocalCommunicator::leave(int rank) {
  if (maker_.elsewhere()) return;
  std::lock_guard lock(mutex_);
  readBoards();
  if (!ledger_.failure()) {
    if (const auto verdict = ledger_.different()) {
      failLocked(*verdict);
      base::log(LogLevel::error, "a communicator ended in an error: ", ledger_.failure()->text);
    }
  }
  if (const auto verdict = ledger_.leave(rank)) failLocked(*verdict);
  agreeLocked();
}

Failure LocalCommunicator::failure() const {
  std::lock_guard lock(mutex_);
  return ledger_.failure().value_or(Failure{});
}

void LocalCommunicator::failLocked(Failure failure) {
  if (failure.difference) {
    const ProgressBoard& odd = *boards_[static_cast<std::size_t>(failure.difference->odd)];
    failure.text = failure.difference->text(odd.describe.load());
  }
  if (!ledger_.fail(failure)) return;
  raise(failed_);
  changed_->notify_all();
  // Ranks that have closed are not told.
  const auto last = std::find_if(boards_.rbegin(), boards_.rend(),
                                 [](const auto& board) { return board->failed.listens(); });
  for (const auto& board : boards_)
    board->failed.tell(*ledger_.failure(), last != boards_.rend() && board == *last);
}

void LocalCommunicator::readBoards() {
  for (int rank = 0; rank < size(); ++rank) {
    const ProgressBoard& board = *boards_[static_cast<std::size_t>(rank)];
    ledger_.setProgress(rank, Progress::of(board));
    ledger_.setCalls(rank, board.calls.since(0));
  }
}

LocalGroup::LocalGroup(int size)
    : world_(std::make_shared<LocalCommunicator>(makeJob(), 1, allOf(size))),
      opening_(static_cast<std::size_t>(size)),
      opened_(static_cast<std::size_t>(size)) {}

std::unique_ptr<Session> LocalGroup::open(int rank, const Options& options) {
  const auto at = static_cast<std::size_t>(rank);
  std::uint64_t index = 0;
  {
    std::lock_guard lock(mutex_);
    if (opening_[at])
      throw Error(ErrorCode::invalid_argument,
                  "rank " + std::to_string(rank) +
                      " of the in-process group is being opened twice at the same time",
                  rank);
    opening_[at] = true;
    index = opened_[at]++;
  }
  struct Opening {
    LocalGroup& group;
    std::size_t at;
    ~Opening() {
      std::lock_guard lock(group.mutex_);
      group.opening_[at] = false;
    }
  } opening{*this, at};
  const Failure late{ErrorCode::init_failed,
                     "creating a communicator timed out after " + base::text(options.init_timeout),
                     -1};
  return world_->split(rank, index, 0, rank, options.init_timeout, late, loopback(options));
}

} // namespace rondo::bootstrap
