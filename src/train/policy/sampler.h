#pragma once

#include <cstdint>
#include <optional>

#include "data/tokenizer.h"
#include "decoder/decoder.h"
#include "dist/collectives.h"
#include "model/config.h"
#include "model/snapshot.h"
#include "train/recipe/recipe.h"

namespace qrl::train {

void require_positions(const model::ModelConfig& config, std::int64_t max_tokens);

/// Holds a snapshot (the decoder's only copy of the weights), and the decoder. After each publish, call load_published.
struct Sampler {
  /// Makes snapshot and decoder. With rollout.device cuda, uses the GPU numbered by this process's local rank. Stop
  /// strings require `tokenizer`.
  Sampler(const model::ModelConfig& config, const Recipe& recipe, const dist::Collectives& world,
          std::int64_t longest_prompt_tokens, std::optional<std::int64_t> logit_tile_tokens = {},
          const data::Tokenizer* tokenizer = nullptr);
  model::Snapshot snapshot;
  decoder::Decoder decoder;  ///< throws Cancelled on a stop request
};

}  // namespace qrl::train
