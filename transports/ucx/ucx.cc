// ucx: uses any network that UCX supports. Ranks exchange their workers' addresses over the control
// plane. UCX makes the connections. Channels begin with greetings, which prove knowledge of the
// job's secret.
#include <filesystem>

#include "base/codec.h"
#include "base/log.h"
#include "base/parse.h"
#include "rondo/error.h"
#include "transports/support.h"
#include "transports/ucx/channels.h"
#include "transports/ucx/ends.h"
#include "transports/ucx/open_module.h"
#include "transports/ucx/wire.h"

namespace rondo::transport {
namespace ucx {
namespace {

constexpr std::uint8_t kAddressVersion = 1;
constexpr std::string_view kLabel = "rondo ucx address";
constexpr std::size_t kMostVersion = 32;

/// The address of a rank. UCX does not validate addresses, so it only gets those whose proof is
/// right: complete, for this communicator, and made by a process that knows the secret.
struct Told {
  std::string version; ///< of UCX
  std::vector<std::byte> worker;

  Address encode(const Context& context) const {
    base::Writer out;
    out.u8(kAddressVersion);
    out.text(version);
    out.blob(worker);
    const auto proof = proofOf(context, kLabel, out.bytes());
    out.raw(std::span(proof).first(kProofBytes));
    return out.take();
  }

  static Told decode(const Address& address, const Context& context) {
    base::Reader in(address, "ucx address");
    if (const int version = in.u8(); version != kAddressVersion)
      in.fail("is of version " + std::to_string(version) + ", wanted " +
              std::to_string(kAddressVersion));
    Told told;
    told.version = in.text(kMostVersion);
    const auto worker = in.blob(kMostAddressBytes);
    const auto said = in.raw(kProofBytes);
    in.finish();
    const auto proof =
        proofOf(context, kLabel, std::span(address).first(address.size() - kProofBytes));
    if (!net::equalConstantTime(said, std::span(proof).first(kProofBytes)))
      in.fail("is damaged, or from a process that does not know the job's secret");
    told.worker.assign(worker.begin(), worker.end());
    return told;
  }
};

Settings settingsOf(const Options& options) {
  return {options.ucx_transports, options.ucx_devices, options.heartbeat};
}

class Ucx final : public Transport {
 public:
  Ucx(const Context& context, Module& module)
      : context_(context),
        size_(channelSize(context.options, kUcxSize)),
        version_(module.version()),
        channels_(std::make_shared<Channels>(module, settingsOf(context.options), context)) {}

  std::string_view name() const override { return "ucx"; }
  std::size_t slotBytes() const override { return size_.slot_bytes; }
  bool mapped() const override { return false; }
  Worker* worker() override { return channels_.get(); }
  Address address() const override { return Told{version_, channels_->address()}.encode(context_); }
  bool reaches(const Address& peer) const override {
    return Told::decode(peer, context_).version == version_;
  }

  std::unique_ptr<PendingPort> open(const ChannelId& id, const Address& address) override {
    peerOf(id, context_);
    const Told peer = Told::decode(address, context_);
    if (peer.version != version_)
      throw Error(ErrorCode::transport, describe("ucx", id) + ": the peer has UCX " + peer.version +
                                            ", this rank " + version_);
    return openEnd(channels_, context_, id, size_, peer.worker);
  }

 private:
  const Context context_;
  const ChannelSize size_;
  const std::string version_;
  const std::shared_ptr<Channels> channels_;
};

/// Whether the user has named ucx in Options::transports.
bool named(const Options& options) {
  const auto filter = base::NameFilter::parse(options.transports, "RONDO_TRANSPORT");
  return !filter.exclude && !filter.names.empty();
}

/// Whether the machine has any device that UCX would use instead of TCP. Cheap: most machines have
/// none, and then never load UCX.
bool anyFabric() {
  std::error_code none;
  return !std::filesystem::is_empty("/sys/class/infiniband", none) && !none;
}

std::unique_ptr<Transport> make(const Context& context) {
  const bool wanted = named(context.options);
  if (!wanted && (!notBuilt().empty() || !anyFabric())) return nullptr;
  if (context.options.tls) {
    if (wanted)
      throw Error(ErrorCode::unsupported,
                  "RONDO_TRANSPORT names ucx, but UCX does not encrypt: remove ucx or RONDO_TLS=1");
    base::log(LogLevel::info, "ucx is not used: UCX does not encrypt, and RONDO_TLS=1 is set");
    return nullptr;
  }
  std::string why;
  Module* const module = openModule(why);
  if (!module) {
    if (wanted) throw Error(ErrorCode::unsupported, "RONDO_TRANSPORT=ucx: " + why);
    base::log(LogLevel::info, "ucx is not used: ", why);
    return nullptr;
  }
  if (!wanted) {
    const std::string fabric = module->fabric(settingsOf(context.options));
    base::log(LogLevel::info, fabric.empty() ? "ucx is not used: it found nothing faster than TCP"
                                             : "ucx is preferred to tcp: it found " + fabric);
    if (fabric.empty()) return nullptr;
  }
  try {
    return std::make_unique<Ucx>(context, *module);
  } catch (const Error& error) {
    if (wanted || error.code() != ErrorCode::unsupported) throw;
    base::log(LogLevel::warn, "ucx is not used: ", error.what());
    return nullptr;
  }
}

} // namespace
} // namespace ucx

extern const Kind k_ucx = {"ucx", "whatever UCX reaches: InfiniBand, RoCE, shared memory, TCP",
                           true, ucx::make, ucx::notBuilt};

} // namespace rondo::transport
