// Proves: addresses survive text, wire and kernel forms; every malformed form is a typed error.
#include <algorithm>
#include <cstdint>
#include <string>

#include "net/connection.h"
#include "net/interfaces.h"
#include "net/native_address.h"
#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace net;
using namespace base;
using Family = SocketAddress::Family;

bool same(const SocketAddress& a, const SocketAddress& b) {
  return a.family == b.family && a.ip == b.ip && a.port == b.port && a.scope == b.scope &&
         a.name == b.name;
}

SocketAddress unixName(const std::string& name) {
  SocketAddress address;
  address.family = Family::unix_abstract;
  address.name = name;
  return address;
}

std::vector<SocketAddress> examples() {
  SocketAddress scoped = SocketAddress::parse("[fe80::1]:1", "");
  scoped.scope = 3;
  return {SocketAddress::parse("127.0.0.1:0", ""),
          SocketAddress::parse("10.1.2.3:65535", ""),
          SocketAddress::parse("[::1]:80", ""),
          SocketAddress::parse("[2001:db8::5]:443", ""),
          scoped,
          unixName("a"),
          unixName(std::string("a\0b", 3)),
          unixName(std::string(55, 'x'))};
}

template <class Call>
ErrorCode codeOf(Call call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("nothing was thrown");
  return ErrorCode::data;
}

} // namespace

TEST_CASE("text form is read and written") {
  CHECK(SocketAddress::parse("127.0.0.1:80", "").text() == "127.0.0.1:80");
  CHECK(SocketAddress::parse("[::1]:80", "").text() == "[::1]:80");
  CHECK(SocketAddress::parse("[2001:DB8:0::5]:0", "AF_INET6").text() == "[2001:db8::5]:0");
  CHECK(SocketAddress::parse("localhost:7", "AF_INET").text() == "127.0.0.1:7");
  CHECK(SocketAddress::parse("[127.0.0.1]:7", "AF_INET").text() == "127.0.0.1:7");
  CHECK(unixName("x\n").text() == "unix:@x\\x0a");
  for (const std::string text :
       {"", ":", "127.0.0.1", "127.0.0.1:", ":80", "127.0.0.1:65536", "127.0.0.1:-1",
        "127.0.0.1:8 0", "127.0.0.1:http", "::1:80", "[::1]", "[::1]80", "[::1:80", "::1]:80",
        "[]:80", "256.1.1.1:80", "no such host:80", "[::1]:80x"}) {
    CAPTURE(text);
    CHECK(codeOf([&] { SocketAddress::parse(text, ""); }) == ErrorCode::invalid_argument);
  }
  CHECK(codeOf([] { SocketAddress::parse("127.0.0.1:80", "AF_INET6"); }) ==
        ErrorCode::invalid_argument);
  CHECK(codeOf([] { SocketAddress::parse("[::1]:80", "AF_INET"); }) == ErrorCode::invalid_argument);
  CHECK(codeOf([] { SocketAddress::parse("127.0.0.1:80", "inet"); }) ==
        ErrorCode::invalid_argument);
  CHECK(codeOf([] { SocketAddress::parse(std::string("127.0.0.1\0.evil:80", 18), ""); }) ==
        ErrorCode::invalid_argument);
}

TEST_CASE("loopback is recognized in all its forms") {
  for (const char* text : {"127.0.0.1:1", "127.255.255.255:1", "[::1]:1", "[::ffff:127.0.0.1]:1"}) {
    CHECK(SocketAddress::parse(text, "").loopback());
  }
  for (const char* text : {"0.0.0.0:1", "128.0.0.1:1", "126.255.255.255:1", "[::]:1", "[::2]:1",
                           "[1::1]:1", "[::ffff:10.0.0.1]:1"}) {
    CHECK_FALSE(SocketAddress::parse(text, "").loopback());
  }
  CHECK(unixName("a").loopback());
}

