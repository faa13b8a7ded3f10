// Proves: each parser accepts all valid texts and nothing else: no blanks, no trailing text,
// no overflow.
#include "base/parse.h"

#include <limits>

#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace base;
using std::chrono::milliseconds;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

/// Whether `call` throws Error(invalid_argument) that names both the variable and the value.
template <class Call>
bool refused(const std::string& text, Call call) {
  try {
    call();
  } catch (const Error& error) {
    const std::string message = error.what();
    return error.code() == ErrorCode::invalid_argument &&
           message.find("WHAT") != std::string::npos &&
           message.find(quoted(text)) != std::string::npos;
  }
  return false;
}

} // namespace

TEST_CASE("integers") {
  const std::pair<const char*, std::int64_t> good[] = {
      {"0", 0},
      {"-0", 0},
      {"1", 1},
      {"-1", -1},
      {"007", 7},
      {"9223372036854775807", std::numeric_limits<std::int64_t>::max()},
      {"-9223372036854775808", std::numeric_limits<std::int64_t>::min()}};
  for (const auto& [text, value] : good) CHECK(parseInteger(text, "WHAT") == value);
  for (const std::string text :
       {"", " ", "1 ", " 1", "+1", "1.0", "1e3", "0x10", "--1", "-", "one", "1a",
        "9223372036854775808", "-9223372036854775809", "99999999999999999999999"}) {
    CAPTURE(text);
    CHECK(refused(text, [&] { parseInteger(text, "WHAT"); }));
  }
  for (std::int64_t low : {-3, 0, 5}) {
    for (std::int64_t value = -10; value <= 20; ++value) {
      const std::string text = std::to_string(value);
      if (value >= low && value <= 9) CHECK(parseInteger(text, "WHAT", low, 9) == value);
      else CHECK(refused(text, [&] { parseInteger(text, "WHAT", low, 9); }));
    }
  }
  CHECK(refused(std::string("1\0", 2), [] { parseInteger(std::string("1\0", 2), "WHAT"); }));
}

TEST_CASE("byte counts: every suffix, and the edge of 64 bits for each") {
  const char* spellings[] = {"", "B", "iB", "b", "ib"};
  const char units[] = {'K', 'M', 'G', 'T'};
  for (unsigned unit = 0; unit < 4; ++unit) {
    const unsigned shift = 10 * (unit + 1);
    const std::uint64_t largest = kMax >> shift;
    for (const char* spelling : spellings) {
      for (char letter : {units[unit], static_cast<char>(units[unit] + 32)}) {
        const std::string suffix = letter + std::string(spelling);
        for (std::uint64_t n : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{64}, largest}) {
          CHECK(parseBytes(std::to_string(n) + suffix, "WHAT") == n << shift);
        }
        const std::string over = std::to_string(largest + 1) + suffix;
        CHECK(refused(over, [&] { parseBytes(over, "WHAT"); }));
      }
    }
  }
  CHECK(parseBytes("18446744073709551615", "WHAT") == kMax);
  CHECK(parseBytes("8B") == 8);
  for (const std::string text :
       {"", " ", "K", "-1", "+1", "1.5M", "1 K", "1KK", "1KiBB", "1P", "1k1", "64 ", " 64", "0x10",
        "18446744073709551616", "1iB", "12bytes", "1Ki"}) {
    CAPTURE(text);
    CHECK(refused(text, [&] { parseBytes(text, "WHAT"); }));
  }
  CHECK(refused("63", [] { parseBytes("63", "WHAT", 64, 128); }));
  CHECK(refused("129", [] { parseBytes("129", "WHAT", 64, 128); }));
  CHECK(parseBytes("64", "WHAT", 64, 128) == 64);
  CHECK(parseBytes("128", "WHAT", 64, 128) == 128);
}

TEST_CASE("formatBytes() writes what parseBytes() reads") {
  for (std::uint64_t n : {0ull, 1ull, 1023ull, 1024ull, 1025ull, 65536ull, 1ull << 20, 3ull << 30,
                          1ull << 40, 1ull << 50, 1ull << 63, 18446744073709551615ull}) {
    CHECK(parseBytes(formatBytes(n), "WHAT") == n);
  }
  CHECK(formatBytes(65536) == "64K");
  CHECK(formatBytes(1u << 20) == "1M");
  CHECK(formatBytes(1000) == "1000");
}

