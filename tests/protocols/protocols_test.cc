// Models the protocols between devices (see kernels/cuda/plan/PROOFS.md, "Why the memory ordering
// is enough"). Explores every run of some messages through rings of one and two slots. Each model
// has weakened variants, in which an edge of the argument is left out, and which must fail.
#include <string>

#include "protocols/explore.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using protocols::Memory;
using protocols::Model;

/// Enough messages to reuse every slot of the deepest ring twice.
constexpr int kMessages = 5;

/// The edges of the argument; a model leaves out at most one.
enum class Without {
  nothing,
  room,          ///< the sender's wait for a slot
  room_first,    ///< the order of that wait before the writes (acquire)
  written_first, ///< of the writes before the signal (barrier, release)
  news_first,    ///< of the signal before the reads (acquire, barrier)
  read_first,    ///< of the reads before the slot's return (barrier, release)
  one_piece,     ///< that data and flag of a packet are written in one piece
  wide_flag,     ///< that a flag distinguishes a message from the one in the slot before
  taken_first,   ///< relay: the order of the port's copy of a slot before its return
  room_there,    ///< relay: the receiving side's wait for a slot
};

/// A ring's words in the model's memory. A message is its number, in two words that different
/// threads of a block write and read.
struct Ring {
  std::size_t base;
  int depth;

  static std::size_t words(int depth) { return 2 + 2 * static_cast<std::size_t>(depth); }
  std::size_t published() const { return base; }
  std::size_t consumed() const { return base + 1; }
  std::size_t slot(int message, int word) const {
    return base + 2 + 2 * static_cast<std::size_t>((message - 1) % depth) +
           static_cast<std::size_t>(word);
  }
};

