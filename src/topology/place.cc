// Finds, encodes and compares the places of ranks.
#include "topology/place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <map>
#include <mutex>

#include "base/random.h"
#include "base/read_file.h"
#include "rondo/error.h"
#include "topology/system.h"

namespace rondo::topology {
namespace {

constexpr std::size_t kMostText = 4096;

/// The place of a rank on these processors, as far as the kernel's files tell.
Place readPlaceOf(const Processors& processors) {
  Place place;
  place.processors = processors;
  const Machine machine = systemMachine(processors);
  const auto around = [&](Kind kind) { return machine.around(kind, processors); };
  if (const int i = around(Kind::package); i >= 0) place.package = machine.at(i).number;
  if (const int i = around(Kind::numa); i >= 0) place.numa_node = machine.at(i).number;
  if (const int i = around(Kind::core); i >= 0) place.core = machine.at(i).number;
  for (const int i : machine.all(Kind::cache))
    if (const Object& cache = machine.at(i);
        contains(cache.processors, processors) && cache.level > place.cache_level) {
      place.cache = cache.number;
      place.cache_level = cache.level;
    }
  return place;
}

/// Reads the files once for each set of processors: there are about 17 for a processor, and a
/// program may make many communicators.
Place placeOf(const Processors& processors) {
  // Never destroyed: a thread may make a communicator while the process ends.
  static auto& mutex = *new std::mutex;
  static auto& known = *new std::map<Processors, Place>;
  const std::lock_guard lock(mutex);
  const auto found = known.find(processors);
  return found != known.end() ? found->second
                              : known.emplace(processors, readPlaceOf(processors)).first->second;
}

} // namespace

std::uint64_t processToken() {
  static const std::uint64_t token = base::randomNumber();
  return token;
}

std::string machineName() { return base::firstLine("/proc/sys/kernel/random/boot_id"); }

std::string nodeName(const std::string& given) {
  if (!given.empty()) return given;
  struct stat network {};
  const bool known = ::stat("/proc/self/ns/net", &network) == 0;
  return machineName() + (known ? "/" + std::to_string(network.st_ino) : "");
}

Place ownPlace(const std::string& node) {
  Place place = placeOf(ownProcessors());
  place.machine = machineName();
  place.node = node;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) place.host = host.data();
  place.process = processToken();
  return place;
}

void write(base::Writer& out, const Place& place) {
  for (const auto* word : {&place.node, &place.machine, &place.host}) out.text(*word);
  out.u64(place.process);
  out.text(text(place.processors));
  for (const int number :
       {place.package, place.numa_node, place.core, place.cache, place.cache_level})
    out.i32(number);
}

Place readPlace(base::Reader& in) {
  Place place;
  for (auto* word : {&place.node, &place.machine, &place.host}) *word = in.text(kMostText);
  place.process = in.u64();
  try {
    place.processors = parseProcessors(in.text(kMostText), "processors");
  } catch (const Error& error) {
    in.fail(std::string("is wrong: ") + error.what());
  }
  for (int* number :
       {&place.package, &place.numa_node, &place.core, &place.cache, &place.cache_level})
    *number = in.i32();
  return place;
}

Link linkBetween(const Place& a, const Place& b) {
  const auto same = [](int one, int other) { return one >= 0 && one == other; };
  if (a.node != b.node || a.machine != b.machine) return {LinkClass::network};
  if (a.process == b.process) return {LinkClass::process};
  if (same(a.package, b.package) && same(a.core, b.core)) return {LinkClass::core};
  if (same(a.cache, b.cache)) return {LinkClass::cache, a.cache_level};
  if (same(a.package, b.package)) return {LinkClass::socket};
  if (a.package >= 0 && b.package >= 0) return {LinkClass::cross_socket};
  return {LinkClass::machine};
}

std::string text(const Place& place) {
  const bool one = place.processors.size() == 1;
  std::string words = (one ? "processor " : "processors ") + text(place.processors);
  if (place.core >= 0) words += ", one core";
  if (place.package >= 0) words += " of package " + std::to_string(place.package);
  return words;
}

} // namespace rondo::topology
