#include "decoder/channel_ranges.h"

#include <algorithm>

#include "base/error.h"
#include "decoder/forced.h"

namespace qrl::decoder {

model::ChannelRanges channel_ranges(const model::Snapshot& snapshot,
                                    std::span<const std::vector<types::TokenId>> sequences) {
  QRL_REQUIRE(!sequences.empty(), "calibration of activations", "one prompt or more", "none");
  const model::ModelConfig& config = snapshot.config();
  ObservedInputs observed(config);
  for (const std::vector<types::TokenId>& sequence : sequences) observe_inputs(snapshot, sequence, observed);
  model::ChannelRanges ranges;
  const auto add = [&](const std::string& norm, const base::Buffer& amax_LD, std::int64_t layer_idx) {
    base::Buffer amax_D(base::DType::f32, {config.hidden_size});
    std::copy_n(amax_LD.as<float>() + layer_idx * config.hidden_size, config.hidden_size, amax_D.as<float>());
    ranges.emplace("model.layers." + std::to_string(layer_idx) + "." + norm + ".weight", std::move(amax_D));
  };
  for (std::int64_t idx = 0; idx < config.num_hidden_layers; ++idx) {
    add("input_layernorm", observed.qkv_LD, idx);
    add("post_attention_layernorm", observed.gate_up_LD, idx);
  }
  return ranges;
}

}  // namespace qrl::decoder
