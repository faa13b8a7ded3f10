// Tests the files of the cache: which profile is used, and that damaged files never do harm.
#include "planner/stored.h"

#include <unistd.h>

#include <fstream>
#include <functional>

#include "base/log.h"
#include "model/profile_file.h"
#include "rondo/error.h"
#include "support/own_cache.h"
#include "support/test.h"
#include "tests/tools/shell.h"

namespace rondo::test {
namespace {

void write(const std::string& path, const std::string& text) {
  REQUIRE(planner::replaceFile(path, text));
  REQUIRE(readFile(path) == text);
}

model::Profile named(const std::string& name) {
  model::Profile profile = model::defaultProfile();
  profile.name = name;
  profile.machine = model::machineKey();
  return profile;
}

} // namespace

// Proves: a stored profile is used if it fits this machine, and otherwise one warning says where
// and why it does not, however often it is looked for.
TEST_CASE("the profile that was stored for this machine is used, a wrong one is not") {
  const OwnCache cache;
  CHECK(planner::usedProfile("").name == "default");
  const std::string path = planner::profilePath();
  write(path, model::profileText(named("tuned")));
  CHECK(planner::usedProfile("").name == "tuned");

  model::Profile foreign = named("foreign");
  foreign.machine = "a toaster";
  write(path, model::profileText(foreign));
  for (int i = 0; i < 2; ++i) CHECK(planner::usedProfile("").name == "default");
  CHECK(cache.logged("was made on another machine (a toaster") == 1);

  std::string text = model::profileText(named("outdated"));
  text.replace(text.find("\"rondo_profile\": 1"), 18, "\"rondo_profile\": 0");
  write(path, text);
  CHECK(planner::usedProfile("").name == "default");
  CHECK(cache.logged(path + ":2: version 0 is not 1") == 1);

  write(path, "{\n\"rondo_profile\": 1,\n oops");
  for (int i = 0; i < 2; ++i) CHECK(planner::usedProfile("").name == "default");
  CHECK(cache.logged(path + ":3: ") == 1);
  CHECK(cache.logged("the default profile is used") == 3);
}

TEST_CASE("a profile that the user named is used, or refused with file, line and reason") {
  const OwnCache cache;
  const std::string path = cache.file("mine.json");
  write(path, model::profileText(named("mine")));
  CHECK(planner::usedProfile(path).name == "mine");
  write(path, "{\n  \"name\": 1\n}\n");
  try {
    planner::usedProfile(path);
    FAIL("read");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::data);
    CHECK(std::string(error.what()).starts_with(path + ":1: "));
  }
  CHECK_THROWS_AS(planner::usedProfile(cache.file("missing.json")), Error);
}

// Proves: a table is found by its key alone, and any damaged byte, cut or other version makes it
// unknown, without an error.
TEST_CASE("a kept table is read again, and a damaged one is not used") {
  const OwnCache cache;
  const planner::Table table =
      planner::Table::parse("allreduce: oneshot to 8192, ring\nreduce: tree\n", "t");
  CHECK_FALSE(planner::loadTable("key"));
  planner::storeTable("key", table);
  REQUIRE(planner::loadTable("key"));
  CHECK(planner::loadTable("key")->text() == table.text());
  CHECK_FALSE(planner::loadTable("other key"));

  const std::string path = cache.tables().at(0).string();
  const std::string whole = readFile(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write(path, damaged);
    INFO("byte " << i);
    CHECK_FALSE(planner::loadTable("key"));
    write(path, whole.substr(0, i));
    CHECK_FALSE(planner::loadTable("key"));
  }
  CHECK(cache.logged(path + ": damaged or outdated") > 0);
  write(path, whole);
  CHECK(planner::loadTable("key"));
}

// Proves: processes of several containers may have the same number and share the folder.
TEST_CASE("a file that another process of this number writes at the same time stays") {
  const OwnCache cache;
  const std::string path = cache.file("a.json");
  const auto other = [&](int number) {
    return path + "." + std::to_string(::getpid()) + "." + std::to_string(number);
  };
  for (int i = 0; i < 1000; ++i) std::ofstream(other(i)) << "half";
  write(path, "whole");
  for (int i = 0; i < 1000; ++i) REQUIRE(readFile(other(i)) == "half");
}

TEST_CASE("where no file can be written, a table is not kept") {
  const OwnCache cache;
  std::ofstream(cache.file("cache")) << "a file where the folder would be";
  planner::storeTable("key", planner::Table::parse("reduce: tree\n", "t"));
  CHECK_FALSE(planner::loadTable("key"));
  CHECK(cache.logged("decisions are not kept: ") == 1);
  CHECK_FALSE(planner::replaceFile("", "x"));
}

TEST_CASE("a table's key names everything that decisions depend on") {
  const planner::Policy policy;
  const std::string key = planner::tableKey(4, policy, "profile");
  const auto differs = [&](const std::function<void(planner::Policy&)>& change) {
    planner::Policy changed = policy;
    change(changed);
    return planner::tableKey(4, changed, "profile") != key;
  };
  CHECK(planner::tableKey(5, policy, "profile") != key);
  CHECK(planner::tableKey(4, policy, "another") != key);
  CHECK(differs([](planner::Policy& p) { p.deterministic = true; }));
  CHECK(differs([](planner::Policy& p) { p.oversubscribed = true; }));
  CHECK(differs([](planner::Policy& p) { p.network_channels = true; }));
  CHECK(differs([](planner::Policy& p) { p.layout = plan::parseLayout("2x2"); }));
  CHECK(differs([](planner::Policy& p) { p.site.inside = model::LinkClass::loopback; }));
  CHECK(differs([](planner::Policy& p) { p.site.between = model::LinkClass::network; }));
  CHECK(differs([](planner::Policy& p) { p.site.processors = 2; }));
  CHECK(differs([](planner::Policy& p) { p.site.message_bytes = 64; }));
}

} // namespace rondo::test
