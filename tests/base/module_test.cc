// Tests the reason why a module cannot be opened.
#include "base/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "support/test.h"

namespace rondo::test {

// Proves: the reason names the module as well as the library that the module needs.
TEST_CASE("a module that cannot be loaded is named with the reason", "[module]") {
  const std::string name = "rondo_module_test_" + std::to_string(::getpid()) + ".so";
  const auto file = std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
  std::string why;
  CHECK(base::openModule(name, false, why) == nullptr);
  CHECK(why == name + ": cannot open shared object file: No such file or directory");

  // A copy of the C++ library that needs a library which does not exist.
  Dl_info info{};
  REQUIRE(::dladdr(reinterpret_cast<const void*>(&std::terminate), &info) != 0);
  std::ifstream original(info.dli_fname, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(original), {}};
  const std::string needed = "libm.so.6";
  for (std::size_t at = 0; (at = bytes.find(needed, at)) != std::string::npos; ++at)
    bytes.replace(at, needed.size(), "libq.so.6");
  if (!(std::ofstream(file, std::ios::binary) << bytes)) {
    WARN("not run: this test's folder cannot be written");
    return;
  }
  CHECK(base::openModule(name, false, why) == nullptr);
  CHECK(why.ends_with("/" + name +
                      ": libq.so.6: cannot open shared object file: No such file or "
                      "directory"));
  std::filesystem::remove(file);
}

} // namespace rondo::test
