// Tests the JSON reader: what it accepts, and that each kind of damage is reported with its line.
#include "base/json.h"

#include <string>

#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {

using base::Json;
using base::parseJson;

TEST_CASE("values of all kinds are read, each with the line where it begins") {
  const Json json =
      parseJson("{\"a\": [1, -2.5e3,\n true, false, null],\n\"b\\n\\u0041\": \"x\\\"y\"}", "f");
  REQUIRE(json.keys.size() == 2);
  const Json* a = json.find("a");
  REQUIRE(a);
  REQUIRE(a->items.size() == 5);
  CHECK(a->items[1].number == -2500);
  CHECK(a->items[2].line == 2);
  CHECK(a->items[2].kind == Json::Kind::boolean);
  CHECK(a->items[2].number == 1);
  CHECK(a->items[3].number == 0);
  CHECK(a->items[4].kind == Json::Kind::null);
  REQUIRE(json.find("b\nA"));
  CHECK(json.find("b\nA")->text == "x\"y");
  CHECK(json.find("b\nA")->line == 3);
  CHECK(json.find("c") == nullptr);
  CHECK(parseJson(base::jsonQuoted("a\"\\\n\tb"), "f").text == "a\"\\\n\tb");
}

TEST_CASE("damaged texts are refused with file, line and reason") {
  const auto error = [](const std::string& text) {
    try {
      parseJson(text, "file");
    } catch (const Error& e) {
      CHECK(e.code() == ErrorCode::data);
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  CHECK(error("") == "file:1: the text ends inside a value");
  CHECK(error("{\n\"a\": 1") == "file:2: the text ends inside a value");
  CHECK(error("[1,\n2,]") == "file:2: a value cannot begin with ']'");
  CHECK(error("[1 2]") == "file:1: expected ']' before '2'");
  CHECK(error("{\"a\": 1,\n\"a\": 2}") == "file:2: the key \"a\" occurs twice");
  CHECK(error("{a: 1}") == "file:1: expected a key in double quotes");
  CHECK(error("\"abc") == "file:1: a string does not end");
  CHECK(error("\"a\nb\"") == "file:1: a control character inside a string");
  CHECK(error("\"\\u12\"") == "file:1: an escape sequence is wrong");
  CHECK(error("\"\\u00e9\"") == "file:1: an escape sequence of a character that is not ASCII");
  CHECK(error("1e999") == "file:1: a number is out of range");
  CHECK(error("nan") == "file:1: a value cannot begin with 'n'");
  CHECK(error("1\n\n2") == "file:3: more text after the end of the value");
  CHECK(error(std::string(40, '[')) == "file:1: nested more than 32 levels deep");
}

} // namespace rondo::test
