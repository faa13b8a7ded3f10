// A checkpoint is restored to the last bit, or refused with a reason; and a file that is being
// replaced is never lost.
#include "train/loop/checkpoint.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>

#include "rondo/error.h"
#include "support/data_files.h"
#include "support/forged.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace training;

/// The tensors of a small model, one of them empty, and one value of each type.
struct Run {
  std::vector<float> weight = {1.5F, -0.0F, std::numeric_limits<float>::denorm_min(), 3, 4, 5};
  std::vector<float> bias = {std::numeric_limits<float>::infinity(), -2};
  std::vector<float> residual = {0, 255, 7};
  std::vector<float> nothing;
  CheckpointValues values = {
      {"epoch", std::uint64_t{3}}, {"rate", 0.1}, {"model", std::string("cnn \"x\"\n")}};

  std::vector<TensorMemory> tensors() {
    return {{{"0.weight", {2, 3}}, weight.data()},
            {{"0.bias", {2}}, bias.data()},
            {{"hook", {3}}, residual.data()},
            {{"nothing", {0, 5}}, nothing.data()}};
  }
  void forget() {
    std::fill(weight.begin(), weight.end(), 9.0F);
    std::fill(bias.begin(), bias.end(), 9.0F);
    std::fill(residual.begin(), residual.end(), 9.0F);
  }
};

bool same(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::string write(const TemporaryFolder& folder, Run run = {}) {
  const std::string path = folder.file("checkpoint");
  writeCheckpoint(path, run.values, run.tensors());
  return path;
}

/// Returns the text of the Error(data) that the action throws, without the file name at its
/// beginning.
std::string complaint(const std::string& path, const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string text = error.what(), begin = path + ": ";
    if (error.code() != ErrorCode::data) return "another code: " + text;
    return text.starts_with(begin) ? text.substr(begin.size()) : "without the file: " + text;
  }
  return "nothing was thrown";
}

std::string readingComplaint(const std::string& path) {
  return complaint(path, [&] { Checkpoint{path}; });
}

std::string restoringComplaint(const std::string& path, const std::vector<TensorMemory>& tensors) {
  const Checkpoint checkpoint(path);
  return complaint(path, [&] { checkpoint.restore(tensors); });
}

} // namespace

TEST_CASE("restored tensors and values are those written, to the last bit") {
  TemporaryFolder folder;
  Run run;
  const std::string path = write(folder);
  run.forget();
  const Checkpoint checkpoint(path);
  auto tensors = run.tensors();
  std::reverse(tensors.begin(), tensors.end()); // any order works
  checkpoint.restore(tensors);
  REQUIRE(same(run.weight, Run().weight));
  REQUIRE(same(run.bias, Run().bias));
  REQUIRE(run.residual == Run().residual);
  REQUIRE(checkpoint.values() == Run().values);
  REQUIRE(checkpoint.value<std::uint64_t>("epoch") == 3);
  REQUIRE(checkpoint.value<double>("rate") == 0.1);
  REQUIRE(checkpoint.value<std::string>("model") == "cnn \"x\"\n");

  write(folder);
  REQUIRE(readRaw(path) == [&] {
    TemporaryFolder other;
    return readRaw(write(other));
  }());
}

// Proves: two jobs with one checkpoint never write into one file.
TEST_CASE("a checkpoint that another job writes is an error, and the old one stays") {
  TemporaryFolder folder;
  const std::string path = write(folder);
  const Bytes before = readRaw(path);
  const int other = ::open((path + ".new").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  REQUIRE(::write(other, "half", 4) == 4);
  REQUIRE(::flock(other, LOCK_EX) == 0);
  Run run;
  run.bias[1] = 7;
  try {
    write(folder, run);
    FAIL("it was written");
  } catch (const Error& error) {
    REQUIRE(error.code() == ErrorCode::system);
    REQUIRE(error.what() == path + ": the checkpoint could not be written: another job writes it");
  }
  REQUIRE(readRaw(path) == before);
  REQUIRE(readRaw(path + ".new").size() == 4);
  ::close(other);
  write(folder, run);
  REQUIRE(readRaw(path) != before);
}

TEST_CASE("an empty checkpoint is valid") {
  TemporaryFolder folder;
  writeCheckpoint(folder.file("empty"), {}, {});
  const Checkpoint checkpoint(folder.file("empty"));
  REQUIRE(checkpoint.values().empty());
  checkpoint.restore({});
}

TEST_CASE("every cut and every flipped bit of a checkpoint is found") {
  TemporaryFolder folder;
  const Bytes whole = readRaw(write(folder));
  const std::string path = folder.file("damaged");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    writeRaw(path, Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)));
    INFO("cut to " << length << ": " << readingComplaint(path));
    REQUIRE(readingComplaint(path).starts_with("is torn: it ends within "));
  }
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    Bytes damaged = whole;
    damaged[bit / 8] ^= static_cast<std::uint8_t>(1U << bit % 8);
    writeRaw(path, damaged);
    INFO("byte " << bit / 8);
    REQUIRE(readingComplaint(path).starts_with("is "));
  }
  Bytes longer = whole;
  longer.push_back(0);
  writeRaw(path, longer);
  REQUIRE(readingComplaint(path) == "continues after its last tensor");
}

