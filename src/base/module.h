// Opens parts of Rondo that depend on libraries which not every program should load.
#pragma once

#include <string>

namespace rondo::base {

/// Opens a module from the folder of this library or program, from the folder ../lib next to it, or
/// from the system's search path. It is never closed, since the libraries that it loads leave
/// threads and exit handlers. `for_all`: makes its symbols global, for plug-ins of its libraries.
/// Returns null on failure, with the file and the reason in `why`, in one line.
void* openModule(const std::string& file, bool for_all, std::string& why);

} // namespace rondo::base
