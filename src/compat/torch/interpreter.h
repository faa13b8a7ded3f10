// Releases the GIL while a thread waits for other threads that may need it.
#pragma once

#include <torch/csrc/python_headers.h>

namespace rondo::compat {

/// Releases the GIL, if this thread holds it, for the lifetime of the object.
class WithoutInterpreter {
 public:
  WithoutInterpreter() {
    if (Py_IsInitialized() && PyGILState_Check()) thread_ = PyEval_SaveThread();
  }
  ~WithoutInterpreter() {
    if (thread_) PyEval_RestoreThread(thread_);
  }
  WithoutInterpreter(const WithoutInterpreter&) = delete;
  WithoutInterpreter& operator=(const WithoutInterpreter&) = delete;

 private:
  PyThreadState* thread_ = nullptr;
};

} // namespace rondo::compat
