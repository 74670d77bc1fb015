#include "state/json.h"

#include <algorithm>
#include <functional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace qrl::state {

namespace {

using Json = nlohmann::json;

/// What the parser reports while it reads: depth and the keys of every open object.
class Strictness {
 public:
  Strictness(const std::string& where, int max_depth) : where_(where), max_depth_(max_depth) {}

  bool operator()(int depth, Json::parse_event_t event, Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      QRL_REQUIRE(depth < max_depth_, where_, "JSON nested at most " + std::to_string(max_depth_) + " deep",
                  "a deeper one");
    }
    if (event == Event::object_start) keys_.emplace_back();
    if (event == Event::object_end) keys_.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      QRL_REQUIRE(keys_.back().insert(key).second, where_, "each key once in an object", base::quoted(key) + " twice");
    }
    return true;
  }

 private:
  const std::string& where_;
  int max_depth_;
  std::vector<std::set<std::string>> keys_;
};

/// The place of a syntax error as people look for it: the bytes around it.
std::string around(std::string_view text, std::size_t byte) {
  constexpr std::size_t kBefore = 20;
  constexpr std::size_t kShown = 30;
  const std::size_t begin = std::min(byte - std::min(byte, kBefore), text.size());
  return "near byte " + std::to_string(byte) + ": " + base::quoted(text.substr(begin, kShown));
}

}  // namespace

Json parse_json(std::string_view text, const std::string& where, int max_depth) {
  // nlohmann's lexer skips a byte-order mark and takes a NUL byte for the end: both would hide bytes from us.
  QRL_REQUIRE(!text.starts_with("\xef\xbb\xbf"), where, "JSON", "a byte-order mark before it",
              "save the file as UTF-8 without one");
  QRL_REQUIRE(text.find('\0') == std::string_view::npos, where, "JSON", "a NUL byte in it");
  QRL_REQUIRE(base::is_utf8(text), where, "JSON in UTF-8", "bytes that are not UTF-8");
  Strictness strictness(where, max_depth);
  try {
    return Json::parse(text, std::ref(strictness));
  } catch (const Json::parse_error& error) {
    base::fail_input(where, "JSON", "a syntax error " + around(text, error.byte));
  } catch (const Json::exception&) {  // out_of_range 406: the only other one that parsing raises
    base::fail_input(where, "JSON numbers within the range of a double", "a larger one");
  }
}

}  // namespace qrl::state
