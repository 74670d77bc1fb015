// Shares helpers of the tests with learner and decoder on one device: the CPU, with LibTorch's operations and emulated
// kernels, or a GPU.
#pragma once

#include <memory>
#include <vector>

#include "callers_memory.h"
#include "cuda/engine/device_engine.h"
#include "cuda/train/training_kernels.h"
#include "decoder/decoder.h"
#include "decoder/device/device_backend.h"
#include "learner/forward/policy_weights.h"
#include "learner/learner.h"
#include "learner/support.h"
#include "learner/tensors/torch.h"
#include "learner/torch_learner.h"

namespace qrl::test {

inline decoder::DecoderOptions decoder_options(quant::KvFormat kv_format = quant::KvFormat::bf16) {
  decoder::DecoderOptions options;
  options.kv_format = kv_format;
  options.max_num_seqs = 4;
  options.max_num_batched_tokens = 8;
  options.page_size = 4;
  options.kv_pages = 40;
  options.max_model_len = 32;
  return options;
}

/// Returns training's kernels, emulated on the host.
inline const cuda::TrainingKernels& emulated_kernels() {
  static const std::unique_ptr<cuda::TrainingKernels> kernels = cuda::emulated::make_device_training(0);
  return *kernels;
}

/// Selects the results of the engine's matmuls: bf16 as in normal use, or as exact as the CPU's.
enum class Products : std::uint8_t { rounded, f32 };

/// Holds a snapshot and its decoder on a device: the emulated one (cpu) or a GPU (cuda).
struct DeviceSampler {
  DeviceSampler(const model::ModelConfig& config, const model::SnapshotFormats& formats,
                Products products = Products::rounded, base::Device device = base::Device::cpu,
                quant::KvFormat kv_format = quant::KvFormat::bf16)
      : DeviceSampler(config, formats, decoder_options(kv_format), products, device) {}
  DeviceSampler(const model::ModelConfig& config, const model::SnapshotFormats& formats,
                const decoder::DecoderOptions& options, Products products, base::Device device)
      : snapshot(config, formats),
        decoder(config, options,
                decoder::make_device_backend(config, options, make_engine(config, products, device, options))) {}
  static std::unique_ptr<cuda::DecodeEngine> make_engine(const model::ModelConfig& config, Products products,
                                                         base::Device device, const decoder::DecoderOptions& how) {
    cuda::EngineOptions options = decoder::engine_options(config, how);
    options.f32_gemms = products == Products::f32;
    options.rotated_weights = 1;  // so that tensors above 128 rows are rotated in parts
    if (device == base::Device::cuda) return cuda::make_engine(options);
    cuda::emulated::accept_callers_memory(true);  // LibTorch's
    return cuda::emulated::make_device_engine(options);
  }
  model::DeviceWeights* weights() { return decoder.device_weights(); }
  /// Publishes like the trainer.
  void publish(learner::Learner& learner, std::int64_t version) {
    learner.publish(snapshot, version, weights());
    if (!decoder.reads(snapshot)) decoder.load(snapshot);
  }
  std::vector<types::Completion> draw() {
    if (!decoder.reads(snapshot)) decoder.load(snapshot);
    const std::vector<types::TokenId> prompt = {3, 1, 4, 1, 5};
    types::SampleRequest request;
    request.prompt_tokens = prompt;
    request.num_samples = 3;
    types::SamplingParams params;
    params.max_new_tokens = 8;
    return decoder.complete(std::span(&request, 1), params, {1, 0});
  }
  model::Snapshot snapshot;
  decoder::Decoder decoder;
};

/// Returns the options of a learner with LibTorch's operations on a device: the emulated one (cpu) or a GPU (cuda).
inline LearnerOptions device_options(learner::ComputeDType compute = learner::ComputeDType::bf16,
                                     base::Device device = base::Device::cpu) {
  LearnerOptions made = options(compute);
  made.device = device;
  made.torch_ops = device == base::Device::cpu;
  made.optim.lr = 0.05;
  return made;
}

inline void take_supervised_step(learner::Learner& learner) {
  const std::vector<types::MicroBatch> batches = {pack({random_sequence(1, 3, 9, 37)})};
  learner::LossOptions sft;
  sft.kind = learner::LossKind::sft;
  learner.accumulate(batches[0], count(batches), sft, {1.0F});
  REQUIRE(learner.update().finite);
}

/// Returns the norm of got - want relative to that of want, in fp64.
inline double relative_norm(const torch::Tensor& got, const torch::Tensor& want) {
  const torch::Tensor exact = want.to(torch::kFloat64);
  return ((got.to(torch::kFloat64) - exact).norm() / exact.norm()).item<double>();
}

/// Holds a linear layer's result and its gradients, on the CPU.
struct LayerGradients {
  torch::Tensor y, d_x, d_w;
};
/// Runs linear(x, weight) forward and backward. d_w is accumulated over ones, which are subtracted again.
template <class Linear>
LayerGradients layer_gradients(const torch::Tensor& x, const torch::Tensor& d_y, std::int64_t out,
                               const Linear& linear) {
  const torch::Tensor leaf = x.clone().set_requires_grad(true), d_w = torch::ones({out, x.size(1)}, x.options());
  const torch::Tensor y = linear(leaf, learner::Weight{torch::Tensor(), d_w});
  y.backward(d_y.to(y.options()));
  return {y.detach().cpu(), leaf.grad().cpu(), (d_w - 1).cpu()};
}

}  // namespace qrl::test
