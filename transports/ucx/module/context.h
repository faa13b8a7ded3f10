// UCX contexts: workers with the same settings share one.
#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "transports/ucx/module/module.h"

namespace rondo::transport::ucx {

class Context {
 public:
  /// On failure returns null and sets `why`. Any thread.
  static std::shared_ptr<Context> with(const Settings& settings, std::string& why);

  explicit Context(ucp_context_h handle) : handle_(handle) {}
  ~Context() { ucp_cleanup(handle_); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ucp_context_h handle() const { return handle_; }
  /// A network that is faster than TCP, for example "rc_mlx5/mlx5_0:1"; empty: none.
  std::string fabric() const;

 private:
  const ucp_context_h handle_;
};

} // namespace rondo::transport::ucx