TEST_CASE("a damaged tensor, a foreign file and another version have different errors") {
  TemporaryFolder folder;
  const std::string path = write(folder);
  const Bytes whole = readRaw(path);
  const auto changed = [&](std::size_t at, std::uint8_t value) {
    Bytes bytes = whole;
    bytes[at] = value;
    writeRaw(path, bytes);
    return readingComplaint(path);
  };
  // The file ends with the weight [6 floats], the bias [2 floats] and the hook [3 floats].
  REQUIRE(changed(whole.size() - 3, 1) == "is damaged: tensor \"hook\" has a wrong check sum");
  REQUIRE(changed(whole.size() - 14, 1) == "is damaged: tensor \"0.bias\" has a wrong check sum");
  REQUIRE(changed(0, 'x') == "is not a checkpoint of Rondo");
  REQUIRE(changed(8, 2) == "is a checkpoint of version 2; this build reads version 1");
  REQUIRE(changed(30, 77) == "is damaged: its index has a wrong check sum");
  REQUIRE(readingComplaint(folder.file("missing")) == "No such file or directory");
  REQUIRE(readingComplaint(folder.path()) == "Is a directory");
}

TEST_CASE("tensors that differ are refused by name, and no tensor is changed") {
  TemporaryFolder folder;
  const std::string path = write(folder);
  Run run;
  run.forget();
  const Run before = run;
  const auto with = [&](std::size_t index, TensorLabel label) {
    auto tensors = run.tensors();
    tensors[index].label = std::move(label);
    return restoringComplaint(path, tensors);
  };
  REQUIRE(with(1, {"0.bias", {1, 2}}) ==
          "tensor \"0.bias\" is float32 2; expected is float32 1 x 2");
  REQUIRE(with(2, {"hook", {4}}) == "tensor \"hook\" is float32 3; expected is float32 4");
  REQUIRE(with(1, {"1.bias", {2}}) == "has no tensor \"1.bias\"; expected is float32 2");
  auto fewer = run.tensors();
  fewer.pop_back();
  REQUIRE(restoringComplaint(path, fewer) ==
          "has a tensor \"nothing\" (float32 0 x 5), which is not expected");
  REQUIRE(same(run.weight, before.weight));
  REQUIRE(same(run.bias, before.bias));
  REQUIRE(run.residual == before.residual);

  const Checkpoint checkpoint(path);
  REQUIRE(complaint(path, [&] { checkpoint.value<double>("epoch"); }) ==
          "has no value \"epoch\" of the type that is expected");
  REQUIRE(complaint(path, [&] { checkpoint.value<double>("epochs"); }) ==
          "has no value \"epochs\" of the type that is expected");
}

TEST_CASE("an invalid index is refused, though its check sum is right") {
  TemporaryFolder folder;
  const std::string path = write(folder);
  const Bytes whole = readRaw(path);
  // The type of a value follows its name. The type of a tensor, the number of its extents and the
  // extents follow its name.
  const auto number = [&](const std::string& word, std::size_t behind, std::uint64_t value) {
    Bytes bytes = whole;
    forge(bytes, word, behind, value);
    writeRaw(path, bytes);
    return readingComplaint(path);
  };
  const auto byte = [&](const std::string& word, std::size_t behind, std::uint8_t value) {
    Bytes bytes = whole;
    forgeByte(bytes, word, behind, value);
    writeRaw(path, bytes);
    return readingComplaint(path);
  };
  const std::string senseless = "is damaged: its index is invalid";
  REQUIRE(byte("epoch", 0, 3) == senseless);
  REQUIRE(byte("0.weight", 0, 1) == senseless);
  REQUIRE(number("0.weight", 1, std::uint64_t{1} << 60) == senseless);
  REQUIRE(number("0.weight", 1, 1) == senseless);
  REQUIRE(number("0.weight", 9, std::uint64_t{1} << 40) ==
          "is torn: it ends within tensor \"0.weight\"");
  // 2^62 x 3 x 4 bytes do not fit into 64 bits, and would wrap around to 0.
  REQUIRE(number("0.weight", 9, std::uint64_t{1} << 62) ==
          "is torn: it ends within tensor \"0.weight\"");
  REQUIRE(number("model", 1, std::uint64_t{0} - 1) == senseless);
}

