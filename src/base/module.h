// Opens parts of Rondo that need libraries which not every program should load.
#pragma once

#include <string>

namespace rondo::base {

/// Opens a module that lies beside this library or program, in the folder lib beside theirs, or
/// where the system looks. It is never closed: the libraries behind it leave threads and exit
/// handlers. `for_all`: its libraries' own plug-ins need its symbols. Null, and `why`.
void* openModule(const std::string& file, bool for_all, std::string& why);

} // namespace rondo::base
