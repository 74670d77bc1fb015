#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/verifier.h"

namespace qrl::train {

/// Returns val/<data_source>/{mean@n, maj@n, pass@k for k = 2, 4, … n, score/mean@n, score/NAME/mean@n for each of the
/// verifier's scores, response_length/mean, truncated_fraction}. Adds error_fraction and outcome_fraction if the
/// verifier is no rule.
std::vector<std::string> held_out_names(const std::string& data_source, std::int64_t n,
                                        const tasks::Verifier& verifier);

/// Returns the name of the set's figure: "val/<data_source>/mean@<n>", or "val/<data_source>/score/mean@<n>".
std::string score_name(const std::string& data_source, std::int64_t n, bool by_score);
/// Returns "<data_source> mean@<n>" or "<data_source> score/mean@<n>" for such a name.
std::string shown_score_name(std::string_view name);
/// Returns whether trainer.keep_best keeps the lowest value of the metric: a share of truncated responses or errors.
bool lower_is_better(std::string_view name);

}  // namespace qrl::train
