// Runs a target under libFuzzer: fuzz_targets TARGET [libFuzzer's arguments] FOLDER...
//
// The first folder gets the target's valid inputs, and what libFuzzer finds. With -merge=1 it gets
// only inputs of the other folders.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "fuzz/targets.h"

namespace {
const rondo::test::Target* chosen = nullptr;
} // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  // libFuzzer starts this program again to merge, with the arguments that it gets here, so without
  // the target.
  constexpr const char* kInherited = "FUZZ_TARGET";
  const char* const inherited = std::getenv(kInherited);
  const std::string name = inherited ? inherited : *argc > 1 ? (*argv)[1] : "";
  for (const auto& target : rondo::test::targets())
    if (target.name == name) chosen = &target;
  if (!chosen) {
    std::fprintf(stderr, "the first argument must be one of:");
    for (const auto& target : rondo::test::targets())
      std::fprintf(stderr, " %s", std::string(target.name).c_str());
    std::fprintf(stderr, "\n");
    std::exit(2);
  }
  if (inherited) return 0;
  ::setenv(kInherited, name.c_str(), 1);
  for (int i = 2; i < *argc; ++i) (*argv)[i - 1] = (*argv)[i];
  --*argc;
  for (int i = 1; i < *argc; ++i)
    if (std::string((*argv)[i]).starts_with("-merge=")) return 0;
  for (int i = 1; i < *argc; ++i) {
    const std::string folder = (*argv)[i];
    if (folder.starts_with("-") || !std::filesystem::is_directory(folder)) continue;
    int number = 0;
    for (const auto& seed : chosen->seeds())
      std::ofstream(folder + "/seed" + std::to_string(number++), std::ios::binary)
          .write(reinterpret_cast<const char*>(seed.data()),
                 static_cast<std::streamsize>(seed.size()));
    break;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}