TEST_CASE("a name that is there twice is refused") {
  TemporaryFolder folder;
  const std::string path = folder.file("checkpoint");
  const std::vector<float> values(2);
  float* data = const_cast<float*>(values.data());
  writeCheckpoint(path, {{"a", 1.0}, {"b", 2.0}},
                  std::vector<TensorMemory>{{{"x", {1}}, data}, {{"y", {1}}, data}});
  const Bytes whole = readRaw(path);
  // A name is its length of 8 bytes, then one letter.
  for (const auto& [from, to] : {std::pair{'b', 'a'}, std::pair{'y', 'x'}}) {
    Bytes bytes = whole;
    const std::string length("\1\0\0\0\0\0\0\0", 8);
    forgeByte(bytes, length + from, std::size_t(0) - 1, static_cast<std::uint8_t>(to));
    writeRaw(path, bytes);
    REQUIRE(readingComplaint(path) == "is damaged: its index is invalid");
  }
}

TEST_CASE("writing replaces the file, and leaves no other file") {
  TemporaryFolder folder;
  writeRaw(folder.file("checkpoint.new"), Bytes(100'000, 7)); // left by a killed process
  Run run;
  write(folder, run);
  run.weight[0] = 42;
  const std::string path = write(folder, run);
  Run restored;
  Checkpoint(path).restore(restored.tensors());
  REQUIRE(restored.weight[0] == 42);
  REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("if the disk is full, the old checkpoint stays, and the error says why") {
  TemporaryFolder folder;
  const std::string path = write(folder);
  const Bytes before = readRaw(path);
  // A limit on file sizes simulates a full disk. It is for a whole process, so it is set in a
  // child.
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{10'000, 10'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::vector<float> large(100'000, 1);
    const std::vector<TensorMemory> tensors = {{{"large", {large.size()}}, large.data()}};
    try {
      writeCheckpoint(path, {}, tensors);
    } catch (const Error& error) {
      const std::string expected =
          path + ": the checkpoint could not be written: " + std::strerror(EFBIG);
      _exit(error.code() == ErrorCode::system && error.what() == expected ? 0 : 1);
    }
    _exit(2);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  REQUIRE(readRaw(path) == before);
  REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("a folder that does not exist is an error that names the checkpoint") {
  TemporaryFolder folder;
  const std::string path = folder.file("nowhere/checkpoint");
  REQUIRE_THROWS_WITH(writeCheckpoint(path, {}, {}),
                      path + ": the checkpoint could not be written: No such file or directory");
}

TEST_CASE("a link stays a link, and a path that is no regular file is not replaced") {
  TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("far"));
  const std::string link = folder.file("link");
  std::filesystem::create_symlink("far/file", link); // to a file that does not exist yet
  for (int time = 0; time < 2; ++time) {
    writeCheckpoint(link, {{"time", std::uint64_t(time)}}, {});
    REQUIRE(std::filesystem::is_symlink(link));
    REQUIRE(Checkpoint(folder.file("far/file")).value<std::uint64_t>("time") ==
            std::uint64_t(time));
  }
  REQUIRE(std::distance(std::filesystem::directory_iterator(folder.file("far")), {}) == 1);
  const std::string pipe = folder.file("pipe");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& path : {pipe, folder.file("far")})
    REQUIRE_THROWS_WITH(writeCheckpoint(path, {}, {}),
                        path +
                            ": the checkpoint could not be written: it exists and is not a "
                            "regular file");
  REQUIRE(std::filesystem::is_fifo(pipe));
}

TEST_CASE("a process that is killed while it writes leaves a complete checkpoint") {
  TemporaryFolder folder;
  const std::string path = folder.file("checkpoint");
  std::vector<float> values(200'000);
  const auto tensors = [&] {
    return std::vector<TensorMemory>{{{"values", {values.size()}}, values.data()}};
  };
  writeCheckpoint(path, {}, tensors());
  for (int attempt = 0; attempt < 20; ++attempt) {
    const pid_t child = fork();
    if (child == 0)
      for (float number = 1;; ++number) { // all values of a file are one number
        std::fill(values.begin(), values.end(), number);
        writeCheckpoint(path, {}, tensors());
      }
    usleep(static_cast<useconds_t>(1000 + attempt * 1700));
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, nullptr, 0) == child);
    Checkpoint(path).restore(tensors());
    REQUIRE(std::all_of(values.begin(), values.end(), [&](float v) { return v == values[0]; }));
  }
}

} // namespace rondo::test
