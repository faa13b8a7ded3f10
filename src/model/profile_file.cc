// The keys of a profile's file, each in one place for reading and one for writing.
#include "model/profile_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/read_file.h"
#include "rondo/error.h"

namespace rondo::model {

namespace {

using base::Json;

constexpr std::array<std::string_view, 3> kNics{"none", "rank", "node"};
constexpr std::array<std::string_view, 4> kElements{"1", "2", "4", "8"};
constexpr double kGigabyte = 1e9, kMicro = 1e-6;
constexpr double kMostBytes = 1e15, kMostSpeed = 1e9; ///< GB/s

/// A JSON object whose keys are read one by one; done() refuses those that nothing read.
class Reader {
 public:
  Reader(const Json& object, const std::string& file) : object_(object), file_(file) {
    if (object.kind != Json::Kind::object) fail(object, "expected an object");
  }

  [[noreturn]] void fail(const Json& at, const std::string& reason) const {
    throw Error(ErrorCode::data, file_ + ":" + std::to_string(at.line) + ": " + reason);
  }
  const Json* maybe(std::string_view key) {
    read_.insert(std::string(key));
    return object_.find(key);
  }
  const Json& value(std::string_view key) {
    const Json* found = maybe(key);
    if (!found) fail(object_, "the key \"" + std::string(key) + "\" is missing");
    return *found;
  }
  double number(std::string_view key, double lowest, double highest) {
    const Json& found = value(key);
    if (found.kind != Json::Kind::number || found.number < lowest || found.number > highest)
      fail(found, "\"" + std::string(key) + "\" must be a number from " + shortest(lowest) +
                      " to " + shortest(highest));
    return found.number;
  }
  double seconds(std::string_view key) { return number(key, 0, 1e9) * kMicro; }
  std::string text(std::string_view key) {
    const Json& found = value(key);
    if (found.kind != Json::Kind::string)
      fail(found, "\"" + std::string(key) + "\" must be a string");
    return found.text;
  }
  Reader object(std::string_view key) { return {value(key), file_}; }

  /// A list of pairs: a size, and the seconds per byte of a speed in GB/s.
  template <typename Result, typename Pair>
  Result pairs(std::string_view key) {
    const Json& list = value(key);
    if (list.kind != Json::Kind::array) fail(list, "\"" + std::string(key) + "\" must be a list");
    std::vector<Pair> result;
    for (const Json& pair : list.items) {
      const bool fits = pair.kind == Json::Kind::array && pair.items.size() == 2 &&
                        pair.items[0].kind == Json::Kind::number &&
                        pair.items[1].kind == Json::Kind::number;
      if (!fits) fail(pair, "expected [bytes, GB/s]");
      const double size = pair.items[0].number, speed = pair.items[1].number;
      if (size > kMostBytes || speed < 1 / kMostSpeed || speed > kMostSpeed)
        fail(pair, "a size must be at most " + shortest(kMostBytes) + " bytes, and a speed from " +
                       shortest(1 / kMostSpeed) + " to " + shortest(kMostSpeed) + " GB/s");
      result.push_back({size, 1 / (speed * kGigabyte)});
    }
    try {
      return Result(std::move(result));
    } catch (const Error& error) {
      fail(list, "\"" + std::string(key) + "\": " + error.what());
    }
  }
  void done() const {
    for (std::size_t i = 0; i < object_.keys.size(); ++i)
      if (!read_.contains(object_.keys[i]))
        fail(object_.items[i], "unknown key \"" + object_.keys[i] + "\"");
  }

  /// Ten digits: more than is measured, and few enough to hide that a speed was inverted twice.
  static std::string shortest(double value) {
    char text[32];
    std::snprintf(text, sizeof text, "%.10g", value);
    return text;
  }

