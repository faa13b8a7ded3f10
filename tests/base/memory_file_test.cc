// Memory files and children made by fork().
#include "base/memory_file.h"

#include <sys/mman.h>

#include <string>

#include "base/read_file.h"
#include "support/forked_child.h"
#include "support/test.h"

namespace rondo::test {

using namespace base;

// Proves: no child gets the mapping, whenever it is made. Mapping all pages takes some
// milliseconds.
TEST_CASE("children that are made while a memory file is being mapped do not have the mapping") {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const UniqueFd file = makeMemoryFile(kBytes);
  const Meanwhile busy([&] { mapMemoryFile(file.get(), kBytes, PROT_READ | PROT_WRITE); });
  CHECK(manyChildrenEnd([] {
    const std::string maps = readFile("/proc/self/maps").value_or("memfd:rondo");
    return maps.find("memfd:rondo") == std::string::npos ? 0 : 1;
  }));
}

} // namespace rondo::test
