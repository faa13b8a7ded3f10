// Writes JSON text.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::training {

/// The text as a JSON string, with its quotes. The text must be UTF-8.
std::string jsonText(std::string_view text);

/// The number with all its digits; null for NaN and infinity, which JSON cannot represent.
std::string jsonNumber(double value);

/// Builds an object member by member: JsonObject().add("a", 1).add("b", "text").str().
class JsonObject {
 public:
  JsonObject& add(std::string_view name, double value) { return raw(name, jsonNumber(value)); }
  JsonObject& add(std::string_view name, std::integral auto value) {
    return raw(name, std::to_string(value));
  }
  JsonObject& add(std::string_view name, std::string_view text) {
    return raw(name, jsonText(text));
  }
  JsonObject& add(std::string_view name, const JsonObject& object) {
    return raw(name, object.str());
  }
  std::string str() const { return members_ + "}"; }

 private:
  JsonObject& raw(std::string_view name, const std::string& json) {
    members_ += (members_.size() > 1 ? "," : "") + jsonText(name) + ":" + json;
    return *this;
  }

  std::string members_ = "{";
};

} // namespace rondo::training
