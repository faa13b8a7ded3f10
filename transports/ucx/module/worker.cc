// A worker of UCX: active messages, and connections that report the end of their peer.
#include <ucp/api/ucp.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "transports/ucx/module/context.h"

namespace rondo::transport::ucx {

class Endpoint {
 public:
  int peer = -1;
  ucp_ep_h handle = nullptr; ///< null when it is closed
  Events* events = nullptr;
  bool broken = false;
};

namespace {

/// All of Rondo's messages have the same id; the header tells their kind.
constexpr unsigned kMessage = 0;

static_assert(sizeof(Piece) == sizeof(ucp_dt_iov_t) &&
              offsetof(Piece, data) == offsetof(ucp_dt_iov_t, buffer) &&
              offsetof(Piece, size) == offsetof(ucp_dt_iov_t, length));

void ended(void* request, ucs_status_t status, void* of) {
  auto* operation = static_cast<Operation*>(of);
  operation->error = status == UCS_OK ? nullptr : ucs_status_string(status);
  operation->pending = false;
  ucp_request_free(request);
}
void fetched(void* request, ucs_status_t status, std::size_t /*bytes*/, void* of) {
  ended(request, status, of);
}

/// Records what UCX returned for an operation that ends with a callback.
void note(ucs_status_ptr_t returned, Operation& operation) {
  operation.pending = UCS_PTR_IS_PTR(returned);
  operation.error =
      UCS_PTR_IS_ERR(returned) ? ucs_status_string(UCS_PTR_STATUS(returned)) : nullptr;
}

/// The memory of a message in UCX's form.
struct Memory {
  explicit Memory(std::span<const Piece> body) {
    if (body.size() == 1) {
      start = body[0].data;
      count = body[0].size;
    } else if (!body.empty()) {
      start = const_cast<Piece*>(body.data());
      count = body.size();
      type = ucp_dt_make_iov();
    }
  }
  void* start = nullptr;
  std::size_t count = 0;
  ucp_datatype_t type = ucp_dt_make_contig(1);
};

class OneWorker final : public UcpWorker {
 public:
  OneWorker(std::shared_ptr<Context> context, Events& events)
      : context_(std::move(context)), events_(events) {}
  ~OneWorker() override {
    if (handle_) cut();
    if (address_) ucp_worker_release_address(handle_, address_);
    if (handle_) ucp_worker_destroy(handle_);
  }

  ucs_status_t start() {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    params.flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK; // they leak after a failure
    if (const auto status = ucp_worker_create(context_->handle(), &params, &handle_);
        status != UCS_OK)
      return status;
    ucp_am_handler_param_t handler{};
    handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                         UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
    handler.id = kMessage;
    handler.flags = UCP_AM_FLAG_WHOLE_MSG;
    handler.cb = arrived;
    handler.arg = this;
    if (const auto status = ucp_worker_set_am_recv_handler(handle_, &handler); status != UCS_OK)
      return status;
    return ucp_worker_get_address(handle_, &address_, &address_bytes_);
  }

  std::span<const std::byte> address() const noexcept override {
    return {reinterpret_cast<const std::byte*>(address_), address_bytes_};
  }

  bool progress() noexcept override { return ucp_worker_progress(handle_) != 0; }

  Endpoint* connect(int peer, std::span<const std::byte> address, std::string& why) override {
    auto made = std::make_unique<Endpoint>();
    made->peer = peer;
    made->events = &events_;
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler = {broke, made.get()};
    if (const auto status = ucp_ep_create(handle_, &params, &made->handle); status != UCS_OK) {
      why = ucs_status_string(status);
      return nullptr;
    }
    endpoints_.push_back(std::move(made));
    return endpoints_.back().get();
  }

  void send(Endpoint& to, std::span<const std::byte> header, std::span<const Piece> body,
            bool announce, Operation& operation) noexcept override {
    const Memory memory(body);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_FLAGS |
                         UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    param.datatype = memory.type;
    param.flags = announce ? UCP_AM_SEND_FLAG_RNDV : UCP_AM_SEND_FLAG_EAGER;
    param.cb.send = ended;
    param.user_data = &operation;
    note(ucp_am_send_nbx(to.handle, kMessage, header.data(), header.size(), memory.start,
                         memory.count, &param),
         operation);
  }

  void fetch(void* data, std::span<const Piece> body, Operation& operation) noexcept override {
    const Memory memory(body);
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                         UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param.memory_type = UCS_MEMORY_TYPE_HOST;
    param.datatype = memory.type;
    param.cb.recv_am = fetched;
    param.user_data = &operation;
    note(ucp_am_recv_data_nbx(handle_, data, memory.start, memory.count, &param), operation);
  }

