// The error that a call throws, as a value.
#pragma once

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>

#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {

struct Caught {
  bool threw = false;
  std::optional<ErrorCode> code; ///< none: nothing was thrown
  std::string text;
  int culprit = -2;
};

/// Code and text of the error that `body` throws.
inline Caught caught(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return {true, error.code(), error.what(), error.culprit()};
  }
  return {};
}

/// Whether it has this code, and its text contains all the words.
inline bool says(const Caught& error, ErrorCode code, std::initializer_list<const char*> words) {
  UNSCOPED_INFO(error.text);
  return error.threw && error.code == code &&
         std::all_of(words.begin(), words.end(), [&error](const char* word) {
           return error.text.find(word) != std::string::npos;
         });
}

} // namespace rondo::test
