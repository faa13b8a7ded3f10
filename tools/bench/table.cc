// Prints the benchmark's table, in the columns that scripts for nccl-tests parse.
#include "tools/bench/table.h"

#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <fstream>

#include "tools/parse.h"
#include "tools/version.h"

namespace rondo::tools {

namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  std::array<char, 512> buffer;
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(buffer.data(), buffer.size(), pattern, arguments);
  va_end(arguments);
  return buffer.data();
}

/// From 1 us on at least four significant digits; up to 9 s at most seven columns.
std::string timeText(double microseconds) {
  if (microseconds >= 10000) return format("%7.0f", microseconds);
  if (microseconds >= 100) return format("%7.1f", microseconds);
  if (microseconds >= 10) return format("%7.2f", microseconds);
  return format("%7.3f", microseconds);
}

std::string timingText(const std::optional<Timing>& timing) {
  if (!timing) return format("  %7s  %6s  %6s  %5s", "N/A", "N/A", "N/A", "N/A");
  const std::string bus = timing->bus_bw ? format("%6.2f", *timing->bus_bw) : "   n/a";
  const std::string wrong = timing->wrong ? format("%5zu", *timing->wrong) : "  N/A";
  return "  " + timeText(timing->time) + format("  %6.2f", timing->alg_bw) + "  " + bus + "  " +
         wrong;
}

std::string processorName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

} // namespace

Environment describeMachine() {
  Environment environment;
  environment.version = kVersion;
  std::array<char, 256> host{};
  gethostname(host.data(), host.size() - 1);
  environment.host = host.data();
  environment.processor = processorName();
  environment.cores = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return environment;
}

std::string headerText(const BenchConfig& config, const Environment& environment) {
  std::string text =
      "# rondo " + environment.version + " bench " + std::string(name(config.collective)) + ": " +
      std::to_string(environment.ranks) + (environment.ranks == 1 ? " rank" : " ranks") + " as " +
      environment.kind + ", transport " + environment.transport + ", device " +
      (config.onGpu() ? "cuda, " + std::to_string(config.ranks_per_gpu) + " per GPU" : "cpu") +
      (config.deterministic ? ", deterministic" : "") + (config.mapped ? ", mapped buffers" : "") +
      "\n";
  text += "# machine: " + environment.host + ", " + std::to_string(environment.cores) + " x " +
          environment.processor + (config.onGpu() ? ", " + environment.gpu : "") + "\n";
  const std::string step = config.step_bytes != 0 ? formatBytes(config.step_bytes) + "(bytes)"
                                                  : std::to_string(config.factor) + "(factor)";
  text += format(
      "# minBytes %zu maxBytes %zu step: %s warmup iters: %s iters: %s agg iters: %d "
      "validation: %d blocking: %d graph replays: %d\n",
      config.min_bytes, config.max_bytes, step.c_str(),
      config.warmsUpByTime() ? "by time" : std::to_string(config.warmUpCalls()).c_str(),
      config.iterations > 0 ? std::to_string(config.iterations).c_str() : "by time",
      config.aggregate, config.check, config.blocking ? 1 : 0, config.replays);
  const char* const combine[] = {"rank 0's", "the ranks' average", "the fastest rank's",
                                 "the slowest rank's"};
  text += format("# time: %s %s\n", combine[static_cast<std::size_t>(config.combine)],
                 config.statistic == Statistic::median ? "median" : "mean");
  if (!config.left_out.empty())
    text +=
        "# not measured, since they do not reduce in rank order, as deterministic mode demands: " +
        config.left_out + "\n";
  return text;
}

std::string titleText(const BenchConfig& config, const std::string& algorithm) {
  std::string text = "#\n";
  if (config.collective != Collective::sendrecv) {
    text += "# algorithm: " + (algorithm.empty() ? "chosen by size" : algorithm) + "\n#\n";
  }
  text += format("# %10s  %12s  %8s  %6s  %6s           %-26s    %s\n", "", "", "", "", "",
                 "out-of-place", "in-place");
  text += format("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %5s  %7s  %6s  %6s  %5s\n", "size",
                 "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time",
                 "algbw", "busbw", "#wrong");
  text += format("# %10s  %12s  %8s  %6s  %6s  %7s  %6s  %6s  %5s  %7s  %6s  %6s  %5s\n", "(B)",
                 "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
                 "(GB/s)", "");
  return text;
}

std::string rowText(const Row& row) {
  const std::string type(name(row.type));
  const std::string op(row.op ? name(*row.op) : "none");
  return format("%12zu  %12zu  %8s  %6s  %6d", row.bytes, row.count, type.c_str(), op.c_str(),
                row.root) +
         timingText(row.out_of_place) + timingText(row.in_place) + "\n";
}

std::string footerText(const BenchConfig& config, const TableResult& table) {
  const auto average = table.averageBusBandwidth();
  const char* verdict = config.check == 0 ? "" : table.good() ? "OK" : "FAILED";
  return format("# Out of bounds values : %zu %s\n", table.out_of_bounds,
                table.out_of_bounds == 0 ? "OK" : "FAILED") +
         format("# Avg bus bandwidth    : %s %s\n",
                average ? format("%g", *average).c_str() : "n/a", verdict) +
         format("# Memory of a rank     : %.2f MiB at most\n",
                static_cast<double>(table.memory) / (1 << 20)) +
         "#\n";
}

} // namespace rondo::tools
