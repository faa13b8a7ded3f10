// Reads plans that other programs made.
#include "tools/plan_import.h"

#include <cerrno>
#include <cstring>

#include "base/read_file.h"
#include "rondo/error.h"

namespace rondo::tools {

plan::ImportedPlans readMscclFile(const std::string& path) {
  const auto text = base::readFile(path);
  if (!text) throw Error(ErrorCode::system, path + ": " + std::strerror(errno));
  return plan::parseMsccl(*text, path);
}

} // namespace rondo::tools
