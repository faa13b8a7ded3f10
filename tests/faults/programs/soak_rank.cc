// A rank of a soak run (soak.cc): does the rounds of its world and checks everything that it sees.
//
// Arguments: SEED WORLD. Prints "round RANK NUMBER" when it begins a round, "recovered RANK NUMBER"
// when it has shrunk its communicator, "refused RANK TEXT" when it was stopped and finds that the
// others went on, "used RANK NUMBER DESCRIPTORS THREADS MAPPINGS KIB", and "wrong RANK TEXT", which
// ends it. RANK is that of the job. Exits with 0 unless something was wrong.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "faults/programs/say.h"
#include "soak_worlds.h"

using namespace rondo;
using namespace rondo::test;

namespace {

struct Use {
  long descriptors = 0, threads = 0, mappings = 0, kib = 0;

  std::string text() const {
    return std::to_string(descriptors) + " descriptors, " + std::to_string(threads) + " threads, " +
           std::to_string(mappings) + " mappings, " + std::to_string(kib) + " KiB";
  }
};

Use use() {
  Use now;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++now.descriptors;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    ++now.threads;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) ++now.mappings;
  std::ifstream statm("/proc/self/statm");
  long all = 0, resident = 0;
  statm >> all >> resident;
  now.kib = resident * ::sysconf(_SC_PAGESIZE) / 1024;
  return now;
}

// How far above the first value of a world the later ones may be. Memory that is freed stays in
// malloc's arenas (or, instrumented, in quarantine), of which each thread may get one.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr long kMoreKib = 1024 * 1024, kMoreMappings = 20'000;
#else
constexpr long kMoreKib = 48 * 1024, kMoreMappings = 60;
#endif
constexpr long kMoreDescriptors = 4, kMoreThreads = 1;

/// `ranks`: of the job. A rank that comes to host the control plane has a connection to each.
bool within(const Use& now, const Use& first, int ranks) {
  return now.descriptors <= first.descriptors + kMoreDescriptors + ranks &&
         now.threads <= first.threads + kMoreThreads &&
         now.mappings <= first.mappings + kMoreMappings && now.kib <= first.kib + kMoreKib;
}

