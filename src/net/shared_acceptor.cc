// A process's listeners by address, and the members that share each.
#include "net/shared_acceptor.h"

#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/fork.h"

namespace rondo::net {

namespace {

/// In addition to the expected peers; see Acceptor::expect().
constexpr int kOthers = 64;

SharedAcceptor::Key keyOf(const Hello& hello) {
  if (hello.purpose == Hello::Purpose::control) return {hello.purpose, hello.job, 0, 0};
  return {hello.purpose, hello.job, hello.communicator, hello.dst};
}

bool shared(const SharedAcceptor::Settings& settings) {
  return settings.address.port == 0 && settings.address.name.empty() &&
         (settings.secret.present || settings.key.purpose == Hello::Purpose::data);
}

} // namespace

class SharedAcceptor::Listener {
 public:
  struct Member {
    Secret secret;
    std::function<void(Accepted)> accepted;
  };

  /// Adds the member to the listener at this address. Makes a new one if none can be shared, or if
  /// another member has the same key there: two transports may number their channels alike.
  static std::shared_ptr<Listener> with(const Settings& settings, const Member& member);

  const SocketAddress& address() const { return acceptor_->address(); }
  std::uint64_t rejected() const { return acceptor_->rejected(); }
  void throwIfStarved() const { acceptor_->throwIfStarved(); }
  void remove(const Key& key) {
    if (maker_.elsewhere()) return;
    const std::lock_guard lock(members_->mutex);
    members_->list.erase(key);
  }

 private:
  /// The state that the loop thread reads. It outlives the acceptor's last callback.
  struct Members {
    std::optional<Member> find(const Hello& hello) {
      const std::lock_guard lock(mutex);
      const auto found = list.find(keyOf(hello));
      if (found == list.end()) return std::nullopt;
      return found->second;
    }

    std::mutex mutex;
    std::map<Key, Member> list;
  };

  Listener(const Settings& settings, const Member& member);
  bool add(const Settings& settings, const Member& member) {
    acceptor_->expect(settings.peers);
    const std::lock_guard lock(members_->mutex);
    return members_->list.emplace(settings.key, member).second;
  }

  const base::Maker maker_;
  const std::shared_ptr<Members> members_ = std::make_shared<Members>();
  std::unique_ptr<Acceptor> acceptor_;
};

SharedAcceptor::Listener::Listener(const Settings& settings, const Member& member) {
  members_->list.emplace(settings.key, member);
  Acceptor::Settings listen;
  listen.address = settings.address;
  listen.half_open_limit = settings.peers + kOthers;
  if (shared(settings)) {
    listen.secret_of = [members = members_](const Hello& hello) -> std::optional<Secret> {
      const auto found = members->find(hello);
      if (!found) return std::nullopt;
      return found->secret;
    };
  } else {
    listen.secret = settings.secret;
    listen.job = settings.key.job;
  }
  acceptor_ = std::make_unique<Acceptor>(listen, [members = members_](Accepted accepted) {
    if (const auto found = members->find(accepted.hello)) found->accepted(std::move(accepted));
  });
}

std::shared_ptr<SharedAcceptor::Listener> SharedAcceptor::Listener::with(const Settings& settings,
                                                                         const Member& member) {
  if (!shared(settings)) return std::shared_ptr<Listener>(new Listener(settings, member));
  // A process has one network. The table does not keep listeners alive.
  struct Table {
    std::mutex mutex;
    std::vector<std::pair<std::vector<std::byte>, std::weak_ptr<Listener>>> listeners;
  };
  static Table& table = *new Table; // also used while the process ends
  const auto where = settings.address.encode();
  // Listeners start and stop without the lock: both wait for the loop thread, which may want the
  // lock.
  std::vector<std::shared_ptr<Listener>> held;
  const auto join = [&]() -> std::shared_ptr<Listener> {
    std::erase_if(table.listeners, [](const auto& one) { return one.second.expired(); });
    for (const auto& [at, listener] : table.listeners) {
      const auto& found = held.emplace_back(listener.lock());
      if (found && at == where && !found->maker_.elsewhere() && found->add(settings, member))
        return found;
    }
    return nullptr;
  };
  {
    const std::lock_guard lock(table.mutex);
    if (auto found = join()) return found;
  }
  std::shared_ptr<Listener> made(new Listener(settings, member));
  const std::lock_guard lock(table.mutex);
  if (auto found = join()) return found; // of another thread that was faster
  table.listeners.emplace_back(where, made);
  return made;
}

SharedAcceptor::SharedAcceptor(const Settings& settings, std::function<void(Accepted)> accepted)
    : key_(settings.key),
      listener_(Listener::with(settings, {settings.secret, std::move(accepted)})),
      rejected_before_(listener_->rejected()) {}

SharedAcceptor::~SharedAcceptor() { listener_->remove(key_); }

const SocketAddress& SharedAcceptor::address() const { return listener_->address(); }

std::uint64_t SharedAcceptor::rejected() const { return listener_->rejected() - rejected_before_; }

void SharedAcceptor::throwIfStarved() const { listener_->throwIfStarved(); }

} // namespace rondo::net
