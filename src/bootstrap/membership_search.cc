// The member's part when the hub's process dies: looks for the rank that takes the hub over.
//
// That is the lowest candidate that may be alive; the last hub chose the candidates. Each rank
// tries them in order: one whose listener refuses the connection has ended, and one that does not
// answer is skipped. A candidate that finds no living candidate below it hosts the hub. A candidate
// that answers may not have noticed the death yet; the rank keeps the connection and waits, as long
// as the candidate's listener answers. The search ends when a hub says that it has the majority, or
// that it has not.
#include <algorithm>
#include <set>
#include <utility>

#include "base/log.h"
#include "bootstrap/hub.h"
#include "bootstrap/limits.h"
#include "bootstrap/process_jobs.h"
#include "bootstrap/remote_communicator.h"
#include "bootstrap/standby.h"

namespace rondo::bootstrap {

namespace {

using base::Clock;
using namespace std::chrono_literals;

/// Pause before the next attempt, after a connection ended.
constexpr std::chrono::milliseconds kPause{2};
/// Polling interval for the answer to a question.
constexpr std::chrono::milliseconds kLook{1};

} // namespace

struct Membership::Search {
  explicit Search(std::shared_ptr<net::EventLoop> l) : loop(std::move(l)) {}
  ~Search() {
    for (const auto timer : {end_timer, next_timer, ask_timer}) loop->cancel(timer);
  }
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  const std::shared_ptr<net::EventLoop> loop;
  net::EventLoop::Id end_timer = 0, next_timer = 0, ask_timer = 0;
  std::unique_ptr<net::Dial> question; ///< whether the candidate still runs
  std::vector<int> passed;             ///< ranks that have ended or do not answer
  int candidate = -1;
  std::chrono::milliseconds spread{0}; ///< as in Hub::Succession
};

void Membership::startSearch(bool silent) {
  {
    std::lock_guard lock(mutex_);
    moving_ = true;
  }
  search_ = std::make_shared<Search>(loop_);
  // Each rank counts from the last frame that it got. That of others may be newer by this.
  if (silent) search_->spread = beatPeriod(settings_.heartbeat);
  seek();
}

void Membership::seek() {
  if (link_) link_->close();
  link_.reset();
  dial_.reset();
  loop_->cancel(search_->next_timer);
  const auto pause = search_->candidate < 0 ? 0ms : kPause;
  search_->next_timer = loop_->after(pause, [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && self->search_) self->tryNext();
  });
}

void Membership::tryNext() {
  const auto mayHost = [&](int rank) {
    const auto& passed = search_->passed;
    return rank != host_ && present_.at(static_cast<std::size_t>(rank)) &&
           std::find(passed.begin(), passed.end(), rank) == passed.end();
  };
  for (const int rank : candidates_) {
    if (!mayHost(rank)) continue;
    const net::SocketAddress& address = standbys_.at(rank);
    if (std::exchange(search_->candidate, rank) != rank) awaitCandidate();
    hosts_hub_ = address == standby_->address();
    if (hosts_hub_) hostHub();
    return dialHub(address, false, Clock::now() + kCandidateLimit);
  }
  searchFailed({ErrorCode::peer_dead,
                hubText() + ", which hosts the control plane, has ended, and no rank that could "
                            "take it over can be reached",
                -1});
}

/// Ranks notice the death of a machine within a heartbeat of each other, and then settle.
void Membership::awaitCandidate() {
  loop_->cancel(search_->end_timer);
  const auto limit = 4 * settings_.heartbeat + kSearchLimit + probesTake(settings_.size);
  search_->end_timer = loop_->after(limit, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && self->search_)
      self->searchFailed({ErrorCode::unresponsive,
                          "the connection to the host of the control plane has ended, and the "
                          "other ranks did not replace it in time",
                          -1});
  });
  search_->question.reset();
  loop_->cancel(search_->ask_timer);
  if (standbys_.at(search_->candidate) != standby_->address())
    askLater(silenceLimit(settings_.heartbeat));
}

void Membership::askLater(std::chrono::milliseconds wait) {
  loop_->cancel(search_->ask_timer);
  search_->ask_timer = loop_->after(wait, [weak = weak_from_this()] {
    if (const auto self = weak.lock(); self && self->search_) self->askCandidate();
  });
}

void Membership::askCandidate() {
  auto& question = search_->question;
  try {
    if (!question) {
      net::Dial::Settings dial =
          dialTo(standbys_.at(search_->candidate), Clock::now() + kCandidateLimit);
      dial.hello.communicator = Standby::kProbe;
      question = std::make_unique<net::Dial>(dial);
    }
    if (!question->poll()) return askLater(kLook);
    question.reset();
    askLater(silenceLimit(settings_.heartbeat));
  } catch (const Error& error) {
    question.reset();
    moveFailed(error);
  }
}

