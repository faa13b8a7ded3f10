// The metrics for Prometheus: one series for each rank of each communicator.
#include <array>
#include <cstdio>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "tools/watch_print.h"

namespace rondo::tools {

namespace {

std::string escaped(const std::string& text) {
  std::string all;
  for (const char c : text) {
    if (c == '\\' || c == '"') all += '\\';
    all += c == '\n' ? ' ' : c;
  }
  return all;
}

std::string label(const char* name, const std::string& value) {
  return std::string(name) + "=\"" + escaped(value) + "\"";
}

std::string number(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.9g", value);
  return text.data();
}

/// Writes the series of one metric.
class Metric {
 public:
  Metric(std::string& to, std::string name, const char* type, const char* help)
      : to_(to), name_(std::move(name)) {
    to_ += "# HELP " + name_ + " " + help + "\n# TYPE " + name_ + " " + type + "\n";
  }
  void add(const std::string& labels, const std::string& value) {
    to_ += name_ + "{" + labels + "} " + value + "\n";
  }

 private:
  std::string& to_;
  const std::string name_;
};

/// Prometheus itself calls a group of targets "job".
std::string labelsOf(const JobView& job, const CommunicatorView& communicator) {
  return label("rondo_job", job.dumps->job) + "," + label("communicator", communicator.id);
}

using EachRank = std::function<void(const RankView&, const std::string& labels)>;

void forRanks(const View& view, const EachRank& each) {
  for (const JobView& job : view.jobs)
    for (const CommunicatorView& communicator : job.communicators)
      for (const RankView& rank : communicator.ranks)
        each(rank,
             labelsOf(job, communicator) + "," + label("rank", std::to_string(rank.rank->rank)));
}

void addTotals(std::string& text, const View& view) {
  Metric calls(text, "rondo_calls_total", "counter", "Calls that began.");
  forRanks(view, [&](const RankView& rank, const std::string& labels) {
    for (const auto& [kind, total] : rank.rank->totals)
      calls.add(labels + "," + label("collective", kind), std::to_string(total.calls));
  });
  Metric bytes(text, "rondo_bytes_total", "counter",
               "Bytes of these calls, counted as rondo bench does.");
  forRanks(view, [&](const RankView& rank, const std::string& labels) {
    for (const auto& [kind, total] : rank.rank->totals)
      bytes.add(labels + "," + label("collective", kind), std::to_string(total.bytes));
  });
}

void addStates(std::string& text, const View& view) {
  Metric info(text, "rondo_rank_info", "gauge", "Where the rank runs; 0: its process has ended.");
  forRanks(view, [&](const RankView& rank, const std::string& labels) {
    const auto [host, pid] = placeOf(*rank.rank);
    info.add(labels + "," + label("host", host) + "," + label("pid", pid) + "," +
                 label("transports", rank.rank->transports),
             rank.rank->ended ? "0" : "1");
  });
  Metric stopped(text, "rondo_rank_stopped", "gauge", "1: the process is stopped.");
  forRanks(view, [&](const RankView& rank, const std::string& labels) {
    stopped.add(labels, rank.rank->stopped ? "1" : "0");
  });
  Metric seconds(text, "rondo_call_seconds", "gauge",
                 "How long the rank has been in its call; 0: it is in none.");
  forRanks(view, [&](const RankView& rank, const std::string& labels) {
    seconds.add(labels, number(rank.call ? rank.call_seconds : 0));
  });
  Metric bus(text, "rondo_bus_bytes_per_second", "gauge",
             "Bus bandwidth as nccl-tests defines it, over the last interval.");
  forRanks(view, [&](const RankView& rank, const std::string& labels) {
    bus.add(labels, number(rank.bus_bytes));
  });
  Metric waiting(text, "rondo_waiting_for", "gauge",
                 "1: the rank waits for a message of the peer.");
  forRanks(view, [&](const RankView& rank, const std::string& labels) {
    for (const int peer : rank.waits_for)
      waiting.add(labels + "," + label("peer", std::to_string(peer)), "1");
  });
}

} // namespace

std::string metricsOf(const View& view) {
  std::string text;
  addTotals(text, view);
  addStates(text, view);
  std::set<std::string> culprits; // a series must not be written twice
  Metric culprit(text, "rondo_culprit", "gauge",
                 "1: others wait for this rank, or it broke the call.");
  for (const JobView& job : view.jobs)
    for (const CommunicatorView& communicator : job.communicators)
      for (const Finding& finding : communicator.findings)
        if (finding.culprit >= 0)
          culprits.insert(labelsOf(job, communicator) + "," +
                          label("rank", std::to_string(finding.culprit)) + "," +
                          label("kind", finding.kind));
  for (const std::string& labels : culprits) culprit.add(labels, "1");
  Metric(text, "rondo_watch_time_seconds", "gauge", "When the processes were looked at.");
  text += "rondo_watch_time_seconds " + std::to_string(view.time / 1'000'000'000) + "\n";
  return text;
}

} // namespace rondo::tools