bool has(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

class Rank {
 public:
  Rank(const World& world, Communicator comm)
      : world_(world),
        comm_(std::make_shared<Communicator>(std::move(comm))),
        me_(comm_->rank()),
        members_(learn(*comm_)) {
    pids_ = gather(*comm_, ::getpid());
  }

  void run() {
    for (number_ = 0; number_ < static_cast<int>(world_.rounds.size()); ++number_) {
      const Round& round = world_.rounds[static_cast<std::size_t>(number_)];
      if (members_ != round.members) wrong("the members are not those of the world");
      say("round " + std::to_string(me_) + " " + std::to_string(number_) + "\n");
      if (!act(round)) return;
      members_ = learn(*comm_);
    }
  }

  [[noreturn]] void wrong(const std::string& text) const {
    say("wrong " + std::to_string(me_) + " round " + std::to_string(number_) + ": " + text + "\n");
    std::_Exit(1);
  }

 private:
  /// Returns false if this rank is not a member any more.
  bool act(const Round& round) {
    switch (round.what) {
      case What::calls:
      case What::pause: calls(*comm_, round); return true;
      case What::delay:
        if (round.actor == me_) std::this_thread::sleep_for(round.length / 3);
        calls(*comm_, round);
        return true;
      case What::split: splits(round); return true;
      case What::leave: return leave(round);
      case What::abort: return abort(round);
      case What::kill:
      case What::kill_in_shrink:
      case What::freeze: return breaks(round, [&] { calls(*comm_, round); });
      case What::kill_in_split: return breaks(round, [&] { splits(round); });
    }
    return true;
  }

  void calls(Communicator& comm, const Round& round) {
    std::vector<CollectiveCase> cases = round.calls;
    for (CollectiveCase& one : cases) one.root %= comm.size();
    if (!round.overlap) {
      for (const CollectiveCase& one : cases)
        if (const std::string text = one.run(comm); !text.empty()) wrong(text);
      return;
    }
    std::vector<std::unique_ptr<CollectiveBuffers>> buffers;
    std::vector<Work> works;
    std::optional<Error> first;
    const auto note = [&](const auto& call) {
      try {
        call();
      } catch (const Error& error) {
        if (!first) first = error;
      }
    };
    for (const CollectiveCase& one : cases)
      note([&] {
        buffers.push_back(std::make_unique<CollectiveBuffers>(one, comm.rank(), comm.size()));
        works.push_back(one.start(comm, buffers.back()->input(), buffers.back()->output()));
      });
    for (Work& work : works) note([&] { work.wait(); });
    if (first) throw Error(*first);
    for (const auto& one : buffers)
      if (const std::string text = one->wrong(); !text.empty()) wrong(text);
  }

  void splits(const Round& round) {
    const auto position = [&](int rank) {
      return static_cast<std::size_t>(std::find(members_.begin(), members_.end(), rank) -
                                      members_.begin());
    };
    const int color = round.colors[position(me_)];
    std::vector<int> expected;
    for (const int rank : members_)
      if (round.colors[position(rank)] == color) expected.push_back(rank);
    std::stable_sort(expected.begin(), expected.end(), [&](int a, int b) {
      return round.keys[position(a)] < round.keys[position(b)];
    });
    auto child = comm_->split(color, round.keys[position(me_)]);
    if (child.has_value() != (color >= 0)) wrong("split() and its color disagree");
    if (!child) return;
    try {
      if (learn(*child) != expected) wrong("split() made a communicator of other ranks");
      calls(*child, round);
    } catch (const Error& error) {
      if (!row(round.what).breaks) throw;
      blame(round, error, expected);
      // The child has failed, so its parent fails too.
      while (!comm_->failure()) comm_->barrier();
    }
  }

  bool leave(const Round& round) {
    if (round.actor == me_) {
      comm_.reset();
      return false;
    }
    shrink(round);
    say("recovered " + std::to_string(me_) + " " + std::to_string(number_) + "\n");
    return true;
  }

  bool abort(const Round& round) {
    std::jthread aborter;
    if (round.actor == me_)
      aborter = std::jthread([&round, comm = comm_] {
        std::this_thread::sleep_for(round.delays[0]);
        comm->abort("of the soak run");
      });
    return breaks(round, [&] { calls(*comm_, round); });
  }

  /// Calls until the communicator fails, as it must in this round, and shrinks it.
  bool breaks(const Round& round, const std::function<void()>& body) {
    const bool victim = has(round.lost, me_);
    bool waits_for_death = false;
    try {
      do {
        try {
          for (;;) body();
        } catch (const Error& error) {
          blame(round, error, members_);
        }
        waits_for_death = victim && !round.agree && round.what != What::freeze;
        if (waits_for_death) break;
        shrink(round);
        // A rank that is still to die may be a member of it.
      } while (comm_->size() > static_cast<int>(round.members.size() - round.lost.size()));
    } catch (const Error& error) {
      if (!victim) throw;
      say("refused " + std::to_string(me_) + " " + error.what() + "\n");
      if (round.what == What::freeze) return false;
      waits_for_death = true;
    }
    while (waits_for_death) ::pause();
    if (victim) wrong("this rank was lost, and is a member");
    say("recovered " + std::to_string(me_) + " " + std::to_string(number_) + "\n");
    for (const int rank : round.lost) waitForEnd(rank);
    observe();
    return true;
  }

  /// Whether the error is one that this round may cause.
  void blame(const Round& round, const Error& error, const std::vector<int>& members) const {
    const auto is = [&](ErrorCode code) { return error.code() == code; };
    const std::string text = std::string(name(error.code())) + ", culprit " +
                             std::to_string(error.culprit()) + ": " + error.what();
    if (round.what == What::freeze && has(round.lost, me_)) return;
    // The death of the control plane's host ends all communicators, also those without it, in
    // which it has no number.
    for (const int rank : round.lost)
      if (error.culprit() < 0 && is(ErrorCode::peer_dead) &&
          text.find("rank " + std::to_string(rank) + " of the job, which hosts") !=
              std::string::npos)
        return;
    if (error.culprit() < 0 || error.culprit() >= static_cast<int>(members.size()))
      wrong("an error without a culprit: " + text);
    const int culprit = members[static_cast<std::size_t>(error.culprit())];
    const bool right = round.what == What::abort ? culprit == round.actor && is(ErrorCode::aborted)
                                                 : has(round.lost, culprit);
    if (!right) wrong("a false culprit: " + text);
    if (round.what == What::freeze ? !is(ErrorCode::unresponsive)
                                   : round.what != What::abort && !is(ErrorCode::peer_dead))
      wrong("another code than this round's: " + text);
  }

  void shrink(const Round& round) {
    std::vector<int> excluded;
    for (std::size_t i = 0; i < members_.size(); ++i)
      if (has(round.lost, members_[i])) excluded.push_back(static_cast<int>(i));
    const bool agree = round.agree || has(round.lost, me_);
    // The death of a host of the control plane breaks all communicators, also new ones without it.
    if (!agree && row(round.what).breaks)
      for (const int rank : round.lost) waitForEnd(rank);
    comm_ = std::make_shared<Communicator>(agree ? comm_->shrink() : comm_->shrink(excluded));
    if (comm_->size() > static_cast<int>(round.members.size() - round.lost.size()))
      members_ = withLost(round);
  }

  /// The members of a communicator in which a rank that is to die still is.
  std::vector<int> withLost(const Round& round) {
    try {
      return learn(*comm_);
    } catch (const Error& error) {
      // It is not known which ranks they are, so no rank can be blamed by its number.
      if (error.code() != ErrorCode::peer_dead)
        wrong(std::string("an error after shrink(): ") + error.what());
      return std::vector<int>(static_cast<std::size_t>(comm_->size()), round.lost[0]);
    }
  }

  /// Descriptors, threads and memory, after a shrink and one call.
  void observe() {
    const std::vector<int> all = learn(*comm_);
    comm_->barrier();
    Use now = use();
    if (!first_) first_ = now;
    // What the last communicator used is given back by other threads.
    for (int i = 0; i < 1000 && !within(now, *first_, world_.ranks); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      now = use();
    }
    say("used " + std::to_string(me_) + " " + std::to_string(number_) + " " + now.text() + "\n");
    if (!within(now, *first_, world_.ranks))
      wrong("at first " + first_->text() + ", now " + now.text());
  }

  void waitForEnd(int rank) const {
    const pid_t pid = pids_[static_cast<std::size_t>(rank)];
    while (::kill(pid, 0) == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

  std::vector<int> learn(Communicator& comm) const { return gather(comm, me_); }
  static std::vector<int> gather(Communicator& comm, int mine) {
    std::vector<int> all;
    for (const auto& bytes : comm.exchange(std::as_bytes(std::span(&mine, 1)))) {
      int one = 0;
      std::memcpy(&one, bytes.data(), sizeof one);
      all.push_back(one);
    }
    return all;
  }

  const World& world_;
  std::shared_ptr<Communicator> comm_; ///< an aborting thread may use an old one
  const int me_;
  int number_ = -1;
  std::vector<int> members_, pids_;
  std::optional<Use> first_;
};

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const World world = makeWorld(std::strtoull(argv[1], nullptr, 10), std::atoi(argv[2]));
  try {
    Rank rank(world, Communicator::create(Rendezvous::environment()));
    try {
      rank.run();
    } catch (const Error& error) {
      rank.wrong(std::string(name(error.code())) + ", culprit " + std::to_string(error.culprit()) +
                 ": " + error.what());
    }
  } catch (const Error& error) {
    say(std::string("wrong -1 the ranks did not meet: ") + error.what() + "\n");
    return 1;
  }
}
