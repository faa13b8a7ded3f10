// A GPU as the benchmark uses it: memory, one stream, times by the GPU's clock, graphs.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rondo/stream.h"

namespace rondo::tools {

/// One rank's view of a GPU, with a stream of its own. One thread at a time. All functions throw
/// std::runtime_error when the GPU refuses.
class Gpu {
 public:
  virtual ~Gpu() = default;
  virtual std::string name() const = 0;

  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;
  /// Between host and GPU, in either direction; what the stream was given before has run then, and
  /// the copy is done on return.
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;

  virtual Stream stream() const = 0;
  /// Notes the time when the stream gets here. May wait, so that the stream is not far behind.
  virtual void mark() = 0;
  /// Waits until the stream has passed all marks, and forgets them: microseconds from each to the
  /// next. Throws when the stream does not move.
  virtual std::vector<double> times() = 0;

  /// Between the two, what is put on the stream is not run but becomes the graph that replay()
  /// runs.
  virtual void beginGraph() = 0;
  virtual void endGraph() = 0;
  virtual void replay() = 0;
};

using GpuOpener = std::function<std::unique_ptr<Gpu>(int number)>;

/// GPU `number` of this process. Throws one line of Error(unsupported) that says what is missing.
std::unique_ptr<Gpu> openGpu(int number);

} // namespace rondo::tools
