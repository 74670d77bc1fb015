#include "state/json.h"

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace qrl::state {

namespace {

/// Builds the value from the parser's events, because nlohmann's callback takes quadratic time for a header of many
/// tensors.
template <class Json>
class StrictBuilder final : public nlohmann::json_sax<Json> {
  using Sax = nlohmann::json_sax<Json>;
  static constexpr bool kKeepsOrder = std::is_same_v<Json, nlohmann::ordered_json>;

 public:
  StrictBuilder(std::string_view text, const std::string& where, int max_depth)
      : text_(text), where_(where), max_depth_(max_depth) {}

  Json take() { return std::move(root_); }

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(typename Sax::number_integer_t value) override { return add(value); }
  bool number_unsigned(typename Sax::number_unsigned_t value) override { return add(value); }
  bool number_float(typename Sax::number_float_t value, const std::string&) override { return add(value); }
  bool string(std::string& value) override { return add(std::move(value)); }
  bool binary(typename Sax::binary_t& value) override { return add(std::move(value)); }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(std::string& name) override {
    bool fresh = false;
    if constexpr (kKeepsOrder) {
      fresh = names_.back().insert(name).second;
      member_ = &add_member(*open_.back(), name);
    } else {
      const auto slot = open_.back()->template get_ref<typename Json::object_t&>().try_emplace(name, nullptr);
      fresh = slot.second;
      member_ = &slot.first->second;
    }
    QRL_REQUIRE(fresh, where_, "each key once in an object", base::quoted(name) + " twice");
    return true;
  }

  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    constexpr int kNumberOverflow = 406;
    QRL_REQUIRE(error.id != kNumberOverflow, where_, "JSON numbers within the range of a double", around(byte));
    base::fail_input(where_, "JSON", "a syntax error " + around(byte));
  }

 private:
  template <class Value>
  bool add(Value&& value) {
    place(std::forward<Value>(value));
    return true;
  }

  bool open(Json container) {
    QRL_REQUIRE(std::cmp_less(open_.size(), max_depth_), where_,
                "JSON nested at most " + std::to_string(max_depth_) + " deep", "deeper nesting");
    open_.push_back(place(std::move(container)));
    names_.emplace_back();
    return true;
  }

  bool close() {
    open_.pop_back();
    names_.pop_back();
    return true;
  }

  Json* place(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    return &(*member_ = std::move(value));
  }

  std::string around(std::size_t byte) const {
    constexpr std::size_t kBefore = 20;
    constexpr std::size_t kShown = 30;
    const std::size_t begin = std::min(byte - std::min(byte, kBefore), text_.size());
    return "near byte " + std::to_string(byte) + ": " + base::quoted(text_.substr(begin, kShown));
  }

  std::string_view text_;
  const std::string& where_;
  int max_depth_;
  Json root_;
  std::vector<Json*> open_;                             ///< unfinished objects and lists, outermost first
  std::vector<std::unordered_set<std::string>> names_;  ///< keys read in each of them, if it keeps their order
  Json* member_ = nullptr;                              ///< value of the key just read, in the innermost object
};

template <class Json>
Json parse_strictly(std::string_view text, const std::string& where, int max_depth) {
  // nlohmann's lexer skips a byte-order mark and stops at NUL, hiding bytes from the checks.
  QRL_REQUIRE(!text.starts_with("\xef\xbb\xbf"), where, "JSON", "a byte-order mark",
              "save the file as UTF-8 without it");
  QRL_REQUIRE(text.find('\0') == std::string_view::npos, where, "JSON", "a NUL byte");
  QRL_REQUIRE(base::is_utf8(text), where, "JSON in UTF-8", "bytes that are not UTF-8");
  StrictBuilder<Json> builder(text, where, max_depth);
  Json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace

nlohmann::ordered_json& add_member(nlohmann::ordered_json& object, std::string name, nlohmann::ordered_json value) {
  using Members = nlohmann::ordered_json::object_t;
  return static_cast<Members::Container&>(object.get_ref<Members&>())
      .emplace_back(std::move(name), std::move(value))
      .second;
}

nlohmann::json parse_json(std::string_view text, const std::string& where, int max_depth) {
  return parse_strictly<nlohmann::json>(text, where, max_depth);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where, int max_depth) {
  return parse_strictly<nlohmann::ordered_json>(text, where, max_depth);
}

nlohmann::json json_or_null(std::string_view text) try { return parse_json(text, ""); } catch (const base::Error&) {
  return {};
}

nlohmann::ordered_json ordered_json_or_null(std::string_view text) try {
  return parse_ordered_json(text, "");
} catch (const base::Error&) {
  return {};
}

std::string shown_value(const nlohmann::json& value) {
  return base::quoted(value.is_string() ? value.get_ref<const std::string&>() : value.dump());
}

}  // namespace qrl::state
