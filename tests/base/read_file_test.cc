// Proves: readFile() reads files whose size is not known, and pipes; it never waits for ever for a
// writer, and reads no file without an end.
#include "base/read_file.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "support/temporary_folder.h"
#include "support/test.h"

namespace rondo::test {

using namespace base;
using namespace std::chrono_literals;

TEST_CASE("readFile reads whole files, and those of /proc") {
  const TemporaryFolder folder;
  const std::string text(10'001, 'x'), path = folder.file("text");
  std::ofstream(path) << text;
  CHECK(base::readFile(path) == text);
  CHECK(base::readFile("/proc/self/status").value_or("").starts_with("Name:"));
  CHECK_FALSE(base::readFile(folder.file("none")));
  CHECK(errno == ENOENT);
}

TEST_CASE("readFile refuses files that are too large, and those without an end") {
  CHECK_FALSE(base::readFile("/dev/zero"));
  CHECK(errno == EFBIG);
  const TemporaryFolder folder;
  const std::string path = folder.file("sparse");
  std::ofstream(path) << "x";
  std::filesystem::resize_file(path, base::kLargestFile);
  CHECK(base::readFile(path).value_or("").size() == base::kLargestFile);
  std::filesystem::resize_file(path, base::kLargestFile + 1);
  CHECK_FALSE(base::readFile(path));
  CHECK(errno == EFBIG);
}

TEST_CASE("readFile reads all that a slow writer sends through a pipe") {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  std::thread writer([&] {
    std::ofstream out(pipe); // waits for the reader
    for (int i = 0; i < 3; ++i) {
      std::this_thread::sleep_for(20ms);
      out << "line " << i << std::endl;
    }
  });
  const auto text = base::readFile(pipe);
  writer.join();
  CHECK(text == "line 0\nline 1\nline 2\n");
}

TEST_CASE("readFile of a pipe ends with an error if no process writes to it") {
  const TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK_FALSE(base::readFile(pipe, 50ms));
  CHECK(errno == ETIMEDOUT);
}

} // namespace rondo::test
