// Shares helpers of the learner's tests: tiny models, random packed batches, comparisons of named tensors.
#pragma once

#include <algorithm>
#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "dist/collectives.h"
#include "learner/learner.h"
#include "learner/tensors/torch.h"  // before Catch2, to whose CHECK its own gives way
#include "support/catch.h"
#include "support/models.h"

namespace qrl::test {

/// Returns a model of two layers with odd sizes wherever they may be odd.
inline model::ModelConfig tiny_config(bool qk_norm = true, bool qkv_bias = false, bool tied = true) {
  const model::Family family =
      qk_norm ? model::Family::qwen3 : (qkv_bias ? model::Family::qwen2 : model::Family::llama);
  return model_config(family, {37, 21, 2, 4, 2, 10, 33, 64}, {tied, qk_norm, qkv_bias});
}

/// Returns the model with widths that a GPU's FlashAttention and reads of 16 bytes accept.
inline model::ModelConfig with_even_widths(model::ModelConfig config) {
  config.head_dim = 16;
  config.hidden_size = 24;
  config.intermediate_size = config.vocab_size = 40;
  return config;
}

/// Returns the model with widths that blocks of a rotation divide, each another number of them.
inline model::ModelConfig in_blocks(model::ModelConfig config, const quant::Rotation& rotation) {
  config.hidden_size = 2 * rotation.block;
  config.head_dim = rotation.block / config.num_attention_heads;
  config.intermediate_size = 3 * rotation.block;
  return config;
}

inline model::SnapshotFormats rotated_formats(quant::Format format, const quant::Rotation& rotation) {
  model::SnapshotFormats formats(format);
  formats.rotation = rotation;
  return formats;
}

/// Returns the same with experts, 2 of 5 a token, in layers 0 and 2 of 3.
inline model::ModelConfig tiny_moe_config(bool norm_topk = true) {
  return qrl::test::with_experts(tiny_config(), 11, norm_topk);
}

/// Returns weights large enough that every part of the model matters.
inline model::Weights tiny_weights(const model::ModelConfig& config, std::uint64_t seed = 1) {
  model::Weights weights;
  std::uint64_t index = 0;
  for (const model::WeightSpec& spec : model::weight_specs(config)) {
    base::Buffer buffer(base::DType::f32, spec.shape);
    base::RandomStream random(seed, base::RandomPurpose::test, index++);
    const float center = spec.kind == model::WeightKind::norm ? 1.0F : 0.0F;
    for (std::int64_t i = 0; i < spec.shape.numel(); ++i) buffer.as<float>()[i] = center + 0.2F * random.normal();
    weights.emplace(spec.name, std::move(buffer));
  }
  return weights;
}

/// Holds one training sequence with its per-token data.
struct Sequence {
  std::vector<types::TokenId> tokens;
  std::int64_t prompt_length = 1;
  float advantage = 0;
  std::vector<float> sampler, old, reference;  ///< per position that predicts a response token; old may be empty
};

inline Sequence random_sequence(std::uint64_t index, std::int64_t prompt, std::int64_t response, std::int64_t vocab) {
  base::RandomStream random(5, base::RandomPurpose::test, index);
  Sequence sequence;
  sequence.prompt_length = prompt;
  sequence.advantage = random.normal();
  for (std::int64_t t = 0; t < prompt + response; ++t) {
    sequence.tokens.push_back(static_cast<types::TokenId>(random.below(static_cast<std::uint64_t>(vocab))));
  }
  for (std::int64_t t = 0; t < response; ++t) {
    const float base = -3.6F + 0.4F * random.normal();
    sequence.sampler.push_back(base);
    sequence.old.push_back(base + 0.3F * random.normal());
    sequence.reference.push_back(base + 0.3F * random.normal());
  }
  return sequence;
}

inline types::MicroBatch pack(const std::vector<Sequence>& sequences, bool with_old = true) {
  types::MicroBatch batch;
  batch.sequence_starts = {0};
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    const Sequence& sequence = sequences[s];
    const auto length = static_cast<std::int64_t>(sequence.tokens.size());
    for (std::int64_t t = 0; t < length; ++t) {
      const std::int64_t response = t + 1 - sequence.prompt_length;
      const bool counts = t + 1 < length && response >= 0;
      const auto at = static_cast<std::size_t>(response);
      batch.tokens.push_back(sequence.tokens[static_cast<std::size_t>(t)]);
      batch.targets.push_back(t + 1 < length ? sequence.tokens[static_cast<std::size_t>(t) + 1] : 0);
      batch.loss_mask.push_back(counts);
      batch.sampler_logprobs.push_back(counts ? sequence.sampler[at] : 0);
      if (with_old) batch.old_logprobs.push_back(counts ? sequence.old[at] : 0);
      batch.reference_logprobs.push_back(counts ? sequence.reference[at] : 0);
      batch.advantages.push_back(sequence.advantage);
    }
    batch.sequence_starts.push_back(static_cast<std::int32_t>(batch.tokens.size()));
    batch.sequence_idx.push_back(static_cast<std::int64_t>(s));
  }
  return batch;
}

