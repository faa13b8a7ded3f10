// Finds the MPI library's own functions, and checks that its ABI is the one of this build.
#include "compat/mpi/mpi_library.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace rondo::compat {

namespace {

/// An ABI: the representation of handles.
struct Abi {
  const char* name;
  const char* interposer;
};
constexpr Abi kOpenMpi{"Open MPI's ABI", "librondo_mpi.so"};
constexpr Abi kMpich{"MPICH's ABI", "librondo_mpich.so"};
constexpr Abi kStandard{"MPI's standard ABI", "librondo_mpi_abi.so"};

constexpr const Abi& own() {
#ifdef RONDO_MPI_STANDARD_ABI
  return kStandard;
#else
  return kForOpenMpi ? kOpenMpi : kMpich;
#endif
}

/// Name of the file that contains the address, or "".
std::string fileOf(const void* address) {
  Dl_info info{};
  return address && ::dladdr(address, &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

int noteFile(dl_phdr_info* object, std::size_t, void* files) {
  static_cast<std::vector<std::string>*>(files)->emplace_back(object->dlpi_name);
  return 0;
}

/// Returns a loaded library, other than this one, that has PMPI_Init, or null. It is needed if a
/// program such as Python has loaded its MPI library for one module only: the normal symbol search
/// does not find it then.
void* hiddenLibrary() {
  std::vector<std::string> files;
  ::dl_iterate_phdr(noteFile, &files);
  const std::string self = fileOf(&own());
  for (const std::string& file : files) {
    if (file.empty() || file == self) continue;
    void* const handle = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (!handle) continue;
    const std::string found = fileOf(::dlsym(handle, "PMPI_Init"));
    if (!found.empty() && found != self) return handle; // never closed
    ::dlclose(handle);
  }
  return nullptr;
}

/// Looks names up in the MPI library.
class Names {
 public:
  Names() {
    if (!::dlsym(RTLD_NEXT, "PMPI_Init")) hidden_ = hiddenLibrary();
  }

  /// Null if there is no such function.
  void* function(const char* name) const { return ::dlsym(hidden_ ? hidden_ : RTLD_NEXT, name); }
  /// Searches the program first: programs at a fixed address have the only valid copy
  /// of a variable.
  void* variable(const char* name) const {
    void* const found = ::dlsym(RTLD_DEFAULT, name);
    return found || !hidden_ ? found : ::dlsym(hidden_, name);
  }

 private:
  void* hidden_ = nullptr;
};

[[noreturn]] void end(const std::string& sentence) {
  // No MPI function can be called, so the error cannot be reported through MPI.
  std::fprintf(stderr, "rondo_mpi: %s\n", sentence.c_str());
  std::exit(EXIT_FAILURE);
}

/// Recognises the ABI by symbols: a library of the standard ABI answers PMPI_Abi_get_version; Open
/// MPI's handles are addresses of variables; MPI_UNWEIGHTED is a variable in MPICH's ABI and a
/// number in the others. Null: none of them.
const Abi* abiOf(const Names& names) {
  int version = -1, subversion = -1;
  const auto ask = reinterpret_cast<int (*)(int*, int*)>(names.function("PMPI_Abi_get_version"));
  if (ask && ask(&version, &subversion) == 0 && version >= 1) return &kStandard;
  if (names.variable("ompi_mpi_comm_world")) return &kOpenMpi;
  return names.variable("MPI_UNWEIGHTED") ? &kMpich : nullptr;
}

void refuseOtherAbi(const Names& names) {
  void* const begin = names.function("PMPI_Init");
  const std::string self = own().interposer;
  if (!begin) end(self + ": no MPI library is loaded in this process");
  const Abi* const abi = abiOf(names);
  if (abi && abi->interposer == self) return;
  end(self + " is for programs of " + own().name + "; this one's MPI library, " + fileOf(begin) +
      ", has " +
      (abi ? std::string(abi->name) + ": preload " + abi->interposer
           : std::string("another one: run the program without Rondo")));
}

template <class Function>
Function find(const Names& names, const char* name) {
  void* const found = names.function(name);
  if (!found)
    end("the MPI library has no " + std::string(name) + ": Rondo needs one of MPI 3.0 or later");
  return reinterpret_cast<Function>(found);
}

} // namespace

MpiLibrary findMpi() {
  const Names names;
  refuseOtherAbi(names);
  return {
#define RONDO_MPI_FIND(name, i_name, ...)                       \
  find<decltype(PlainCollectives::name)>(names, "PMPI_" #name), \
      find<decltype(PlainCollectives::i_name)>(names, "PMPI_" #i_name),
      {RONDO_MPI_COLLECTIVES(RONDO_MPI_FIND)},
#undef RONDO_MPI_FIND
#define RONDO_MPI_FIND(name, i_name, ...)                                                 \
  reinterpret_cast<decltype(LargeCollectives::name)>(names.function("PMPI_" #name "_c")), \
      reinterpret_cast<decltype(LargeCollectives::i_name)>(names.function("PMPI_" #i_name "_c")),
      {RONDO_MPI_COLLECTIVES(RONDO_MPI_FIND)},
#undef RONDO_MPI_FIND
#define RONDO_MPI_FIND(name) find<decltype(&PMPI_##name)>(names, "PMPI_" #name),
      RONDO_MPI_ENTRY_POINTS(RONDO_MPI_FIND) RONDO_MPI_CALLED(RONDO_MPI_FIND)
#undef RONDO_MPI_FIND
#define RONDO_MPI_FIND(name, arguments) \
  reinterpret_cast<int(*) arguments>(names.function("PMPIX_" #name)),
          RONDO_MPI_ULFM(RONDO_MPI_FIND)
#undef RONDO_MPI_FIND
#define RONDO_MPI_FIND(name, arguments) \
  reinterpret_cast<int(*) arguments>(names.function("PMPI_" #name)),
              RONDO_MPI_NEWER_ENTRY_POINTS(RONDO_MPI_FIND) RONDO_MPI_NEWER_CALLED(RONDO_MPI_FIND)
#undef RONDO_MPI_FIND
#define RONDO_MPI_FIND(name) names.variable(#name),
                  RONDO_MPI_VARIABLES(RONDO_MPI_FIND)
#undef RONDO_MPI_FIND
  };
}

} // namespace rondo::compat
