#include "train/recipe/matched_forward.h"

namespace qrl::train {

// The plan has not been finished, so it decided nothing yet.
MatchedForward decided_matched_forward() { return {.on_cpu = false, .on_gpu = false, .bitwise = false}; }

}  // namespace qrl::train
