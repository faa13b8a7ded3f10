// Parses XML, without namespaces, and with no entities but XML's five and numeric ones.
#include "base/xml.h"

#include <algorithm>
#include <charconv>

#include "base/parse.h"
#include "rondo/error.h"

namespace rondo::base {
namespace {

constexpr int kDeepest = 256;

bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool isNamed(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.' || c == ':';
}

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  XmlElement document() {
    skipBetween();
    if (!here("<")) complain(file_, line_, "no XML: an element should begin here");
    XmlElement root = element(1);
    skipBetween();
    if (at_ < text_.size()) complain(file_, line_, "there is text after the last element");
    return root;
  }

 private:
  bool here(std::string_view word) const { return text_.substr(at_).starts_with(word); }

  void advance(std::size_t count) {
    count = std::min(count, text_.size() - at_);
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(at_ + count),
                                         '\n'));
    at_ += count;
  }

  void skipBlanks() {
    while (at_ < text_.size() && isBlank(text_[at_])) advance(1);
  }

  /// Moves past the next `end`. `what` names the skipped construct in the error if there is none.
  void skipPast(std::string_view end, const std::string& what) {
    const auto found = text_.find(end, at_);
    if (found == std::string_view::npos)
      complain(file_, line_, "the file ends inside " + what + ", which has no " + std::string(end));
    advance(found + end.size() - at_);
  }

  /// Skips everything that is allowed between elements.
  void skipBetween() {
    for (;;) {
      while (at_ < text_.size() && text_[at_] != '<') {
        if (depth_ == 0 && !isBlank(text_[at_]) && static_cast<unsigned char>(text_[at_]) < 0x80)
          return;
        advance(1);
      }
      if (here("<!--")) skipPast("-->", "a comment");
      else if (here("<![CDATA[")) skipPast("]]>", "a text");
      else if (here("<?")) skipPast("?>", "an instruction");
      else if (here("<!")) skipPast(">", "the document type");
      else return;
    }
  }

  std::string name(const char* of) {
    const std::size_t begin = at_;
    while (at_ < text_.size() && isNamed(text_[at_])) ++at_;
    if (at_ == begin) complain(file_, line_, std::string("the name of ") + of + " should be here");
    return std::string(text_.substr(begin, at_ - begin));
  }

  XmlElement element(int depth) {
    if (depth > kDeepest)
      complain(file_, line_, "elements lie more than " + std::to_string(kDeepest) + " deep");
    XmlElement made;
    made.line = line_;
    advance(1); // '<'
    made.name = name("an element");
    while (attribute(made)) continue;
    if (here("/>")) {
      advance(2);
      return made;
    }
    if (!here(">")) complain(file_, line_, endsIn(made) + ": '>' should be here");
    advance(1);
    depth_ = depth;
    for (skipBetween(); !here("</"); skipBetween()) {
      if (at_ >= text_.size()) complain(file_, line_, endsIn(made));
      made.children.push_back(element(depth + 1));
      depth_ = depth;
    }
    advance(2);
    if (const std::string closed = name("the element that ends"); closed != made.name)
      complain(file_, line_,
               "</" + closed + "> ends here, but <" + made.name + "> of line " +
                   std::to_string(made.line) + " is open");
    skipBlanks();
    if (!here(">")) complain(file_, line_, "'>' should be here");
    advance(1);
    depth_ = depth - 1;
    return made;
  }

  std::string endsIn(const XmlElement& open) const {
    return (at_ >= text_.size() ? "the file ends inside <" : "inside <") + open.name +
           ">, which begins in line " + std::to_string(open.line);
  }

  bool attribute(XmlElement& of) {
    skipBlanks();
    if (at_ >= text_.size()) complain(file_, line_, endsIn(of));
    if (!isNamed(text_[at_])) return false;
    std::string key = name("an attribute");
    skipBlanks();
    const int line = line_;
    if (!here("=")) complain(file_, line, "attribute '" + key + "' has no value");
    advance(1);
    skipBlanks();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    const auto end = quote == '"' || quote == '\'' ? text_.find(quote, at_ + 1) : std::string::npos;
    if (end == std::string::npos)
      complain(file_, line, "the value of attribute '" + key + "' has no end in quotes");
    std::string value = plain(text_.substr(at_ + 1, end - at_ - 1));
    if (of.find(key)) complain(file_, line, "attribute '" + key + "' is defined twice");
    of.attributes.emplace_back(std::move(key), std::move(value));
    advance(end + 1 - at_);
    return true;
  }

  /// Replaces entities by their characters.
  std::string plain(std::string_view written) const {
    std::string value;
    while (!written.empty()) {
      const auto amp = written.find('&');
      value += written.substr(0, amp);
      if (amp == std::string_view::npos) break;
      const auto end = written.find(';', amp);
      if (end == std::string_view::npos) complain(file_, line_, "'&' without ';'");
      value += entity(written.substr(amp + 1, end - amp - 1));
      written.remove_prefix(end + 1);
    }
    return value;
  }

  std::string entity(std::string_view word) const {
    constexpr std::pair<std::string_view, char> kKnown[] = {
        {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
    for (const auto& [known, character] : kKnown)
      if (word == known) return {character};
    std::uint32_t code = 0;
    const bool hex = word.starts_with("#x");
    const std::string_view digits = word.substr(std::min<std::size_t>(hex ? 2 : 1, word.size()));
    const auto [stop, failure] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, hex ? 16 : 10);
    if (!word.starts_with("#") || failure != std::errc{} || stop != digits.data() + digits.size())
      complain(file_, line_, "unknown entity " + quoted("&" + std::string(word) + ";"));
    return code < 0x80 ? std::string(1, static_cast<char>(code)) : "?"; // names are ASCII
  }

  const std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  int line_ = 1;
  int depth_ = 0; ///< elements that are open
};

} // namespace

void complain(const std::string& file, int line, const std::string& why) {
  throw Error(ErrorCode::invalid_argument, file + ":" + std::to_string(line) + ": " + why);
}

const std::string* XmlElement::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return &value;
  return nullptr;
}

XmlElement parseXml(std::string_view text, const std::string& file) {
  return Reader(text, file).document();
}

const std::string& need(const XmlElement& element, std::string_view attribute,
                        const std::string& file) {
  const std::string* value = element.find(attribute);
  if (!value)
    complain(file, element.line,
             "<" + element.name + "> has no attribute '" + std::string(attribute) + "'");
  return *value;
}

std::int64_t needInteger(const XmlElement& element, std::string_view attribute, std::int64_t lowest,
                         std::int64_t highest, const std::string& file) {
  const std::string& value = need(element, attribute, file);
  try {
    return parseInteger(value, "'" + std::string(attribute) + "'", lowest, highest);
  } catch (const Error& error) {
    complain(file, element.line, error.what());
  }
}

} // namespace rondo::base
