// Checks before a run that its output files can be written.
#include "train/loop/files.h"

#include <string>

#include "rondo/detail/writable.h"
#include "rondo/error.h"
#include "train/loop/checkpoint.h"

namespace rondo::training {

namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& path,
                         const std::string& why) {
  throw Error(ErrorCode::system, "train: " + option + " " + path + " could not be written: " + why +
                                     "; the training did not start");
}

} // namespace

void requireFiles(const TrainOptions& options) {
  if (const std::string& path = options.files.checkpoint; !path.empty())
    if (const std::string why = whyNoCheckpoint(path); !why.empty())
      refuse("checkpoint", path, why);
  if (const std::string& path = options.files.metrics; !path.empty())
    if (const auto why = detail::whyNotWritable(path)) refuse("metrics", path, why.message());
  if (const std::string& path = options.files.trace; !path.empty())
    if (const auto why = detail::whyNotWritable(path)) refuse("trace", path, why.message());
  if (const std::string& path = options.files.report; !path.empty())
    if (const auto why = detail::whyNotWritableIn(path, "index.html"))
      refuse("report", path, why.message());
}

} // namespace rondo::training
