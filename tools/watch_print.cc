// The table, and the JSON object.
#include "tools/watch_print.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tools/report_text.h"

namespace rondo::tools {

namespace {

constexpr std::size_t kColumns = 100;

/// "1.23G", in powers of 1000; numbers below 1000 as they are.
std::string scaled(double value) {
  std::array<char, 32> text{};
  if (value < 999.5) {
    std::snprintf(text.data(), text.size(), value < 9.95 && value > 0 ? "%.1f" : "%.0f", value);
    return text.data();
  }
  constexpr char kUnits[] = {'K', 'M', 'G', 'T', 'P'};
  std::size_t unit = 0;
  for (value /= 1000; value >= 999.5 && unit + 1 < std::size(kUnits); value /= 1000) ++unit;
  std::snprintf(text.data(), text.size(),
                value < 9.995   ? "%.2f%c"
                : value < 99.95 ? "%.1f%c"
                                : "%.0f%c",
                value, kUnits[unit]);
  return text.data();
}

std::string secondsText(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), seconds < 999.95 ? "%.1f s" : "%.0f s", seconds);
  return text.data();
}

/// "AllReduce #412 1000 float sum ring".
std::string shortText(const RecordedCall& call) {
  std::string text = call.name + " #" + std::to_string(call.sequence);
  if (call.peer) text += (call.name == "Send" ? " to " : " from ") + std::to_string(*call.peer);
  if (call.count)
    text += " " + (*call.count < 100'000 ? std::to_string(*call.count)
                                         : scaled(static_cast<double>(*call.count)));
  for (const std::string& more : {call.type, call.op})
    if (!more.empty()) text += " " + more;
  if (call.root) text += " root " + std::to_string(*call.root);
  return call.algorithm.empty() ? text : text + " " + call.algorithm;
}

std::string cut(const std::string& text, std::size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

std::string callText(const RankView& view) {
  const RecordedRank& rank = *view.rank;
  if (rank.ended) return rank.open ? "(its process has ended)" : "(ended)";
  if (!rank.open) return "(has closed the communicator)";
  if (rank.stopped) return "STOPPED" + (view.call ? " in " + shortText(*view.call) : "");
  if (view.call) return shortText(*view.call);
  for (auto call = rank.calls.rbegin(); call != rank.calls.rend(); ++call)
    if (call->completed) return "- after " + call->name + " #" + std::to_string(call->sequence);
  return "-";
}

std::string waitsText(const RankView& view) {
  return view.waits_for.empty() ? "" : ranksText(view.waits_for);
}

std::string rowOf(const std::array<std::string, 8>& cells) {
  constexpr std::array<int, 8> kWidths = {4, -16, -37, 7, -9, 7, 6, 6}; // negative: to the left
  std::string row;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto width = static_cast<std::size_t>(std::abs(kWidths[i]));
    const std::string cell = cut(cells[i], width);
    const std::string space(width - cell.size(), ' ');
    row += (i > 0 ? " " : "") + (kWidths[i] < 0 ? cell + space : space + cell);
  }
  return row;
}

/// "host:pid"; a long name of a host is cut.
std::string placeText(const RecordedRank& rank) {
  const auto [host, pid] = placeOf(rank);
  return cut(host, 15 - std::min<std::size_t>(pid.size(), 10)) + ":" + pid;
}

std::string rowOf(const RankView& view) {
  const RecordedRank& rank = *view.rank;
  return rowOf({std::to_string(rank.rank), placeText(rank), callText(view),
                view.call ? secondsText(view.call_seconds) : "", waitsText(view),
                scaled(view.calls), scaled(view.bytes), scaled(view.bus_bytes)});
}

/// Lines of at most 100 columns, broken between words.
void addWrapped(std::vector<std::string>& lines, std::string text, const std::string& indent) {
  while (text.size() > kColumns) {
    std::size_t at = text.rfind(' ', kColumns);
    if (at == std::string::npos || at <= indent.size()) at = kColumns;
    lines.push_back(text.substr(0, at));
    text = indent + text.substr(text[at] == ' ' ? at + 1 : at);
  }
  lines.push_back(text);
}

void addCommunicator(std::vector<std::string>& lines, const CommunicatorView& view) {
  std::uint64_t most = 0, bytes = 0;
  for (const RankView& rank : view.ranks)
    most = std::max(most, rank.total.calls), bytes = std::max(bytes, rank.total.bytes);
  lines.push_back("communicator " + view.id + ": " + std::to_string(view.size) + " ranks, " +
                  view.transports + "; " + scaled(static_cast<double>(most)) + " calls, " +
                  scaled(static_cast<double>(bytes)) + "B so far");
  for (const Finding& finding : view.findings)
    addWrapped(lines, (finding.culprit >= 0 ? "  CULPRIT: " : "  ") + finding.text, "    ");
  lines.push_back(
      rowOf({"rank", "process", "in call", "for", "waits for", "calls/s", "B/s", "busB/s"}));
  for (const RankView& rank : view.ranks) lines.push_back(rowOf(rank));
  if (!view.unseen.empty())
    addWrapped(lines,
               "     " + ranksText(view.unseen) +
                   ": ended, or on other hosts; to see those: --from 'ssh HOST " +
                   "rondo dump all -o - --interval 1'",
               "     ");
}

/// No rank is in a call, or made one since the last look, and nothing is wrong.
bool isIdle(const CommunicatorView& view) {
  return view.findings.empty() &&
         std::all_of(view.ranks.begin(), view.ranks.end(),
                     [](const RankView& rank) { return !rank.call && rank.calls == 0; });
}

