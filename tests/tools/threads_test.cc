#include "tools/threads.h"

#include <atomic>

#include "rondo/error.h"
#include "support/test.h"

namespace rondo::test {

TEST_CASE("onThreads() runs all to their end, and rethrows what ended the others") {
  std::atomic<int> ran{0};
  tools::onThreads(5, [&](int i) { ran += 1 << i; });
  CHECK(ran == 31);
  const auto what = [&](int first, int second) {
    try {
      tools::onThreads(4, [&](int i) {
        ran += 1;
        if (i == first) throw Error(ErrorCode::aborted, "aborted");
        if (i >= second) throw Error(ErrorCode::data, std::to_string(i));
      });
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  ran = 0;
  CHECK(what(0, 2) == "2");
  CHECK(what(3, 4) == "aborted");
  CHECK(what(4, 4) == "none");
  CHECK(ran == 12);
}

} // namespace rondo::test
