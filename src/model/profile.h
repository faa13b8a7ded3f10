// A link profile: the speeds of one kind of machine, from which times are predicted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo::model {

/// Kinds of links between two ranks.
enum class LinkClass : std::uint8_t { inproc, shm, loopback, ucx, network, nvlink, pcie };
inline constexpr std::size_t kLinkClasses = 7;
std::string_view name(LinkClass link);
/// Throws Error(invalid_argument), which lists the valid names.
LinkClass parseLinkClass(std::string_view text);

/// Seconds for a number of bytes: 0 for 0 bytes, continuous, and never falling, because each piece
/// states what one more byte costs.
class Curve {
 public:
  struct Piece {
    double from = 0;             ///< bytes; the piece ends where the next one begins
    double seconds_per_byte = 0; ///< of each byte in this range
  };

  Curve() = default; ///< bytes cost nothing
  explicit Curve(double seconds_per_byte) : Curve({{0, seconds_per_byte}}) {}
  /// Throws Error(invalid_argument) unless the first piece begins at 0, the beginnings ascend, and
  /// all numbers are finite and not negative.
  explicit Curve(std::vector<Piece> pieces);

  double operator()(double bytes) const {
    if (pieces_.empty()) return 0;
    std::size_t i = pieces_.size() - 1;
    while (i > 0 && pieces_[i].from > bytes) --i;
    return begins_[i] + (bytes - pieces_[i].from) * pieces_[i].seconds_per_byte;
  }
  bool free() const { return pieces_.empty(); }
  const std::vector<Piece>& pieces() const { return pieces_; }

 private:
  std::vector<Piece> pieces_;
  std::vector<double> begins_; ///< seconds for Piece::from bytes
};

/// Seconds per byte, by the size of the memory that a rank works on: caches are faster than memory.
/// Between two points it changes with the logarithm of the size, outside it stays constant.
class Levels {
 public:
  struct Point {
    double working_set = 0; ///< bytes
    double seconds_per_byte = 0;
  };

  Levels() = default; ///< costs nothing
  /// Throws Error(invalid_argument) unless sizes ascend, and costs are positive and do not fall.
  explicit Levels(std::vector<Point> points);

  double at(double working_set) const;
  const std::vector<Point>& points() const { return points_; }

 private:
  std::vector<Point> points_;
};

/// Which ranks share one network interface, or one NVLink or PCIe port of a GPU. It carries one
/// message at a time in each direction.
enum class Nic : std::uint8_t {
  none, ///< the processors of both ranks move the bytes, and nothing else limits them
  rank, ///< each rank has one
  node, ///< all ranks of a node share one
};

/// What a message costs on a link. The sender's and the receiver's processor work for
/// overhead + curve(bytes). In between, a message of n bytes takes alpha + wire(n), and occupies
/// its network interface at both ends for wire(n).
struct LinkProfile {
  double alpha = 0;                               ///< seconds
  double send_overhead = 0, receive_overhead = 0; ///< seconds
  Curve send, receive, wire;
  Nic nic = Nic::none;
  bool mapped = false;         ///< the engine itself copies bytes, into slots that both ranks see
  double slot_bytes = 1 << 18; ///< largest message
  int depth = 4;               ///< messages that a channel holds
  /// Contiguous messages of at least this size are not copied by the sender; the receiver reads
  /// them in place. The sender is charged for copying `lends_from` bytes, whatever the size.
  /// Infinity: never.
  double lends_from = std::numeric_limits<double>::infinity();
};

/// How well a fitted profile reproduces what it was made from.
struct Residual {
  std::string what;
  double median = 0, worst = 0; ///< |predicted / measured - 1|
};

struct Profile {
  std::string name;
  std::string machine; ///< machineKey() of the machine that it describes
  std::string source;  ///< where the numbers come from
  /// Seconds for which a processor is busy when it passes from one rank to the next.
  double turn = 0;
  Levels copy;   ///< one piece of local memory to another
  Levels memory; ///< more for each byte of a message, because buffers do not fit the caches
  std::array<Levels, 4> reduce; ///< one operand into another, by element size: 1, 2, 4, 8 bytes
  std::array<std::optional<LinkProfile>, kLinkClasses> links;
  std::vector<Residual> residuals;

  /// Throws Error(invalid_argument) if the profile does not have the class.
  const LinkProfile& link(LinkClass link) const;
  const Levels& reduceOf(std::size_t element_bytes) const;
};

/// The profile that Rondo uses where no other is given.
const Profile& defaultProfile();

/// An ideal network, as in Hockney's model: on every link a message of n bytes takes alpha + n *
/// beta; each rank has a network interface; nothing else takes time. Messages have any size, and
/// channels hold all of them.
Profile idealProfile(double alpha, double beta);

/// What distinguishes kinds of machines: architecture, processor, number of processors, caches of
/// processor 0. A profile that was made on a machine with another key is foreign.
std::string machineKey();
/// The same with the text of /proc/cpuinfo, and where /sys is, for tests.
std::string machineKeyOf(const std::string& cpuinfo, const std::string& sys);

/// Why the profile does not fit this machine; empty if it does.
std::string foreign(const Profile& profile, const std::string& here = machineKey());

} // namespace rondo::model
