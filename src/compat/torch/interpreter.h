// Python's lock, where a thread that has it waits for others that may need it.
#pragma once

#include <torch/csrc/python_headers.h>

namespace rondo::compat {

/// Gives the interpreter away, where this thread has it, for as long as it exists.
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
