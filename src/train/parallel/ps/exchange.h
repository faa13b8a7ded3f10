// A worker's half of the exchange: carries gradients to the servers, and values back.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "rondo/gradients.h"
#include "train/aligned.h"
#include "train/parallel/ps/changes.h"
#include "train/parallel/ps/keys.h"
#include "train/parallel/ps/messages.h"

namespace rondo::training::servers {

/// The memory on both ends of it, in the layout of the keys.
struct Ends {
  std::span<const float> gradients;
  std::span<float> values;
  std::span<float> kept; ///< what a sparse codec has not sent yet; of others: empty
};

/// One thread. What is passed must live as long.
class Exchange {
 public:
  /// `codec` makes messages of the gradients; null: they travel as they are.
  Exchange(Links& links, const Keys& keys, const Ends& ends, GradientCodec* codec);
  /// Aborts the links where messages are on their way.
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Returns when nothing is on its way: gradients may be written.
  void settle();
  /// Tells all servers what comes; running statistics are complete, and leave.
  void begin(const Request& request);
  /// Each piece leaves as soon as all of it stands.
  void gradientStands(std::size_t weight);
  /// Returns when the values are the servers' new ones. `oldest` is the least of all servers'.
  Notice pull();
  /// Instead of another push.
  void end();

 private:
  /// A piece of the parameters as it comes and goes.
  struct Traffic {
    const Piece* piece;
    std::size_t missing = 0;      ///< weights whose gradients do not stand yet
    AlignedBytes message;         ///< of a codec
    Told told;                    ///< what the answer tells, if it does not tell all
    AlignedVector<float> changes; ///< of it
    Work announced;
  };
  struct Server {
    std::vector<Traffic> pieces; ///< in the order in which they leave
    std::size_t left = 0;        ///< that have left
    std::vector<Work> on_their_way;
    Notice notice;
  };

  void sendReady(std::size_t server);
  void send(std::size_t server, Traffic& piece);
  bool sparse() const { return codec_ && codec_->sparse(); }
  void pullAll();
  void pullChanges();
  void takeChanges();

  Links& links_;
  const Ends ends_;
  GradientCodec* const codec_;
  std::vector<Server> servers_;
  Request request_;
};

} // namespace rondo::training::servers
