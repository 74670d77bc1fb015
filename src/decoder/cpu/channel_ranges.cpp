#include "decoder/cpu/channel_ranges.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "decoder/cpu/teacher_forcing.h"
#include "model/block.h"

namespace qrl::decoder {

model::ChannelRanges channel_ranges(const model::Snapshot& snapshot,
                                    std::span<const std::vector<types::TokenId>> sequences) {
  QRL_REQUIRE(!sequences.empty(), "calibration of activations", "one prompt or more", "none");
  const model::ModelConfig& config = snapshot.config();
  ObservedInputs observed(config);
  for (const std::vector<types::TokenId>& sequence : sequences) observe_inputs(snapshot, sequence, observed);
  model::ChannelRanges ranges;
  for (std::int64_t idx = 0; idx < config.num_hidden_layers; ++idx) {
    const auto add = [&](const model::BlockMatrix& matrix, const auto& of) {
      if (matrix.norm.empty()) return;
      base::Buffer amax_D(base::DType::f32, {matrix.in});
      std::copy_n(of(observed.amax_L[static_cast<std::size_t>(idx)]).data(), matrix.in, amax_D.as<float>());
      ranges.emplace(model::layer_prefix(idx) + std::string(matrix.norm) + ".weight", std::move(amax_D));
    };
    model::visit_matrices(config, idx, add, [](const model::BlockExperts&, const auto&) {});  // the router's are theirs
  }
  return ranges;
}

}  // namespace qrl::decoder
