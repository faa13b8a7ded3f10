// Formats events for ui.perfetto.dev and chrome://tracing, in the Trace Event Format (JSON). All
// traces are written with it: of calls, of training runs, and of simulated plans.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace rondo::base {

/// The members of an event's "args".
class TraceArguments {
 public:
  TraceArguments& add(std::string_view name, std::integral auto value) {
    key(name);
    number(text_, value);
    return *this;
  }
  TraceArguments& add(std::string_view name, std::string_view value) {
    key(name);
    quote(text_, value);
    return *this;
  }
  /// Adds nothing if the text is empty.
  TraceArguments& addIfAny(std::string_view name, std::string_view value) {
    return value.empty() ? *this : add(name, value);
  }
  const std::string& text() const { return text_; }

  static void number(std::string& to, std::integral auto value) {
    std::array<char, 24> digits;
    char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    to.append(digits.data(), end);
  }
  /// Appends the text as a JSON string. It must be UTF-8, or other viewers may refuse it.
  static void quote(std::string& to, std::string_view text) {
    to += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') to += '\\';
      to += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    to += '"';
  }

 private:
  void key(std::string_view name) {
    if (!text_.empty()) text_ += ',';
    quote(text_, name);
    text_ += ':';
  }
  std::string text_;
};

/// Collects events as text. A rank is a process of the format, a lane a thread of it: the spans of
/// a lane must not overlap, except that one may contain others. Times are in nanoseconds after the
/// trace's zero.
class TraceEvents {
 public:
  void nameRank(int rank, std::string_view name) { nameIt("process_name", rank, 0, name); }
  void nameLane(int rank, int lane, std::string_view name) {
    nameIt("thread_name", rank, lane, name);
  }
  /// Facts about a rank's trace, which viewers ignore.
  void about(int rank, std::string_view what, const TraceArguments& facts) {
    begin('M', what, rank, 0);
    end(facts);
  }
  void span(int rank, int lane, std::string_view name, std::string_view category, double begin_ns,
            double length_ns, const TraceArguments& arguments) {
    begin('X', name, rank, lane);
    text_ += ",\"cat\":";
    TraceArguments::quote(text_, category);
    text_ += ",\"ts\":";
    microseconds(begin_ns);
    text_ += ",\"dur\":";
    // Both ends are rounded, not the length: spans that follow each other must not overlap.
    microseconds(std::round(begin_ns + length_ns) - std::round(begin_ns));
    end(arguments);
  }
  /// A moment on a lane.
  void mark(int rank, int lane, std::string_view name, double at_ns,
            const TraceArguments& arguments) {
    begin('i', name, rank, lane);
    text_ += ",\"s\":\"t\",\"ts\":";
    microseconds(at_ns);
    end(arguments);
  }

  /// A file is kHead, the events, and kTail.
  static constexpr std::string_view kHead = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  static constexpr std::string_view kTail = "\n]}\n";
  /// The events since the last call, one in each line. The pieces of several calls follow each
  /// other in the file.
  std::string take() { return std::exchange(text_, {}); }
  std::size_t bytes() const { return text_.size(); }

 private:
  void nameIt(std::string_view what, int rank, int lane, std::string_view name) {
    begin('M', what, rank, lane);
    end(TraceArguments().add("name", name));
  }
  void begin(char phase, std::string_view name, int rank, int lane) {
    text_ += std::exchange(first_, false) ? "\n" : ",\n";
    text_ += "{\"ph\":\"";
    text_ += phase;
    text_ += "\",\"name\":";
    TraceArguments::quote(text_, name);
    text_ += ",\"pid\":";
    number(rank);
    text_ += ",\"tid\":";
    number(lane);
  }
  void end(const TraceArguments& arguments) {
    text_ += ",\"args\":{";
    text_ += arguments.text();
    text_ += "}}";
  }
  void number(std::int64_t value) { TraceArguments::number(text_, value); }
  /// With three digits after the point.
  void microseconds(double nanoseconds) {
    const std::int64_t whole = std::llround(nanoseconds);
    const auto size = static_cast<std::uint64_t>(whole < 0 ? -whole : whole);
    if (whole < 0) text_ += '-';
    number(static_cast<std::int64_t>(size / 1000));
    const auto rest = static_cast<int>(size % 1000);
    text_ += '.';
    text_ += static_cast<char>('0' + rest / 100);
    text_ += static_cast<char>('0' + rest / 10 % 10);
    text_ += static_cast<char>('0' + rest % 10);
  }

  std::string text_;
  bool first_ = true;
};

} // namespace rondo::base
