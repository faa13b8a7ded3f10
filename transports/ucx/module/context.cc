// Configures UCX for Rondo, except for what the user has set with UCX's own variables.
#include "transports/ucx/module/context.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>

namespace rondo::transport::ucx {

namespace {

/// Sets a value unless the environment has one. A variable that this release of UCX does not know
/// is ignored.
void prefer(ucp_config_t* config, const char* name, const std::string& value,
            std::initializer_list<const char*> variables) {
  for (const char* variable : variables)
    if (std::getenv(variable) != nullptr) return;
  ucp_config_modify(config, name, value.c_str());
}

bool demand(ucp_config_t* config, const char* name, const std::string& value, std::string& why) {
  if (value.empty()) return true;
  const ucs_status_t status = ucp_config_modify(config, name, value.c_str());
  if (status == UCS_OK) return true;
  why = std::string("UCX refuses UCX_") + name + "=" + value + ": " + ucs_status_string(status);
  return false;
}

bool configure(ucp_config_t* config, const Settings& settings, std::string& why) {
  const std::string beat = std::to_string(settings.heartbeat.count()) + "ms";
  prefer(config, "KEEPALIVE_INTERVAL", beat, {"UCX_KEEPALIVE_INTERVAL"});
  prefer(config, "KEEPIDLE", beat, {"UCX_TCP_KEEPIDLE"});
  prefer(config, "KEEPINTVL", beat, {"UCX_TCP_KEEPINTVL"});
  prefer(config, "KEEPCNT", "2", {"UCX_TCP_KEEPCNT"});
  // An unreachable host must not block the thread that connects to it.
  prefer(config, "CONN_NB", "y", {"UCX_TCP_CONN_NB"});
  // Without this, UCX does not use shared memory when errors of a peer must be reported.
  prefer(config, "MM_ERROR_HANDLING", "y",
         {"UCX_MM_ERROR_HANDLING", "UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING"});
  return demand(config, "TLS", settings.transports, why) &&
         demand(config, "NET_DEVICES", settings.devices, why);
}

} // namespace

std::shared_ptr<Context> Context::with(const Settings& settings, std::string& why) {
  static std::mutex mutex;
  static std::map<Settings, std::weak_ptr<Context>> known;
  const std::lock_guard lock(mutex);
  auto& entry = known[settings];
  if (auto found = entry.lock()) return found;

  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) {
    why = std::string("UCX cannot read its variables: ") + ucs_status_string(status);
    return nullptr;
  }
  const std::unique_ptr<ucp_config_t, void (*)(ucp_config_t*)> owned(config, ucp_config_release);
  if (!configure(config, settings, why)) return nullptr;
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_AM;
  params.mt_workers_shared = 1; // ranks may be threads
  ucp_context_h handle = nullptr;
  status = ucp_init(&params, config, &handle);
  if (status != UCS_OK) {
    why = std::string("UCX does not start: ") + ucs_status_string(status);
    return nullptr;
  }
  auto made = std::make_shared<Context>(handle);
  entry = made;
  return made;
}

// UCX 1.13 reports the transports that it would use only as text. Only known fabrics count, so an
// unknown text means TCP.
std::string Context::fabric() const {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* const out = ::open_memstream(&text, &size);
  if (out == nullptr) return {};
  ucp_context_print_info(handle_, out);
  std::fclose(out);
  std::istringstream words(std::string(text, size));
  std::free(text);
  constexpr std::array<std::string_view, 6> kFabrics = {"rc_", "dc_", "ud_", "srd", "gga", "ugni"};
  for (std::string word; words >> word;)
    for (const std::string_view fabric : kFabrics)
      if (word.starts_with(fabric) && word.find('/') != std::string::npos) return word;
  return {};
}

} // namespace rondo::transport::ucx
