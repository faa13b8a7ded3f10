#include "train/layers/onednn/module.h"

#include <dlfcn.h>

namespace rondo::training::onednn {

namespace {

// oneDNN is linked with some OpenMP library, or none. dlsym() looks in the program's libraries
// first, then in those that this module needs.
template <class Function>
Function* openMp(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

int setThreads(int count) {
  auto* get = openMp<int()>("omp_get_max_threads");
  auto* set = openMp<void(int)>("omp_set_num_threads");
  if (get == nullptr || set == nullptr) return 0;
  const int before = get();
  set(count);
  return before;
}

} // namespace

} // namespace rondo::training::onednn

extern "C" __attribute__((visibility("default"))) const rondo::training::onednn::Module*
rondo_train_onednn_1() {
  using namespace rondo::training::onednn;
  static constexpr Module kModule{makeProgram, computes, setThreads};
  return &kModule;
}
