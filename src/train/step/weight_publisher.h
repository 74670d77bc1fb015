#pragma once

#include "train/checkpoint/checkpoint.h"
#include "train/policy/sampler.h"
#include "train/run_plan.h"
#include "train/step/rollout_source.h"

namespace qrl::train {

/// Returns the standard deviation of noise on the sampler's norm gains after `steps_done` steps, as in QeRL's code.
/// Stages have equal length. The first has no noise; then the noise falls from `start` to `end` by a constant factor
/// per stage.
double gain_noise_sigma(const GainNoiseRecipe& noise, std::int64_t steps_done, std::int64_t total_steps);

class WeightPublisher {
 public:
  /// Arguments must outlive the object.
  WeightPublisher(const RunContext& run, const RunState& state, learner::Learner& learner, Sampler& sampler,
                  QuantizerState& quantizer);

  /// Sets the int8 profile, publishes for the first time, and writes quant_audit.txt. Collective.
  void begin();
  /// Publishes the current weights, with the gain noise of `steps_done`, and calibrates the sampler. No generation may
  /// be running. Collective.
  void publish(std::int64_t steps_done);
  /// Keeps samples for the next calibration. Collective.
  void see(const StepGroups& groups);
  /// Returns quant/gain_noise_std, if the recipe has noise. Adds quant/changed_fraction of the publishes since the last
  /// call, if they quantize the weights in host memory. Adds quant/kv_saturated_fraction of the last publish, if every
  /// publish calibrates fp8 keys and values on the CPU.
  Metrics metrics_of_step();
  /// Drains `source` and publishes weights for a learner that reads the sampler's tensors, without calibrating fp8
  /// scales. No-op if the learner reads its masters.
  void publish_for_learner(RolloutSource& source);
  Metrics probe();
  /// Returns probe(). Before step 1 of a model of model.path, it measures 1,024 tokens instead and logs the gap, with a
  /// warning if the gap is wide.
  Metrics first_probe();

 private:
  void publish_weights();
  void write_audit() const;

  const RunContext& run_;
  const RunState& state_;
  learner::Learner& learner_;
  Sampler& sampler_;
  QuantizerState& quantizer_;
  double noise_sigma_ = 0;
  std::int64_t changed_before_ = 0, publishes_before_ = 1;  ///< of the snapshot, at the last metrics_of_step
};

}  // namespace qrl::train
