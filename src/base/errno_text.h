// Says what a failed system call means.
#pragma once

#include <string>

namespace rondo::base {

/// For example "No such file or directory (2)". If descriptors are lacking, it also says whose
/// limit was reached, and how large it is.
std::string errnoText(int error);
/// Whether the call failed because this process or its machine lacks descriptors or memory. Then
/// its peers are not to blame.
bool lacksResources(int error);

} // namespace rondo::base
