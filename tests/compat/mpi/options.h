// The grid's command line.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace rondo::test {

struct Options {
  std::uint64_t seed = 1;
  int passes = 1;
  bool taken_over = false;
  bool large = false; ///< only large counts
  int part = 0;
  int parts = 1;
};

inline Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--taken-over" || option == "--large") {
      (option == "--large" ? options.large : options.taken_over) = true;
      continue;
    }
    const std::string value = ++i < argc ? argv[i] : "";
    if (option == "--seed") {
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (option == "--passes") {
      options.passes = std::atoi(value.c_str());
    } else if (option != "--part" ||
               std::sscanf(value.c_str(), "%d/%d", &options.part, &options.parts) != 2) {
      std::fprintf(stderr, "compat_mpi_grid: unknown: %s\n", option.c_str());
      std::exit(2);
    }
  }
  return options;
}

} // namespace rondo::test