 private:
  const Json& object_;
  const std::string& file_;
  std::set<std::string> read_;
};

LinkProfile linkOf(Reader reader) {
  LinkProfile link;
  link.alpha = reader.seconds("alpha_us");
  link.send_overhead = reader.seconds("send_us");
  link.receive_overhead = reader.seconds("receive_us");
  link.send = reader.pairs<Curve, Curve::Piece>("send");
  link.receive = reader.pairs<Curve, Curve::Piece>("receive");
  link.wire = reader.pairs<Curve, Curve::Piece>("wire");
  const std::string nic = reader.text("line"); // the name in files
  const auto found = std::find(kNics.begin(), kNics.end(), nic);
  if (found == kNics.end())
    reader.fail(reader.value("line"), "unknown line \"" + nic + "\"; valid: none, rank, node");
  link.nic = static_cast<Nic>(found - kNics.begin());
  const Json& mapped = reader.value("mapped");
  if (mapped.kind != Json::Kind::boolean) reader.fail(mapped, "\"mapped\" must be true or false");
  link.mapped = mapped.number != 0;
  link.slot_bytes = reader.number("slot_bytes", 64, 1e13);
  link.depth = static_cast<int>(reader.number("depth", 1, 1e6));
  if (reader.maybe("lends_from")) link.lends_from = reader.number("lends_from", 1, kMostBytes);
  reader.done();
  return link;
}

Residual residualOf(Reader reader) {
  Residual residual{reader.text("what"), reader.number("median", 0, 1e6),
                    reader.number("worst", 0, 1e6)};
  reader.done();
  return residual;
}

template <typename Items, typename Size>
std::string pairsText(const Items& items, Size size) {
  std::string text = "[";
  for (const auto& item : items)
    text += (text.size() > 1 ? ", [" : "[") + Reader::shortest(item.*size) + ", " +
            Reader::shortest(1 / (item.seconds_per_byte * kGigabyte)) + "]";
  return text + "]";
}
std::string text(const Curve& curve) {
  // A piece that costs nothing has no speed; it exists only as the curve without pieces.
  return curve.free() ? "[]" : pairsText(curve.pieces(), &Curve::Piece::from);
}
std::string text(const Levels& levels) {
  return pairsText(levels.points(), &Levels::Point::working_set);
}

std::string linkText(const LinkProfile& link) {
  const auto micro = [](double seconds) { return Reader::shortest(seconds / kMicro); };
  std::string text = "{\"alpha_us\": " + micro(link.alpha) +
                     ", \"send_us\": " + micro(link.send_overhead) +
                     ", \"receive_us\": " + micro(link.receive_overhead);
  text += ",\n      \"send\": " + model::text(link.send);
  text += ",\n      \"receive\": " + model::text(link.receive);
  text += ",\n      \"wire\": " + model::text(link.wire);
  text += ",\n      \"line\": \"" + std::string(kNics[static_cast<std::size_t>(link.nic)]) +
          "\", \"mapped\": " + (link.mapped ? "true" : "false") +
          ", \"slot_bytes\": " + Reader::shortest(link.slot_bytes) +
          ", \"depth\": " + std::to_string(link.depth);
  if (std::isfinite(link.lends_from))
    text += ", \"lends_from\": " + Reader::shortest(link.lends_from);
  return text + "}";
}

} // namespace

std::string profileText(const Profile& profile) {
  std::string text = "{\n  \"rondo_profile\": " + std::to_string(kProfileVersion) +
                     ",\n  \"name\": " + base::jsonQuoted(profile.name) +
                     ",\n  \"machine\": " + base::jsonQuoted(profile.machine) +
                     ",\n  \"source\": " + base::jsonQuoted(profile.source) +
                     ",\n  \"turn_us\": " + Reader::shortest(profile.turn / kMicro) +
                     ",\n  \"copy\": " + model::text(profile.copy) +
                     ",\n  \"memory\": " + model::text(profile.memory) + ",\n  \"reduce\": {";
  for (std::size_t i = 0; i < kElements.size(); ++i)
    text += (i > 0 ? ",\n    \"" : "\n    \"") + std::string(kElements[i]) +
            "\": " + model::text(profile.reduce[i]);
  text += "\n  },\n  \"links\": {";
  bool first = true;
  for (std::size_t i = 0; i < kLinkClasses; ++i) {
    if (!profile.links[i]) continue;
    text += (first ? "\n    \"" : ",\n    \"") + std::string(name(static_cast<LinkClass>(i))) +
            "\": " + linkText(*profile.links[i]);
    first = false;
  }
  text += "\n  },\n  \"residuals\": [";
  for (std::size_t i = 0; i < profile.residuals.size(); ++i) {
    const Residual& one = profile.residuals[i];
    text += (i > 0 ? ",\n    " : "\n    ") + std::string("{\"what\": ") +
            base::jsonQuoted(one.what) + ", \"median\": " + Reader::shortest(one.median) +
            ", \"worst\": " + Reader::shortest(one.worst) + "}";
  }
  return text + "]\n}\n";
}

Profile parseProfile(const std::string& text, const std::string& file) {
  const Json json = base::parseJson(text, file);
  Reader reader(json, file);
  const double version = reader.number("rondo_profile", 0, 1e6);
  if (version != kProfileVersion)
    reader.fail(reader.value("rondo_profile"), "version " + Reader::shortest(version) + " is not " +
                                                   std::to_string(kProfileVersion) +
                                                   "; make the profile again by `rondo tune`");
  Profile profile;
  profile.name = reader.text("name");
  profile.machine = reader.text("machine");
  profile.source = reader.text("source");
  profile.turn = reader.seconds("turn_us");
  profile.copy = reader.pairs<Levels, Levels::Point>("copy");
  profile.memory = reader.pairs<Levels, Levels::Point>("memory");
  Reader reduce = reader.object("reduce");
  for (std::size_t i = 0; i < kElements.size(); ++i)
    profile.reduce[i] = reduce.pairs<Levels, Levels::Point>(kElements[i]);
  reduce.done();
  Reader links = reader.object("links");
  for (std::size_t i = 0; i < kLinkClasses; ++i) {
    const std::string_view key = name(static_cast<LinkClass>(i));
    if (links.maybe(key)) profile.links[i] = linkOf(links.object(key));
  }
  links.done();
  const Json& residuals = reader.value("residuals");
  if (residuals.kind != Json::Kind::array) reader.fail(residuals, "\"residuals\" must be a list");
  for (const Json& one : residuals.items) profile.residuals.push_back(residualOf({one, file}));
  reader.done();
  return profile;
}

Profile readProfile(const std::string& path) {
  const auto text = base::readFile(path);
  if (!text) throw Error(ErrorCode::data, path + ": " + std::strerror(errno));
  return parseProfile(*text, path);
}

} // namespace rondo::model
