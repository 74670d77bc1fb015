#include "learner/learner_state.h"

#include "learner/tensors/torch.h"
#include "learner/update/gradient_accumulator.h"

namespace qrl::learner {

model::WeightViews LearnerState::masters() const { return weights_.parameters().named().masters(); }

model::WeightViews LearnerState::moments() const { return weights_.parameters().named().moments(); }

model::WeightViews LearnerState::gradients() const {
  weights_.require_trainable();
  return accumulator_.gradients();
}

state::StagedRead LearnerState::staged_read() const { return weights_.parameters().named().staged_read(); }

base::Buffer LearnerState::master(const std::string& name) const { return weights_.master(name); }

model::WeightSource LearnerState::all_masters() const { return weights_.all_masters(); }

void LearnerState::restore(const std::function<void(const std::string& name, const base::View& to)>& fill,
                           std::int64_t num_updates) {
  const torch::NoGradGuard no_grad;
  weights_.parameters().named().fill(fill);
  optimizer_.set_num_updates(num_updates);
  publisher_.masters_changed();
  accumulator_.restart();
  weights_.refresh();
}

void LearnerState::free_moments() { weights_.parameters().free_moments(); }

}  // namespace qrl::learner
