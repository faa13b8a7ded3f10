// Gpu: a GPU as the benchmark uses it, with memory, one stream, times by the GPU's
// clock, and graphs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rondo/stream.h"

namespace rondo::tools {

/// One rank's view of a GPU, with a stream of its own. One thread at a time. All functions throw
/// std::runtime_error if the GPU reports an error.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual std::string name() const = 0;

  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  /// Copies between host and GPU, in either direction, after the earlier work of the stream.
  /// Returns when the copy is done.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;

  virtual Stream stream() const = 0;
  /// Records the time at which the stream gets here. May wait, so that the host is not far ahead of
  /// the stream.
  virtual void mark() = 0;
  /// Waits until the stream has passed all marks, forgets them, and returns the microseconds from
  /// each to the next. Throws if the stream makes no progress.
  virtual std::vector<double> times() = 0;

  /// Calls between beginGraph() and endGraph() do not run; they become the graph that
  /// replay() runs.
  virtual void beginGraph() = 0;
  virtual void endGraph() = 0;
  virtual void replay() = 0;
};

using GpuOpener = std::function<std::unique_ptr<Gpu>(int number)>;

/// Opens GPU `number` of this process. Throws Error(unsupported) with one line that says
/// what is missing.
std::unique_ptr<Gpu> openGpu(int number);

} // namespace rondo::tools
