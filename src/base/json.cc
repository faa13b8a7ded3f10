// A recursive parser for JSON texts of a few kilobytes.
#include "base/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>

#include "rondo/error.h"

namespace rondo::base {

namespace {

constexpr int kMostLevels = 32;
constexpr std::size_t kMostBytes = std::size_t{1} << 20;

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Json all() {
    Json value = any(0);
    skipBlanks();
    if (at_ < text_.size()) fail("more text after the end of the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw Error(ErrorCode::data, file_ + ":" + std::to_string(line_) + ": " + reason);
  }

  void skipBlanks() {
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      else if (c != ' ' && c != '\t' && c != '\r') return;
    }
  }
  /// The next character that is no blank; fails at the end of the text.
  char look() {
    skipBlanks();
    if (at_ == text_.size()) fail("the text ends inside a value");
    return text_[at_];
  }
  bool take(char wanted) {
    if (look() != wanted) return false;
    ++at_;
    return true;
  }
  void expect(char wanted) {
    if (!take(wanted)) fail(std::string("expected '") + wanted + "' before '" + text_[at_] + "'");
  }

  Json any(int level) {
    if (level > kMostLevels) fail("nested more than 32 levels deep");
    Json value;
    const char c = look();
    value.line = line_;
    if (c == '{') object(value, level);
    else if (c == '[') array(value, level);
    else if (c == '"') {
      value.kind = Json::Kind::string;
      value.text = string();
    } else if (c == '-' || (c >= '0' && c <= '9')) number(value);
    else word(value);
    return value;
  }

  void object(Json& value, int level) {
    value.kind = Json::Kind::object;
    expect('{');
    if (take('}')) return;
    std::set<std::string> known;
    do {
      if (look() != '"') fail("expected a key in double quotes");
      std::string key = string();
      if (!known.insert(key).second) fail("the key \"" + key + "\" occurs twice");
      expect(':');
      value.keys.push_back(std::move(key));
      value.items.push_back(any(level + 1));
    } while (take(','));
    expect('}');
  }

  void array(Json& value, int level) {
    value.kind = Json::Kind::array;
    expect('[');
    if (take(']')) return;
    do value.items.push_back(any(level + 1));
    while (take(','));
    expect(']');
  }

  void number(Json& value) {
    value.kind = Json::Kind::number;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value.number);
    if (error != std::errc() || !std::isfinite(value.number)) fail("a number is out of range");
    at_ += static_cast<std::size_t>(end - begin);
  }

  void word(Json& value) {
    const auto is = [&](std::string_view wanted) {
      if (text_.substr(at_, wanted.size()) != wanted) return false;
      at_ += wanted.size();
      return true;
    };
    value.kind = Json::Kind::boolean;
    if (is("true")) value.number = 1;
    else if (is("null")) value.kind = Json::Kind::null;
    else if (!is("false")) fail(std::string("a value cannot begin with '") + text_[at_] + "'");
  }

  std::string string() {
    expect('"');
    std::string result;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) < ' ') fail("a control character inside a string");
      if (c != '\\') {
        result += c;
        continue;
      }
      if (++at_ == text_.size()) break;
      result += escape();
    }
    if (at_ == text_.size()) fail("a string does not end");
    ++at_;
    return result;
  }

  std::string escape() {
    constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
    const char c = text_[at_];
    if (const auto name = kNames.find(c); name != kNames.npos) return {kMeanings[name]};
    unsigned code = 0;
    const char* const digits = text_.data() + at_ + 1;
    const bool whole = c == 'u' && text_.size() - at_ > 4;
    if (!whole || std::from_chars(digits, digits + 4, code, 16).ptr != digits + 4)
      fail("an escape sequence is wrong");
    at_ += 4;
    if (code >= 0x80) fail("an escape sequence of a character that is not ASCII");
    return {static_cast<char>(code)};
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
};

} // namespace

const Json* Json::find(std::string_view key) const {
  const auto found = std::find(keys.begin(), keys.end(), key);
  return found == keys.end() ? nullptr : &items[static_cast<std::size_t>(found - keys.begin())];
}

Json parseJson(std::string_view text, const std::string& file) {
  if (text.size() > kMostBytes)
    throw Error(ErrorCode::data, file + ":1: the text is larger than 1 MiB");
  return Parser(text, file).all();
}

std::string jsonQuoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    char code[8];
    std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
    if (c == '"' || c == '\\') (quoted += '\\') += c;
    else if (static_cast<unsigned char>(c) < ' ') quoted += code;
    else quoted += c;
  }
  return quoted + '"';
}

} // namespace rondo::base
