// Writes simulated times as a trace for Perfetto.
#pragma once

#include <fstream>
#include <string>

#include "base/trace_events.h"
#include "rondo/error.h"

namespace rondo::tools {

struct TraceEvent {
  std::string name;
  int process = 0, thread = 0;
  double begin = 0, end = 0; ///< seconds
  base::TraceArguments arguments = {};
};

class TraceWriter {
 public:
  /// Throws Error(system) if the file cannot be written.
  explicit TraceWriter(const std::string& path) : file_(path) {
    if (!file_) throw Error(ErrorCode::system, path + ": cannot be written");
    file_ << base::TraceEvents::kHead;
  }

  void add(const TraceEvent& event) {
    events_.span(event.process, event.thread, event.name, "step", event.begin * 1e9,
                 (event.end - event.begin) * 1e9, event.arguments);
    if (events_.bytes() > kPiece) file_ << events_.take();
  }
  void nameProcess(int process, const std::string& name) { events_.nameRank(process, name); }
  void nameThread(int process, int thread, const std::string& name) {
    events_.nameLane(process, thread, name);
  }

  void close() {
    file_ << events_.take() << base::TraceEvents::kTail;
    file_.close();
    if (!file_) throw Error(ErrorCode::system, "the trace could not be written");
  }

 private:
  static constexpr std::size_t kPiece = 1 << 20;
  std::ofstream file_;
  base::TraceEvents events_;
};

} // namespace rondo::tools
