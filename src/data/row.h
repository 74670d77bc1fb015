// Owns the meaning of a data row: which fields are prompt and gold, and whether the filter keeps it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "state/json.h"

namespace qrl::data {

struct Conversation;  // messages.h

struct PromptRow {
  std::string prompt;        ///< not empty; for a conversation, the text of its last message
  std::string system;        ///< system message; "": none
  std::string ground_truth;  ///< a string unchanged, a number in shortest form, an object or array as compact JSON with
                             ///< sorted keys
  std::string data_source;   ///< the row's own, else the default source
  std::int64_t line = 0;     ///< 1-based
  std::shared_ptr<const Conversation> conversation = {};  ///< for several turns or tools; else null
  std::string ground_truth_json = {};  ///< the row's own value: for a list, and with RowReader::keep_rows
  std::string row_json = {};           ///< the whole row; with RowReader::keep_rows
};

/// Names a row's fields, and the conditions that it must satisfy.
struct RowOptions {
  std::string prompt_key = {}, ground_truth_key = {}, data_source_key = {};  ///< "": the usual names
  std::vector<std::string> filter = {};
  std::string filter_key = "data.filter";  ///< of `filter`, for messages
};

/// Maximum nesting of arrays and objects.
inline constexpr int kMaxRowDepth = 64;

/// Returns a gold answer as text: a string unchanged, a number by its shortest decimal digits, an array or object as
/// JSON. Throws an input error for another type, text of white space, or a number that has lost digits.
std::string gold_text(const nlohmann::json& value, const std::string& name, const std::string& where);

/// Throws an input error for another type or text of white space.
const std::string& prompt_text(const nlohmann::ordered_json& value, const std::string& name, const std::string& where);

/// Returns a field of an object, or of nested ones by a path "a.b"; nullptr if it does not exist.
const nlohmann::json* find_field(const nlohmann::json& row, const std::string& path);

/// Converts the JSON object of a row to a PromptRow, by the fields that RowOptions names, if the row satisfies
/// the filter.
///
/// A key is the name of a field, or a path into nested objects ("reward_model.ground_truth"). Keys of prompt and gold
/// may list several names with commas ("problem, question"). A row must have exactly one of them; two are an error.
/// Defaults without a key:
/// - the prompt is `prompt` or `question`, the gold `ground_truth`, `answer` or veRL's `reward_model.ground_truth`;
/// - the source is `data_source`, which may be missing.
///
/// A prompt is a string, or a list of messages {"role", "content"} (messages.h), with the row's `tools` if it has any.
/// Text of white space alone is an error.
class RowReader {
 public:
  /// Throws an input error for a filter that cannot be parsed.
  explicit RowReader(const RowOptions& options);
  RowReader() : RowReader(RowOptions{}) {}
  /// Reads prompts only, for generation without a verifier: a row needs no gold and no source, and no filter applies.
  static RowReader prompts_only(const RowOptions& options);

  /// Also keeps the JSON of rows, for verifiers that receive it.
  RowReader& keep_rows(bool keep) {
    keeps_rows_ = keep;
    return *this;
  }

  /// Returns nothing if the filter excludes the row. Throws input errors that name `where` (file:line). `text` is the
  /// row's own JSON, from which tools get their order of members; "": sorted.
  std::optional<PromptRow> read(const nlohmann::json& row, const std::string& where, const std::string& default_source,
                                std::string_view text = {}) const;
  /// Returns the filter's key, and whether the filter has conditions.
  const std::string& filter_key() const noexcept { return filter_key_; }
  bool has_filter() const noexcept { return !filter_.empty(); }

 private:
  enum class Comparison : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };
  /// One condition of a filter: "level >= 3", "subject == Algebra", "subject == 'Number Theory'".
  struct Condition {
    std::string field;
    Comparison comparison = Comparison::equal;
    std::string value;
    std::optional<double> number;  ///< the value as a number, unless it is in quotation marks
  };
  Condition parse_condition(const std::string& text) const;
  bool holds(const Condition& condition, const nlohmann::json& row, const std::string& where) const;

  std::vector<std::string> prompt_keys_, ground_truth_keys_;
  std::string data_source_key_;
  bool needs_source_ = false;
  bool prompts_only_ = false;
  bool keeps_rows_ = false;
  std::string filter_key_;
  std::vector<Condition> filter_;
};

}  // namespace qrl::data
