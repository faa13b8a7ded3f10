// Tests link profiles: monotonic by construction, the file format, and foreign machines.
#include "model/profile.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "model/profile_file.h"
#include "rondo/error.h"
#include "support/temporary_folder.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace model;

std::string refusal(const auto& make) {
  try {
    make();
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

} // namespace

TEST_CASE("a curve is continuous, and one that could fall is refused") {
  const Curve curve({{0, 2}, {100, 0}, {200, 5}});
  CHECK(curve(0) == 0);
  CHECK(curve(50) == 100);
  CHECK(curve(100) == 200);
  CHECK(curve(199) == 200);
  CHECK(curve(201) == 205);
  CHECK(Curve()(1e9) == 0);
  CHECK(refusal([] { Curve({{1, 1}}); }) == "the first piece must begin at 0 bytes");
  CHECK(refusal([] { Curve({{0, 1}, {5, 1}, {5, 2}}); }) == "sizes must ascend");
  CHECK(refusal([] { Curve({{0, -1}}); }) == "sizes and speeds must be finite, and not negative");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(refusal([&] { Curve({{0, nan}}); }) == "sizes and speeds must be finite, and not negative");
}

TEST_CASE("levels grow with the working set, and those that do not are refused") {
  const Levels levels({{1024, 1}, {4096, 3}});
  CHECK(levels.at(0) == 1);
  CHECK(levels.at(1024) == 1);
  CHECK(levels.at(2048) == Approx(2));
  CHECK(levels.at(4096) == 3);
  CHECK(levels.at(1e12) == 3);
  CHECK(refusal([] { Levels({{1, 2}, {2, 1}}); }) == "a larger working set must not be faster");
  CHECK(refusal([] { Levels({{2, 1}, {2, 1}}); }) == "sizes must ascend");
  CHECK(refusal([] { Levels({{2, 0}}); }) == "a byte must cost more than 0 seconds");
}

TEST_CASE("the default profile survives a file, and describes all kinds of links") {
  const std::string text = profileText(defaultProfile());
  CHECK(profileText(parseProfile(text, "f")) == text);
  for (std::size_t i = 0; i < kLinkClasses; ++i) {
    const auto link = static_cast<LinkClass>(i);
    CHECK(parseLinkClass(name(link)) == link);
    CHECK_NOTHROW(defaultProfile().link(link));
  }
  const Profile read = parseProfile(text, "f");
  const LinkProfile &a = read.link(LinkClass::loopback),
                    &b = defaultProfile().link(LinkClass::loopback);
  for (const double bytes : {1.0, 1e3, 1e5, 1e7}) {
    CHECK(a.send(bytes) == Approx(b.send(bytes)));
    CHECK(a.receive(bytes) == Approx(b.receive(bytes)));
  }
  CHECK(a.alpha == Approx(b.alpha));
  CHECK(read.link(LinkClass::inproc).lends_from ==
        defaultProfile().link(LinkClass::inproc).lends_from);
}

TEST_CASE("a file of more than 1 MiB is not read") {
  CHECK(refusal([] { parseProfile(std::string((1 << 20) + 1, ' '), "f"); }) ==
        "f:1: the text is larger than 1 MiB");
}

TEST_CASE("a damaged, outdated or unknown profile is refused with file, line and reason") {
  const std::string text = profileText(defaultProfile());
  const auto error = [&](const std::string& from, const std::string& to) {
    return refusal([&] { parseProfile(replaced(text, from, to), "p.json"); });
  };
  CHECK(error("\"rondo_profile\": 1", "\"rondo_profile\": 9") ==
        "p.json:2: version 9 is not 1; make the profile again by `rondo tune`");
  CHECK(error("\"name\": \"default\",", "") == "p.json:1: the key \"name\" is missing");
  CHECK(error("\"turn_us\": ", "\"turn_us\": -") ==
        "p.json:6: \"turn_us\" must be a number from 0 to 1000000000");
  CHECK(error("\"turn_us\"", "\"turns\": 1,\n  \"turn_us\"") == "p.json:6: unknown key \"turns\"");
  CHECK(error("\"copy\": [[", "\"copy\": [[-") ==
        "p.json:7: \"copy\": sizes and speeds must be finite, and not negative");
  CHECK(error("\"copy\": [[", "\"copy\": [[1, 0], [").find("p.json:7: a size must") == 0);
  for (const char* beyond : {"[0, 1e300]", "[0, 1e-307]", "[0, 1], [1e16, 1]"})
    CHECK(error("\"wire\": []", std::string("\"wire\": [") + beyond + "]")
              .ends_with(": a size must be at most 1e+15 bytes, and a speed from 1e-09 to "
                         "1000000000 GB/s"));
  CHECK(error("\"line\": \"none\"", "\"line\": \"wide\"")
            .find("unknown line \"wide\"; valid: none, rank, node") != std::string::npos);
  CHECK(error("\"shm\"", "\"ism\"").find("unknown key \"ism\"") != std::string::npos);
  CHECK(error("\"depth\": 8", "\"depth\": 0").find("\"depth\" must be a number from 1") !=
        std::string::npos);
  CHECK(refusal([] { readProfile("/nonexistent/profile"); }) ==
        "/nonexistent/profile: No such file or directory");
  CHECK(refusal([] { parseProfile("[]", "p"); }) == "p:1: expected an object");
}

TEST_CASE("the key of a machine tells processors apart, whatever their kernel calls them") {
  const TemporaryFolder folder;
  const auto nameOf = [&](const std::string& cpuinfo) {
    const std::string key = machineKeyOf(cpuinfo, folder.file("nothing"));
    const auto begin = key.find(", ") + 2;
    return key.substr(begin, key.find(", ", begin) - begin);
  };
  CHECK(nameOf("processor\t: 0\ncpu family\t: 26\nmodel name\t: AMD EPYC\n\n"
               "processor\t: 1\nmodel name\t: other\n") == "AMD EPYC");
  CHECK(nameOf("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n") == "0x41 0xd0c");
  CHECK(nameOf("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n") == "0x41 0xd40");
  CHECK(nameOf("processor\t: 0\ncpu\t\t: POWER9\n") == "POWER9");
  CHECK(nameOf("model name") == "unknown processor");
}

TEST_CASE("the key of a machine has the caches of processor 0") {
  const TemporaryFolder folder;
  const auto cache = [&](int index, const char* level, const char* size) {
    const std::filesystem::path at =
        folder.file("devices/system/cpu/cpu0/cache/index" + std::to_string(index));
    std::filesystem::create_directories(at);
    std::ofstream(at / "level") << level << "\n";
    std::ofstream(at / "size") << size << "\n";
  };
  cache(0, "1", "32K");
  cache(1, "3", "32768K");
  cache(2, "2", "1024K");
  CHECK(machineKeyOf("", folder.file("")).ends_with(" processors, L2 1024 KiB, L3 32768 KiB"));
  CHECK(machineKeyOf("", folder.file("nothing")).ends_with(" processors"));
}

TEST_CASE("a profile of another machine is recognised") {
  Profile profile = defaultProfile();
  CHECK(foreign(profile).empty()); // made for no machine in particular
  profile.machine = machineKey();
  CHECK(foreign(profile).empty());
  CHECK(profile.machine.find("processors") != std::string::npos);
  profile.machine = "a toaster";
  CHECK(foreign(profile, "here") ==
        "profile 'default' was made on another machine (a toaster; this one is here)");
}

} // namespace rondo::test
