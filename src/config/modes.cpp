#include "config/modes.h"

#include <array>
#include <utility>

namespace qrl::config {

namespace {

constexpr std::string_view kWeights = "quant.rollout.weights", kMethod = "rollout_correction.method",
                           kLoss = "algorithm.name", kOptimizer = "optim.name";

// Sources are in algorithms.md's tables of the modes; "ours" where a paper is silent.
constexpr ModeDefault kBf16[] = {
    {kWeights, "bf16"},
    {"quant.rollout.kv_cache", "bf16", kWeights},
    {kMethod, "none"},
};

constexpr ModeDefault kFlashRl[] = {
    {kWeights, "int8"},
    {"quant.rollout.profile", "auto", kWeights},
    {"quant.rollout.kv_cache", "bf16"},
    {kLoss, "grpo"},
    {kMethod, "tis"},
    {"rollout_correction.threshold", "2", kMethod},
};

constexpr ModeDefault kFp8Rl[] = {
    {kWeights, "fp8_e4m3"},
    {"quant.rollout.granularity", "block128", kWeights},
    {"quant.rollout.kv_cache", "fp8_e4m3", kWeights},
    {kLoss, "dapo"},
    {kMethod, "tis"},
    {"rollout_correction.threshold", "2", kMethod},
    {"data.train_batch_size", "32"},
    {"actor.mini_batch_size", "32", "data.train_batch_size"},
    {"rollout.n", "16"},
    {"data.max_response_length", "20480"},
    {"data.max_prompt_length", "2048", "data.max_response_length"},             // ours
    {"actor.max_tokens_per_micro_batch", "22528", "data.max_response_length"},  // ours
};

constexpr ModeDefault kQuRl[] = {
    {kWeights, "int8"},
    {"quant.rollout.kv_cache", "bf16"},
    {"quant.uaq_scale", "1.5"},
    {kLoss, "grpo"},
    {"algorithm.kl_loss_coef", "1e-3", kLoss},
    {"algorithm.kl_loss_type", "k3", kLoss},
    {kMethod, "tis"},
    {"rollout_correction.threshold", "2", kMethod},  // ours
    {"rollout_correction.acr", "true", kMethod},
    {"optim.lr", "1e-6"},
};

constexpr ModeDefault kQaRl[] = {
    {kWeights, "int4"},
    {"quant.rollout.activations", "bf16", kWeights},
    {"quant.learner.forward", "low_bit"},
    {kLoss, "tbpo"},
    {kMethod, "tbpo"},
    {kOptimizer, "muon"},
    {"optim.lr", "1e-6"},
    {"optim.weight_decay", "0.01"},
    {"data.train_batch_size", "512"},
    {"actor.mini_batch_size", "64", "data.train_batch_size"},
    {"rollout.n", "8"},
    {"rollout.temperature", "1"},
    {"rollout.top_p", "1"},
    {"eval.temperature", "0.6"},
    {"data.max_prompt_length", "2048"},
    {"data.max_response_length", "16384"},
    {"actor.max_tokens_per_micro_batch", "22528", "data.max_response_length"},
};

constexpr ModeDefault kAis[] = {
    {kWeights, "fp8_e4m3"},
    {"quant.rollout.granularity", "tensor", kWeights},
    {"quant.rollout.kv_cache", "bf16"},
    {kLoss, "grpo"},
    {"algorithm.norm_adv_by_std", "false", kLoss},
    {"algorithm.clip_ratio_low", "0.2", kLoss},
    {"algorithm.clip_ratio_high", "0.2", kLoss},
    {"algorithm.loss_agg_mode", "seq-mean-token-mean", kLoss},
    {"algorithm.kl_loss_coef", "0"},  // ours: the paper gives its beta no value
    {kMethod, "ais"},
    {"data.train_batch_size", "128"},
    {"actor.mini_batch_size", "128", "data.train_batch_size"},
    {"rollout.n", "8"},
    {"data.max_prompt_length", "256"},
    {"data.max_response_length", "512"},
    {"optim.name", "adamw"},
    {"optim.lr", "1e-6"},
    {"optim.betas", "[0.9, 0.99]"},
    {"optim.weight_decay", "0.1"},
    {"optim.grad_clip", "0.2"},
};

struct Entry {
  Mode mode;
  std::string_view word;
  std::span<const ModeDefault> defaults;
  std::string_view what;
};

const std::array kModes = {
    Entry{Mode::bf16, "bf16", kBf16, "sampler and learner in bf16: the control"},
    Entry{Mode::flashrl, "flashrl", kFlashRl, "FlashRL: low-bit rollouts, truncated importance sampling"},
    Entry{Mode::fp8rl, "fp8rl", kFp8Rl, "FP8-RL: FP8 weights in blocks, FP8 KV cache calibrated after every update"},
    Entry{Mode::qurl, "qurl", kQuRl, "QuRL: adaptive clipping range, update-aware quantization"},
    Entry{Mode::qarl, "qarl", kQaRl, "QaRL: the learner's forward is the sampler's low-bit one; TBPO, Muon"},
    Entry{Mode::ais, "ais", kAis, "AIS: FP8 rollouts, adaptively blended importance sampling"},
};

}  // namespace

std::span<const ModeDefault> defaults_of(Mode mode) {
  for (const Entry& entry : kModes) {
    if (entry.mode == mode) return entry.defaults;
  }
  return {};
}

std::string_view word_of(Mode mode) {
  for (const Entry& entry : kModes) {
    if (entry.mode == mode) return entry.word;
  }
  return {};
}

std::string modes_markdown() {
  std::string page =
      "\n## What a mode sets\n\nA mode sets defaults: any key may be set beside it. A value that belongs to another key "
      "holds only while that key has the mode's value.\n\n| mode | what it is | key | value | belongs to "
      "|\n|---|---|---|---|---|\n";
  for (const Entry& entry : kModes) {
    bool first = true;
    for (const ModeDefault& one : entry.defaults) {
      page += "| " + (first ? "`" + std::string(entry.word) + "`" : std::string()) + " | " +
              (first ? std::string(entry.what) : std::string()) + " | `" + std::string(one.key) + "` | " +
              std::string(one.value) + " | " + (one.with.empty() ? std::string() : "`" + std::string(one.with) + "`") +
              " |\n";
      first = false;
    }
  }
  return page;
}

}  // namespace qrl::config
