// Tests programs that run with their standard streams closed, as daemons do.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "job.h"
#include "support/paths.h"
#include "support/test.h"

namespace rondo::test {
namespace {

constexpr int kRanks = 3;
constexpr const char* kClosed = " <&- >&- 2>&-";

class Folder {
 public:
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "rondo.XXXXXX";
    if (::mkdtemp(name.data()) != nullptr) path_ = name;
  }
  ~Folder() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  std::string file() const { return path_ / "said"; }
  /// The output of a rank, or nothing.
  std::string of(int rank) const {
    std::ifstream in(file() + "." + std::to_string(rank));
    std::string line;
    std::getline(in, line);
    return line;
  }

 private:
  std::filesystem::path path_;
};

void requireOk(const std::string& command, const Folder& folder) {
  INFO(command);
  const int status = std::system(command.c_str());
  for (int rank = 0; rank < kRanks; ++rank) {
    INFO("rank " << rank);
    CHECK(folder.of(rank) == "ok");
  }
  CHECK(status == 0);
}

std::string variables(const std::string& transport) {
  return "timeout -s KILL 100 env RONDO_DEBUG=trace RONDO_TRANSPORT=" + transport + " ";
}

} // namespace

TEST_CASE(
    "Rondo uses no descriptor number of a closed standard stream, and does not log into one") {
  for (const std::string transport : {"shm", "tcp"}) {
    const Folder folder;
    requireOk(variables(transport) + RONDO_COMMAND " run -p " + std::to_string(kRanks) +
                  " -- sh -c 'exec " RONDO_TEST_PROGRAMS "/program_closed_streams " +
                  folder.file() + kClosed + "'",
              folder);
  }
}

TEST_CASE("a launcher whose standard streams are closed starts ranks whose streams are closed") {
  const Folder folder;
  requireOk(variables("shm") + RONDO_COMMAND " run -p " + std::to_string(kRanks) +
                " -- " RONDO_TEST_PROGRAMS "/program_closed_streams " + folder.file() + kClosed,
            folder);
}

TEST_CASE("the host of the control plane may have its standard streams closed") {
  const Folder folder;
  const std::string command =
      Job::withoutLauncher(kRanks, "RONDO_DEBUG=trace", "closed_streams " + folder.file(), kClosed);
  requireOk(command, folder);
}

} // namespace rondo::test
