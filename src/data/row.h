#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "state/json.h"

namespace qrl::data {

struct Conversation;

struct PromptRow {
  std::string prompt;                                     ///< nonempty text; in a conversation, the last message
  std::string system;                                     ///< system message; "": none
  std::string ground_truth;                               ///< in gold_text's form
  std::string data_source;                                ///< the row's source, else the default source
  std::int64_t line = 0;                                  ///< 1-based
  std::shared_ptr<const Conversation> conversation = {};  ///< set for several turns, or for tools
  std::string ground_truth_json = {};                     ///< as JSON; set for a list, or with RowReader::keep_rows
  bool has_ground_truth = true;                           ///< if false, ground_truth is "", its JSON null
  std::string row_json = {};                              ///< set with RowReader::keep_rows
};

/// Holds the keys that name a row's fields, which data/keys.h declares.
struct FieldNames {
  std::string prompt_key = {}, ground_truth_key = {}, data_source_key = {};  ///< "": the usual names
};

/// Names a row's fields, and the filter's conditions.
struct RowOptions : FieldNames {
  std::vector<std::string> filter = {};
  std::string prompt_setting = "data.prompt_key";  ///< names in error messages: of a recipe's key, or an option
  std::string ground_truth_setting = "data.ground_truth_key";
  std::string filter_key = "data.filter";
};

inline constexpr int kMaxRowDepth = 64;
inline constexpr std::size_t kMaxRow_bytes = std::size_t{64} << 20;

/// Returns a gold answer as text: a string unchanged, a number by its shortest decimal digits, an array or object as
/// compact JSON with sorted keys. Throws an input error for another type, text of whitespace, or a number that has lost
/// digits.
std::string gold_text(const nlohmann::json& value, const std::string& name, const std::string& where);

/// Returns the string in `value`. Throws an input error for another type, or if it is only whitespace.
const std::string& prompt_text(const nlohmann::ordered_json& value, const std::string& name, const std::string& where);

/// Returns the field at `path`; a path "a.b" names a nested field. Returns null if the field does not exist.
const nlohmann::json* find_field(const nlohmann::json& row, const std::string& path);

/// Returns "a row with the fields "prompt", "answer"", for example. Names at most 12 fields.
std::string names_of_fields(const nlohmann::json& row);

/// Returns the row's field among `keys`, and its name; null if it has none. Throws an input error that names `where`
/// and `setting`, the recipe key of the names, if it has several.
std::pair<const nlohmann::json*, std::string> find_at_most_one(const nlohmann::json& row,
                                                               const std::vector<std::string>& keys,
                                                               const std::string& where, const std::string& setting);

/// Returns the names of the field with the ground truth: those in `key` (RowOptions::ground_truth_key), or the usual.
std::vector<std::string> ground_truth_names(const std::string& key,
                                            const std::string& setting = "data.ground_truth_key");

/// Converts rows to PromptRows, and skips rows that the filter excludes.
///
/// RowOptions states the fields' names; docs/howto/own-data.md ("Fields of a row") lists the defaults. If a key lists
/// several names ("problem, question"), a row must have exactly one of them.
///
/// A prompt is a string, or a list of messages {"role", "content"} (messages.h), with the row's `tools`, if any.
class RowReader {
 public:
  /// Throws an input error for a filter that cannot be parsed.
  explicit RowReader(const RowOptions& options);
  RowReader() : RowReader(RowOptions{}) {}
  /// Reads prompts only: rows need no ground truth and no source, and no filter applies.
  static RowReader prompts_only(const RowOptions& options);

  /// Also keeps rows' JSON, for verifiers that receive it.
  RowReader& keep_rows(bool keep) {
    keeps_rows_ = keep;
    return *this;
  }

  /// Reads rows without a ground truth if `may_lack` is set and no key names the field.
  RowReader& allow_no_ground_truth(bool may_lack) {
    may_lack_ground_truth_ = may_lack && !names_ground_truth_;
    return *this;
  }
  /// Returns the error's text for a row that lacks a ground truth: "a field `answer` …".
  std::string expected_ground_truth() const;

  /// Returns nothing if the filter excludes the row. Throws input errors that name `where` (file:line). `text` is the
  /// row's JSON, which gives the order of members in messages and tools. If `text` is "", these members are sorted.
  std::optional<PromptRow> read(const nlohmann::json& row, const std::string& where, const std::string& default_source,
                                std::string_view text = {}) const;
  const std::string& filter_key() const noexcept { return filter_key_; }
  bool has_filter() const noexcept { return !filter_.empty(); }

 private:
  enum class Comparison : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };
  /// A filter's condition: "level >= 3", "subject == Algebra", "subject == 'Number Theory'".
  struct Condition {
    std::string field;
    Comparison comparison = Comparison::equal;
    std::string value;
    std::optional<double> number;  ///< the value as a number, unless in quotation marks
  };
  Condition parse_condition(const std::string& text) const;
  bool holds(const Condition& condition, const nlohmann::json& row, const std::string& where) const;

  std::vector<std::string> prompt_keys_, ground_truth_keys_;
  std::string prompt_setting_, ground_truth_setting_;
  std::string data_source_key_;
  bool needs_source_ = false;
  bool prompts_only_ = false, names_ground_truth_ = false, may_lack_ground_truth_ = false;
  bool keeps_rows_ = false;
  std::string filter_key_;
  std::vector<Condition> filter_;
};

}  // namespace qrl::data
