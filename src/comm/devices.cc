// Exchanges facts about the ranks' devices and derives the channels between them.
#include "comm/devices.h"

#include <algorithm>
#include <optional>

#include "base/codec.h"
#include "base/log.h"
#include "comm/switch.h"
#include "engine/device_cut.h"
#include "engine/device_tuning.h"
#include "rondo/error.h"
#include "topology/place.h"
#include "transports/support.h"

namespace rondo::comm {

namespace {

constexpr std::size_t kMaxText = 1024;

/// What each rank sends to all others.
struct DeviceInfo {
  std::string error; ///< not empty: why this rank has no device
  std::uint64_t process = 0;
  device::DeviceIdentity identity;
  int blocks = 0;
  bool multicasts = false;

  std::vector<std::byte> encode() const {
    base::Writer out;
    out.text(error.substr(0, kMaxText));
    out.u64(process);
    out.raw(identity.uuid);
    out.text(identity.place.substr(0, kMaxText));
    out.i32(blocks);
    out.u8(multicasts);
    return out.take();
  }
  static DeviceInfo decode(std::span<const std::byte> bytes) {
    base::Reader in(bytes, "a rank's device info");
    DeviceInfo info;
    info.error = in.text(kMaxText);
    info.process = in.u64();
    in.raw(std::span<std::byte>(info.identity.uuid));
    info.identity.place = in.text(kMaxText);
    info.blocks = in.i32();
    info.multicasts = in.u8() != 0;
    in.finish();
    return info;
  }
};

std::string listOf(const std::vector<int>& numbers, bool with_device) {
  std::string text;
  for (std::size_t r = 0; r < numbers.size(); ++r)
    if ((numbers[r] >= 0) == with_device) text += (text.empty() ? "" : ", ") + std::to_string(r);
  return text;
}

/// Why no switch can be used; empty if it can be tried.
std::string noSwitch(const std::vector<DeviceInfo>& infos) {
  for (std::size_t r = 0; r < infos.size(); ++r) {
    const std::string who = "rank " + std::to_string(r);
    if (!infos[r].multicasts) return who + "'s driver or GPU has no multicast objects";
    for (std::size_t other = 0; other < r; ++other)
      if (infos[other].identity == infos[r].identity)
        return who + " shares a GPU with rank " + std::to_string(other);
  }
  return {};
}

std::vector<DeviceInfo> exchange(bootstrap::Session& session, const Options& options,
                                 const DeviceInfo& own) {
  std::vector<DeviceInfo> infos;
  for (const auto& blob : session.allGather(own.encode(), options.init_timeout))
    infos.push_back(DeviceInfo::decode(blob));
  for (std::size_t r = 0; r < infos.size(); ++r)
    if (!infos[r].error.empty() && static_cast<int>(r) != session.rank())
      throw Error(ErrorCode::init_failed,
                  "rank " + std::to_string(r) + " has no device: " + infos[r].error,
                  static_cast<int>(r));
  return infos;
}

} // namespace

Devices meetDevices(bootstrap::Session& session, const Options& options,
                    const std::vector<int>& numbers) {
  const auto with = std::count_if(numbers.begin(), numbers.end(), [](int n) { return n >= 0; });
  if (with == 0) return {};
  if (static_cast<std::size_t>(with) < numbers.size())
    throw Error(ErrorCode::mismatch, "some ranks use a device (" + listOf(numbers, true) +
                                         ") and some host memory (" + listOf(numbers, false) +
                                         "): set RONDO_DEVICE on all or on none");
  Devices devices;
  DeviceInfo own;
  std::optional<Error> missing;
  try {
    devices.own = device::openDevice(options.device);
    own.identity = devices.own->identity();
    own.blocks = devices.own->residentBlocks();
    own.multicasts = devices.own->multicasts();
    own.process = topology::processToken();
  } catch (const Error& error) {
    missing = error;
    own.error = error.what();
  }
  std::vector<DeviceInfo> infos;
  try {
    infos = exchange(session, options, own);
  } catch (...) {
    if (!missing) throw;
  }
  if (missing) throw *missing;

  for (std::size_t r = 0; r < infos.size(); ++r) {
    const auto shared = [&](const DeviceInfo& info) { return info.identity == infos[r].identity; };
    const device::Residency here{
        infos[r].blocks, static_cast<int>(std::count_if(infos.begin(), infos.end(), shared))};
    const auto shareOf = [](const device::Residency& of) { return of.blocks / of.ranks; };
    if (r == 0 || shareOf(here) < shareOf(devices.residency)) devices.residency = here;
    if (static_cast<int>(r) != session.rank() && infos[r].process == own.process &&
        infos[r].identity == own.identity)
      devices.neighbour = static_cast<int>(r);
    base::log(LogLevel::info, "rank ", r, " is on ", infos[r].identity.place);
  }
  devices.lends = std::all_of(infos.begin(), infos.end(), [&](const DeviceInfo& info) {
    return info.process == infos[0].process && info.identity == infos[0].identity;
  });
  devices.no_switch = noSwitch(infos);
  devices.size = transport::channelSize(
      options, {engine::deviceSlot(static_cast<int>(numbers.size())), engine::kDeviceDepth});
  devices.channel = engine::deviceChannel(
      devices.size.slot_bytes, static_cast<std::uint64_t>(devices.size.depth), devices.residency);
  devices.window = proveSwitch(session, options, devices);
  return devices;
}

} // namespace rondo::comm