void Membership::moveFailed(const Error& why) {
  dial_.reset();
  if (departing_ && !search_) return departed();
  if (!search_ && late_ && Clock::now() - *late_ < kWoke) {
    awake_ = Clock::now(); // the next hub must know that this rank may have been excluded
    return hubLost(ErrorCode::unresponsive,
                   std::string("cannot be reached (") + why.what() +
                       "). This process was stopped at about the time when the control plane moved "
                       "there. Either that rank died, or the other ranks went on without this one "
                       "and ended");
  }
  if (!search_)
    return hubLost(ErrorCode::peer_dead, std::string("did not take it over: ") + why.what());
  base::log(LogLevel::info, "rank ", search_->candidate,
            " cannot host the control plane: ", why.what());
  search_->passed.push_back(search_->candidate);
  seek();
}

void Membership::hostHub() {
  Hub::Settings hub;
  hub.secret = settings_.secret;
  hub.job = settings_.job;
  hub.size = settings_.size;
  noticeStop();
  const int host = search_->candidate;
  hub.succession =
      Hub::Succession{host,           job_,     present_,  present_,
                      generation_,    standby_, standbys_, mayHaveMoved(host, awake_.has_value()),
                      search_->spread};
  try {
    ProcessJobs::ofProcess().host(hub);
  } catch (const Error& error) {
    base::log(LogLevel::info, "the control plane cannot start here: ", error.what());
  }
}

std::set<int> Membership::mayHaveMoved(int host, bool unsure) const {
  std::set<int> ranks = maybe_moved_;
  if (unsure || standby_->excluded(settings_.rank))
    for (int rank = 0; rank < settings_.size; ++rank)
      if (rank != host && present_[static_cast<std::size_t>(rank)]) ranks.insert(rank);
  return ranks;
}

void Membership::searchFailed(const Failure& why) {
  base::log(LogLevel::info, "no control plane: ", why.text);
  dropOffered();
  if (link_) link_->close();
  link_.reset();
  dial_.reset();
  search_.reset();
  if (departing_) departed();
  std::lock_guard lock(mutex_);
  supervised_ = moving_ = false;
  refusal_ = why;
  const auto communicators = communicators_;
  for (const auto& [id, communicator] : communicators)
    setFailure(*communicator, inRanksOf(*communicator, why));
  changed_->notify_all();
}

void Membership::refused(const frames::Refused& why) {
  if (departing_) return departed();
  bool joined = false;
  {
    std::lock_guard lock(mutex_);
    joined = welcome_;
    refused_ = !joined;
  }
  // A member that followed a move of the hub too late looks for no other hub.
  if (!search_ && !joined) return hubLost(why.code, "refused: " + why.text);
  searchFailed({why.code, why.text, why.culprit, {}});
}

void Membership::present(const frames::Present& news) {
  const auto size = static_cast<std::size_t>(settings_.size);
  if (news.ranks.size() != size || news.maybe_moved.size() != size)
    throw Error(ErrorCode::transport, "the hub described another number of ranks than the job has");
  present_ = news.ranks;
  maybe_moved_.clear();
  for (int rank = 0; rank < settings_.size; ++rank)
    if (news.maybe_moved[static_cast<std::size_t>(rank)]) maybe_moved_.insert(rank);
  generation_ = news.generation;
  const bool found = search_ != nullptr;
  search_.reset();
  {
    std::lock_guard lock(mutex_);
    host_ = news.host;
    if (!found) return;
    moving_ = false;
    changed_->notify_all();
  }
  if (departing_) sayBye();
}

void Membership::standbys(const frames::Standbys& part) {
  if (part.fresh) {
    standbys_.clear();
    candidates_.clear();
  }
  for (const auto& [rank, address] : part.ranks) {
    if (rank < 0 || rank >= settings_.size)
      throw Error(ErrorCode::transport, "the address of a rank that is not in the job");
    standbys_[rank] = address;
    if (part.candidates) candidates_.insert(rank);
  }
}

Failure Membership::inRanksOf(const RemoteCommunicator& communicator, Failure failure) {
  const auto& members = communicator.members;
  const auto own = std::find(members.begin(), members.end(), failure.culprit);
  failure.culprit = own == members.end() ? -1 : static_cast<int>(own - members.begin());
  return failure;
}

} // namespace rondo::bootstrap
