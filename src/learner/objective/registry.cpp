#include "learner/objective/registry.h"

namespace qrl::learner {

SurrogateFunction surrogate_of(config::AlgorithmName name) {
  switch (name) {
    case config::AlgorithmName::grpo:
    case config::AlgorithmName::dr_grpo:
    case config::AlgorithmName::dapo:
      return token_ratio_surrogate;
    case config::AlgorithmName::gspo:
      return sequence_ratio_surrogate;
    case config::AlgorithmName::tbpo:
      break;
  }
  return trust_band_surrogate;
}

CorrectionFunction correction_of(config::CorrectionMethod method) {
  switch (method) {
    case config::CorrectionMethod::none:
      return no_correction;
    case config::CorrectionMethod::tis:
      return truncated_importance;
    case config::CorrectionMethod::icepop:
      return icepop;
    case config::CorrectionMethod::mis_prod:
      return mis_prod;
    case config::CorrectionMethod::mis_geo:
      return mis_geo;
    case config::CorrectionMethod::tbpo:
      return trust_band_weights;
    case config::CorrectionMethod::ais:
      break;
  }
  return adaptive_importance;
}

}  // namespace qrl::learner
