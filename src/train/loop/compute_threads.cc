// Sets the thread count of the OpenMP library that oneDNN uses.
#include "train/loop/compute_threads.h"

#include <dlfcn.h>

#include <cstdlib>

namespace rondo::training {

namespace {

// oneDNN is linked with some OpenMP library, or none. Only the functions of that library have an
// effect, so they are looked up among the symbols that are loaded.
template <class Function>
Function* openMp(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

} // namespace

ComputeThreads::ComputeThreads() {
  auto* get = openMp<int()>("omp_get_max_threads");
  auto* set = openMp<void(int)>("omp_set_num_threads");
  if (get == nullptr || set == nullptr || std::getenv("OMP_NUM_THREADS") != nullptr) return;
  outer_ = get();
  set(1);
}

ComputeThreads::~ComputeThreads() {
  auto* set = openMp<void(int)>("omp_set_num_threads");
  if (outer_ > 0 && set != nullptr) set(outer_);
}

} // namespace rondo::training