std::vector<std::size_t> both(std::vector<std::size_t> first,
                              const std::vector<std::size_t>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// A kernel that sends: waits for a slot, writes, signals.
void addSender(Model& model, const Ring& ring, Without without) {
  std::vector<std::size_t> told, written[kMessages + 1];
  for (int n = 1; n <= kMessages; ++n) {
    std::vector<std::size_t> room = told;
    if (without != Without::room)
      room = {model.add(
          told, [=](const Memory& m) { return m[ring.consumed()] + ring.depth >= n; }, nullptr)};
    // Accesses to one word keep their order in any case.
    const auto earlier = n > ring.depth ? written[n - ring.depth] : std::vector<std::size_t>{};
    for (int word : {0, 1})
      written[n].push_back(model.add(without == Without::room_first ? earlier : both(room, earlier),
                                     nullptr, [=](Memory& m) {
                                       m[ring.slot(n, word)] = n;
                                       return std::string();
                                     }));
    told = {model.add(without == Without::written_first ? room : both(room, written[n]), nullptr,
                      [=](Memory& m) {
                        m[ring.published()] = n;
                        return std::string();
                      })};
  }
}

/// A kernel that receives: waits for the signal, reads, returns the slot.
void addReceiver(Model& model, const Ring& ring, Without without) {
  std::vector<std::size_t> returned, read[kMessages + 1];
  for (int n = 1; n <= kMessages; ++n) {
    const std::size_t news = model.add(
        returned, [=](const Memory& m) { return m[ring.published()] >= n; }, nullptr);
    const auto earlier = n > ring.depth ? read[n - ring.depth] : std::vector<std::size_t>{};
    for (int word : {0, 1})
      read[n].push_back(model.add(without == Without::news_first ? earlier : both({news}, earlier),
                                  nullptr, [=](Memory& m) {
                                    const int seen = m[ring.slot(n, word)];
                                    return seen == n ? std::string()
                                                     : "message " + std::to_string(n) +
                                                           " read as " + std::to_string(seen);
                                  }));
    returned = {
        model.add(without == Without::read_first ? std::vector{news} : both({news}, read[n]),
                  nullptr, [=](Memory& m) {
                    m[ring.consumed()] = n;
                    return std::string();
                  })};
  }
}

Model ringModel(int depth, Without without) {
  Model model(Ring::words(depth));
  const Ring ring{0, depth};
  addSender(model, ring, without);
  addReceiver(model, ring, without);
  return model;
}

/// Packets: flag and data are written in one piece; only the way back has a separate word.
Model packetModel(int depth, Without without) {
  Model model(1 + 2 * static_cast<std::size_t>(depth));
  const auto data = [=](int n) { return 1 + 2 * static_cast<std::size_t>((n - 1) % depth); };
  const auto flagOf = [=](int n) { return without == Without::wide_flag ? 1 : n; };
  std::vector<std::size_t> sent, taken;
  for (int n = 1; n <= kMessages; ++n) {
    if (without != Without::room)
      sent = {model.add(
          sent, [=](const Memory& m) { return m[0] + depth >= n; }, nullptr)};
    const auto write = [=](bool of_data, bool of_flag) {
      return [=](Memory& m) {
        if (of_data) m[data(n)] = n;
        if (of_flag) m[data(n) + 1] = flagOf(n);
        return std::string();
      };
    };
    if (without == Without::one_piece) {
      const std::size_t first = model.add(sent, nullptr, write(true, false));
      sent = {first, model.add(sent, nullptr, write(false, true))};
    } else {
      sent = {model.add(sent, nullptr, write(true, true))};
    }
    const std::size_t seen = model.add(
        taken, [=](const Memory& m) { return m[data(n) + 1] == flagOf(n); },
        [=](Memory& m) {
          return m[data(n)] == n ? std::string() : "message " + std::to_string(n) + " is old";
        });
    taken = {model.add({seen}, nullptr, [=](Memory& m) {
      m[0] = n;
      return std::string();
    })};
  }
  return model;
}

/// Two rings, a relay at each, and a stream between them that holds one message.
Model relayModel(int depth, Without without) {
  const std::size_t words = Ring::words(depth);
  Model model(2 * words + 1);
  const Ring here{0, depth}, there{words, depth};
  const std::size_t stream = 2 * words; // 0: empty
  addSender(model, here, Without::nothing);
  addReceiver(model, there, Without::nothing);
  std::vector<std::size_t> sent, received;
  for (int n = 1; n <= kMessages; ++n) {
    const std::size_t news = model.add(
        sent, [=](const Memory& m) { return m[here.published()] >= n; }, nullptr);
    const std::size_t copied = model.add(
        both({news}, sent), [=](const Memory& m) { return m[stream] == 0; },
        [=](Memory& m) {
          m[stream] = m[here.slot(n, 0)];
          return m[here.slot(n, 1)] == m[stream] ? std::string() : "half a message was sent";
        });
    const std::size_t back =
        model.add({without == Without::taken_first ? news : copied}, nullptr, [=](Memory& m) {
          m[here.consumed()] = n;
          return std::string();
        });
    sent = {copied, back};

    std::vector<std::size_t> room = received;
    if (without != Without::room_there)
      room = {model.add(
          received, [=](const Memory& m) { return n - 1 - m[there.consumed()] < depth; }, nullptr)};
    const std::size_t put = model.add(
        room, [=](const Memory& m) { return m[stream] != 0; },
        [=](Memory& m) {
          m[there.slot(n, 0)] = m[there.slot(n, 1)] = m[stream];
          m[stream] = 0;
          return std::string();
        });
    received = {model.add({put}, nullptr, [=](Memory& m) {
      m[there.published()] = n;
      return std::string();
    })};
  }
  return model;
}

using Make = Model (*)(int, Without);

void check(Make make, std::initializer_list<Without> twins) {
  for (int depth : {1, 2}) {
    const auto whole = make(depth, Without::nothing).explore();
    INFO("depth " << depth << ", " << whole.states << " states");
    CHECK(whole.wrong == "");
    CHECK(whole.states > 4 * kMessages); // each message has at least this many operations
    for (const Without twin : twins) {
      INFO("without " << static_cast<int>(twin));
      CHECK(make(depth, twin).explore().wrong != "");
    }
  }
}

} // namespace

// Proves: flags with causality order suffice for the slots' plain accesses, and each edge of this
// order is needed.
TEST_CASE("protocols: the ring delivers every message whole, in any order of accesses") {
  check(ringModel, {Without::room, Without::room_first, Without::written_first, Without::news_first,
                    Without::read_first});
}

// Proves: packets need no order between them. They need to be written in one piece, with a flag
// that differs from every old one, and credit.
TEST_CASE("protocols: packets are never read half or twice") {
  check(packetModel, {Without::room, Without::one_piece, Without::wide_flag});
}

// Proves: a relay returns a slot when the stream has the message, and reads from the stream only
// when it has one.
TEST_CASE("protocols: a relayed message is the one that was sent") {
  check(relayModel, {Without::taken_first, Without::room_there});
}

} // namespace rondo::test
