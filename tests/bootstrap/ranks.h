// Runs ranks as threads: one function per rank, and returns each one's result or error.
#pragma once

#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bootstrap/session.h"

namespace rondo::test {

struct Outcome {
  bool ok = false;
  ErrorCode code = ErrorCode::data;
  std::string text;
  int culprit = -2;
};

inline Outcome outcomeOf(const std::function<void()>& body) {
  try {
    body();
    return {true, ErrorCode::data, "", -2};
  } catch (const Error& error) {
    return {false, error.code(), error.what(), error.culprit()};
  } catch (const std::exception& error) {
    return {false, ErrorCode::data, std::string("not an Error: ") + error.what(), -2};
  }
}

inline Outcome outcomeOf(const bootstrap::Failure& failure) {
  return {false, failure.code, failure.text, failure.culprit};
}

/// Runs body(r) for r in 0..size-1, each on its own thread.
inline std::vector<Outcome> runRanks(int size, const std::function<void(int)>& body) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back(
        [&, rank] { outcomes[static_cast<std::size_t>(rank)] = outcomeOf([&] { body(rank); }); });
  for (auto& thread : threads) thread.join();
  return outcomes;
}

/// Empty if all ranks succeeded; otherwise the failed ranks and their errors.
inline std::string troubles(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
    if (!outcomes[rank].ok)
      text += "rank " + std::to_string(rank) + ": " + outcomes[rank].text + "\n";
  return text;
}

/// For the bodies of ranks: Catch2's assertions must not be used on their threads.
inline void expect(bool condition, const std::string& what) {
  if (!condition) throw Error(ErrorCode::data, "expected: " + what);
}

/// Sleeps until the session has failed, at most for `limit`.
inline bool awaitFailure(const bootstrap::Session& session, std::chrono::milliseconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (session.failedWord().load(std::memory_order_acquire) == 0) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline std::vector<std::byte> bytesOf(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

} // namespace rondo::test
