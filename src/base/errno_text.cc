// Texts for errno.
#include "base/errno_text.h"

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

#include "base/read_file.h"

namespace rondo::base {

std::string errnoText(int error) {
  std::string text = std::generic_category().message(error) + " (" + std::to_string(error) + ")";
  rlimit limit{};
  if (error == EMFILE && ::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    text += "; this process's limit of open files is " + std::to_string(limit.rlim_cur) +
            " (ulimit -n)";
  if (error == ENFILE)
    text += "; this machine's limit of open files is " + firstLine("/proc/sys/fs/file-max") +
            " (fs.file-max)";
  return text;
}

bool lacksResources(int error) {
  return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

} // namespace rondo::base
