// Owns the differentiable forward pass of the supported families. Knows no loss.
#pragma once

#include <functional>

#include "config/recipe.h"
#include "learner/parameters.h"
#include "learner/sampled_attention.h"
#include "model/device_weights.h"
#include "model/snapshot.h"

namespace qrl::cuda {
class TrainingKernels;  // cuda/train/training.h
}

namespace qrl::learner {

/// How a forward pass runs, apart from its weights.
struct ForwardOptions {
  torch::ScalarType compute = torch::kBFloat16;  ///< of matmuls' operands: bf16 or f32
  torch::ScalarType lm_head_dtype = torch::kBFloat16;
  bool activation_checkpointing = false;  ///< keep only what enters each layer
  config::LearnerForward forward = config::LearnerForward::bf16;
  config::LearnerBackward backward = config::LearnerBackward::model_dtype;  ///< of low_bit (quantized.h)
  const PageLayout* pages = nullptr;  ///< not null: sampled_attention, the decoder's bits (with low_bit)
  quant::KvFormat kv_format = quant::KvFormat::int8;
  const model::Snapshot* snapshot = nullptr;  ///< what fake_quant and low_bit read: the masters' own values, quantized
  model::DeviceWeights* device = nullptr;     ///< of device_forward.h's low_bit: where the snapshot's weights are
  /// Of device_forward.h: what computes rotations and SwiGLU there, in the order of work of LibTorch's present stream.
  /// Null: LibTorch's operations, which say what those kernels have to give.
  const cuda::TrainingKernels* kernels = nullptr;
  /// Of device_forward.h's low_bit, not null: the residual stream after each layer as the decoder computed it.
  const TensorList* after_layer = nullptr;
  /// Called in the backward pass when it has added all that it will to a layer's gradients. Empty: nobody asks.
  std::function<void(std::size_t layer)> layer_done;
};

/// dtypes of a forward pass: of what lies between its linear layers, and of the operands of attention's matmuls.
struct ForwardTypes {
  torch::ScalarType between, attention;
};
ForwardTypes forward_types(const ForwardOptions& options);

/// Has options.layer_done called when the backward pass has the whole gradient of what enters that layer: all that
/// comes from the layer itself was computed before.
void tell_layer_done(const ForwardOptions& options, std::size_t idx, const Tensor& entering);

/// A layer takes and gives (residual stream, branch still to be added to it): the sum belongs to the next norm. Its
/// snapshot is null where the forward pass reads the masters.
using Layer = std::function<TensorList(std::size_t idx, const LayerWeights& weights,
                                       const model::LayerSnapshot* snapshot, const TensorList& stream_and_branch)>;
/// `state` through all layers, each checkpointed where the options say so. `weights` must outlive the backward pass.
TensorList through_layers(const PolicyWeights& weights, const ForwardOptions& options, const Layer& layer,
                          TensorList state);

/// The last layer's output after the final norm, [N, D] in lm_head_dtype: what lm_head reads. The residual stream,
/// norms and softmax are fp32, as in the decoder; with fake_quant and low_bit so is all between the linear layers but
/// the operands of attention's matmuls: of the compute dtype, unless the sampler's pages (`kv_format`) are fp32 too;
/// with `pages` what those hold. `rows` and what `weights` point to must outlive the backward pass.
Tensor hidden_states(const PolicyWeights& weights, const model::ModelConfig& config, const PackedRows& rows,
                     const ForwardOptions& options);

}  // namespace qrl::learner