TEST_CASE("the wire form is at most 64 bytes and is decoded unchanged, as is the kernel's form") {
  for (const SocketAddress& address : examples()) {
    CAPTURE(address.text());
    const auto bytes = address.encode();
    CHECK(bytes.size() <= 64);
    CHECK(same(SocketAddress::decode(bytes), address));
    CHECK(same(fromNative(toNative(address)), address));
  }
  CHECK(same(SocketAddress::decode(unixName("").encode()), unixName("")));
  CHECK(codeOf([] { unixName(std::string(56, 'x')).encode(); }) == ErrorCode::invalid_argument);
  CHECK(codeOf([] { toNative(unixName("")); }) == ErrorCode::invalid_argument);
}

TEST_CASE("a truncated, longer or changed wire form is refused or is another canonical address") {
  for (const SocketAddress& address : examples()) {
    CAPTURE(address.text());
    const auto whole = address.encode();
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<long>(size));
      CHECK(codeOf([&] { SocketAddress::decode(part); }) == ErrorCode::transport);
    }
    auto longer = whole;
    longer.push_back(std::byte{0});
    CHECK(codeOf([&] { SocketAddress::decode(longer); }) == ErrorCode::transport);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (int value = 0; value < 256; ++value) {
        auto changed = whole;
        changed[at] = static_cast<std::byte>(value);
        bool canonical = true;
        try {
          canonical = SocketAddress::decode(changed).encode() == changed;
        } catch (const Error& error) {
          canonical = error.code() == ErrorCode::transport;
        }
        if (!canonical) FAIL_CHECK("byte " << at << " = " << value);
      }
    }
  }
}

TEST_CASE("the address to use is chosen by name, by family and by route") {
  auto at = [](const char* name, const char* text) {
    return Interface{name, SocketAddress::parse(text, "")};
  };
  const std::vector<Interface> machine = {at("lo", "127.0.0.1:0"),   at("docker0", "172.17.0.1:0"),
                                          at("eth0", "[fe80::1]:0"), at("eth0", "10.0.0.5:0"),
                                          at("eth01", "10.0.1.5:0"), at("ib0", "[fd00::7]:0"),
                                          at("lo", "[::1]:0")};
  struct Case {
    const char *interfaces, *family, *chosen;
  };
  const Case cases[] = {{"", "", "10.0.0.5:0"},
                        {"eth", "", "10.0.0.5:0"},
                        {"eth01", "", "10.0.1.5:0"},
                        {"=eth01", "", "10.0.1.5:0"},
                        {"=eth0", "AF_INET6", "[fe80::1]:0"},
                        {"", "AF_INET6", "[fd00::7]:0"},
                        {"ib,eth", "AF_INET6", "[fd00::7]:0"},
                        {"^eth0", "", "[fd00::7]:0"},
                        {"^=eth0", "", "10.0.1.5:0"},
                        {"^eth,ib", "", "172.17.0.1:0"},
                        {"^eth,ib,docker", "", "127.0.0.1:0"},
                        {"docker", "", "172.17.0.1:0"},
                        {"lo", "", "127.0.0.1:0"},
                        {" eth01 , ib0 ", "", "10.0.1.5:0"}};
  for (const Case& c : cases) {
    CAPTURE(c.interfaces, c.family);
    CHECK(chooseAddress({c.interfaces, c.family, {}}, machine).text() == c.chosen);
  }
  for (const char* nothing : {"wlan", "=eth", "^lo,docker,eth,ib", "=ETH0"}) {
    CAPTURE(nothing);
    try {
      chooseAddress({nothing, "", {}}, machine);
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::invalid_argument);
      const std::string text = error.what();
      for (const Interface& one : machine) CHECK(text.find(one.name) != std::string::npos);
    }
  }
  for (const char* bad : {"^", "=", "^=", "eth,,ib", ","}) {
    CAPTURE(bad);
    CHECK(codeOf([&] { chooseAddress({bad, "", {}}, machine); }) == ErrorCode::invalid_argument);
  }
  CHECK(codeOf([&] { chooseAddress({"", "AF_X", {}}, machine); }) == ErrorCode::invalid_argument);
  CHECK(codeOf([] { chooseAddress({"", "", {}}, {}); }) == ErrorCode::invalid_argument);
}

TEST_CASE("the address for a root on loopback is a loopback address") {
  CHECK(chooseAddress({"", "", SocketAddress::parse("127.0.0.1:5", "")}).loopback());
  CHECK(chooseAddress({"lo", "", SocketAddress::parse("127.0.0.1:5", "")}).loopback());
  CHECK(chooseAddress({"", "", SocketAddress::parse("127.0.0.1:0", "")}).port == 0);
}

