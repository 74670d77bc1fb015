#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "tasks/verifier.h"
#include "train/recipe/recipe.h"

namespace qrl::app {

struct JudgedRow {
  std::string response, ground_truth;
  std::string prompt, data_source;      ///< "" if the row has none
  std::string ground_truth_json, json;  ///< "" unless RowForm::whole; but lists always set ground_truth_json
  std::vector<types::TokenId> tokens, prompt_tokens;  ///< set by judge_rows if the verifier wants them

  tasks::Question question() const { return {ground_truth, prompt, data_source, ground_truth_json, json}; }
};

struct RowForm {
  const tasks::VerifierChoice* verifier = nullptr;  ///< may be null; its ground_truth_fields may replace gold_names
  std::vector<std::string> gold_names;              ///< names of the field with the ground truth
  bool whole = false;                               ///< if set, also keeps prompt, data source and row
  bool may_lack_gold = false;                       ///< if set, the ground truth may be absent
};

/// Input errors name `where`.
JudgedRow read_judged_row(const nlohmann::json& row, const RowForm& form, const std::string& where);

/// Encodes response and prompt of each row with the recipe's tokenizer and chat template. Logs a warning and leaves the
/// tokens empty if the recipe's model cannot be read.
void add_tokens(std::vector<JudgedRow>& rows, const train::Recipe& recipe);

/// Returns the ids of a response that ends with the end token, if the tokenizer has one.
std::vector<types::TokenId> response_tokens(const data::Tokenizer& tokenizer, const std::string& response);

/// Judges the rows as one batch, each as its own group.
std::vector<reward::Verdict> judge_rows(std::vector<JudgedRow>& rows, const tasks::Verifier& verifier,
                                        const train::Recipe& recipe);

}  // namespace qrl::app
