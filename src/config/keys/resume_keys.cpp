#include "config/keys/resume_keys.h"

#include <algorithm>
#include <array>

namespace qrl::config {

namespace {

/// Full keys, and sections that end with a point.
constexpr auto kFree = std::to_array<std::string_view>({
    // Frequency and duration.
    "sft.save_freq",
    "trainer.total_training_steps",
    "trainer.total_epochs",
    "trainer.keep_best",
    "trainer.max_time",
    "data.val_max_samples",
    "trainer.save_freq",
    "trainer.max_ckpt_to_keep",
    "trainer.resume_mode",
    "trainer.default_local_dir",
    "trainer.rollout_dump",
    "trainer.tensorboard",
    "trainer.collective_timeout_s",
    "trainer.max_non_finite_steps",
    "reward.max_error_fraction",
    // Measurement.
    "eval.",
    "data.val_files",
    "data.val_filter",
    "data.val_generator.",
    "sft.val_files",
    // Division of the work, without effect on bits.
    "trainer.threads",
    "trainer.zero_stage",
    "rollout.max_num_seqs",
    "rollout.max_num_batched_tokens",
    "rollout.kv_pages",
    "rollout.gpu_memory_utilization",
    "rollout.free_cache_engine",
    "rollout.enforce_eager",
    "reward.workers",
    "reward.in_flight",
    "reward.timeout_s",
    "reward.start_timeout_s",
    "reward.memory_mb",
    "reward.env",
});

/// The checkpoint's weights, moments and data cursor stay valid.
constexpr std::array<std::string_view, 33> kAllowChange = {
    "optim.lr",
    "optim.betas",
    "optim.eps",
    "optim.weight_decay",
    "optim.lr_warmup_steps",
    "optim.lr_warmup_ratio",
    "optim.lr_scheduler",
    "optim.grad_clip",
    "rollout.n",
    "rollout.temperature",
    "rollout.top_p",
    "rollout.top_k",
    "data.train_files",
    "data.train_weights",
    "data.train_max_samples",
    "rollout.stop",
    "data.train_generator.",
    "data.filter",
    "data.prompt_key",
    "data.ground_truth_key",
    "data.data_source_key",
    "data.overlong_prompt",
    "data.train_batch_size",
    "data.gen_batch_size",
    "data.max_prompt_length",
    "data.max_response_length",
    "actor.mini_batch_size",
    "actor.max_tokens_per_micro_batch",
    "actor.ppo_epochs",
    "algorithm.entropy_coef",
    "algorithm.kl_loss_type",
    "algorithm.filter_groups.",
    "reward.",
};

template <std::size_t N>
bool names(const std::array<std::string_view, N>& list, std::string_view key) {
  return std::any_of(list.begin(), list.end(), [key](std::string_view name) {
    return name.ends_with('.') ? key.starts_with(name) : key == name;
  });
}

}  // namespace

OnResume on_resume(std::string_view key) {
  if (names(kFree, key)) return OnResume::free;
  return names(kAllowChange, key) ? OnResume::allow_change : OnResume::fixed;
}

std::vector<std::string_view> resume_key_names() {
  std::vector<std::string_view> all(kFree.begin(), kFree.end());
  all.insert(all.end(), kAllowChange.begin(), kAllowChange.end());
  return all;
}

}  // namespace qrl::config
