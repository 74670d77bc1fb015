#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tasks/verifier.h"

namespace qrl::app {

struct JudgedRow {
  std::string response, ground_truth;
  std::string prompt, data_source;      ///< "" if the row has none
  std::string ground_truth_json, json;  ///< "" unless RowForm::whole; but lists always set ground_truth_json

  tasks::Question question() const { return {ground_truth, prompt, data_source, ground_truth_json, json}; }
};

struct RowForm {
  const tasks::VerifierChoice* verifier = nullptr;  ///< may be null; its ground_truth_fields may replace gold_names
  std::vector<std::string> gold_names;              ///< names of the field with the ground truth
  bool whole = false;                               ///< if set, also keeps prompt, data source and row
};

/// Input errors name `where`.
JudgedRow read_judged_row(const nlohmann::json& row, const RowForm& form, const std::string& where);

/// Judges the rows as one batch, each as its own group.
std::vector<reward::Verdict> judge_rows(const std::vector<JudgedRow>& rows, const tasks::Verifier& verifier);

}  // namespace qrl::app
