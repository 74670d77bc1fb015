#include "state/json.h"

#include "base/error.h"
#include "support/catch.h"
#include "support/processor_time.h"

using namespace qrl;
using state::parse_json;

namespace {

/// Returns the message of the refusal, or "" if the text is accepted.
std::string refusal(const std::string& text, int max_depth = state::kMaxJsonDepth) {
  try {
    parse_json(text, "x.json", max_depth);
  } catch (const base::Error& error) {
    CHECK(error.kind() == base::ErrorKind::input);
    return error.what();
  }
  return {};
}

std::string nested(int depth) {
  const auto count = static_cast<std::size_t>(depth);
  return std::string(count, '[') + std::string(count, ']');
}

}  // namespace

TEST_CASE("JSON: values equal those of the library's own parser") {
  for (const std::string& text : std::initializer_list<std::string>{
           "null", "true", "-7", "18446744073709551615", "1.5e-3", "\"a\\u00e9\\ud83d\\ude00\"", "[]", "{}",
           R"([1,[2,{"a":[]}],{"b":{"c":[3]},"d":null},[]])", R"( {"z" : [ {} , [ [ ] ] ] , "a" : "" } )"}) {
    INFO(text);
    CHECK(parse_json(text, "x.json") == nlohmann::json::parse(text));
  }
}

TEST_CASE("JSON: nesting is limited exactly, in lists and objects") {
  CHECK(refusal(nested(5), 5) == "");
  CHECK(refusal(nested(6), 5).find("nested") != std::string::npos);
  CHECK(refusal(R"({"a":{"b":{}}})", 3) == "");
  CHECK(refusal(R"({"a":{"b":{}}})", 2).find("nested") != std::string::npos);
  CHECK(refusal("[[],[],[],[]]", 2) == "");  // depth, not count
  CHECK(refusal("1", 0) == "");
  CHECK(refusal(nested(state::kMaxJsonDepth)) == "");
  CHECK(refusal(std::string(1'000'000, '[')).find("nested") != std::string::npos);
}

TEST_CASE("JSON: a duplicate key is refused per object, in any spelling") {
  CHECK(refusal(R"({"a":1,"a":1})").find("\"a\"") != std::string::npos);
  CHECK(refusal(R"([{"b":{"a":1,"c":2,"\u0061":3}}])") != "");
  CHECK(refusal(R"({"a":{"a":{"a":1}},"b":[{"a":1},{"a":2}]})") == "");
}

TEST_CASE("JSON: messages name file and place") {
  const std::string message = refusal("{\"key\": 1, oops}");
  CHECK(message.find("x.json") != std::string::npos);
  CHECK(message.find("oops") != std::string::npos);
  CHECK(refusal("[1e400]").find("double") != std::string::npos);
  CHECK(refusal("[-1e400]").find("double") != std::string::npos);
}

TEST_CASE("JSON: constructs that other parsers tolerate are refused") {
  for (const std::string& text :
       {std::string(), std::string(" "), std::string("\xef\xbb\xbf{}"), std::string("{}\0", 3),
        std::string("{}\0junk", 7), std::string("[1,]"), std::string("[01]"), std::string("NaN"),
        std::string("[Infinity]"), std::string("/**/1"), std::string("1 2"), std::string("'a'"),
        std::string("\"\\ud800\""), std::string("\"\\udc00\""), std::string("\"\\ud800\\u0041\""),
        std::string("\"\xff\""), std::string("\"\n\""), std::string("\"\\x41\""), std::string("{a:1}")}) {
    INFO(text);
    CHECK(refusal(text) != "");
  }
}

TEST_CASE("JSON: an ordered object of many members takes linear time") {
  std::string text = "{";
  for (int i = 0; i < 100'000; ++i) text += (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":" + std::to_string(i);
  text += "}";
  nlohmann::ordered_json object;
  CHECK(test::seconds_on_xeon([&] { object = state::parse_ordered_json(text, "x"); }) < 2);  // 0.1; quadratic: 30
  CHECK(object.size() == 100'000);
  CHECK(std::next(object.begin(), 99'999).value() == 99'999);
  text.back() = ',';
  CHECK_THROWS_AS(state::parse_ordered_json(text + "\"k500\":1}", "x"), base::Error);
}

TEST_CASE("JSON: members in text order, and null for refused texts") {
  CHECK(state::parse_ordered_json(R"({"b":1,"a":{"d":[],"c":2}})", "x").dump() == R"({"b":1,"a":{"d":[],"c":2}})");
  CHECK_THROWS_AS(state::parse_ordered_json(R"({"b":1,"b":2})", "x"), base::Error);
  for (const std::string& text :
       {std::string(1'000'000, '['), nested(1'000'000), std::string("{"), std::string("[NaN]")}) {
    CHECK(state::json_or_null(text).is_null());
    CHECK(state::ordered_json_or_null(text).is_null());
  }
  CHECK(state::json_or_null("[1]") == nlohmann::json::parse("[1]"));
}
