// The profile for machines on which `rondo tune` was not run.
#include "model/profile.h"

namespace rondo::model {

namespace {

constexpr double kMicro = 1e-6, kKiB = 1024, kMiB = 1024 * kKiB;

/// Seconds per byte.
constexpr double gbs(double gigabytes_per_second) { return 1e-9 / gigabytes_per_second; }

/// From bench/results: 2026-11-23-peers.json and 2026-11-23-peers-others.json (Intel Xeon, 2
/// processors), AllReduce and Broadcast of 2 ranks. The halves of a link are assumed to be equally
/// fast.
LinkProfile shm() {
  const Curve half({{0, gbs(6.2)}, {kKiB, gbs(15.8)}, {16 * kKiB, gbs(20.2)}});
  return {.alpha = 0.08 * kMicro,
          .send_overhead = 0.06 * kMicro,
          .receive_overhead = 0.07 * kMicro,
          .send = half,
          .receive = half,
          .wire = {},
          .nic = Nic::none,
          .mapped = true,
          .slot_bytes = 128 * kKiB,
          .depth = 8};
}

LinkProfile inproc() {
  LinkProfile link = shm();
  link.lends_from = 64 * kKiB;
  return link;
}

LinkProfile loopback() {
  const Curve half({{0, gbs(10.2)}, {16 * kKiB, gbs(13.3)}, {128 * kKiB, gbs(7.5)}});
  return {.alpha = 0.6 * kMicro,
          .send_overhead = 1.9 * kMicro,
          .receive_overhead = 1.2 * kMicro,
          .send = half,
          .receive = half,
          .wire = {},
          .nic = Nic::none,
          .mapped = false,
          .slot_bytes = 256 * kKiB,
          .depth = 4};
}

/// From 2026-11-24-peers-ucx.json (AMD EPYC, UCX's shared memory).
LinkProfile ucx() {
  LinkProfile link = loopback();
  link.alpha = 0.1 * kMicro;
  link.send_overhead = 0.17 * kMicro;
  link.receive_overhead = 0.2 * kMicro;
  link.send = link.receive = Curve({{0, gbs(11.5)}, {64 * kKiB, gbs(9.5)}});
  return link;
}

/// From 2026-11-24-network.txt: a link of 1 Gb/s, which passes 121 MB/s of data. Its latency is
/// assumed: that of an Ethernet switch.
LinkProfile network() {
  LinkProfile link = loopback();
  link.alpha = 30 * kMicro;
  link.wire = Curve(gbs(0.121));
  link.nic = Nic::node;
  return link;
}

/// Between GPUs nothing was measured: these are the assumed rates of engine/device_count.h.
LinkProfile gpu(double alpha, double gigabytes_per_second, Nic nic) {
  return {.alpha = alpha,
          .send_overhead = 0,
          .receive_overhead = 0,
          .send = {},
          .receive = {},
          .wire = Curve(gbs(gigabytes_per_second)),
          .nic = nic,
          .mapped = true,
          .slot_bytes = 512 * kKiB,
          .depth = 4};
}

Profile made() {
  Profile profile;
  profile.name = "default";
  profile.source =
      "fitted by hand to bench/results of 2026-11-23 and 2026-11-24 (2 processors); network, "
      "nvlink "
      "and pcie in part assumed";
  profile.turn = 0.18 * kMicro; // sched_yield()
  // One processor, GB/s of an operand of 64 KiB, 1 MiB, 16 MiB and 256 MiB: copied 45, 40, 13.6,
  // 10.9; added 50, 32, 14.7, 7.7. A working set holds two operands. Other elements than those of
  // four bytes were not measured; they are assumed to be as fast per byte.
  profile.copy = Levels({{128 * kKiB, gbs(45)},
                         {2 * kMiB, gbs(40)},
                         {32 * kMiB, gbs(13.6)},
                         {512 * kMiB, gbs(10.9)}});
  profile.reduce.fill(Levels({{128 * kKiB, gbs(50)},
                              {2 * kMiB, gbs(32)},
                              {32 * kMiB, gbs(14.7)},
                              {512 * kMiB, gbs(7.7)}}));
  // AllReduce of 16 and 64 MiB beside one of 1 MiB.
  profile.memory = Levels({{2 * kMiB, gbs(2000)}, {32 * kMiB, gbs(200)}, {128 * kMiB, gbs(26)}});
  const auto set = [&](LinkClass kind, LinkProfile link) {
    profile.links[static_cast<std::size_t>(kind)] = std::move(link);
  };
  set(LinkClass::inproc, inproc());
  set(LinkClass::shm, shm());
  set(LinkClass::loopback, loopback());
  set(LinkClass::ucx, ucx());
  set(LinkClass::network, network());
  set(LinkClass::nvlink, gpu(2 * kMicro, 450, Nic::rank));
  set(LinkClass::pcie, gpu(5 * kMicro, 25, Nic::node));
  return profile;
}

} // namespace

const Profile& defaultProfile() {
  static const Profile profile = made();
  return profile;
}

} // namespace rondo::model
