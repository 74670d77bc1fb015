// Tests that what stands at masked tokens, such as an environment's, is not learned.
#include "learner/choices.h"
#include "learner/learner.h"
#include "learner/objective/mini_batch.h"
#include "learner/support.h"

using namespace qrl;

TEST_CASE("learner: log-probs and advantages at masked tokens change no bit of gradients or metrics") {
  for (const char* loss_name : {"grpo", "gspo", "tbpo", "cispo"}) {
    for (const char* method : {"none", "tis", "tis, batch_normalize: true", "mis_geo", "ais"}) {
      if (std::string(loss_name) == "tbpo" && std::string(method) != "none") continue;
      INFO(loss_name << ", " << method);
      std::vector<test::Sequence> sequences;
      for (const auto& [prompt, response] : {std::pair(3, 7), {1, 12}, {5, 1}, {2, 20}})
        sequences.push_back(test::random_sequence(sequences.size(), prompt, response, 37));
      types::MicroBatch batch = test::pack(sequences);
      std::size_t num_masked = 0;
      for (std::size_t t = 0; t < batch.tokens.size(); ++t) {
        if (batch.loss_mask[t] == 0 || t % 3 != 1) continue;
        batch.loss_mask[t] = 0;
        ++num_masked;
      }
      CHECK(num_masked > 8);
      learner::LossOptions loss = test::policy_options(
          std::string("kl_loss_coef: 0.05, entropy_coef: 0.01, name: ") + loss_name, std::string("method: ") + method);
      const auto update = [&](float there) {
        types::MicroBatch changed = batch;
        for (std::size_t t = 0; t < batch.tokens.size(); ++t) {
          if (batch.loss_mask[t] != 0) continue;
          changed.sampler_logprobs[t] = changed.reference_logprobs[t] = there;
          changed.old_logprobs[t] = there / 2;
          changed.advantages[t] = -there;
        }
        const auto world = dist::make_solo();
        const model::ModelConfig config = test::tiny_config();
        learner::Learner learner(config, test::tiny_weights(config), test::options(), *world);
        learner::LossOptions prepared = loss;
        const types::MicroBatch* const whole[] = {&changed};
        learner::Metrics all = learner::prepare_mini_batch(whole, prepared, *world);
        learner.accumulate(changed, test::count({changed}), prepared, {1.0F});
        test::Named gradients = test::gradients_of(learner);
        all.merge(learner.update().metrics);
        return std::pair(std::move(gradients), std::move(all));
      };
      const auto [gradients, metrics] = update(0);
      const auto [other_gradients, other_metrics] = update(-7.5F);
      CHECK(gradients == other_gradients);
      CHECK(metrics == other_metrics);
    }
  }
}
