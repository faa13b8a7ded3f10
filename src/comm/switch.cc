// Tests whether a switch between GPUs can reduce and multicast. After each step the ranks exchange
// their errors, so that all of them continue or all give up.
#include "comm/switch.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "engine/device_tuning.h"
#include "rondo/error.h"

namespace rondo::comm {

namespace {

constexpr std::size_t kMostReason = 512;

/// The windows of all ranks of a process. None of them may be freed while another rank's launch is
/// still writing.
struct AllWindows {
  std::mutex mutex;
  std::vector<device::Memory> of;
};

/// Where rank 0 puts the team's handle for the other ranks of its process.
struct Handout {
  base::UniqueFd handle;
  std::shared_ptr<AllWindows> windows = std::make_shared<AllWindows>();
};

/// The words that a rank stores, for the sum and for the multicast. They differ by rank, so a wrong
/// sum is detected.
device::ProbeWords pattern(int rank, bool for_all) {
  device::ProbeWords words{};
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = (static_cast<std::uint64_t>(rank + 1) << (3 * i)) * 0x9e3779b97f4a7c15u +
               (for_all ? 0x5a : 0xa5) + i;
  return words;
}

class Proof {
 public:
  Proof(bootstrap::Session& session, const Options& options, const Devices& devices)
      : session_(session), limit_(options.init_timeout), device_(*devices.own) {
    made_.rank = session.rank();
    made_.size = {std::min(devices.channel.copies, engine::kWindowCopies),
                  static_cast<std::uint32_t>(session.size()), engine::kWindowRoom};
  }

  /// Whether the windows work. The body of each step runs on all ranks or on none.
  bool run() {
    std::unique_ptr<device::Team> team;
    const std::string key = "switch of " + std::to_string(session_.communicator());
    std::shared_ptr<Handout> handout;
    const std::size_t bytes = made_.size.bytes();
    return step([&] {
             if (session_.rank() != 0) return;
             team = device_.makeTeam(session_.size(), bytes);
             handout = session_.board()->findOrMake<Handout>(key, [&] {
               auto made = std::make_shared<Handout>();
               made->handle = team->exported();
               return made;
             });
           }) &&
           step([&] {
             if (session_.rank() == 0) return;
             handout = session_.board()->findOrMake<Handout>(
                 key, [] { return std::make_shared<Handout>(); });
             team = device_.joinTeam(handout->handle.get(), bytes);
           }) &&
           step([&] { open(*team, handout->windows); }) &&
           step([&] { device_.store(room(false), pattern(session_.rank(), false)); }) &&
           step([&] { compare(device_.sumOfAll(room(true)), sums(), "added up"); }) && step([&] {
             device_.storeToAll(place(true, session_.rank()), pattern(session_.rank(), true));
           }) &&
           step([&] {
             for (int rank = 0; rank < session_.size(); ++rank)
               compare(device_.load(place(false, rank)), pattern(rank, true), "stored");
           });
  }

  engine::DeviceWindow take() { return std::move(made_); }

 private:
  bool step(const std::function<void()>& body) {
    std::string wrong;
    try {
      body();
    } catch (const Error& error) {
      wrong = error.what();
    }
    wrong.resize(std::min(wrong.size(), kMostReason));
    const auto blobs = session_.allGather(std::as_bytes(std::span(wrong)), limit_);
    for (std::size_t rank = 0; rank < blobs.size(); ++rank) {
      if (blobs[rank].empty()) continue;
      const std::string_view reason(reinterpret_cast<const char*>(blobs[rank].data()),
                                    std::min(blobs[rank].size(), kMostReason));
      base::log(LogLevel::info, "no switch between the GPUs is used: rank ", rank, ": ", reason);
      return false;
    }
    return true;
  }

  void open(device::Team& team, const std::shared_ptr<AllWindows>& windows) {
    made_.memory = team.open();
    {
      const std::lock_guard lock(windows->mutex);
      windows->of.push_back(made_.memory.own);
    }
    made_.all = windows;
    const std::vector<std::byte> zeros(made_.size.bytes());
    device_.write(made_.memory.own.get(), zeros.data(), zeros.size());
    made_.meetings = device_.allocate(made_.size.copies * sizeof(std::uint64_t));
  }

  std::byte* room(bool of_all) const { return made_.window().room(of_all, 0); }
  std::byte* place(bool of_all, int rank) const {
    return room(of_all) + static_cast<std::size_t>(rank) * sizeof(device::ProbeWords);
  }
  device::ProbeWords sums() const {
    device::ProbeWords sums{};
    for (int rank = 0; rank < session_.size(); ++rank)
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += pattern(rank, false)[i];
    return sums;
  }
  static void compare(const device::ProbeWords& seen, const device::ProbeWords& due,
                      const char* how) {
    if (seen != due)
      throw Error(ErrorCode::system,
                  std::string("the words that the switch ") + how + " are wrong");
  }

  bootstrap::Session& session_;
  const std::chrono::milliseconds limit_;
  device::Device& device_;
  engine::DeviceWindow made_;
};

} // namespace

engine::DeviceWindow proveSwitch(bootstrap::Session& session, const Options& options,
                                 const Devices& devices) {
  if (!devices.own || session.size() < 2) return {};
  const std::string why =
      session.board() ? devices.no_switch : "the ranks are in several processes";
  if (!why.empty()) {
    base::log(LogLevel::info, "no switch between the GPUs is used: ", why);
    return {};
  }
  Proof proof(session, options, devices);
  if (!proof.run()) return {};
  base::log(LogLevel::info, "the switch between the GPUs is used (nvls)");
  return proof.take();
}

} // namespace rondo::comm