/// Gives each target the tokens that a sampler would have sampled it from: itself and about `others` at random.
inline void add_kept(types::MicroBatch& batch, std::int64_t others, std::int64_t vocab) {
  base::RandomStream random(6, base::RandomPurpose::test, 0);
  for (std::size_t t = 0; t < batch.tokens.size(); ++t) {
    std::set<types::TokenId> kept;
    if (batch.loss_mask[t] != 0) kept.insert(batch.targets[t]);
    for (std::int64_t i = 0; i < others && batch.loss_mask[t] != 0; ++i)
      kept.insert(static_cast<types::TokenId>(random.below(static_cast<std::uint64_t>(vocab))));
    batch.kept.add(std::vector<types::TokenId>(kept.begin(), kept.end()));
  }
}

/// Packs sequences that share a prompt: the prompt without its last token once, as the prefix that they continue.
inline types::MicroBatch pack_shared(const std::vector<Sequence>& sequences) {
  const types::MicroBatch whole = pack(sequences);
  const auto prefix = static_cast<std::size_t>(sequences[0].prompt_length - 1);
  types::MicroBatch batch;
  batch.sequence_starts = {0};
  const auto append = [&](std::size_t begin, std::size_t end, std::uint8_t continues) {
    const auto copy = [&](const auto& from, auto& to) {
      to.insert(to.end(), from.begin() + static_cast<long>(begin), from.begin() + static_cast<long>(end));
    };
    copy(whole.tokens, batch.tokens);
    copy(whole.targets, batch.targets);
    copy(whole.loss_mask, batch.loss_mask);
    copy(whole.sampler_logprobs, batch.sampler_logprobs);
    copy(whole.old_logprobs, batch.old_logprobs);
    copy(whole.reference_logprobs, batch.reference_logprobs);
    copy(whole.advantages, batch.advantages);
    batch.sequence_starts.push_back(static_cast<std::int32_t>(batch.tokens.size()));
    batch.continues_prefix.push_back(continues);
  };
  append(0, prefix, 0);
  for (std::size_t s = 0; s < sequences.size(); ++s) {
    append(static_cast<std::size_t>(whole.sequence_starts[s]) + prefix,
           static_cast<std::size_t>(whole.sequence_starts[s + 1]), 1);
  }
  return batch;
}

/// Returns `count` samples of one prompt of 9 tokens, with the prompt as their prefix. Each response has `growth`
/// tokens more than the one before.
inline types::MicroBatch random_group(std::uint64_t group, std::uint64_t count, std::int64_t response,
                                      std::int64_t vocab, std::int64_t growth = 1) {
  constexpr std::int64_t kPrompt = 9;
  std::vector<Sequence> sequences;
  for (std::uint64_t i = 0; i < count; ++i) {
    sequences.push_back(
        random_sequence(10 * group + i, kPrompt, response + growth * static_cast<std::int64_t>(i), vocab));
    if (i > 0) std::copy_n(sequences[0].tokens.begin(), kPrompt, sequences[i].tokens.begin());
  }
  return pack_shared(sequences);
}

inline types::GlobalCounts count(const std::vector<types::MicroBatch>& batches) {
  types::GlobalCounts counts;
  for (const types::MicroBatch& batch : batches) {
    for (std::size_t s = 0; s + 1 < batch.sequence_starts.size(); ++s) {
      std::int64_t tokens = 0;
      for (std::int32_t t = batch.sequence_starts[s]; t < batch.sequence_starts[s + 1]; ++t) {
        tokens += batch.loss_mask[static_cast<std::size_t>(t)];
      }
      counts.response_tokens += tokens;
      counts.sequences += tokens > 0;
    }
  }
  return counts;
}

