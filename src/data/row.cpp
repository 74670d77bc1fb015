#include "data/row.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "config/words.h"
#include "data/messages.h"

namespace qrl::data {

using nlohmann::json;

namespace {

template <class Json>
const Json* field_of(const Json& row, const std::string& path) {
  const auto whole = row.find(path);
  if (whole != row.end()) return &*whole;
  const std::size_t dot = path.find('.');
  if (dot == std::string::npos) return nullptr;
  const auto outer = row.find(path.substr(0, dot));
  return outer == row.end() || !outer->is_object() ? nullptr : field_of(*outer, path.substr(dot + 1));
}

}  // namespace

const json* find_field(const json& row, const std::string& path) { return field_of(row, path); }

std::string names_of_fields(const json& row) {
  constexpr std::size_t kMaxNamed = 12;
  std::string names;
  std::size_t num_named = 0;
  for (const auto& [name, value] : row.items()) {
    if (++num_named > kMaxNamed) return "a row whose fields include " + names;
    names += (names.empty() ? "" : ", ") + base::quoted(name);
  }
  return names.empty() ? "a row with no fields" : "a row with the fields " + names;
}

namespace {

bool is_empty_text(std::string_view text) { return text.find_first_not_of(" \t\r\n") == std::string_view::npos; }

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

std::string named(const std::vector<std::string>& keys) {
  std::string text;
  for (std::size_t i = 0; i < keys.size(); ++i)
    text += (i == 0 ? "`" : i + 1 == keys.size() ? " or `" : ", `") + keys[i] + "`";
  return text;
}

std::vector<std::string> names_in(std::string_view text, const std::string& setting,
                                  const std::vector<std::string>& usual) {
  if (text.empty()) return usual;
  std::vector<std::string> names;
  for (;;) {
    const std::size_t comma = std::min(text.find(','), text.size());
    names.emplace_back(trimmed(text.substr(0, comma)));
    QRL_REQUIRE(!names.back().empty(), setting, "field names separated by commas", "an empty name");
    if (comma == text.size()) return names;
    text.remove_prefix(comma + 1);
  }
}

std::pair<const json*, std::string> find_one(const json& row, const std::vector<std::string>& keys,
                                             const std::string& where, const std::string& setting) {
  const auto found = find_at_most_one(row, keys, where, setting);
  QRL_REQUIRE(found.first != nullptr, where, "a field " + named(keys), names_of_fields(row),
              "set " + setting + " to the field's name, or to several names separated by commas if files differ");
  return found;
}

template <class Json>
const std::string& require_text(const Json& value, const std::string& name, const std::string& where,
                                const char* form = "a string") {
  QRL_REQUIRE(value.is_string(), where, "`" + name + "` to be " + form, value.type_name());
  const auto& text = value.template get_ref<const std::string&>();
  QRL_REQUIRE(!is_empty_text(text), where, "`" + name + "` to contain text", "no text");
  return text;
}

std::string shortest_number(const json& number, const std::string& where, const std::string& field) {
  if (number.is_number_integer()) return number.dump();
  const double value = number.get<double>();
  QRL_REQUIRE(std::fabs(value) < 0x1p53, where, field + " below 2^53 or a 64-bit integer",
              "a number too large to keep all its digits", "write it in quotes");
  if (value == std::trunc(value)) return std::to_string(static_cast<std::int64_t>(value));
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

}  // namespace

const std::string& prompt_text(const nlohmann::ordered_json& value, const std::string& name, const std::string& where) {
  return require_text(value, name, where);
}

std::string gold_text(const json& value, const std::string& name, const std::string& where) {
  if (value.is_number()) return shortest_number(value, where, name);
  if (value.is_structured()) return value.dump();
  QRL_REQUIRE(value.is_string(), where, "`" + name + "` to be a string, number, object or array", value.type_name());
  return require_text(value, name, where);
}

namespace {

/// Reads messages. A single user message, with or without a system message, becomes a text prompt.
void read_messages(const nlohmann::ordered_json& whole, const std::string& name, const nlohmann::ordered_json& messages,
                   const std::string& where, PromptRow& row) {
  const auto tools = whole.find("tools");
  Conversation conversation =
      read_conversation(messages, tools == whole.end() ? nlohmann::ordered_json() : *tools, name, where);
  const std::vector<Message>& all = conversation.messages;
  const bool has_system = all.front().role == "system";
  const std::string& last = all.back().role;
  QRL_REQUIRE(last == "user" || last == "tool", where, "`" + name + "` to end with a user or tool message",
              base::quoted(last), "remove the last message: the model generates the answer");
  row.prompt = all.back().content;
  if (has_system) row.system = all.front().content;
  const bool is_question = all.size() == (has_system ? 2 : 1) && last == "user";
  if (!is_question || !conversation.tools.empty() || std::ranges::any_of(all, &Message::has_parts))
    row.conversation = std::make_shared<const Conversation>(std::move(conversation));
}

std::optional<double> number_of(std::string_view text) {
  const std::optional<double> value = base::number_in<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

}  // namespace

std::pair<const json*, std::string> find_at_most_one(const json& row, const std::vector<std::string>& keys,
                                                     const std::string& where, const std::string& setting) {
  std::pair<const json*, std::string> found;
  for (const std::string& key : keys) {
    const json* value = find_field(row, key);
    if (value == nullptr) continue;
    QRL_REQUIRE(found.first == nullptr, where, "a field " + named(keys),
                "both `" + found.second + "` and `" + key + "`", "delete one of them, or set " + setting);
    found = {value, key};
  }
  return found;
}

std::vector<std::string> ground_truth_names(const std::string& key, const std::string& setting) {
  return names_in(key, setting, {"ground_truth", "answer", "reward_model.ground_truth"});
}

RowReader::RowReader(const RowOptions& options)
    : prompt_keys_(names_in(options.prompt_key, options.prompt_setting, {"prompt", "question"})),
      ground_truth_keys_(ground_truth_names(options.ground_truth_key, options.ground_truth_setting)),
      prompt_setting_(options.prompt_setting),
      ground_truth_setting_(options.ground_truth_setting),
      data_source_key_(options.data_source_key.empty() ? "data_source" : options.data_source_key),
      needs_source_(!options.data_source_key.empty()),
      names_ground_truth_(!options.ground_truth_key.empty()),
      filter_key_(options.filter_key) {
  for (const std::string& text : options.filter) filter_.push_back(parse_condition(text));
}

std::string RowReader::expected_ground_truth() const { return "a field " + named(ground_truth_keys_); }

RowReader RowReader::prompts_only(const RowOptions& options) {
  RowOptions unfiltered = options;
  unfiltered.filter.clear();
  RowReader reader(unfiltered);
  reader.prompts_only_ = true;
  return reader;
}

RowReader::Condition RowReader::parse_condition(const std::string& text) const {
  constexpr std::array<std::pair<std::string_view, Comparison>, 6> kComparisons = {{{"==", Comparison::equal},
                                                                                    {"!=", Comparison::not_equal},
                                                                                    {"<=", Comparison::less_equal},
                                                                                    {">=", Comparison::greater_equal},
                                                                                    {"<", Comparison::less},
                                                                                    {">", Comparison::greater}}};
  const std::size_t at = text.find_first_of("=!<>");
  const auto found = std::ranges::find_if(kComparisons, [&](const auto& comparison) {
    return at != std::string::npos && std::string_view(text).substr(at).starts_with(comparison.first);
  });
  const bool complete = found != kComparisons.end() && !trimmed(text.substr(0, at)).empty();
  QRL_REQUIRE(complete, filter_key_, "FIELD ==, !=, <, <=, > or >= VALUE", base::quoted(text));
  Condition condition{std::string(trimmed(text.substr(0, at))), found->second,
                      std::string(trimmed(text.substr(at + found->first.size()))), std::nullopt};
  if (const char quote = condition.value.empty() ? ' ' : condition.value.front(); quote == '"' || quote == '\'') {
    const std::string& quoted = condition.value;
    QRL_REQUIRE(quoted.size() > 1 && quoted.find(quote, 1) == quoted.size() - 1, filter_key_,
                "a VALUE with one quotation mark at each end", base::quoted(text));
    condition.value = quoted.substr(1, quoted.size() - 2);
  } else {
    condition.number = number_of(condition.value);
  }
  const bool is_order = condition.comparison != Comparison::equal && condition.comparison != Comparison::not_equal;
  QRL_REQUIRE(!is_order || condition.number, filter_key_, "FIELD <, <=, > or >= NUMBER", base::quoted(text));
  return condition;
}

bool RowReader::holds(const Condition& condition, const json& row, const std::string& where) const {
  const json* value = find_field(row, condition.field);
  QRL_REQUIRE(value != nullptr, where, "a field `" + condition.field + "` (" + filter_key_ + ")", names_of_fields(row));
  const std::string text = value->is_string() ? value->get<std::string>() : value->dump();
  const std::optional<double> number = number_of(trimmed(text));
  if (condition.comparison == Comparison::equal || condition.comparison == Comparison::not_equal) {
    const bool equal = number && condition.number ? *number == *condition.number : text == condition.value;
    return equal == (condition.comparison == Comparison::equal);
  }
  QRL_REQUIRE(number.has_value(), where, "`" + condition.field + "` to be a number (" + filter_key_ + ")",
              base::quoted(text));
  switch (condition.comparison) {
    case Comparison::less:
      return *number < *condition.number;
    case Comparison::less_equal:
      return *number <= *condition.number;
    case Comparison::greater:
      return *number > *condition.number;
    default:
      return *number >= *condition.number;
  }
}

std::optional<PromptRow> RowReader::read(const json& row, const std::string& where, const std::string& default_source,
                                         std::string_view text) const {
  QRL_REQUIRE(row.is_object(), where, "a JSON object", row.type_name());
  for (const Condition& condition : filter_) {
    if (!holds(condition, row, where)) return std::nullopt;
  }
  PromptRow result;
  const auto [prompt, prompt_name] = find_one(row, prompt_keys_, where, prompt_setting_);
  if (prompt->is_array()) {
    const auto whole = text.empty() ? nlohmann::ordered_json(row) : nlohmann::ordered_json::parse(text);
    read_messages(whole, prompt_name, *field_of(whole, prompt_name), where, result);
  }
  if (!prompt->is_array()) result.prompt = require_text(*prompt, prompt_name, where, "a string or a list of messages");
  if (prompts_only_) return result;
  result.has_ground_truth = !may_lack_ground_truth_ ||
                            find_at_most_one(row, ground_truth_keys_, where, ground_truth_setting_).first != nullptr;
  if (result.has_ground_truth) {
    const auto [gold, gold_name] = find_one(row, ground_truth_keys_, where, ground_truth_setting_);
    result.ground_truth = gold_text(*gold, gold_name, where);
    if (keeps_rows_ || gold->is_array()) result.ground_truth_json = gold->dump();
  } else {
    result.ground_truth_json = "null";
  }
  if (keeps_rows_) result.row_json = row.dump();
  const json* source = find_field(row, data_source_key_);
  QRL_REQUIRE(source != nullptr || !needs_source_, where, "a field `" + data_source_key_ + "`", names_of_fields(row));
  result.data_source = source != nullptr ? require_text(*source, data_source_key_, where) : default_source;
  // Checks the source, because metric names and terminal output contain it.
  QRL_REQUIRE(config::is_source_name(result.data_source), where, "a data source without control characters",
              base::quoted(result.data_source),
              source != nullptr ? "fix the field `" + data_source_key_ + "`" : "rename the file");
  return result;
}

}  // namespace qrl::data
