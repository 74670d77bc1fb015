#include "data/strict_json.h"

#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace qrl::data {

namespace {

/// nlohmann's message without its own name and number: "parse error at line 1, column 5: …". Where the JSON is one
/// line, `where` names the line that counts, and the parser's own would contradict it: "parse error at column 5: …".
std::string reason_of(const nlohmann::json::exception& error, bool one_line) {
  constexpr std::string_view kLine = " at line 1, column";
  std::string text = error.what();
  const std::size_t end_of_name = text.find("] ");
  if (end_of_name != std::string::npos) text.erase(0, end_of_name + 2);
  const std::size_t at = one_line ? text.find(kLine) : std::string::npos;
  if (at != std::string::npos) text.replace(at, kLine.size(), " at column");
  return base::quoted(text, 200);
}

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& where) {
  // The parser takes a NUL byte for the end of the text and skips a byte order mark: both are found here.
  const std::size_t nul = text.find('\0');
  QRL_REQUIRE(nul == std::string_view::npos, where, "text without NUL bytes", "one at byte " + std::to_string(nul + 1),
              "write it as \\u0000");
  QRL_REQUIRE(!text.starts_with("\xEF\xBB\xBF"), where, "JSON", "a byte order mark", "save it as UTF-8 without one");
  QRL_REQUIRE(base::is_utf8(text), where, "UTF-8 text", "bytes that are not UTF-8", "convert the file to UTF-8");

  using Event = nlohmann::json::parse_event_t;
  std::vector<std::unordered_set<std::string>> keys;  // of each open object
  const auto check = [&](int depth, Event event, nlohmann::json& value) {
    const bool opens = event == Event::object_start || event == Event::array_start;
    QRL_REQUIRE(!opens || depth < kMaxJsonDepth, where,
                "at most " + std::to_string(kMaxJsonDepth) + " levels of nesting", "more");
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const auto& name = value.get_ref<const std::string&>();
      QRL_REQUIRE(keys.back().insert(name).second, where, "each key once", base::quoted(name) + " twice");
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, check);
  } catch (const nlohmann::json::exception& error) {
    base::fail_input(where, "JSON", reason_of(error, text.find('\n') == std::string_view::npos));
  }
}

}  // namespace qrl::data