TEST_CASE("durations") {
  const std::pair<const char*, std::int64_t> good[] = {{"0", 0},
                                                       {"1", 1000},
                                                       {"1.5", 1500},
                                                       {"1.5s", 1500},
                                                       {".5", 500},
                                                       {"2.", 2000},
                                                       {"0.001", 1},
                                                       {"0.0001", 1},
                                                       {"200ms", 200},
                                                       {"0.5ms", 1},
                                                       {"2m", 120'000},
                                                       {"1H", 3'600'000},
                                                       {"0.1", 100},
                                                       {"1.001", 1001},
                                                       {"1.0005", 1001},
                                                       {"0.10000000000000000000", 100},
                                                       {"0.1000000000000000001", 101}};
  for (const auto& [text, value] : good) {
    CAPTURE(text);
    CHECK(parseDuration(text, "WHAT") == milliseconds(value));
  }
  for (const std::string text : {"",
                                 " ",
                                 ".",
                                 "s",
                                 "-1",
                                 "+1",
                                 "1 s",
                                 "1e3",
                                 "inf",
                                 "nan",
                                 "1,5",
                                 "1.5.5",
                                 "1d",
                                 "1us",
                                 "1sm",
                                 "0x1",
                                 "9999999999",
                                 "18446744073709551616",
                                 "18446744073709551615h",
                                 "18446744073709551615"}) {
    CAPTURE(text);
    CHECK(refused(text, [&] { parseDuration(text, "WHAT"); }));
  }
  CHECK(refused("0", [] { parseDuration("0", "WHAT", milliseconds(1)); }));
  CHECK(refused("3", [] { parseDuration("3", "WHAT", milliseconds(1), milliseconds(2999)); }));
  for (std::int64_t ms : {0, 1, 10, 100, 999, 1000, 1001, 1010, 1100, 120'000}) {
    CHECK(parseDuration(formatSeconds(milliseconds(ms)), "WHAT") == milliseconds(ms));
  }
}

TEST_CASE("flags") {
  for (const char* text : {"1", "true", "TRUE", "yes", "on", "On"}) CHECK(parseFlag(text, "WHAT"));
  for (const char* text : {"0", "false", "No", "off"}) CHECK_FALSE(parseFlag(text, "WHAT"));
  for (const std::string text : {"", "2", "-1", "01", "y", "n", "truee", " 1", "1 "}) {
    CAPTURE(text);
    CHECK(refused(text, [&] { parseFlag(text, "WHAT"); }));
  }
}

TEST_CASE("lists") {
  using List = std::vector<std::string>;
  CHECK(parseList("", "WHAT") == List{});
  CHECK(parseList("  ", "WHAT") == List{});
  CHECK(parseList("a", "WHAT") == List{"a"});
  CHECK(parseList(" a , b ,c", "WHAT") == List{"a", "b", "c"});
  CHECK(parseList("a,b;c,d", "WHAT", ';') == List{"a,b", "c,d"});
  for (const std::string text : {",", "a,", ",a", "a,,b", "a, ,b"}) {
    CAPTURE(text);
    CHECK(refused(text, [&] { parseList(text, "WHAT"); }));
  }
}

TEST_CASE("name filters allow the listed names, or all others") {
  const char* names[] = {"shm", "tcp", "inproc"};
  for (const char* name : names) CHECK(NameFilter::parse("", "WHAT").allows(name));
  for (const char* name : names) {
    CHECK(NameFilter::parse("shm,tcp", "WHAT").allows(name) == (std::string(name) != "inproc"));
    CHECK(NameFilter::parse("^shm,tcp", "WHAT").allows(name) == (std::string(name) == "inproc"));
  }
  CHECK_FALSE(NameFilter::parse("shm", "WHAT").allows("sh"));
  for (const std::string text : {"^", "^ ", "shm,,tcp"}) {
    CHECK_THROWS_AS(NameFilter::parse(text, "WHAT"), Error);
  }
}

TEST_CASE("quoted texts have no control characters and are cut") {
  CHECK(quoted("a b") == "\"a b\"");
  CHECK(quoted("a\nb\x1b[0m") == "\"a\\x0ab\\x1b[0m\"");
  CHECK(quoted(std::string(1000, 'x')).size() < 100);
}

TEST_CASE("the nearest name is found by edit distance; dissimilar words have none") {
  const std::string_view names[] = {"TIMEOUT", "INIT_TIMEOUT", "DEPTH", "DEBUG"};
  CHECK(nearest("TIMOUT", names) == "TIMEOUT");
  CHECK(nearest("timeout", names) == "TIMEOUT");
  CHECK(nearest("DEBGU", names) == "DEBUG");
  CHECK(nearest("DEPHT", names) == "DEPTH");
  CHECK(nearest("INITTIMEOUT", names) == "INIT_TIMEOUT");
  CHECK(nearest("ITMOEUT", names) == "TIMEOUT"); // two pairs of letters are swapped
  CHECK(nearest("ITMOEUTS", names).empty());     // three edits
  CHECK(nearest("EBUG", names) == "DEBUG");
  CHECK(nearest("EUBG", names).empty()); // two edits of a short word
  CHECK(nearest("COLOUR", names).empty());
  CHECK(nearest("", names).empty());
}

} // namespace rondo::test
