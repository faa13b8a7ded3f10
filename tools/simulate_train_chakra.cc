// Encodes tasks as the messages of Chakra's schema.
#include "tools/simulate_train_chakra.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>

#include "tools/bench/json.h"

namespace rondo::tools {

namespace {

/// A message in the wire format: fields with varints, or with bytes after their length.
class Message {
 public:
  void number(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(value);
  }
  void bytes(int field, std::string_view value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    delimited(value);
  }
  void numbers(int field, const std::vector<std::uint64_t>& values) {
    Message packed;
    for (const std::uint64_t value : values) packed.varint(value);
    if (!values.empty()) bytes(field, packed.text());
  }
  /// A message of its own in a file.
  void delimited(std::string_view value) {
    varint(value.size());
    text_ += value;
  }
  const std::string& text() const { return text_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

enum NodeType : std::uint64_t { kCompute = 4, kSend = 5, kReceive = 6, kCollective = 7 };
// Fields of Node.
constexpr int kId = 1, kName = 2, kType = 3, kControl = 4, kData = 5, kDuration = 7,
              kAttribute = 10;
// Fields of AttributeProto; the type of a value is its field. ASTRA-sim reads one type for each
// name, and takes a value of another type for 0.
constexpr int kAttributeName = 1, kInt32 = 7, kInt64 = 9, kBool = 27;

std::uint64_t typeOf(Collective collective) {
  switch (collective) {
    case Collective::allreduce: return 0;
    case Collective::reduce: return 1;
    case Collective::allgather: return 2;
    case Collective::gather: return 3;
    case Collective::scatter: return 4;
    case Collective::broadcast: return 5;
    case Collective::alltoall: return 6;
    case Collective::reducescatter: return 7;
    default: return 9; // a barrier
  }
}

class RankTrace {
 public:
  RankTrace(const SimulatedSteps& steps, int rank)
      : tasks_(steps.graph.tasks()), resources_(steps.graph.resources()) {
    const bool own = std::ranges::find(steps.ranks, rank) != steps.ranks.end();
    standing_ = own ? rank : steps.ranks.front();
    Message metadata;
    metadata.bytes(1, "0.0.4");
    file_.delimited(metadata.text());
    for (std::uint64_t task = 0; task < tasks_.size(); ++task) add(task);
  }

  const std::string& text() const { return file_.text(); }

 private:
  void add(std::uint64_t number) {
    const model::Task& task = tasks_[number];
    const int of = resources_[task.resources.front()].rank;
    if (task.to >= 0) {
      const Message size = attribute("comm_size", kInt64, bytesOf(task));
      for (const bool sends : {true, false}) {
        if ((sends ? of : task.to) != standing_ || of == task.to) continue;
        write(number, task, sends ? kSend : kReceive, sends,
              {size, attribute("comm_src", kInt32, static_cast<std::uint64_t>(of)),
               attribute("comm_dst", kInt32, static_cast<std::uint64_t>(task.to)),
               attribute("comm_tag", kInt32, number)});
      }
    } else if (task.collective) {
      write(number, task, kCollective, true,
            {attribute("comm_type", kInt64, typeOf(*task.collective)),
             attribute("comm_size", kInt64, bytesOf(task))});
    } else if (of == standing_) {
      write(number, task, kCompute, true, {});
    }
  }

  static std::uint64_t bytesOf(const model::Task& task) {
    return static_cast<std::uint64_t>(std::llround(task.bytes));
  }
  static Message attribute(const char* name, int field, std::uint64_t value) {
    Message made;
    made.bytes(kAttributeName, name);
    made.number(field, value);
    return made;
  }

  /// `waits`: for the tasks that it waits for; a receive waits for the sender only.
  void write(std::uint64_t number, const model::Task& task, NodeType type, bool waits,
             const std::vector<Message>& attributes) {
    Message node;
    node.number(kId, number);
    node.bytes(kName, task.name);
    node.number(kType, type);
    std::vector<std::uint64_t> data, control;
    for (const std::uint32_t before : task.after)
      if (waits && written_.contains(before)) data.push_back(before);
    // Tasks of a resource run in order.
    for (const std::uint32_t resource : task.resources) {
      if (type == kReceive) break;
      const auto [last, first] = last_.try_emplace(resource, number);
      const bool known = std::ranges::find(data, last->second) != data.end();
      if (!first && !known && std::ranges::find(control, last->second) == control.end())
        control.push_back(last->second);
      last->second = number;
    }
    node.numbers(kControl, control);
    node.numbers(kData, data);
    if (type == kCompute)
      node.number(kDuration, static_cast<std::uint64_t>(std::llround(task.seconds * 1e6)));
    node.bytes(kAttribute, attribute("is_cpu_op", kBool, 0).text());
    for (const Message& one : attributes) node.bytes(kAttribute, one.text());
    file_.delimited(node.text());
    written_.insert(number);
  }

  const std::vector<model::Task>& tasks_;
  const std::vector<model::Resource>& resources_;
  int standing_ = 0; ///< the rank whose tasks are also those of this one
  std::set<std::uint64_t> written_;
  std::map<std::uint32_t, std::uint64_t> last_; ///< by resource: its last node
  Message file_;
};

} // namespace

std::string chakraTrace(const SimulatedSteps& steps, int rank) {
  return RankTrace(steps, rank).text();
}

void writeChakra(const std::string& prefix, const SimulatedSteps& steps, int ranks) {
  for (int rank = 0; rank < ranks; ++rank)
    writeFile(prefix + "." + std::to_string(rank) + ".et", chakraTrace(steps, rank));
}

} // namespace rondo::tools
