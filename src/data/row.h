// Owns what a row of a data file means: which fields are its prompt and its gold, and whether it is kept. Knows nothing
// of file formats, tokens and verifiers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"
#include "state/json.h"
#include "tasks/split.h"

namespace qrl::data {

struct Conversation;  // messages.h

struct PromptRow {
  std::string prompt;        ///< not empty; of a conversation what its last message says
  std::string system;        ///< system message before it; "": none
  std::string ground_truth;  ///< a string as it is, a number in shortest form, an object or array as compact JSON (keys
                             ///< sorted)
  std::string data_source;   ///< the row's own, else the file's stem
  std::int64_t line = 0;     ///< 1-based
  std::shared_ptr<const Conversation> conversation = {};  ///< a prompt of several turns, or with tools; else null
  std::string ground_truth_json = {};  ///< the row's own value, of a list and with RowReader::keep_rows
  std::string row_json = {};           ///< the whole row, likewise
};

/// Arrays and objects that a row may have open at one time.
inline constexpr int kMaxRowDepth = 64;

/// A gold answer as text: a string as it is, a number by its shortest decimal digits, an array or object as JSON. Input
/// errors: another type, a text of white space, a number that has lost digits.
std::string gold_text(const nlohmann::json& value, const std::string& name, const std::string& where);

/// A prompt that is a text. Input errors: another type, a text of white space.
const std::string& prompt_text(const nlohmann::ordered_json& value, const std::string& name, const std::string& where);

/// The value of a field of an object, or of a path "a.b" into nested ones; nullptr where there is none.
const nlohmann::json* find_field(const nlohmann::json& row, const std::string& path);

/// Turns the JSON object of a row into a PromptRow, by data.prompt_key, data.ground_truth_key and data.data_source_key.
/// Applies data.filter, or data.val_filter to held-out files. A key is the name of a field, or a path into nested
/// objects ("reward_model.ground_truth"). Keys of prompt and gold may list several names with commas ("problem,
/// question"). A row has exactly one of them: with two it would be open which counts, an error. Defaults without a key:
/// - the prompt is `prompt` or `question`, the gold `ground_truth`, `answer` or veRL's `reward_model.ground_truth`;
/// - the source is `data_source`, which may be missing.
///
/// A prompt is a string, or a list of messages {"role", "content"} (messages.h), with the row's `tools` if it has any.
/// Text of white space alone is empty, and an error.
class RowReader {
 public:
  /// Input errors name a condition of the filter that cannot be read.
  explicit RowReader(const config::DataRecipe& recipe, tasks::Split split = tasks::Split::train);
  RowReader() : RowReader(config::DataRecipe{}) {}
  /// Reads prompts alone, for who asks and does not judge: a row needs no gold and no source, and no filter applies.
  static RowReader prompts_only(const config::DataRecipe& recipe);

  /// For verifiers that are told of rows.
  RowReader& keep_rows(bool keep) {
    keeps_rows_ = keep;
    return *this;
  }

  /// Nothing when the filter leaves the row out. Input errors name `where` (file:line). `text`: the row's own JSON,
  /// whose order of members tools are shown in; "": sorted.
  std::optional<PromptRow> read(const nlohmann::json& row, const std::string& where, const std::string& default_source,
                                std::string_view text = {}) const;
  /// The key of the conditions, "data.filter" or "data.val_filter", and whether there are any.
  const std::string& filter_key() const noexcept { return filter_key_; }
  bool has_filter() const noexcept { return !filter_.empty(); }

 private:
  enum class Comparison : std::uint8_t { equal, not_equal, less, less_equal, greater, greater_equal };
  /// One condition of a filter: "level >= 3", "subject == Algebra", "subject == 'Number Theory'".
  struct Condition {
    std::string field;
    Comparison comparison = Comparison::equal;
    std::string value;
    std::optional<double> number;  ///< of the value, unless it stands in quotation marks
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
