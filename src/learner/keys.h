// Declares the keys that fill the learner's options.
#pragma once

#include <string>

#include "config/keys/sections.h"
#include "learner/options.h"

namespace qrl::learner {

/// Adds the keys of the loss, whose defaults are those of `losses`.
void add_algorithm_keys(config::Section<AlgorithmOptions> algorithm, const config::AnyChoices& losses);
/// Adds the keys of the correction, whose defaults are those of `corrections`.
void add_correction_keys(config::Section<CorrectionOptions> correction, const config::AnyChoices& corrections);
/// Adds the keys of rejection, and of the weights' and ratios' reference.
void add_rejection_keys(config::Section<CorrectionOptions> correction);
/// Adds the keys that training and a cold start have in common.
void add_update_rule(config::OnResume on_resume, config::Section<OptimizerOptions> section);
void add_optimizer_keys(config::Section<OptimizerOptions> section);
/// Adds quant.learner.forward and backward. `auto_text` says what `auto` means for `forward`.
void add_numerics_keys(config::Section<Numerics> learner, const std::string& auto_text);
void add_memory_keys(config::Section<MemoryOptions> section);

}  // namespace qrl::learner