TEST_CASE("data use all interfaces that a list names, in its order") {
  const auto at = [](const char* text) { return SocketAddress::parse(text, ""); };
  const std::vector<Interface> machine = {
      {"lo", at("127.0.0.1:0")},      {"eth0", at("10.0.0.5:0")},
      {"eth0", at("10.0.0.6:0")},     {"eth0", at("[2001:db8::5]:0")},
      {"eth1", at("10.0.1.5:0")},     {"eth1", at("[2001:db8:1::5]:0")},
      {"ib0", at("10.1.0.5:0")},      {"odd", at("169.254.0.1:0")},
      {"docker0", at("172.17.0.1:0")}};
  struct Case {
    const char *interfaces, *first, *rails;
  };
  for (const Case& c :
       {Case{"", "10.0.0.5:0", "10.0.0.5:0"},
        {"eth", "10.0.0.5:0", "10.0.0.5:0 10.0.1.5:0"},
        {"eth", "10.0.1.5:0", "10.0.0.5:0 10.0.1.5:0"}, // whichever one routes to the root
        {"ib0,eth", "10.0.0.5:0", "10.1.0.5:0 10.0.0.5:0 10.0.1.5:0"},
        {"=eth1,eth0,eth1", "10.0.0.5:0", "10.0.1.5:0 10.0.0.5:0"},
        {"=eth", "10.0.0.5:0", "10.0.0.5:0"},
        {"eth,odd,lo", "10.0.0.5:0", "10.0.0.5:0 10.0.1.5:0"},
        {"eth", "[2001:db8::5]:0", "[2001:db8::5]:0 [2001:db8:1::5]:0"},
        {"^docker", "10.0.1.5:0", "10.0.1.5:0"},
        {"lo,eth", "127.0.0.1:0", "127.0.0.1:0"},
        {"eth", "10.0.0.6:0", "10.0.0.6:0 10.0.1.5:0"}, // not the first address of its interface
        {"eth", "10.0.0.7:0", "10.0.0.7:0"}}) {
    std::string rails;
    for (const SocketAddress& rail : railAddresses(c.interfaces, at(c.first), machine))
      rails += (rails.empty() ? "" : " ") + rail.text();
    CAPTURE(c.interfaces, c.first);
    CHECK(rails == c.rails);
  }
}

// Proves: a link-local address is dialed over the dialing machine's interface, whatever number the
// interface has on the machine that told the address.
TEST_CASE("a link-local address gets the number of the interface here") {
  const auto at = [](const char* text, std::uint32_t scope) {
    SocketAddress address = SocketAddress::parse(text, "");
    address.scope = scope;
    return address;
  };
  const std::vector<Interface> one = {{"lo", at("[::1]:0", 0)},
                                      {"eth0", at("10.0.0.5:0", 0)},
                                      {"eth0", at("[2001:db8::5]:0", 0)},
                                      {"eth0", at("[fe80::5]:0", 2)}};
  std::vector<Interface> two = one;
  two.push_back({"eth1", at("[fe80::6]:0", 3)});
  CHECK(seenFromHere(at("[fe80::9]:7", 8), one) == at("[fe80::9]:7", 2));
  CHECK(seenFromHere(at("[fe80::9]:7", 8), two) == at("[fe80::9]:7", 8));
  CHECK(seenFromHere(at("[fe80::6]:7", 8), two) == at("[fe80::6]:7", 3));
  CHECK(seenFromHere(at("[fe80::9]:7", 8), {}) == at("[fe80::9]:7", 8));
  for (const char* other : {"127.0.0.1:7", "[2001:db8::9]:7", "169.254.0.1:7"})
    CHECK(seenFromHere(at(other, 0)) == at(other, 0));
}

TEST_CASE("this machine's interfaces include a loopback address") {
  const auto interfaces = listInterfaces();
  CHECK(std::any_of(interfaces.begin(), interfaces.end(),
                    [](const Interface& one) { return one.address.loopback(); }));
  for (const Interface& one : interfaces) CHECK(one.address.port == 0);
}

} // namespace rondo::test