  void drop(void* data) noexcept override { ucp_am_data_release(handle_, data); }

  void close() noexcept override {
    for (const auto& endpoint : endpoints_)
      if (!endpoint->broken) startClosing(*endpoint, 0);
  }

  bool closed() noexcept override {
    std::erase_if(closing_, [](void* request) {
      const bool done = ucp_request_check_status(request) != UCS_INPROGRESS;
      if (done) ucp_request_free(request);
      return done;
    });
    return closing_.empty();
  }

 private:
  /// Time limit for cutting the connections, which takes a few polls. Connections that hang are
  /// destroyed with the worker.
  static constexpr std::chrono::milliseconds kCut{100};

  void cut() {
    for (const auto& endpoint : endpoints_) startClosing(*endpoint, UCP_EP_CLOSE_FLAG_FORCE);
    const auto until = std::chrono::steady_clock::now() + kCut;
    while (!closed() && std::chrono::steady_clock::now() < until) ucp_worker_progress(handle_);
    for (void* request : closing_) ucp_request_free(request);
  }

  static ucs_status_t arrived(void* self, const void* header, std::size_t header_bytes, void* data,
                              std::size_t bytes, const ucp_am_recv_param_t* param) {
    Arrival arrival;
    arrival.header = {static_cast<const std::byte*>(header), header_bytes};
    arrival.data = data;
    arrival.bytes = bytes;
    arrival.announced = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    arrival.keepable = arrival.announced || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
    return static_cast<OneWorker*>(self)->events_.arrived(arrival) ? UCS_INPROGRESS : UCS_OK;
  }

  static void broke(void* of, ucp_ep_h /*handle*/, ucs_status_t status) {
    auto* endpoint = static_cast<Endpoint*>(of);
    if (endpoint->broken) return;
    endpoint->broken = true;
    endpoint->events->broke(endpoint->peer,
                            status == UCS_ERR_ENDPOINT_TIMEOUT || status == UCS_ERR_TIMED_OUT,
                            ucs_status_string(status));
  }

  void startClosing(Endpoint& endpoint, std::uint32_t flags) {
    if (!endpoint.handle) return;
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint.handle, &param);
    endpoint.handle = nullptr;
    if (UCS_PTR_IS_PTR(request)) closing_.push_back(request);
  }

  const std::shared_ptr<Context> context_;
  Events& events_;
  ucp_worker_h handle_ = nullptr;
  ucp_address_t* address_ = nullptr;
  std::size_t address_bytes_ = 0;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<void*> closing_;
};

class OneModule final : public Module {
 public:
  std::string version() const override {
    unsigned major = 0, minor = 0, release = 0;
    ucp_get_version(&major, &minor, &release);
    return std::to_string(major) + "." + std::to_string(minor) + "." + std::to_string(release);
  }
  std::unique_ptr<UcpWorker> makeWorker(const Settings& settings, Events& events,
                                        std::string& why) override {
    auto context = Context::with(settings, why);
    if (!context) return nullptr;
    auto worker = std::make_unique<OneWorker>(std::move(context), events);
    if (const auto status = worker->start(); status != UCS_OK) {
      why = std::string("UCX cannot make a worker: ") + ucs_status_string(status);
      return nullptr;
    }
    return worker;
  }
  std::string fabric(const Settings& settings) override {
    std::string why;
    const auto context = Context::with(settings, why);
    return context ? context->fabric() : std::string();
  }
};

void (*log_to)(bool serious, const char* text) = nullptr;

ucs_log_func_rc_t logged(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                         ucs_log_level_t level, const ucs_log_component_config_t* component,
                         const char* format, std::va_list arguments) {
  if (level > component->log_level) return UCS_LOG_FUNC_RC_STOP;
  char text[512];
  std::vsnprintf(text, sizeof text, format, arguments);
  log_to(level <= UCS_LOG_LEVEL_ERROR, text);
  return UCS_LOG_FUNC_RC_STOP;
}

} // namespace
} // namespace rondo::transport::ucx

/// By default UCX installs handlers for crash signals when it is loaded, and logs to standard
/// output. Both belong to the program.
extern "C" __attribute__((visibility("default"))) rondo::transport::ucx::Module* rondo_ucx_module_1(
    void (*log)(bool serious, const char* text)) {
  using namespace rondo::transport::ucx;
  static OneModule module;
  log_to = log;
  ucs_log_push_handler(logged);
  if (std::getenv("UCX_HANDLE_ERRORS") == nullptr && std::getenv("UCX_ERROR_SIGNALS") == nullptr)
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
  return &module;
}
