// Matrix products, by oneDNN.
#pragma once

#include <cstddef>

namespace rondo::training {

/// c [rows x columns] = a [rows x inner] * b [inner x columns], all dense and row-major; a
/// transposed operand is stored as its transpose.
struct Product {
  std::size_t rows, columns, inner;
  bool a_transposed = false, b_transposed = false;
};

/// Throws Error(unsupported), which says what to install, in a build without oneDNN.
void requireProducts();

/// The same operands, 64-byte aligned, give the same bits for the same number of compute threads.
/// Any thread. Throws as requireProducts().
void multiply(const Product& product, const float* a, const float* b, float* c);

/// Products that the calling thread asks for run on one thread while this exists, so that several
/// ranks do not fight for the cores; OMP_NUM_THREADS, where it is set, is obeyed instead.
class ComputeThreads {
 public:
  ComputeThreads();
  ~ComputeThreads();
  ComputeThreads(const ComputeThreads&) = delete;
  ComputeThreads& operator=(const ComputeThreads&) = delete;

 private:
  int outer_ = 0; ///< 0: nothing to restore
};

} // namespace rondo::training
