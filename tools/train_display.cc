#include "tools/train_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace rondo::tools {

namespace {

constexpr std::chrono::milliseconds kRedraw{100};
constexpr std::chrono::seconds kPlainLines{10};
constexpr const char* kClear = "\r\x1b[K";

std::size_t columns() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

} // namespace

bool TrainDisplay::isTerminal() { return isatty(STDOUT_FILENO) != 0; }

void clearProgress() {
  if (!isatty(STDOUT_FILENO)) return;
  std::fputs(kClear, stdout);
  std::fflush(stdout);
}

const char* clearingText() { return isatty(STDOUT_FILENO) && isatty(STDERR_FILENO) ? kClear : ""; }

void TrainDisplay::operator()(const TrainProgress& progress) {
  if (progress.test_accuracy >= 0) {
    clearProgress();
    std::printf("%s\n", epochLine(progress).c_str());
  } else {
    const auto now = std::chrono::steady_clock::now();
    if (now - drawn_ < (terminal_ ? kRedraw : std::chrono::milliseconds(kPlainLines))) return;
    drawn_ = now;
    if (terminal_) std::printf("\r%s\x1b[K", progressLine(progress, columns()).c_str());
    else std::printf("%s\n", stepLine(progress).c_str());
  }
  std::fflush(stdout);
}

std::string progressLine(const TrainProgress& progress, std::size_t columns) {
  std::array<char, 64> head, tail;
  std::snprintf(head.data(), head.size(), "epoch %d/%d [", progress.epoch, progress.epochs);
  std::snprintf(tail.data(), tail.size(), "] %d/%d  loss %.4f  %.0f samples/s", progress.step,
                progress.steps, progress.loss, progress.samples_per_second);
  const std::string before = head.data(), behind = tail.data();
  const std::size_t used = before.size() + behind.size() + 1;
  const std::size_t width = columns > used ? std::min<std::size_t>(columns - used, 40) : 0;
  const double part = progress.steps > 0 ? static_cast<double>(progress.step) / progress.steps : 0;
  const auto full = std::min(width, static_cast<std::size_t>(part * static_cast<double>(width)));
  return before + std::string(full, '=') + std::string(width - full, ' ') + behind;
}

std::string epochLine(const TrainProgress& progress) {
  std::array<char, 128> line;
  std::snprintf(line.data(), line.size(),
                "epoch %d/%d: loss %.4f, test accuracy %.4f, %.0f samples/s", progress.epoch,
                progress.epochs, progress.epoch_loss, progress.test_accuracy,
                progress.samples_per_second);
  return line.data();
}

std::string stepLine(const TrainProgress& progress) {
  std::array<char, 128> line;
  std::snprintf(line.data(), line.size(), "epoch %d/%d, step %d/%d: loss %.4f, %.0f samples/s",
                progress.epoch, progress.epochs, progress.step, progress.steps, progress.loss,
                progress.samples_per_second);
  return line.data();
}

std::string timesLine(const TrainTimes& times) {
  std::array<char, 192> line;
  if (times.forward == 0 && times.backward == 0) { // a dedicated server
    std::snprintf(line.data(), line.size(), "step %.2f ms, on a rank that only serves", times.step);
    return line.data();
  }
  std::snprintf(line.data(), line.size(),
                "step %.2f ms: data %.2f, forward %.2f, backward %.2f, communication %.2f, "
                "optimizer %.2f",
                times.step, times.data, times.forward, times.backward, times.communication,
                times.optimizer);
  return line.data();
}

} // namespace rondo::tools
