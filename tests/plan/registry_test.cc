// Tests the names of algorithms: RONDO_ALGO's grammar, its errors, and the registry.
#include <algorithm>

#include "plan/registry.h"
#include "rondo/error.h"
#include "support/caught.h"
#include "support/test.h"

namespace rondo::test {
namespace {

using namespace plan;

std::vector<std::string> parsed(std::string_view text, Collective collective) {
  std::vector<std::string> words;
  for (const Choice& choice : parseAlgorithms(text, collective)) words.push_back(choice.text());
  return words;
}

/// The error's text; empty if there is none.
template <typename Call>
std::string refused(Call call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

using Words = std::vector<std::string>;
constexpr auto kAllReduce = Collective::allreduce;
constexpr auto kBroadcast = Collective::broadcast;

} // namespace

TEST_CASE("every registered algorithm is found by its name, and by no other") {
  for (const Algorithm* algorithm : algorithms()) {
    CHECK(findAlgorithm(algorithm->name) == algorithm);
    CHECK(parseChoice(algorithm->name).text() == algorithm->name);
    CHECK(findAlgorithm(std::string(algorithm->name) + "x") == nullptr);
  }
  CHECK(findAlgorithm("") == nullptr);
}

TEST_CASE("supporting() returns exactly those whose supports() is true") {
  for (const Collective collective : kCollectives) {
    for (int ranks = 1; ranks <= 9; ++ranks) {
      const Spec spec{collective, ranks, 0, 0};
      const auto found = supporting(spec);
      for (const Algorithm* algorithm : algorithms()) {
        CHECK((std::find(found.begin(), found.end(), algorithm) != found.end()) ==
              algorithm->supports(spec));
      }
    }
  }
}

TEST_CASE("lists: preference order, sections, exclusion, parameters, case and spaces") {
  CHECK(parsed("", kAllReduce).empty());
  CHECK(parsed("  ", kAllReduce).empty());
  CHECK(parsed("tree,ring", kAllReduce) == Words{"tree", "ring"});
  CHECK(parsed(" Tree , RING ", kAllReduce) == Words{"tree", "ring"});
  CHECK(parsed("ring;allreduce:tree,ring;broadcast:^chain", kAllReduce) == Words{"tree", "ring"});
  CHECK(parsed("allreduce:tree", kBroadcast).empty());
  CHECK(parsed("AllReduce : tree ;", kAllReduce) == Words{"tree"});
  CHECK(parsed("parameter_server/4", kAllReduce) == Words{"parameter_server/4"});
  CHECK(parsed("allreduce:ring;allreduce:tree", kAllReduce) == Words{"tree"}); // the last counts

  // A list for all collectives restricts those that can use one of its words, and no others.
  CHECK(parsed("ring,chain", kBroadcast) == Words{"chain"});
  CHECK(parsed("ring", kBroadcast).empty());

  const auto rest = parsed("ring;broadcast:^chain", kBroadcast);
  CHECK(std::find(rest.begin(), rest.end(), "chain") == rest.end());
  CHECK(std::find(rest.begin(), rest.end(), "tree") != rest.end());
  CHECK(std::find(rest.begin(), rest.end(), "ring") == rest.end()); // cannot broadcast
}

TEST_CASE("unknown words are errors that list the valid ones, at any position") {
  for (const char* text : {"rnig", "ring,rnig", "^rnig", "allreduce:rnig", "broadcast:rnig"}) {
    CAPTURE(text);
    const auto error = refused([&] { parseAlgorithms(text, kAllReduce); });
    CHECK(contains(error, "'rnig'"));
    for (const Algorithm* algorithm : algorithms()) CHECK(contains(error, algorithm->name));
  }
  CHECK(contains(refused([] { parseAlgorithms("allredcue:ring", kAllReduce); }), "allredcue"));
  for (const char* text : {"ring,", ",ring", "^", "allreduce:", ":ring", "ring,,tree"}) {
    CAPTURE(text);
    CHECK_FALSE(refused([&] { parseAlgorithms(text, kAllReduce); }).empty());
  }
}

TEST_CASE("parameters are whole numbers from 1 on, and cannot be used in an exclusion") {
  for (const char* text : {"ring/", "ring/0", "ring/-1", "ring/x", "ring/2x", "ring/1.5",
                           "ring/99999999999999999999", "ring/2/3"}) {
    CAPTURE(text);
    CHECK(contains(refused([&] { parseChoice(text); }), std::string("'") + text + "'"));
  }
  CHECK(parseChoice("parameter_server/12").parameter == 12);
  CHECK(contains(refused([] { parseAlgorithms("^parameter_server/4", kAllReduce); }), "'^'"));
}

// Proves: options that no call could use are errors in every kind of list, and not words without
// effect.
TEST_CASE("an algorithm's options must be of use to some collective") {
  for (const char* text : {"ring/2", "tree,ring/2", "?ring/2", "ring/1", "allreduce:ring/2"}) {
    CAPTURE(text);
    const auto error = refused([&] { parseAlgorithms(text, kAllReduce); });
    CHECK(contains(error, "algorithm 'ring/"));
  }
  CHECK(contains(refused([] { parseAlgorithms("ring/2", kBroadcast); }), "it can: 'ring'"));
  CHECK(contains(refused([] { parseAlgorithms("hierarchical(butterfly,ring)", kAllReduce); }),
                 "'hierarchical(butterfly,ring)' can do no collective"));
}

// Proves: whether a parameter is valid depends on the number of ranks of the call alone.
TEST_CASE("a parameter may be as large as any group") {
  CHECK(parsed("parameter_server/65", kAllReduce) == Words{"parameter_server/65"});
  CHECK(parsed("allreduce:parameter_server/1000", kAllReduce) == Words{"parameter_server/1000"});
  CHECK(parsed("linear/2000", Collective::gather) == Words{"linear/2000"});
  CHECK(parsed("linear/2000", kBroadcast).empty());
  for (const Collective collective : {kAllReduce, Collective::allgather})
    CHECK(parsed("hierarchical/9", collective) == Words{"hierarchical/9"});
  CHECK(parsed("hierarchical/9", kBroadcast).empty());
}

// Proves: no list is dropped silently in favour of a later one.
TEST_CASE("only one list may be without a collective") {
  for (const char* text : {"ring;tree", "?ring;tree", "ring;allreduce:tree;tree", "^ring;^tree"}) {
    CAPTURE(text);
    CHECK(contains(refused([&] { parseAlgorithms(text, kAllReduce); }), "only one list"));
  }
  CHECK(parsed("allreduce:tree;ring", kAllReduce) == Words{"tree"});
  CHECK(parsed("ring;", kAllReduce) == Words{"ring"});
}

TEST_CASE("a section must leave something for its collective") {
  const auto cannot = refused([] { parseAlgorithms("broadcast:ring", kAllReduce); });
  CHECK(contains(cannot, "'ring' cannot do broadcast"));
  CHECK(contains(cannot, "chain"));

  std::string all = "^";
  for (const Algorithm* algorithm : algorithms()) {
    all += (all.size() > 1 ? "," : "") + std::string(algorithm->name);
  }
  CHECK(contains(refused([&] { parseAlgorithms(all, kAllReduce); }), "leaves none for allreduce"));
}

TEST_CASE("a wish restricts collectives that it can, and is no error for others") {
  CHECK(isWish("?ring"));
  CHECK_FALSE(isWish("ring"));
  // Lists that NCCL accepts.
  CHECK(parsed("?allreduce:tree,ring;broadcast:ring", kAllReduce) == Words{"tree", "ring"});
  CHECK(parsed("?allreduce:tree,ring;broadcast:ring", Collective::broadcast).empty());
  CHECK(parsed("?Ring,CollnetDirect,NVLSTree,PAT", kAllReduce) == Words{"ring"});
  CHECK(parsed("?^PAT,,CollnetChain", kAllReduce).empty());
  CHECK(parsed("?NVLSTree", kAllReduce).empty());
  CHECK(parsed("?", kAllReduce).empty());
  CHECK(parsed("?^tree", kAllReduce) == parsed("^tree", kAllReduce));
  std::string all = "?^";
  for (const Algorithm* algorithm : algorithms()) all += std::string(algorithm->name) + ",";
  CHECK(parsed(all, kAllReduce).empty());
  // The words without effect are known.
  CHECK(passedOver("?ring;allreduce:tree").empty());
  const std::string said = passedOver("?Tree,PAT;broadcast:ring");
  CHECK(contains(said, "'PAT'"));
  CHECK(contains(said, "'ring' for broadcast"));
  // Lists that NCCL refuses are refused.
  CHECK(contains(refused([] { parseAlgorithms("?rnig", kAllReduce); }), "'rnig'"));
  CHECK(contains(refused([] { parseAlgorithms("?allredcue:ring", kAllReduce); }), "allredcue"));
}

TEST_CASE(
    "a composition names its two algorithms in brackets, whose comma does not separate list "
    "words") {
  const Choice choice = parseChoice("Hierarchical( linear , RING )/2");
  CHECK(choice.text() == "hierarchical(linear,ring)/2");
  const Spec spec = choice.applied({.collective = Collective::allreduce, .ranks = 4});
  CHECK(spec.parameter == 2);
  CHECK(algorithms()[static_cast<std::size_t>(spec.inner) - 1]->name == "linear");
  CHECK(algorithms()[static_cast<std::size_t>(spec.outer) - 1]->name == "ring");
  const auto choices =
      parseAlgorithms("ring,hierarchical(linear,ring),hierarchical/2", Collective::allreduce);
  REQUIRE(choices.size() == 3);
  CHECK(choices[1].text() == "hierarchical(linear,ring)");
  CHECK(choices[2].text() == "hierarchical/2");
  CHECK(parseAlgorithms("alltoall:hierarchical", Collective::alltoall).size() == 1);
  for (const char* wrong :
       {"ring(linear,ring)", "hierarchical(linear)", "hierarchical(linear,ring", "hierarchical()",
        "hierarchical(linear,rong)", "hierarchical(linear,ring,tree)", "hierarchical(,)",
        "hierarchical(", "ring(", "hierarchical(/2", "hierarchical(linear,ring)x)"}) {
    CAPTURE(wrong);
    CHECK(says(caught([&] { parseChoice(wrong); }), ErrorCode::invalid_argument, {"'"}));
  }
  CHECK(says(caught([] { parseAlgorithms("^hierarchical(linear,ring)", Collective::allreduce); }),
             ErrorCode::invalid_argument, {"write 'hierarchical' instead"}));
}

} // namespace rondo::test
