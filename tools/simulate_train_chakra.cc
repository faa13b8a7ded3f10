// Encodes jobs as the messages of Chakra's schema.
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
// Fields of AttributeProto; the type of a value is its field.
constexpr int kAttributeName = 1, kInt32 = 7, kInt64 = 9, kUint64 = 13, kBool = 27;

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
      : jobs_(steps.graph.jobs()), lanes_(steps.graph.lanes()) {
    const bool own = std::ranges::find(steps.ranks, rank) != steps.ranks.end();
    standing_ = own ? rank : steps.ranks.front();
    Message metadata;
    metadata.bytes(1, "0.0.4");
    file_.delimited(metadata.text());
    for (std::uint64_t job = 0; job < jobs_.size(); ++job) add(job);
  }

  const std::string& text() const { return file_.text(); }

 private:
  void add(std::uint64_t number) {
    const model::Job& job = jobs_[number];
    const int of = lanes_[job.lanes.front()].rank;
    if (job.to >= 0) {
      const Message size = attribute("comm_size", kUint64, bytesOf(job));
      for (const bool sends : {true, false}) {
        if ((sends ? of : job.to) != standing_ || of == job.to) continue;
        write(number, job, sends ? kSend : kReceive, sends,
              {size, attribute("comm_src", kInt32, static_cast<std::uint64_t>(of)),
               attribute("comm_dst", kInt32, static_cast<std::uint64_t>(job.to)),
               attribute("comm_tag", kInt32, number)});
      }
    } else if (job.collective) {
      write(number, job, kCollective, true,
            {attribute("comm_type", kInt64, typeOf(*job.collective)),
             attribute("comm_size", kUint64, bytesOf(job))});
    } else if (of == standing_) {
      write(number, job, kCompute, true, {});
    }
  }

  static std::uint64_t bytesOf(const model::Job& job) {
    return static_cast<std::uint64_t>(std::llround(job.bytes));
  }
  static Message attribute(const char* name, int field, std::uint64_t value) {
    Message made;
    made.bytes(kAttributeName, name);
    made.number(field, value);
    return made;
  }

  /// `waits`: for the jobs that it waits for; a receive waits for the sender only.
  void write(std::uint64_t number, const model::Job& job, NodeType type, bool waits,
             const std::vector<Message>& attributes) {
    Message node;
    node.number(kId, number);
    node.bytes(kName, job.name);
    node.number(kType, type);
    std::vector<std::uint64_t> data, control;
    for (const std::uint32_t before : job.after)
      if (waits && written_.contains(before)) data.push_back(before);
    // Jobs of a lane run in order.
    for (const std::uint32_t lane : job.lanes) {
      if (type == kReceive) break;
      const auto [last, first] = last_.try_emplace(lane, number);
      const bool known = std::ranges::find(data, last->second) != data.end();
      if (!first && !known && std::ranges::find(control, last->second) == control.end())
        control.push_back(last->second);
      last->second = number;
    }
    node.numbers(kControl, control);
    node.numbers(kData, data);
    if (type == kCompute)
      node.number(kDuration, static_cast<std::uint64_t>(std::llround(job.seconds * 1e6)));
    node.bytes(kAttribute, attribute("is_cpu_op", kBool, 0).text());
    for (const Message& one : attributes) node.bytes(kAttribute, one.text());
    file_.delimited(node.text());
    written_.insert(number);
  }

  const std::vector<model::Job>& jobs_;
  const std::vector<model::JobLane>& lanes_;
  int standing_ = 0; ///< the rank whose jobs are also those of this one
  std::set<std::uint64_t> written_;
  std::map<std::uint32_t, std::uint64_t> last_; ///< by lane: its last node
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
