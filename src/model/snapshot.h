// Owns what the learner publishes and the decoder reads in place: every weight in the form the kernels want, quantised
// once, with the policy version. Knows neither learner nor decoder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/buffer.h"
#include "model/config.h"
#include "model/weights.h"
#include "ops/linear.h"
#include "quant/format.h"

namespace qrl::model {

/// One transformer block, ready for the kernels. q, k and v are one matrix (rows in that order), gate and up another.
struct LayerSnapshot {
  base::Buffer input_norm_D, post_norm_D;  ///< fp32 gains
  base::Buffer q_norm_E, k_norm_E;         ///< fp32 gains; empty without qk_norm
  ops::PackedLinear qkv, o, gate_up, down;
};

/// A published policy. Buffers are made once; `publish` rewrites them in place, so whoever reads them must not be in a
/// forward meanwhile (the version says which weights they hold: readers check that it stands still).
class Snapshot {
 public:
  Snapshot(const ModelConfig& config, quant::Format format);

  /// Quantises and packs `masters` (fp32 views by name) on all threads. Throws an input error that names the tensor
  /// when a weight is not finite. `version` is the policy version from now on.
  void publish(const WeightViews& masters, std::int64_t version);

  const ModelConfig& config() const { return config_; }
  quant::Format format() const { return format_; }
  std::int64_t version() const { return version_; }                   ///< −1 before the first publish
  const base::Buffer& embedding_VD() const { return embedding_VD_; }  ///< bf16, or fp32 when the format is f32
  const base::Buffer& final_norm_D() const { return final_norm_D_; }  ///< fp32
  const LayerSnapshot& layer(std::int64_t idx) const { return layers_[static_cast<std::size_t>(idx)]; }
  /// Never low-bit: bf16, or fp32 when the format is f32. Packed apart from the embedding even when tied.
  const ops::PackedLinear& lm_head() const { return lm_head_; }
  std::size_t num_bytes() const;

  /// One line a tensor for people: name, format, shape, scale shape.
  std::vector<std::string> describe() const;

 private:
  ModelConfig config_;
  quant::Format format_;
  std::int64_t version_ = -1;
  base::Buffer embedding_VD_, final_norm_D_;
  std::vector<LayerSnapshot> layers_;
  ops::PackedLinear lm_head_;
};

}  // namespace qrl::model
