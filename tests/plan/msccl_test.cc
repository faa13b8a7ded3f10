// Reads and writes MSCCL's XML: round trips of all algorithms, files written by hand, hostile ones.
#include "plan/msccl.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "plan/check.h"
#include "plan/count.h"
#include "plan/registry.h"
#include "rondo/error.h"
#include "support/paths.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

std::string complaint(const std::string& text) {
  try {
    parseMsccl(text, "a.xml");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

/// The text with the first occurrence of a word replaced.
std::string changed(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string dataFile(const std::string& name) {
  std::ifstream file(std::string(RONDO_SOURCE_DIR) + "/tests/plan/data/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// AllReduce of two ranks, as MSCCL's tools write it: each sends its second or first half, the
/// other reduces it into its own copy and sends the sum back.
const std::string kPair = dataFile("msccl_pair.xml");

/// Allgather of two ranks with separate thread blocks, a nop, and a scratch buffer.
const std::string kGather = dataFile("msccl_gather.xml");

} // namespace

TEST_CASE("MSCCL: every plan that can be written is read again, proved, and writes the same text") {
  int written = 0;
  for (const Algorithm* algorithm : algorithms())
    for (const Collective collective : kCollectives)
      for (const int ranks : {2, 3, 4, 5, 8}) {
        const Spec spec{.collective = collective, .ranks = ranks};
        const bool has = traits(collective).movesData() && collective != Collective::sendrecv;
        if (!has || !algorithm->supports(spec)) continue;
        INFO(algorithm->name << ", " << name(collective) << " of " << ranks << " ranks");
        const auto plans = buildAll(*algorithm, spec);
        const std::string text = mscclText(plans, algorithm->name);
        const ImportedPlans imported = parseMsccl(text, "a.xml");
        CHECK(imported.name == algorithm->name);
        CHECK(mscclText(imported.plans, algorithm->name) == text);
        const Counts before = count(plans), after = count(imported.plans);
        CHECK(after.total_sent == Approx(before.total_sent));
        CHECK(after.max_sent == Approx(before.max_sent));
        ++written;
      }
  CHECK(written > 150);
}

TEST_CASE("MSCCL: any name is written so that it is read again") {
  const auto plans =
      buildAll(*findAlgorithm("ring"), {.collective = Collective::allreduce, .ranks = 2});
  const std::string name = "\"a\" & 'b' < c";
  CHECK(parseMsccl(mscclText(plans, name), "a.xml").name == name);
}

// Proves: a file of many ranks, whose steps move many chunks each, is within the reader's limits.
TEST_CASE("MSCCL: exported plans of hundreds of ranks are read again") {
  const Spec spec{.collective = Collective::allreduce, .ranks = 512};
  const Algorithm& algorithm = *findAlgorithm("halving_doubling");
  const std::string text = mscclText(buildAll(algorithm, spec), "x");
  CHECK(mscclText(parseMsccl(text, "a.xml").plans, "x") == text);
}

TEST_CASE("MSCCL: a file written by hand is proved, in place and out of place") {
  const ImportedPlans pair = parseMsccl(kPair, "pair.xml");
  CHECK(pair.name == "pair");
  REQUIRE(pair.plans.size() == 2);
  CHECK(pair.plans[0].spec.collective == Collective::allreduce);
  CHECK(pair.plans[0].chunks_per_block == 2);
  CHECK(count(pair.plans).total_sent == Approx(2));
  CHECK(pair.lines[1][1] == std::vector<int>{13, 14, 15, 16}); // lane 0 copies the input

  const ImportedPlans gather = parseMsccl(kGather, "gather.xml");
  CHECK(gather.plans[0].scratch_chunks == 1);
  CHECK(gather.plans[0].lanes.size() == 3);
  CHECK(gather.plans[0].lanes[2].steps[0].after.size() == 2); // its own, and the nop's
  CHECK(count(gather.plans).total_sent == Approx(2));
}

TEST_CASE("MSCCL: a hostile or damaged file is refused with its line") {
  const std::pair<std::string, std::string> refused[] = {
      {"", "a.xml:1: "},
      {"<algo", "a.xml:1: the file ends inside <algo>"},
      {"<algorithm/>", "a.xml:1: <algorithm> where <algo> should be"},
      {changed(kPair, "coll=\"allreduce\"", "coll=\"magic\""), "a.xml:2: "},
      {changed(kPair, "coll=\"allreduce\"", "coll=\"barrier\""), "a.xml:2: MSCCL has no barrier"},
      {changed(kPair, "ngpus=\"2\"", "ngpus=\"3\""), "a.xml:2: 'ngpus' is 3, but there are 2"},
      {changed(kPair, "ngpus=\"2\"", "ngpus=\"99999999999\""), "a.xml:2: "},
      {changed(kPair, "nchunksperloop=\"2\"", "nchunksperloop=\"-1\""), "a.xml:2: "},
      {changed(kPair, "gpu id=\"1\"", "gpu id=\"0\""), "a.xml:11: gpu 0 is defined twice"},
      {changed(kPair, "i_chunks=\"2\"", "i_chunks=\"3\""), "a.xml:3: 'i_chunks' is more"},
      {changed(kPair, "s_chunks=\"0\"", "s_chunks=\"4000000000\""), "a.xml:3: "},
      {changed(kPair, "recv=\"1\"", "recv=\"0\""), "a.xml:4: a rank has no channel to itself"},
      {changed(kPair, "send=\"1\"", "send=\"2\""), "a.xml:4: "},
      {changed(kPair, "send=\"1\"", "send=\"-1\""), "a.xml:5: the thread block has no peer"},
      {changed(kPair, "type=\"s\"", "type=\"x\""), "a.xml:5: unknown type \"x\"; valid: s, r"},
      {changed(kPair, "srcoff=\"1\"", "srcoff=\"2\""), "a.xml:5: chunks 2 to 2 of buffer 'i'"},
      {changed(kPair, "cnt=\"1\"", "cnt=\"1000001\""), "a.xml:5: chunks 1 to 1000001"},
      {changed(kPair, "cnt=\"1\"", "cnt=\"0\""), "a.xml:5: "},
      {changed(kPair, "srcbuf=\"i\"", "srcbuf=\"q\""), "a.xml:5: unknown buffer \"q\""},
      {changed(kPair, " s=\"1\"", " s=\"7\""), "a.xml:6: step 1 should be here"},
      {changed(kPair, "dstoff=\"0\"", "dstoff=\"1\""),
       "a.xml:6: the checker refuses the plan: well"},
      {changed(kPair, "depid=\"-1\" deps=\"-1\"", "depid=\"0\" deps=\"3\""),
       "a.xml:5: waits for it"},
      {changed(kPair, "depid=\"-1\" deps=\"-1\"", "depid=\"5\" deps=\"0\""),
       "a.xml:5: waits for step"},
      // What only the checker sees: a sum that lacks a part, and a cycle of waits.
      {changed(kPair, "type=\"rrc\"", "type=\"r\""), "the checker refuses the plan: data flow"},
      {changed(kGather, "depid=\"1\" deps=\"0\"", "depid=\"0\" deps=\"0\""),
       "refuses the plan: race"}};
  for (const auto& [text, wanted] : refused) {
    const std::string got = complaint(text);
    INFO(wanted << "\n" << got);
    CHECK(got.find(wanted) != std::string::npos);
  }
  std::string deadlock = changed(kGather, "depid=\"-1\" deps=\"-1\" hasdep=\"1\"/>",
                                 "depid=\"2\" deps=\"1\" hasdep=\"1\"/>");
  CHECK(complaint(deadlock).find("refuses the plan: ") != std::string::npos);
}

namespace {

/// A step of MSCCL; `more`: attributes that replace those for a copy of input 0 to scratch 0.
std::string step(int s, const std::string& type, const std::string& more = "", int waits_for = -1,
                 int waits_step = -1) {
  const std::string pieces = " srcbuf='i' srcoff='0' dstbuf='s' dstoff='0' cnt='1'";
  return "<step s='" + std::to_string(s) + "' type='" + type + "'" +
         (more.empty() ? pieces : more) + " depid='" + std::to_string(waits_for) + "' deps='" +
         std::to_string(waits_step) + "'/>\n";
}
std::string block(int id, const std::string& steps) {
  return "<tb id='" + std::to_string(id) + "' send='-1' recv='-1' chan='0'>" + steps + "</tb>\n";
}
std::string gpu(int id, int scratch, const std::string& blocks) {
  return "<gpu id='" + std::to_string(id) + "' i_chunks='0' o_chunks='0' s_chunks='" +
         std::to_string(scratch) + "'>" + blocks + "</gpu>\n";
}
/// An AllReduce of two gpus; the second does nothing.
std::string algo(int chunks, int scratch, const std::string& blocks) {
  return "<algo name='x' coll='allreduce' ngpus='2' nchunksperloop='" + std::to_string(chunks) +
         "'>\n" + gpu(0, scratch, blocks) + gpu(1, 0, "") + "</algo>";
}
std::string repeated(int times, const auto& text) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text(i);
  return all;
}

} // namespace

// Proves: numbers in a small file do not make the reader or the checker use much memory. Without
// the limits such files need gigabytes or minutes.
TEST_CASE("MSCCL: a small file that asks for much memory is refused") {
  const std::string itself = " srcbuf='s' srcoff='0' dstbuf='s' dstoff='0' cnt='1'";
  const std::string wide = " srcbuf='i' srcoff='0' dstbuf='s' dstoff='0' cnt='200'";
  std::string gpus = "<algo name='x' coll='allreduce' ngpus='4096' nchunksperloop='1048576'>\n" +
                     repeated(4096, [](int id) { return gpu(id, 0, ""); }) + "</algo>";
  const std::pair<std::string, std::string> refused[] = {
      {gpus, "a.xml:1: the buffers have 8589934592 chunks; at most 33554432 are supported"},
      {algo(1 << 20, 1 << 20, block(0, step(0, "cpy", changed(wide, "200", "500000")))),
       "a.xml:2: more than 262"},
      // All scratch chunks hold the first of many chunks of a block.
      {algo(1 << 16, 1000,
            block(0, repeated(1000,
                              [&](int s) {
                                return step(s, "cpy",
                                            changed(changed(wide, "200", "1"), "dstoff='0'",
                                                    "dstoff='" + std::to_string(s) + "'"));
                              }))),
       "a.xml:1: with each scratch chunk at the place of its data in a block, scratch has more"},
      // A value that is added to itself has twice as many contributions each time.
      {algo(1, 1,
            block(0, step(0, "cpy") +
                         repeated(60, [&](int s) { return step(s + 1, "re", itself); }) +
                         step(61, "cpy", changed(itself, "dstbuf='s'", "dstbuf='o'")))),
       "the checker refuses the plan: data flow"},
      // Each two of the thread blocks race for all chunks.
      {algo(200, 200, repeated(1000, [&](int id) { return block(id, step(0, "cpy", wide)); })),
       "the checker refuses the plan: race"},
      {algo(1, 1,
            repeated(4000, [&](int id) { return block(id, ""); }) +
                block(4000, repeated(34000, [&](int s) { return step(s, "cpy"); }))),
       "a.xml:1: 34000 steps and 4001 thread blocks of a gpu are too many"},
      // Each step waits for all that the nops wait for.
      {algo(1, 1,
            block(0, step(0, "cpy")) +
                block(1, repeated(1500, [&](int s) { return step(s, "nop", " ", 0, 0); })) +
                block(2, repeated(1500, [&](int s) { return step(s, "cpy", "", 1, 1499); }))),
       "chunks of steps and waits, which no real file of this size has"}};
  for (const auto& [text, wanted] : refused) {
    const std::string got = complaint(text);
    INFO(wanted << "\n" << got);
    CHECK(got.find(wanted) != std::string::npos);
  }
}

// Proves: what a nop waits for is kept once, however many nops follow it.
TEST_CASE("MSCCL: many nops in a row are read") {
  const std::string nops =
      block(7, repeated(20000, [](int s) { return step(s, "nop", " ", 0, 0); }));
  CHECK(complaint(changed(kPair, "</gpu>", nops + "</gpu>")).empty());
}

TEST_CASE("MSCCL: a step waits for what the nops before it wait for") {
  const std::string blocks =
      block(0, step(0, "cpy")) + block(1, step(0, "cpy", "", 0, 0)) +
      block(2, step(0, "nop", " ", 0, 0) + step(1, "nop", " ", 1, 0) + step(2, "nop", " ")) +
      block(3, step(0, "cpy", "", 2, 2)) + block(4, step(0, "nop", " ", 3, 0) + step(1, "cpy"));
  // Only the first write of a scratch chunk is not ordered.
  const std::string text = complaint(algo(1, 1, blocks));
  INFO(text);
  CHECK(text.find("refuses the plan: data flow") != std::string::npos); // and not: race
  CHECK(complaint(algo(1, 1, changed(blocks, " depid='3'", " depid='0'"))).find("plan: race") !=
        std::string::npos);
  CHECK(complaint(algo(1, 1, changed(blocks, " depid='1'", " depid='0'"))).find("plan: race") !=
        std::string::npos);
}

TEST_CASE("MSCCL: scratch chunks at any place are moved to the position of their data") {
  // All pairs, as MSCCL's examples have it: every rank sends chunk j to rank j's scratch, which
  // adds them up in its chunk j and sends the sum to all.
  for (const int p : {2, 3, 5, 8}) {
    const auto n = [](int number) { return std::to_string(number); };
    std::string text = "<algo name=\"pairs\" nchannels=\"1\" nchunksperloop=\"" + n(p) +
                       "\" ngpus=\"" + n(p) + "\" coll=\"allreduce\" inplace=\"1\">\n";
    for (int r = 0; r < p; ++r) {
      text += "<gpu id=\"" + n(r) + "\" i_chunks=\"" + n(p) + "\" o_chunks=\"0\" s_chunks=\"" +
              n(p) + "\">\n";
      const auto step = [&](int s, const char* type, const char* from, int src, const char* to,
                            int dst, int tb, int dep) {
        text += "<step s=\"" + n(s) + "\" type=\"" + type + "\" srcbuf=\"" + from + "\" srcoff=\"" +
                n(src) + "\" dstbuf=\"" + to + "\" dstoff=\"" + n(dst) + "\" cnt=\"1\" depid=\"" +
                n(tb) + "\" deps=\"" + n(dep) + "\" hasdep=\"1\"/>\n";
      };
      for (int i = 1; i < p; ++i) {
        const int peer = (r + i) % p;
        text += "<tb id=\"" + n(i) + "\" send=\"" + n(peer) + "\" recv=\"" + n(peer) +
                "\" chan=\"0\">\n";
        step(0, "s", "i", peer, "s", 0, -1, -1);
        step(1, "r", "i", r, "s", peer, -1, -1);
        step(2, "s", "i", r, "i", r, 0, p - 2);
        step(3, "r", "i", peer, "i", peer, -1, -1);
        text += "</tb>\n";
      }
      text += "<tb id=\"0\" send=\"-1\" recv=\"-1\" chan=\"0\">\n";
      for (int i = 1; i < p; ++i) step(i - 1, "re", "s", (r + i) % p, "i", r, i, 1);
      text += "</tb></gpu>\n";
    }
    const ImportedPlans imported = parseMsccl(text + "</algo>", "pairs.xml");
    CHECK(imported.plans[0].scratch_chunks > static_cast<std::uint32_t>(p > 2 ? p : 0));
    CHECK(count(imported.plans).total_sent == Approx(2 * (p - 1)));
  }
}

TEST_CASE("MSCCL: what the format does not have is refused") {
  const Algorithm& tree = *findAlgorithm("tree");
  CHECK_THROWS_AS(
      mscclText(buildAll(tree, {.collective = Collective::broadcast, .ranks = 4, .root = 1}), "x"),
      Error);
}

} // namespace rondo::test
