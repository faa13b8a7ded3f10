// Proves, for fixed seeds: for any bytes, the parsers of wire and text forms return a value or
// throw their typed error, and the value is canonical. The sanitizers check the rest.
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/codec.h"
#include "base/parse.h"
#include "net/connection.h"
#include "net/handshake.h"
#include "rondo/error.h"
#include "rondo/types.h"
#include "support/paths.h"
#include "support/test.h"
#include "targets.h"

namespace rondo::test {
namespace {

using namespace base;
using namespace net;

using Bytes = std::vector<std::byte>;
constexpr int kRounds = 20'000;

Bytes randomOf(std::mt19937& random, std::size_t size) {
  Bytes bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

/// Some of: a flipped bit, a byte replaced by an extreme one, a piece cut, doubled or inserted.
Bytes mutate(std::mt19937& random, Bytes bytes) {
  const std::byte extremes[] = {std::byte{0}, std::byte{1}, std::byte{0x7f}, std::byte{0x80},
                                std::byte{0xff}};
  for (unsigned i = random() % 4 + 1; i > 0; --i) {
    const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
    const auto here = bytes.begin() + static_cast<long>(at);
    switch (random() % 5) {
      case 0:
        if (!bytes.empty()) bytes[at] ^= static_cast<std::byte>(1u << random() % 8);
        break;
      case 1:
        if (!bytes.empty()) bytes[at] = extremes[random() % 5];
        break;
      case 2: bytes.resize(at); break;
      case 3: {
        const Bytes more = randomOf(random, random() % 9);
        bytes.insert(here, more.begin(), more.end());
        break;
      }
      default: {
        const Bytes tail(here, bytes.end());
        bytes.insert(bytes.end(), tail.begin(), tail.end());
      }
    }
  }
  return bytes;
}

/// Parses random bytes and mutants of `seeds`; `again` parses a value and writes it again.
void fuzzWire(unsigned seed, const std::vector<Bytes>& seeds,
              const std::function<Bytes(const Bytes&)>& again) {
  std::mt19937 random(seed);
  int taken = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Bytes& from = seeds[random() % seeds.size()];
    const Bytes input =
        round % 4 == 0 ? randomOf(random, random() % (2 * from.size())) : mutate(random, from);
    try {
      const Bytes output = again(input);
      ++taken;
      if (output != input) FAIL("round " << round << ": a value that is not canonical was taken");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::transport) FAIL("round " << round << ": " << error.what());
    }
  }
  CHECK(taken > 0); // some mutants are valid
}

Bytes toBytes(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

} // namespace

TEST_CASE("fuzz: a handshake's hello") {
  handshake::HelloMessage control, data;
  control.hello.job = 7;
  control.hello.rank = 3;
  control.hello.size = 8;
  data.hello.purpose = Hello::Purpose::data;
  data.hello.index = 0xffff;
  data.passed = 4;
  fuzzWire(1, {toBytes(handshake::encodeHello(control)), toBytes(handshake::encodeHello(data))},
           [](const Bytes& bytes) {
             return toBytes(handshake::encodeHello(handshake::decodeHello(bytes)));
           });
}

TEST_CASE("fuzz: a handshake's reply") {
  handshake::ReplyMessage good, refusal;
  good.nonce.fill(std::byte{5});
  refusal.result = handshake::HandshakeResult::wrong_job;
  fuzzWire(2, {toBytes(handshake::encodeReply(good)), toBytes(handshake::encodeReply(refusal))},
           [](const Bytes& bytes) {
             return toBytes(handshake::encodeReply(handshake::decodeReply(bytes)));
           });
}

TEST_CASE("fuzz: a socket address") {
  SocketAddress name;
  name.family = SocketAddress::Family::unix_abstract;
  name.name = "rondo-0123456789abcdef";
  fuzzWire(3,
           {SocketAddress::parse("127.0.0.1:80", "").encode(),
            SocketAddress::parse("[2001:db8::5]:443", "").encode(), name.encode()},
           [](const Bytes& bytes) {
             const SocketAddress address = SocketAddress::decode(bytes);
             if (address.text().empty()) FAIL("an address without text");
             return address.encode();
           });
}

TEST_CASE("fuzz: the reader never reads past the end and never returns more than requested") {
  std::mt19937 random(4);
  for (int round = 0; round < kRounds; ++round) {
    const Bytes input = randomOf(random, random() % 64);
    Reader reader(input, "fuzz");
    try {
      for (;;) {
        const std::size_t before = reader.left();
        const std::size_t limit = random() % 40;
        std::size_t used = 0;
        switch (random() % 9) {
          case 0:
            reader.u8();
            used = 1;
            break;
          case 1:
            reader.u16();
            used = 2;
            break;
          case 2:
            reader.u32();
            used = 4;
            break;
          case 3:
            reader.u64();
            used = 8;
            break;
          case 4:
            reader.i32();
            used = 4;
            break;
          case 5:
            reader.i64();
            used = 8;
            break;
          case 6: used = reader.raw(limit).size(); break;
          case 7: used = reader.blob(limit).size() + 4; break;
          default: used = reader.text(limit).size() + 4; break;
        }
        if (reader.left() + used != before || used > limit + 8) FAIL("round " << round);
        if (before == 0 && used == 0) break;
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::transport) FAIL("round " << round << ": " << error.what());
    }
  }
}

TEST_CASE("fuzz: texts of the environment and the command line") {
  const std::string letters = "0123456789.-+KMGTkmgtiIbBshxe:[]/^=,; \t\0\xff%aflopuim";
  const std::function<void(const std::string&)> parsers[] = {
      [](const std::string& text) { parseInteger(text, "fuzz"); },
      [](const std::string& text) {
        const auto bytes = parseBytes(text, "fuzz");
        if (parseBytes(formatBytes(bytes), "fuzz") != bytes) FAIL(quoted(text));
      },
      [](const std::string& text) {
        const auto time = parseDuration(text, "fuzz");
        if (parseDuration(formatSeconds(time), "fuzz") != time) FAIL(quoted(text));
      },
      [](const std::string& text) { parseFlag(text, "fuzz"); },
      [](const std::string& text) { parseList(text, "fuzz"); },
      [](const std::string& text) { NameFilter::parse(text, "fuzz"); },
      [](const std::string& text) { parseDataType(text); },
      [](const std::string& text) { parseReduceOp(text); },
      [](const std::string& text) { parseCollective(text); }};
  std::mt19937 random(5);
  for (int round = 0; round < kRounds; ++round) {
    std::string text(random() % 24, ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    for (const auto& parse : parsers) {
      try {
        parse(text);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::invalid_argument) FAIL(quoted(text));
      }
    }
  }
}

namespace {

/// What libFuzzer found worth keeping: inputs that take different ways through the readers.
std::vector<Bytes> corpusOf(std::string_view target) {
  std::vector<Bytes> all;
  const std::string folder =
      std::string(RONDO_SOURCE_DIR "/tests/fuzz/corpus/") + std::string(target);
  if (!std::filesystem::exists(folder)) return all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    all.push_back(toBytes(std::as_bytes(std::span(text))));
  }
  return all;
}

} // namespace

// With Clang, `fuzz_targets` searches for more (tests/README.md).
TEST_CASE("fuzz: every reader takes valid inputs, and all others it takes or refuses") {
  std::mt19937 random(6);
  for (const Target& target : targets()) {
    INFO(std::string(target.name));
    std::vector<Bytes> inputs = target.seeds();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      INFO("seed " << i);
      CHECK(target.run(inputs[i]));
    }
    for (Bytes& input : corpusOf(target.name)) inputs.push_back(std::move(input));
    for (const Bytes& input : inputs) target.run(input);
    for (int round = 0; round < 1000; ++round)
      target.run(mutate(random, inputs[random() % inputs.size()]));
  }
}

} // namespace rondo::test
