#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tasks/verifier.h"

namespace qrl::app {

struct JudgedRow {
  std::string response, ground_truth;
  std::string prompt, data_source;      ///< "" if the row has none
  std::string ground_truth_json, json;  ///< for verifiers that read rows (ground_truth_json also for lists), else empty

  tasks::Question question() const { return {ground_truth, prompt, data_source, ground_truth_json, json}; }
};

struct RowForm {
  const tasks::VerifierChoice* verifier = nullptr;  ///< its fields may replace the ground truth; null: none
  std::string gold_key;  ///< the ground truth's field; "": ground_truth, or the verifier's fields
  bool whole = false;    ///< whether to keep prompt, data source and row
};

/// Input errors name `where`.
JudgedRow read_judged_row(const nlohmann::json& row, const RowForm& form, const std::string& where);

/// Judges the rows as one batch, each as its own group.
std::vector<reward::Verdict> judge_rows(const std::vector<JudgedRow>& rows, const tasks::Verifier& verifier);

}  // namespace qrl::app
