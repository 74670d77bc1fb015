#include "train/metrics/held_out_names.h"

#include <algorithm>

#include "report/measures.h"

namespace qrl::train {

std::vector<std::string> held_out_names(const std::string& data_source, std::int64_t n,
                                        const tasks::Verifier& verifier) {
  const std::string prefix = "val/" + data_source + "/", at_n = "@" + std::to_string(n);
  std::vector<std::string> names = {prefix + "mean" + at_n, prefix + "maj" + at_n};
  for (std::int64_t k = 2; k < 2 * n; k *= 2) names.push_back(prefix + "pass@" + std::to_string(std::min(k, n)));
  names.push_back(prefix + "score/mean" + at_n);
  for (const std::string& part : verifier.score_names()) names.push_back(prefix + "score/" + part + "/mean" + at_n);
  for (const char* other : {"response_length/mean", "truncated_fraction"}) names.push_back(prefix + other);
  if (verifier.is_rule()) return names;
  for (const char* other : {"error_fraction", "outcome_fraction"}) names.push_back(prefix + other);
  return names;
}

std::string score_name(const std::string& data_source, std::int64_t n, bool by_score) {
  return "val/" + data_source + (by_score ? "/score" : "") + "/mean@" + std::to_string(n);
}

std::string shown_score_name(std::string_view name) {
  const auto parts = report::split_held_out_score(name);
  return parts ? std::string(parts->first) + " " + std::string(parts->second) : std::string(name);
}

bool lower_is_better(std::string_view name) {
  return name.ends_with("/truncated_fraction") || name.ends_with("/error_fraction");
}

}  // namespace qrl::train
