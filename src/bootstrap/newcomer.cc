// Both sides of a newcomer's connection: it waits at the hub, which gives it a rank once the ranks
// that grow have said which ranks are for newcomers. Then the newcomer joins the job as that rank.
#include "bootstrap/newcomer.h"

#include <utility>

#include "base/awake.h"
#include "base/log.h"
#include "bootstrap/hub_impl.h"

namespace rondo::bootstrap {

namespace {

[[noreturn]] void refuse(const std::string& hub, const std::string& why) {
  throw Error(ErrorCode::init_failed, "cannot join the ranks that meet at " + hub + ": " + why);
}

} // namespace

Newcomer::Newcomer(const IdContent& id, std::chrono::milliseconds limit, bool tls)
    : hub_(id.hub.text()), deadline_(limit), loop_(net::EventLoop::get()) {
  net::Dial::Settings dial;
  dial.address = id.hub;
  dial.secret = id.secret;
  dial.hello.purpose = net::Hello::Purpose::control;
  dial.hello.job = id.job;
  dial.hello.size = 0; // no rank yet
  dial.hello.tls = tls;
  dial.deadline = deadline_.at();
  dial.patient = false; // the hub listened before its id was known
  const auto handlers = [state = state_](const std::string& why) {
    const std::lock_guard lock(state->mutex);
    if (state->refused.empty()) state->refused = why;
    state->changed->notify_all();
  };
  const auto frame = [state = state_, handlers](frames::Type type, base::Reader& in) {
    if (type == frames::Type::refused) return handlers(frames::Refused::read(in).text);
    if (type != frames::Type::seated) violation("it sent a frame that is not for newcomers");
    const auto seat = frames::Seat::read(in);
    in.finish();
    const std::lock_guard lock(state->mutex);
    state->seat = seat;
    state->changed->notify_all();
  };
  const auto closed = [handlers](const std::string& why) {
    handlers("its process has ended, or withdrew the id (" + why + ")");
  };
  try {
    net::Dial dialing(dial);
    net::Socket socket = dialing.wait();
    const auto key = dialing.sessionKey();
    loop_->call([&] {
      link_ = Link::open(loop_, std::move(socket), key, Link::Side::member,
                         {frame, closed, [handlers](int version) {
                            handlers("the host of their control plane " +
                                     differentVersions(version, "this process"));
                          }});
    });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::system) throw;
    refuse(hub_, error.what());
  }
}

Newcomer::~Newcomer() {
  loop_->call([this] {
    if (link_) link_->close();
  });
}

frames::Seat Newcomer::wait() {
  std::unique_lock lock(state_->mutex);
  const auto limit = deadline_.left();
  base::waitAwake(state_->changed, lock, limit,
                  [&] { return state_->seat || !state_->refused.empty(); });
  if (state_->seat) return *state_->seat;
  if (!state_->refused.empty()) refuse(hub_, state_->refused);
  refuse(hub_, "they did not call grow() in time");
}

// The hub's side ----------------------------------------------------------------------------------

void Hub::Impl::knock(net::Accepted peer) {
  const std::uint64_t number = ++knocks_;
  const auto weak = weak_from_this();
  auto link = Link::open(loop_, std::move(peer.socket), peer.session_key, Link::Side::hub,
                         {[](Type, base::Reader&) { violation("it has no rank yet"); },
                          [weak, number](const std::string&) {
                            if (const auto self = weak.lock())
                              self->newcomerLost(number, "died before it had joined");
                          },
                          [weak, number](int version) {
                            if (const auto self = weak.lock())
                              self->newcomerLost(number, differentVersions(version, "this job"));
                          }});
  std::string wrong;
  if (met()) wrong = "the ranks that it meant to join have met without it"; // a hub that took over
  else if (newcomers_.size() >= static_cast<std::size_t>(kMostRanks))
    wrong = "too many ranks wait there";
  if (!wrong.empty()) {
    link->send(Type::refused, frames::Refused{wrong});
    return link->close();
  }
  newcomers_[number] = {std::move(link), -1};
  base::log(LogLevel::info, "a rank waits to join: ", waiting(), " wait");
  giveSeats();
}

int Hub::Impl::waiting() const {
  int count = 0;
  loop_->call([&] {
    for (const auto& [number, newcomer] : newcomers_)
      if (newcomer.rank < 0) ++count;
  });
  return count;
}

bool Hub::Impl::met() const {
  bool met = false;
  loop_->call([&] {
    for (const auto& [size, world] : worlds_) met = met || world.complete;
  });
  return met;
}

void Hub::Impl::seat(const World& world, const frames::Seat& first) {
  if (first.size != world.size) violation("it has seats for a job of another size");
  if (seats_ && (seats_->rank != first.rank || seats_->size != first.size))
    violation("it named other ranks for newcomers than the ranks before it");
  if (world.complete || seats_) return;
  seats_ = first;
  next_seat_ = first.rank;
  giveSeats();
}

void Hub::Impl::giveSeats() {
  if (!seats_) return;
  std::vector<std::shared_ptr<Link>> told; // afterwards, since a link that breaks changes the list
  const int first = next_seat_;
  for (auto& [number, newcomer] : newcomers_) {
    if (newcomer.rank >= 0 || next_seat_ >= seats_->size) continue;
    newcomer.rank = next_seat_++;
    told.push_back(newcomer.link);
  }
  for (std::size_t i = 0; i < told.size(); ++i)
    told[i]->send(Type::seated, frames::Seat{first + static_cast<int>(i), seats_->size});
}

void Hub::Impl::newcomerLost(std::uint64_t number, const std::string& why) {
  const auto found = newcomers_.find(number);
  if (found == newcomers_.end() || stopped_) return;
  const int rank = found->second.rank;
  newcomers_.erase(found);
  if (rank < 0) return;
  World& world = worlds_.at(seats_->size);
  if (world.members.contains(rank)) return; // it has joined, and needs this connection no more
  failGroup(world, *world.root,
            {ErrorCode::init_failed, "rank " + std::to_string(rank) + ", a new one, " + why, rank});
}

void Hub::Impl::refuseNewcomers(const std::string& why) {
  for (auto& [number, newcomer] : std::exchange(newcomers_, {})) {
    if (newcomer.rank < 0) newcomer.link->send(Type::refused, frames::Refused{why});
    newcomer.link->close();
  }
}

} // namespace rondo::bootstrap
