// Owns moving the learner's weights to the sampler: publish, calibration, and the check of agreement.
#pragma once

#include "train/checkpoint/checkpoint.h"
#include "train/policy/sampler.h"
#include "train/run_plan.h"
#include "train/step/rollout_source.h"

namespace qrl::train {

/// Returns the standard deviation of noise on the sampler's gains after `steps_done` steps, as in QeRL's code. Stages
/// are equal. The first has no noise, then it falls from `start` to `end` by one factor per stage.
double gain_noise_sigma(const config::GainNoiseRecipe& noise, std::int64_t steps_done, std::int64_t total_steps);

class WeightPublisher {
 public:
  /// All arguments must outlive it.
  WeightPublisher(const RunContext& run, const RunState& state, learner::Learner& learner, Sampler& sampler,
                  QuantizerState& quantizer);

  /// Publishes first: sets the int8 profile, publishes, writes quant_audit.txt. Collective.
  void begin();
  /// Publishes the present weights and calibrates the sampler for them, with the gains' noise of `steps_done`. Nothing
  /// may be generated meanwhile. Collective.
  void publish(std::int64_t steps_done);
  /// Keeps the next calibration's samples. Collective.
  void see(const StepGroups& groups);
  /// Returns the last publish's quant/kv_saturated_fraction, if the CPU's sampler has calibrated fp8 keys and values,
  /// and quant/gain_noise_std, if any.
  Metrics calibration() const;
  /// Publishes weights alone for a learner that reads the sampler's tensors; fp8 scales of keys and values wait for
  /// `publish`. Does nothing if the learner reads its masters.
  void publish_for_learner();
  /// Measures the gap at the weights last published.
  Metrics probe();

 private:
  void publish_weights();
  void write_audit() const;

  const RunContext& run_;
  const RunState& state_;
  learner::Learner& learner_;
  Sampler& sampler_;
  QuantizerState& quantizer_;
  double noise_sigma_ = 0;  // of the last publish
};

}  // namespace qrl::train