/// Idle communicators whose processes are all active in other communicators.
std::set<const CommunicatorView*> unimportant(const View& view) {
  std::set<std::string> busy;
  std::set<const CommunicatorView*> idle;
  for (const JobView& job : view.jobs)
    for (const CommunicatorView& one : job.communicators) {
      if (isIdle(one)) idle.insert(&one);
      else
        for (const RankView& rank : one.ranks) busy.insert(rank.rank->process);
    }
  std::erase_if(idle, [&](const CommunicatorView* one) {
    return std::any_of(one->ranks.begin(), one->ranks.end(),
                       [&](const RankView& rank) { return !busy.contains(rank.rank->process); });
  });
  return idle;
}

nlohmann::ordered_json jsonOf(const RecordedCall& call) {
  nlohmann::ordered_json json{{"collective", call.name}, {"sequence", call.sequence}};
  if (call.count) json["count"] = *call.count;
  if (!call.type.empty()) json["type"] = call.type;
  if (!call.op.empty()) json["op"] = call.op;
  if (call.root) json["root"] = *call.root;
  if (call.peer) json["peer"] = *call.peer;
  if (!call.algorithm.empty()) json["algorithm"] = call.algorithm;
  return json;
}

nlohmann::ordered_json jsonOf(const RankView& view) {
  const RecordedRank& rank = *view.rank;
  const auto [host, pid] = placeOf(rank);
  nlohmann::ordered_json json{
      {"rank", rank.rank}, {"host", host},
      {"pid", pid},        {"state", rank.ended ? "ended" : rank.stopped ? "stopped" : "running"},
      {"open", rank.open}, {"call", view.call ? jsonOf(*view.call) : nlohmann::ordered_json()}};
  if (view.call) json["call_seconds"] = view.call_seconds;
  json["waits_for"] = view.waits_for;
  json["calls"] = view.total.calls;
  json["bytes"] = view.total.bytes;
  json["calls_per_second"] = view.calls;
  json["bytes_per_second"] = view.bytes;
  json["bus_bytes_per_second"] = view.bus_bytes;
  return json;
}

} // namespace

std::string tableOf(const View& view, std::size_t lines) {
  std::vector<std::string> all;
  for (const std::string& trouble : view.troubles) addWrapped(all, "warning: " + trouble, "  ");
  if (view.jobs.empty()) all.push_back("no job of this user runs here, or none has a communicator");
  const auto hidden = unimportant(view);
  for (const JobView& job : view.jobs) {
    if (std::all_of(job.communicators.begin(), job.communicators.end(),
                    [&](const CommunicatorView& one) { return hidden.contains(&one); }))
      continue;
    if (!all.empty()) all.emplace_back();
    const std::time_t now = static_cast<std::time_t>(view.time / 1'000'000'000);
    std::tm local{};
    ::localtime_r(&now, &local);
    std::array<char, 16> clock{};
    std::strftime(clock.data(), clock.size(), "%H:%M:%S", &local);
    all.push_back("job " + job.dumps->job + (job.ended ? " (ended)" : "") + ", " + clock.data());
    for (const CommunicatorView& communicator : job.communicators)
      if (!hidden.contains(&communicator)) addCommunicator(all, communicator);
  }
  if (!hidden.empty())
    all.push_back("not shown, idle: " + std::to_string(hidden.size()) +
                  (hidden.size() == 1 ? " communicator" : " communicators") +
                  " of these processes (--json has all)");
  if (all.size() > lines && lines > 1) {
    all.resize(lines - 1);
    all.emplace_back("... more than fits; a longer terminal, or --job or --once, shows the rest");
  }
  std::string text;
  for (const std::string& line : all) text += cut(printable(line), kColumns) + "\n";
  return text;
}

std::string jsonOf(const View& view) {
  using nlohmann::ordered_json;
  ordered_json page{{"time_ns", view.time}, {"culprits", ordered_json::array()}};
  page["jobs"] = ordered_json::array();
  for (const JobView& job : view.jobs) {
    ordered_json communicators = ordered_json::array();
    for (const CommunicatorView& one : job.communicators) {
      ordered_json findings = ordered_json::array(), ranks = ordered_json::array();
      for (const Finding& finding : one.findings) {
        findings.push_back(
            {{"kind", finding.kind}, {"culprit", finding.culprit}, {"text", finding.text}});
        if (finding.peer >= 0) findings.back()["peer"] = finding.peer;
        if (finding.culprit < 0) continue;
        page["culprits"].push_back({{"job", job.dumps->job},
                                    {"communicator", one.id},
                                    {"rank", finding.culprit},
                                    {"kind", finding.kind},
                                    {"text", finding.text}});
        if (finding.peer >= 0) page["culprits"].back()["peer"] = finding.peer;
      }
      for (const RankView& rank : one.ranks) ranks.push_back(jsonOf(rank));
      communicators.push_back({{"communicator", one.id},
                               {"size", one.size},
                               {"transports", one.transports},
                               {"findings", findings},
                               {"ranks", ranks},
                               {"ranks_on_other_hosts", one.unseen}});
    }
    page["jobs"].push_back(
        {{"job", job.dumps->job}, {"ended", job.ended}, {"communicators", communicators}});
  }
  page["warnings"] = view.troubles;
  return page.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool hasFinding(const View& view) {
  for (const JobView& job : view.jobs)
    for (const CommunicatorView& one : job.communicators)
      if (!one.findings.empty()) return true;
  return false;
}

} // namespace rondo::tools
