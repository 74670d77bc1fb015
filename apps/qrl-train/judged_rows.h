// Owns reading rows that hold a response with what it is judged by: those of `judge` and of `check reward`. Knows no
// verifier.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tasks/verifier.h"

namespace qrl::app {

struct JudgedRow {
  std::string response, ground_truth;
  std::string prompt, data_source;      ///< "" where the row has none
  std::string ground_truth_json, json;  ///< for verifiers that are told of rows, the first also of a list; else empty

  tasks::Question question() const { return {ground_truth, prompt, data_source, ground_truth_json, json}; }
};

/// How rows are read.
struct RowForm {
  const tasks::VerifierChoice* verifier = nullptr;  ///< whose own fields may stand for the ground truth; null: none
  std::string gold_key;                             ///< field of the ground truth; "": ground_truth, or those fields
  bool whole = false;                               ///< keeps prompt, data source and the row itself
};

/// Input errors name `where`.
JudgedRow read_judged_row(const nlohmann::json& row, const RowForm& form, const std::string& where);

/// The verdicts of the rows as one batch, each a group of its own.
std::vector<reward::Verdict> judge_rows(const std::vector<JudgedRow>& rows, const tasks::Verifier& verifier);

}  // namespace qrl::app
