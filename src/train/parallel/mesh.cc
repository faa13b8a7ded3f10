#include "train/parallel/mesh.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <sstream>

#include "rondo/error.h"

namespace rondo::training {

namespace {

[[noreturn]] void refuse(const std::string& text, const std::string& what) {
  throw Error(ErrorCode::invalid_argument, "train: mesh \"" + text + "\": " + what);
}

Axis axisOf(const std::string& text, const std::string& word) {
  std::string valid;
  for (Axis axis : kAxes) {
    if (name(axis) == word) return axis;
    valid += (valid.empty() ? "" : ", ") + std::string(name(axis));
  }
  refuse(text, "unknown axis \"" + word + "\"; valid: " + valid);
}

int countOf(const std::string& text, const std::string& part, const std::string& number) {
  int value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size() || value < 1)
    refuse(text, "\"" + part + "\" must be AXIS=RANKS, with 1 or more ranks");
  return value;
}

} // namespace

std::string_view name(Axis axis) {
  constexpr std::array<std::string_view, kAxes.size()> kNames = {"data", "shard", "pipe", "tensor"};
  return kNames[static_cast<std::size_t>(axis)];
}

Mesh Mesh::parse(const std::string& text, int ranks) {
  Mesh mesh;
  if (text.empty()) {
    mesh.digits_.push_back({Axis::data, ranks});
    return mesh;
  }
  std::int64_t product = 1;
  std::istringstream parts(text + ","); // the comma makes getline() return an empty last part
  for (std::string part; std::getline(parts, part, ',');) {
    const std::size_t equals = part.find('=');
    const Axis axis = axisOf(text, part.substr(0, equals));
    const int count =
        countOf(text, part, equals == std::string::npos ? "" : part.substr(equals + 1));
    if (std::any_of(mesh.digits_.begin(), mesh.digits_.end(),
                    [&](const Digit& digit) { return digit.axis == axis; }))
      refuse(text, "axis \"" + std::string(name(axis)) + "\" is named twice");
    mesh.digits_.push_back({axis, count});
    product = std::min<std::int64_t>(product * count, std::numeric_limits<int>::max());
  }
  if (product != ranks)
    refuse(text, "its axes need " + std::to_string(product) + " ranks in all, but this run has " +
                     std::to_string(ranks));
  return mesh;
}

int Mesh::size() const {
  int product = 1;
  for (const Digit& digit : digits_) product *= digit.ranks;
  return product;
}

int Mesh::size(Axis axis) const {
  for (const Digit& digit : digits_)
    if (digit.axis == axis) return digit.ranks;
  return 1;
}

/// The difference between the ranks of two neighbours along the axis.
int Mesh::stride(Axis axis) const {
  int product = 1;
  for (std::size_t i = digits_.size(); i-- > 0 && digits_[i].axis != axis;)
    product *= digits_[i].ranks;
  return product;
}

int Mesh::coordinate(Axis axis, int rank) const { return rank / stride(axis) % size(axis); }

std::vector<int> Mesh::groupOf(const std::vector<Axis>& axes, int rank) const {
  std::vector<int> all;
  for (int other = 0; other < size(); ++other) {
    const bool near = std::all_of(kAxes.begin(), kAxes.end(), [&](Axis axis) {
      return std::find(axes.begin(), axes.end(), axis) != axes.end() ||
             coordinate(axis, other) == coordinate(axis, rank);
    });
    if (near) all.push_back(other);
  }
  return all;
}

std::string Mesh::text() const {
  std::string text;
  for (const Digit& digit : digits_) {
    if (digit.ranks == 1) continue;
    text += (text.empty() ? "" : ",") + std::string(name(digit.axis)) + "=" +
            std::to_string(digit.ranks);
  }
  return text.empty() ? "data=1" : text;
}

Mesh strategyMesh(const TrainOptions& options, int ranks, Axis own,
                  const std::vector<Axis>& beside) {
  const std::string& text = options.sharding.mesh;
  const Mesh mesh = Mesh::parse(
      text.empty() ? std::string(name(own)) + "=" + std::to_string(ranks) : text, ranks);
  std::string taken;
  for (Axis axis : beside) taken += (taken.empty() ? "" : ", ") + std::string(name(axis));
  for (Axis axis : kAxes)
    if (axis != own && std::find(beside.begin(), beside.end(), axis) == beside.end() &&
        mesh.size(axis) > 1)
      refuse(text, "strategy " + options.strategy + " takes the axes " + taken + " and " +
                       std::string(name(own)) + ", not " + std::string(name(axis)));
  return mesh;
}

Communicator Mesh::split(Communicator& comm, const std::vector<Axis>& axes) const {
  // The color is the lowest rank of the group: no other group has it.
  return *comm.split(groupOf(axes, comm.rank()).front(), comm.rank());
}

} // namespace rondo::training
