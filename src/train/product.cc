// Matrix products by oneDNN, and its thread count.
#include "train/product.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#ifdef RONDO_HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>
#endif

#include "rondo/error.h"

namespace rondo::training {

#ifdef RONDO_HAVE_DNNL

void requireProducts() {}

void multiply(const Product& product, const float* a, const float* b, float* c) {
  const auto rows = static_cast<dnnl_dim_t>(product.rows);
  const auto columns = static_cast<dnnl_dim_t>(product.columns);
  const auto inner = static_cast<dnnl_dim_t>(product.inner);
  const dnnl_status_t status =
      dnnl_sgemm(product.a_transposed ? 'T' : 'N', product.b_transposed ? 'T' : 'N', rows, columns,
                 inner, 1.0F, a, product.a_transposed ? rows : inner, b,
                 product.b_transposed ? inner : columns, 0.0F, c, columns);
  if (status != dnnl_success) {
    throw Error(ErrorCode::system, "oneDNN could not multiply " + std::to_string(rows) + " x " +
                                       std::to_string(inner) + " by " + std::to_string(inner) +
                                       " x " + std::to_string(columns) + ": its status " +
                                       std::to_string(status));
  }
}

#else

void requireProducts() {
  throw Error(ErrorCode::unsupported,
              "this build of Rondo cannot train: oneDNN was missing when it was configured "
              "(Debian: libdnnl-dev)");
}

void multiply(const Product&, const float*, const float*, float*) { requireProducts(); }

#endif

namespace {

// oneDNN brings an OpenMP run time of its own choice, or none, and only that one's functions count:
// they are looked up where the loader put them.
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
