// The readers, each with the error that it may throw, and valid inputs made by the writers.
#include "targets.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <tuple>

#include "bootstrap/frames.h"
#include "model/profile_file.h"
#include "net/connection.h"
#include "net/handshake.h"
#include "plan/check.h"
#include "plan/msccl.h"
#include "plan/registry.h"
#include "planner/rules_file.h"
#include "rondo/detail/hash.h"
#include "rondo/error.h"
#include "rondo/options.h"
#include "tools/bench/bench.h"
#include "topology/hwloc_file.h"
#include "train/data/dataset.h"
#include "train/loop/checkpoint.h"
#include "train/loop/checkpoint_file.h"
#include "transports/registry.h"

namespace rondo::test {

namespace {

using Bytes = std::vector<std::byte>;

Bytes copyOf(const auto& bytes) { return {bytes.begin(), bytes.end()}; }
std::string textOf(Input input) {
  return {reinterpret_cast<const char*>(input.data()), input.size()};
}
Bytes bytesOf(std::string_view text) { return copyOf(std::as_bytes(std::span(text))); }

void require(bool holds) {
  if (!holds) std::abort();
}

/// Runs the reader, which may throw only this error. Returns whether it took the input.
bool takes(ErrorCode code, const std::function<void()>& reader) {
  try {
    reader();
    return true;
  } catch (const Error& error) {
    if (error.code() != code) throw;
    return false;
  }
}

// What comes over the wire ------------------------------------------------------------------------

bool hello(Input input) {
  const bool is_hello = takes(ErrorCode::transport, [&] {
    require(copyOf(net::handshake::encodeHello(net::handshake::decodeHello(input))) ==
            copyOf(input));
  });
  const bool is_reply = takes(ErrorCode::transport, [&] {
    require(copyOf(net::handshake::encodeReply(net::handshake::decodeReply(input))) ==
            copyOf(input));
  });
  return is_hello || is_reply;
}

std::vector<Bytes> helloSeeds() {
  net::handshake::HelloMessage message;
  message.hello.job = 7;
  message.hello.size = 8;
  return {copyOf(net::handshake::encodeHello(message)), copyOf(net::handshake::encodeReply({}))};
}

using Frames =
    std::tuple<bootstrap::frames::Join, bootstrap::frames::Welcome, bootstrap::frames::Refused,
               bootstrap::frames::Gather, bootstrap::frames::Gathered, bootstrap::frames::Fail,
               bootstrap::frames::Failed, bootstrap::frames::Ask, bootstrap::frames::Beat,
               bootstrap::frames::ProgressReport, bootstrap::frames::Stalled,
               bootstrap::frames::Leave, bootstrap::frames::Left, bootstrap::frames::Succeed,
               bootstrap::frames::Succeeded, bootstrap::frames::Moved, bootstrap::frames::Shrink,
               bootstrap::frames::Present, bootstrap::frames::Standbys, bootstrap::frames::Agree,
               bootstrap::frames::Agreed, bootstrap::frames::Roster>;

template <class Frame>
void readFrame(Input input) {
  base::Reader in(input, "fuzz");
  const Frame frame = Frame::read(in);
  in.finish();
  base::Writer first;
  frame.write(first);
  base::Reader again(first.bytes(), "fuzz");
  base::Writer second;
  Frame::read(again).write(second);
  require(copyOf(first.bytes()) == copyOf(second.bytes()));
}

/// The first byte chooses the frame.
bool frames(Input input) {
  if (input.empty()) return false;
  return takes(ErrorCode::transport, [&] {
    [&]<std::size_t... i>(std::index_sequence<i...>) {
      const auto chosen = static_cast<std::size_t>(input[0]) % sizeof...(i);
      ((i == chosen ? readFrame<std::tuple_element_t<i, Frames>>(input.subspan(1)) : void()), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<Frames>>());
  });
}

std::vector<Bytes> frameSeeds() {
  std::vector<Bytes> all;
  const auto add = [&](const auto& frame) {
    base::Writer out;
    out.u8(static_cast<std::uint8_t>(all.size()));
    frame.write(out);
    all.push_back(copyOf(out.bytes()));
  };
  std::apply([&](const auto&... frame) { (add(frame), ...); }, Frames());
  return all;
}

const std::vector<std::unique_ptr<transport::Transport>>& transports() {
  static const auto all = [] {
    std::vector<std::unique_ptr<transport::Transport>> made;
    transport::Context context;
    context.size = 2;
    context.bind_address = net::SocketAddress::parse("127.0.0.1:0", "");
    for (const transport::Kind& kind : transport::kinds())
      if (kind.name == "tcp" || kind.name == "shm")
        if (auto one = kind.make(context)) made.push_back(std::move(one));
    return made;
  }();
  return all;
}

/// The first byte chooses the transport.
bool address(Input input) {
  if (input.empty()) return false;
  const bool of_transport = takes(ErrorCode::transport, [&] {
    const auto chosen = static_cast<std::size_t>(input[0]) % transports().size();
    transports()[chosen]->reaches(copyOf(input.subspan(1)));
  });
  const bool of_socket = takes(ErrorCode::transport, [&] {
    require(copyOf(net::SocketAddress::decode(input).encode()) == copyOf(input));
  });
  return of_transport || of_socket;
}

std::vector<Bytes> addressSeeds() {
  std::vector<Bytes> all;
  for (const char* text : {"127.0.0.1:80", "[2001:db8::5]:443"})
    all.push_back(net::SocketAddress::parse(text, "").encode());
  for (std::size_t i = 0; i < transports().size(); ++i) {
    const transport::Address own = transports()[i]->address();
    all.push_back({static_cast<std::byte>(i)});
    all.back().insert(all.back().end(), own.begin(), own.end());
  }
  return all;
}

// Files -------------------------------------------------------------------------------------------

/// A folder of this process, in memory where the system has such a place.
const std::string& folder() {
  struct Folder {
    std::string path;

    Folder() {
      const char* in = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
      path = std::string(in) + "/rondo-fuzz-" + std::to_string(::getpid());
      std::filesystem::create_directories(path);
    }
    ~Folder() { std::filesystem::remove_all(path); }
  };
  static const Folder made;
  return made.path;
}

std::string write(const std::string& name, Input content) {
  const std::string path = folder() + "/" + name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(content.data()),
             static_cast<std::streamsize>(content.size()));
  return path;
}

/// A reader that stopped at a wrong check sum would see nothing of what follows: an odd first byte
/// makes the sum right.
bool checkpoint(Input input) {
  using training::CheckpointHeader;
  if (input.empty()) return false;
  Bytes file = copyOf(input.subspan(1));
  if ((input[0] & std::byte{1}) != std::byte{0} && file.size() >= sizeof(CheckpointHeader)) {
    CheckpointHeader header;
    std::memcpy(&header, file.data(), sizeof header);
    header.magic = training::kCheckpointMagic;
    header.version = training::kCheckpointVersion;
    header.index_bytes =
        std::min(header.index_bytes, static_cast<std::uint32_t>(file.size() - sizeof header));
    header.index_hash = detail::hashBytes(file.data() + sizeof header, header.index_bytes);
    std::memcpy(file.data(), &header, sizeof header);
  }
  const std::string path = write("checkpoint", file);
  return takes(ErrorCode::data, [&] { training::Checkpoint{path}.values(); });
}

std::vector<Bytes> checkpointSeeds() {
  float values[] = {1, 2, 3, 4, 5, 6};
  const training::TensorMemory tensors[] = {{{"weight", {2, 3}}, values}, {{"none", {0}}, values}};
  const std::string path = folder() + "/seed";
  training::writeCheckpoint(
      path, {{"epoch", std::uint64_t{3}}, {"rate", 0.5}, {"model", std::string("mlp")}}, tensors);
  std::ifstream in(path, std::ios::binary);
  std::string text = "\1" + std::string(std::istreambuf_iterator<char>(in), {});
  return {bytesOf(text)};
}

/// The input is one file of a data set, of which the others are valid. The first byte chooses which
/// one, and whether it counts as compressed.
bool dataSet(Input input, const std::vector<std::pair<std::string, Bytes>>& valid,
             const std::string& name) {
  if (input.empty()) return false;
  const auto first = static_cast<std::size_t>(input[0]);
  const std::string& chosen = valid[first / 2 % valid.size()].first;
  static std::set<std::string> written;
  if (written.insert(name).second)
    for (const auto& [file, content] : valid) write(name + "/" + file, content);
  const std::string path =
      write(name + "/" + chosen + (first % 2 == 1 ? ".gz" : ""), input.subspan(1));
  const bool taken = takes(ErrorCode::data, [&] { training::loadData(folder() + "/" + name); });
  if (first % 2 == 1) std::filesystem::remove(path);
  else
    write(name + "/" + chosen, std::find_if(valid.begin(), valid.end(), [&](const auto& one) {
                                 return one.first == chosen;
                               })->second);
  return taken;
}

const std::vector<std::pair<std::string, Bytes>>& idxFiles() {
  static const auto files = [] {
    std::vector<std::pair<std::string, Bytes>> all;
    for (const char* part : {"train", "t10k"}) {
      Bytes images = bytesOf(std::string_view("\0\0\x8\x3\0\0\0\x1\0\0\0\x1c\0\0\0\x1c", 16));
      images.resize(16 + 28 * 28);
      all.emplace_back(std::string(part) + "-images-idx3-ubyte", images);
      all.emplace_back(std::string(part) + "-labels-idx1-ubyte",
                       bytesOf(std::string_view("\0\0\x8\x1\0\0\0\x1\x7", 9)));
    }
    return all;
  }();
  return files;
}

const std::vector<std::pair<std::string, Bytes>>& cifarFiles() {
  static const auto files = [] {
    std::vector<std::pair<std::string, Bytes>> all;
    for (const char* name : {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4",
                             "data_batch_5", "test_batch"})
      all.emplace_back(std::string(name) + ".bin", Bytes(3073));
    return all;
  }();
  return files;
}

std::vector<Bytes> dataSeeds(const std::vector<std::pair<std::string, Bytes>>& files) {
  std::vector<Bytes> all;
  for (const auto& [name, content] : files) {
    Bytes one{static_cast<std::byte>(2 * all.size())};
    one.insert(one.end(), content.begin(), content.end());
    all.push_back(one);
  }
  return all;
}

bool idx(Input input) { return dataSet(input, idxFiles(), "idx"); }
bool cifar(Input input) { return dataSet(input, cifarFiles(), "cifar"); }

/// The XML of hwloc or of NCCL, or a links file of a machine with a GPU.
bool topology(Input input) {
  const std::string text = textOf(input);
  return takes(ErrorCode::invalid_argument, [&] {
    if (text.starts_with("<")) {
      topology::parseMachine(text, "fuzz");
    } else {
      topology::Machine machine;
      machine.objects = {{.kind = topology::Kind::machine, .name = "fuzz"},
                         {.kind = topology::Kind::gpu, .number = 0, .parent = 0, .name = "gpu0"},
                         {.kind = topology::Kind::gpu, .number = 1, .parent = 0, .name = "gpu1"},
                         {.kind = topology::Kind::card, .number = 0, .parent = 0, .name = "nic0"}};
      topology::addLinks(machine, text, "fuzz");
    }
  });
}

std::vector<Bytes> topologySeeds() {
  return {bytesOf("rondo-links 1\n# two\nnodes a b\nnvlink gpu0 gpu1 4\nrail first nic0\n"),
          bytesOf("rondo-links 1\nnvswitch 6 gpu0 gpu1\n"),
          bytesOf("<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\">"
                  "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" "
                  "cpuset=\"0x3\" complete_cpuset=\"0x3\" allowed_cpuset=\"0x3\" nodeset=\"0x1\" "
                  "gp_index=\"1\"><info name=\"HostName\" value=\"a&amp;b\"/>"
                  "<object type=\"NUMANode\" os_index=\"0\" cpuset=\"0x3\" nodeset=\"0x1\" "
                  "gp_index=\"2\" local_memory=\"1024\"/><object type=\"Core\" os_index=\"0\" "
                  "cpuset=\"0x3\" gp_index=\"3\"><object type=\"PU\" os_index=\"0\" "
                  "cpuset=\"0x1\" gp_index=\"4\"/><object type=\"PU\" os_index=\"1\" "
                  "cpuset=\"0x2\" gp_index=\"5\"/></object></object></topology>")};
}

/// A plan that was parsed is written as XML again, and parsing that gives the same plan.
bool msccl(Input input) {
  return takes(ErrorCode::invalid_argument, [&] {
    const auto first = plan::parseMsccl(textOf(input), "fuzz");
    const std::string text = plan::mscclText(first.plans, first.name);
    const auto second = plan::parseMsccl(text, "written");
    require(second.name == first.name);
    require(plan::mscclText(second.plans, second.name) == text);
  });
}

std::vector<Bytes> mscclSeeds() {
  const auto seed = [](const char* algorithm, Collective collective, int ranks) {
    return bytesOf(plan::mscclText(
        plan::buildAll(*plan::findAlgorithm(algorithm), {.collective = collective, .ranks = ranks}),
        algorithm));
  };
  return {seed("ring", Collective::allreduce, 2), seed("ring", Collective::allgather, 3),
          seed("tree", Collective::broadcast, 3), seed("pairwise", Collective::alltoall, 2)};
}

bool profile(Input input) {
  return takes(ErrorCode::data, [&] {
    const std::string text = model::profileText(model::parseProfile(textOf(input), "fuzz"));
    require(model::profileText(model::parseProfile(text, "fuzz")) == text);
  });
}

std::vector<Bytes> profileSeeds() { return {bytesOf(model::profileText(model::Profile{}))}; }

bool rules(Input input) {
  return takes(ErrorCode::data, [&] {
    const auto file = planner::RulesFile::parse(textOf(input), "fuzz");
    for (const auto& line : file.lines())
      require(line.choice.algorithm && line.bytes.from <= line.bytes.to);
  });
}

std::vector<Bytes> rulesSeeds() {
  return {bytesOf("collective,min_bytes,max_bytes,ranks,nodes,algorithm\n"
                  "allreduce,,64K,2-8,1,\"hierarchical(linear,ring)\" # "
                  "near\n*,1M,*,9-,,parameter_server/2"),
          bytesOf("\xEF\xBB\xBF# two\r\nalgorithm,collective\r\ntree,bcast\r\n")};
}

// The environment and the command line ------------------------------------------------------------

/// The first byte chooses the variable.
bool options(Input input) {
  static const std::vector<OptionHelp> all = optionHelp();
  if (input.empty()) return false;
  const std::string& variable = all[static_cast<std::size_t>(input[0]) % all.size()].variable;
  ::setenv(variable.c_str(), textOf(input.subspan(1)).c_str(), 1);
  const bool taken =
      takes(ErrorCode::invalid_argument, [&] { Options::fromEnvironment().validate(); });
  ::unsetenv(variable.c_str());
  return taken;
}

std::vector<Bytes> optionSeeds() {
  std::vector<Bytes> all;
  const std::vector<OptionHelp> help = optionHelp();
  for (std::size_t i = 0; i < help.size(); ++i)
    all.push_back(bytesOf(static_cast<char>(i) + help[i].default_value));
  for (const char* text : {"ring;allreduce:tree,^chain", "?hierarchical(linear,ring)"})
    all.push_back(bytesOf(std::string(1, '\0') + text));
  return all;
}

/// Each line is an argument.
bool bench(Input input) {
  std::vector<std::string> words;
  std::istringstream lines(textOf(input));
  for (std::string line; std::getline(lines, line);)
    words.emplace_back(line.c_str()); // as main() gets it: without what follows a 0
  return takes(ErrorCode::invalid_argument, [&] {
    const auto config = tools::parseBench(words);
    require(config.min_bytes <= config.max_bytes && config.ranks >= 1 && !config.types.empty() &&
            !config.ops.empty() && !config.algorithms.empty());
    require(config.root < config.ranks || !hasRoot(config.collective));
  });
}

std::vector<Bytes> benchSeeds() {
  return {bytesOf("allreduce\n-p\n4\n-b\n8\n-e\n64M\n-f\n4\n-n\n20\n-w\n1\n-m\n2\n-c\n1"),
          bytesOf("allreduce\n--algorithm\nall\n--transport\nshm\n--mapped\n--deterministic\n"
                  "--bind\n0,2-3\n-z\n0"),
          bytesOf("reduce\n-d\nall\n-o\nsum,max\n-r\n1\n--threads\n-a\n2\n--time\nmedian\n-J\nout"),
          bytesOf("allreduce\n--device\ncuda\n--ranks-per-gpu\n2\n-G\n5"),
          bytesOf("allgather\n--rules\nnew.csv\n--algorithm\nring,bruck\n-i\n1M\n-b\n0")};
}

} // namespace

std::span<const Target> targets() {
  static const Target all[] = {
      {"hello", hello, helloSeeds},
      {"frames", frames, frameSeeds},
      {"address", address, addressSeeds},
      {"checkpoint", checkpoint, checkpointSeeds},
      {"idx", idx, [] { return dataSeeds(idxFiles()); }},
      {"cifar", cifar, [] { return dataSeeds(cifarFiles()); }},
      {"topology", topology, topologySeeds},
      {"msccl", msccl, mscclSeeds},
      {"profile", profile, profileSeeds},
      {"rules", rules, rulesSeeds},
      {"options", options, optionSeeds},
      {"bench", bench, benchSeeds},
  };
  return all;
}

} // namespace rondo::test