inline std::vector<float> copy(const base::View& view) {
  std::vector<float> values(static_cast<std::size_t>(view.numel()));
  const torch::Device device = view.device == base::Device::cpu ? torch::kCPU : torch::kCUDA;
  torch::from_blob(values.data(), {view.numel()})
      .copy_(torch::from_blob(view.data, {view.numel()}, torch::TensorOptions().device(device)));
  return values;
}

/// Copies of tensors in host memory.
using Named = std::map<std::string, std::vector<float>>;
/// Copies a learner's views to host memory, as a writer of checkpoints reads them.
inline Named copy(const learner::Learner& learner, const model::WeightViews& views) {
  const state::StagedRead staged = learner.state().staged_read();
  Named copies;
  for (const auto& [name, view] : views) {
    std::vector<float>& values = copies[name];
    values.resize(static_cast<std::size_t>(view.numel()));
    for (std::size_t at = 0; at < view.num_bytes();) {
      const auto part =
          staged ? staged(view, at, view.num_bytes() - at) : std::as_bytes(std::span(view.as<float>(), values.size()));
      std::memcpy(reinterpret_cast<std::byte*>(values.data()) + at, part.data(), part.size());
      at += part.size();
    }
  }
  return copies;
}
inline Named masters_of(const learner::Learner& learner) { return copy(learner, learner.state().masters()); }
inline Named moments_of(const learner::Learner& learner) { return copy(learner, learner.state().moments()); }
inline Named gradients_of(const learner::Learner& learner) { return copy(learner, learner.state().gradients()); }

inline void restore(learner::Learner& to, const Named& masters, const Named& moments, std::int64_t num_updates) {
  to.state().restore(
      [&](const std::string& name, const base::View& view) {
        const std::vector<float>& values = (masters.contains(name) ? masters : moments).at(name);
        REQUIRE(static_cast<std::int64_t>(values.size()) == view.numel());
        std::copy(values.begin(), values.end(), view.as<float>());
      },
      num_updates);
}

/// Returns the largest ‖a − b‖ / (‖b‖ + floor) over tensors; NaN counts as infinite. `worst` names the tensor.
inline double relative_difference(const Named& a, const Named& b, std::string& worst, double floor = 1e-12) {
  double most = a.size() == b.size() ? 0 : HUGE_VAL;
  for (const auto& [name, want] : b) {
    double difference = 0, norm = 0;
    const std::vector<float>& got = a.at(name);
    for (std::size_t i = 0; i < want.size(); ++i) {
      difference += std::pow(static_cast<double>(got[i]) - want[i], 2);
      norm += std::pow(static_cast<double>(want[i]), 2);
    }
    const double relative = std::sqrt(difference) / (std::sqrt(norm) + floor);
    if (!(relative <= most)) {
      most = std::isnan(relative) ? HUGE_VAL : relative;
      worst = name;
    }
  }
  return most;
}

/// Returns AdamW without warm-up, and settings of Muon.
inline learner::OptimizerOptions adamw(double lr = 1e-2) { return {.lr = lr, .lr_warmup_steps = 0}; }

inline learner::LearnerOptions options(learner::ComputeDType compute = learner::ComputeDType::f32) {
  learner::LearnerOptions made;
  made.numerics.compute = compute;
  made.optim = adamw();
  return made;
}

/// Returns adapters with all entries nonzero.
inline model::WeightSource random_adapters(std::uint64_t seed = 3) {
  return model::WeightSource([seed](const model::WeightSpec& spec, float* to) {
    std::uint64_t index = 0;
    for (const char c : spec.name) index = index * 31 + static_cast<unsigned char>(c);
    base::RandomStream random(seed, base::RandomPurpose::test, index);
    for (std::int64_t i = 0; i < spec.shape.numel(); ++i)
      to[i] = (spec.kind == model::WeightKind::norm ? 1.0F : 0.0F) + 0.3F * random.normal();
  });
}

}  // namespace qrl::test
