// Proves: every name gives its value again, aliases give theirs, and other words are refused with a
// list of the valid ones.
#include <set>

#include "rondo/error.h"
#include "rondo/types.h"
#include "support/test.h"

namespace rondo::test {
namespace {

/// The message of the Error(invalid_argument) that `call` must throw.
template <class Call>
std::string refusal(Call call) {
  try {
    call();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::invalid_argument);
    return error.what();
  }
  FAIL("nothing was thrown");
  return {};
}

} // namespace

TEST_CASE("names and values of types, operators and collectives correspond one to one") {
  std::set<std::string_view> seen;
  for (DataType type : kDataTypes) {
    CHECK(parseDataType(name(type)) == type);
    CHECK(seen.insert(name(type)).second);
  }
  seen.clear();
  for (ReduceOp op : kReduceOps) {
    CHECK(parseReduceOp(name(op)) == op);
    CHECK(seen.insert(name(op)).second);
  }
  seen.clear();
  for (Collective collective : kCollectives) {
    CHECK(parseCollective(name(collective)) == collective);
    CHECK(seen.insert(name(collective)).second);
  }
}

TEST_CASE("data types have the aliases that people write, in any case") {
  const std::pair<const char*, DataType> cases[] = {{"half", DataType::float16},
                                                    {"fp16", DataType::float16},
                                                    {"FP16", DataType::float16},
                                                    {"bf16", DataType::bfloat16},
                                                    {"float32", DataType::float32},
                                                    {"fp32", DataType::float32},
                                                    {"float", DataType::float32},
                                                    {"fp64", DataType::float64},
                                                    {"float64", DataType::float64},
                                                    {"e4m3", DataType::float8e4m3},
                                                    {"Float8E4M3", DataType::float8e4m3},
                                                    {"f8e5m2", DataType::float8e5m2},
                                                    {"int", DataType::int32},
                                                    {"char", DataType::int8}};
  for (const auto& [text, type] : cases) CHECK(parseDataType(text) == type);
}

TEST_CASE("an unknown name is refused with a list of the valid ones") {
  for (std::string text : {"", " ", "floa", "floatt", "float ", " float", "int128", "float16x"}) {
    CAPTURE(text);
    const std::string message = refusal([&] { parseDataType(text); });
    CHECK(message.find("\"" + text + "\"") != std::string::npos);
    for (DataType type : kDataTypes) CHECK(message.find(name(type)) != std::string::npos);
  }
  for (std::string text : {"", "su", "summ", "premul_sum", "xor"}) {
    CAPTURE(text);
    const std::string message = refusal([&] { parseReduceOp(text); });
    for (ReduceOp op : kReduceOps) CHECK(message.find(name(op)) != std::string::npos);
  }
  for (std::string text : {"", "all", "allreducee", "all-reduce"}) {
    CAPTURE(text);
    const std::string message = refusal([&] { parseCollective(text); });
    for (Collective c : kCollectives) CHECK(message.find(name(c)) != std::string::npos);
  }
}

TEST_CASE("every error code has a different name") {
  std::set<std::string_view> seen;
  for (int code = 0; code <= static_cast<int>(ErrorCode::wrong_result); ++code) {
    const std::string_view text = name(static_cast<ErrorCode>(code));
    CHECK(text != "unknown");
    CHECK(seen.insert(text).second);
  }
}

} // namespace rondo::test
