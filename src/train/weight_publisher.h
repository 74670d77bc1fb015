// Owns how the learner's weights reach the sampler: publish, calibration, and the check that both still agree.
#pragma once

#include "train/checkpoint.h"
#include "train/rollout_source.h"
#include "train/run_setup.h"

namespace qrl::train {

/// Returns the standard deviation of the noise on the sampler's gains after `steps_done` steps of a run, as in QeRL's
/// code. The run has equal stages. The first has no noise, and then it falls from `start` to `end` by one factor per
/// stage.
double gain_noise_sigma(const config::GainNoiseRecipe& noise, std::int64_t steps_done, std::int64_t total_steps);

class WeightPublisher {
 public:
  /// All arguments outlive it.
  WeightPublisher(const RunSetup& setup, const RunState& state, learner::Learner& learner, Sampler& sampler,
                  QuantizerState& quantizer);

  /// Makes the first publish of a run: sets the int8 profile, publishes, writes quant_audit.txt. Collective.
  void begin();
  /// Publishes the present weights and calibrates the sampler for them. `steps_done` determines how much noise its
  /// gains have. No generation may run meanwhile. Collective.
  void publish(std::int64_t steps_done);
  /// Keeps what the next calibration sees of the step's samples. Collective.
  void see(const StepGroups& groups);
  /// Returns metrics of the last publish: quant/kv_saturated_fraction if the CPU's sampler has fp8 keys and values with
  /// scales of it. Also returns quant/gain_noise_std if the recipe has noise.
  Metrics calibration() const;
  /// Publishes the weights alone, for a learner whose forward pass reads the sampler's tensors: fp8 scales of keys and
  /// values stay behind until `publish`. Nothing where the forward pass reads the masters.
  void publish_for_learner();
  /// Measures the gap between sampler and learner at the weights last published.
  Metrics probe();

 private:
  void publish_weights();
  void write_audit() const;

  const RunSetup& setup_;
  const RunState& state_;
  learner::Learner& learner_;
  Sampler& sampler_;
  QuantizerState& quantizer_;
  double noise_sigma_ = 0;  // of the last publish
};

}  // namespace qrl::train
