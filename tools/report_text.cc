// Describes what a rank does.
#include "tools/report_text.h"

#include <algorithm>
#include <cstdio>

#include "tools/report_judge.h"

namespace rondo::tools {

namespace {

std::string secondsText(std::int64_t nanoseconds) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", static_cast<double>(nanoseconds) * 1e-9);
  return text;
}

} // namespace

std::string stateText(const RecordedRank& rank) {
  if (!rank.open)
    return "closed the communicator after collective #" + std::to_string(rank.entered);
  if (const RecordedCall* call = inFlight(rank)) {
    std::string text = "in " + call->text();
    if (!call->algorithm.empty()) text += " by " + call->algorithm;
    text += " for " + secondsText((call->ended != 0 ? call->ended : rank.time) - call->created);
    for (const RecordedWait& wait : rank.waits)
      if (wait.number == call->number && !wait.text.empty()) text += ", " + wait.text;
    return text;
  }
  if (rank.calls.empty()) return "in no call; it has made none";
  const auto last = std::find_if(rank.calls.rbegin(), rank.calls.rend(),
                                 [](const RecordedCall& call) { return call.ended != 0; });
  if (last == rank.calls.rend())
    return "waits in no call; it has posted " + rank.calls.back().text();
  return "in no call; the last one, " + last->text() + ", ended " +
         secondsText(rank.time - last->ended) + " ago";
}

std::string printable(std::string line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    const bool after_c2 = i > 0 && line[i - 1] == '\xc2';
    if (byte < 0x20 || byte == 0x7f) line[i] = '?';
    else if (after_c2 && byte >= 0x80 && byte < 0xa0) line[i - 1] = line[i] = '?';
  }
  return line;
}

} // namespace rondo::tools
