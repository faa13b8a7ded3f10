// Evaluates the parts of a profile, and refuses those that predictions could not be monotonic with.
#include "model/profile.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <sstream>
#include <system_error>

#include "base/parse.h"
#include "base/read_file.h"
#include "rondo/error.h"

namespace rondo::model {

namespace {

constexpr std::array<std::string_view, kLinkClasses> kNames{"inproc",  "shm",    "loopback", "ucx",
                                                            "network", "nvlink", "pcie"};

[[noreturn]] void refuse(const std::string& reason) {
  throw Error(ErrorCode::invalid_argument, reason);
}

bool usable(double value) { return std::isfinite(value) && value >= 0; }

/// What tells processors apart: x86 has the first of these lines, POWER the second, ARM the others.
std::string processorName(const std::string& cpuinfo) {
  std::string name;
  for (const std::string_view key : {"model name", "cpu", "CPU implementer", "CPU part"}) {
    std::istringstream lines(cpuinfo);
    for (std::string line; std::getline(lines, line);) {
      const std::size_t colon = line.find(':');
      if (colon == line.npos || base::trim(std::string_view(line).substr(0, colon)) != key)
        continue;
      const std::string_view value = base::trim(std::string_view(line).substr(colon + 1));
      name += (name.empty() ? "" : " ") + std::string(value);
      break;
    }
  }
  return name.empty() ? "unknown processor" : name;
}

/// ", L2 1024 KiB, L3 32768 KiB". sysconf() does not know them on ARM, and on x86 it tells those of
/// the core that runs this thread.
std::string cachesText(const std::filesystem::path& sys) {
  std::map<std::string, std::string> sizes; // by level
  std::error_code none;
  for (std::filesystem::directory_iterator at(sys / "devices/system/cpu/cpu0/cache", none), end;
       !none && at != end; at.increment(none)) {
    const std::string level = base::firstLine(at->path() / "level");
    const std::string size = base::firstLine(at->path() / "size");
    if (level > "1" && size.ends_with('K'))
      sizes[level] = ", L" + level + " " + size.substr(0, size.size() - 1) + " KiB";
  }
  std::string text;
  for (const auto& [level, size] : sizes) text += size;
  return text;
}

} // namespace

std::string_view name(LinkClass link) { return kNames[static_cast<std::size_t>(link)]; }

LinkClass parseLinkClass(std::string_view text) {
  const auto found = std::find(kNames.begin(), kNames.end(), text);
  if (found != kNames.end()) return static_cast<LinkClass>(found - kNames.begin());
  std::string valid;
  for (const std::string_view one : kNames) valid += " " + std::string(one);
  refuse("unknown kind of link '" + std::string(text) + "'; valid:" + valid);
}

Curve::Curve(std::vector<Piece> pieces) : pieces_(std::move(pieces)) {
  if (!pieces_.empty() && pieces_[0].from != 0) refuse("the first piece must begin at 0 bytes");
  double seconds = 0;
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (!usable(pieces_[i].from) || !usable(pieces_[i].seconds_per_byte))
      refuse("sizes and speeds must be finite, and not negative");
    if (i > 0) {
      const double bytes = pieces_[i].from - pieces_[i - 1].from;
      if (bytes <= 0) refuse("sizes must ascend");
      seconds += bytes * pieces_[i - 1].seconds_per_byte;
    }
    begins_.push_back(seconds);
  }
}

Levels::Levels(std::vector<Point> points) : points_(std::move(points)) {
  for (std::size_t i = 0; i < points_.size(); ++i) {
    if (!usable(points_[i].working_set) || !usable(points_[i].seconds_per_byte))
      refuse("sizes and speeds must be finite, and not negative");
    if (points_[i].seconds_per_byte == 0) refuse("a byte must cost more than 0 seconds");
    if (points_[i].working_set < 1) refuse("a working set has at least 1 byte");
    if (i > 0 && points_[i].working_set <= points_[i - 1].working_set) refuse("sizes must ascend");
    if (i > 0 && points_[i].seconds_per_byte < points_[i - 1].seconds_per_byte)
      refuse("a larger working set must not be faster");
  }
}

double Levels::at(double working_set) const {
  if (points_.empty()) return 0;
  const auto above = std::find_if(points_.begin(), points_.end(), [&](const Point& point) {
    return point.working_set > working_set;
  });
  if (above == points_.begin()) return above->seconds_per_byte;
  const Point& low = *(above - 1);
  if (above == points_.end()) return low.seconds_per_byte;
  const double share =
      std::log(working_set / low.working_set) / std::log(above->working_set / low.working_set);
  return low.seconds_per_byte + share * (above->seconds_per_byte - low.seconds_per_byte);
}

const LinkProfile& Profile::link(LinkClass link) const {
  const auto& found = links[static_cast<std::size_t>(link)];
  if (!found)
    refuse("profile '" + name + "' has no link of the kind " + std::string(model::name(link)));
  return *found;
}

const Levels& Profile::reduceOf(std::size_t element_bytes) const {
  return reduce[element_bytes >= 8 ? 3 : element_bytes >= 4 ? 2 : element_bytes >= 2 ? 1 : 0];
}

Profile idealProfile(double alpha, double beta) {
  Profile profile;
  profile.name = "ideal";
  profile.source = "alpha + n beta (Hockney's model)";
  LinkProfile link;
  link.alpha = alpha;
  link.wire = Curve(beta);
  link.nic = Nic::rank;
  link.slot_bytes = 1e16; // more than the largest block
  link.depth = std::numeric_limits<int>::max();
  profile.links.fill(link);
  return profile;
}

std::string machineKey() {
  return machineKeyOf(base::readFile("/proc/cpuinfo").value_or(""), "/sys");
}

std::string machineKeyOf(const std::string& cpuinfo, const std::string& sys) {
  utsname system{};
  ::uname(&system);
  return std::string(system.machine) + ", " + processorName(cpuinfo) + ", " +
         std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) + " processors" + cachesText(sys);
}

std::string foreign(const Profile& profile, const std::string& here) {
  if (profile.machine.empty() || profile.machine == here) return {};
  return "profile '" + profile.name + "' was made on another machine (" + profile.machine +
         "; this one is " + here + ")";
}

} // namespace rondo::model
