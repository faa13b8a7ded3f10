// Writes simulated times in the format of Chrome's tracing, which Perfetto reads too.
#pragma once

#include <fstream>
#include <iomanip>
#include <string>

#include "base/json.h"
#include "rondo/error.h"

namespace rondo::tools {

struct TraceEvent {
  std::string name;
  int process = 0, thread = 0;
  double begin = 0, end = 0; ///< seconds
  std::string detail = {};   ///< members of a JSON object, or empty
};

class TraceWriter {
 public:
  /// Throws Error(system) if the file cannot be written.
  explicit TraceWriter(const std::string& path) : file_(path) {
    if (!file_) throw Error(ErrorCode::system, path + ": cannot be written");
    file_ << std::fixed << std::setprecision(3) << "{\"traceEvents\": ["; // whole nanoseconds
  }

  void add(const TraceEvent& event) {
    begin() << "{\"ph\": \"X\", \"name\": " << base::jsonQuoted(event.name)
            << ", \"pid\": " << event.process << ", \"tid\": " << event.thread
            << ", \"ts\": " << event.begin * 1e6 << ", \"dur\": " << (event.end - event.begin) * 1e6
            << ", \"args\": {" << event.detail << "}}";
  }
  void nameProcess(int process, const std::string& name) {
    title("process_name", process, 0, name);
  }
  void nameThread(int process, int thread, const std::string& name) {
    title("thread_name", process, thread, name);
  }

  void close() {
    file_ << "\n]}\n";
    file_.close();
    if (!file_) throw Error(ErrorCode::system, "the trace could not be written");
  }

 private:
  std::ostream& begin() {
    file_ << (first_ ? "\n" : ",\n");
    first_ = false;
    return file_;
  }
  void title(const char* kind, int process, int thread, const std::string& name) {
    begin() << "{\"ph\": \"M\", \"name\": \"" << kind << "\", \"pid\": " << process
            << ", \"tid\": " << thread << ", \"args\": {\"name\": " << base::jsonQuoted(name)
            << "}}";
  }

  std::ofstream file_;
  bool first_ = true;
};

} // namespace rondo::tools
