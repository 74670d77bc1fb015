#include "learner/engine/torch_engine.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "cuda/train/training.h"
#include "learner/device/device_quantized.h"
#include "learner/device/torch_ops.h"
#include "learner/tensors/cuda_library.h"

namespace qrl::learner {

namespace {

struct SampledPass {
  TensorList after_layer;  ///< residual stream after each layer, fp32 [N, D] on the device; empty unless kept
  TargetScores scores;
};

/// Runs the decoder's own forward pass on `device`.
SampledPass sampled_pass(model::DeviceWeights& decoder, const model::ModelConfig& config, const PackedRows& rows,
                         const TargetRows& targets, const torch::Device& device, bool keeps_layers) {
  const auto there = torch::TensorOptions().dtype(torch::kFloat32).device(device);
  TensorList streams;
  std::vector<float*> after_layer;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    if (keeps_layers || i == 0) streams.push_back(torch::empty({rows.num_rows(), config.hidden_size}, there));
    after_layer.push_back(streams.back().data_ptr<float>());
  }
  void* stream = stream_on(device);
  decoder.forward({rows.tokens, rows.sequence_starts, rows.continues_prefix}, after_layer, stream);

  SampledPass pass;
  const auto count = static_cast<std::int64_t>(targets.rows.size());
  pass.scores = {torch::empty({count}), torch::empty({count}), nullptr};
  const std::vector<std::int32_t> row_ids(targets.rows.begin(), targets.rows.end());
  const auto floats = [&](const Tensor& x) { return std::span(x.data_ptr<float>(), targets.rows.size()); };
  decoder.score(after_layer.back(), {row_ids, targets.targets, targets.temperature, targets.kept},
                floats(pass.scores.log_probs_M), floats(pass.scores.entropy_M), stream);
  if (keeps_layers) pass.after_layer = std::move(streams);
  return pass;
}

class TorchEngine : public ForwardEngine {
 public:
  TorchEngine(const model::ModelConfig& config, const LearnerOptions& options, const TorchPlace& place)
      : ForwardEngine(config, options), place_(place) {
    if (place.kernels == nullptr && place.device.is_cuda()) {
      own_kernels_ = cuda::make_training_kernels(place.device.index());
      place_.kernels = own_kernels_.get();
    }
    if (!place_.room.used) {
      const int number = place.device.index();
      place_.room = {[number] { return gpu_bytes_in_tensors(number); }, [number] { return gpu_bytes_left(number); }};
    }
  }

  ParameterOptions parameters() const override {
    ParameterOptions how = common_parameters();
    how.device = place_.device;
    how.torch_ops = true;
    how.kernels = place_.kernels;
    how.staging_bytes = place_.staging_bytes;
    how.fake_quant = numerics().forward == LearnerForward::fake_quant;
    how.reads_layers = !numerics().low_bit();
    how.reads_tables = how.reads_layers || numerics().own_lm_head;
    how.packs_head = false;
    return how;
  }

  TargetScores score(Parameters& parameters, const model::Snapshot* snapshot, const ForwardTask& task) override {
    upload(parameters, snapshot);
    const std::int64_t before = works_beside_host() ? place_.room.used() : 0;
    const TargetScores scores = score_by_ops(parameters, task, nullptr);
    if (works_beside_host() && torch::GradMode::is_enabled()) {
      const auto kept = static_cast<double>(place_.room.used() - before);
      bytes_per_token_ = std::max(bytes_per_token_, kept / static_cast<double>(task.rows.num_rows()));
      num_logits_ = config().vocab_size * std::min(task.targets.chunk_tokens, task.rows.num_rows());
    }
    return scores;
  }

  bool works_beside_host() const override { return !place_.device.is_cpu(); }
  bool gathers_rotated() const override { return false; }
  bool has_room_for(std::int64_t num_tokens) const override {
    constexpr double kSlack = 1.1,
                     kBytesOfLogit = 6;  // bytes per logit in the backward pass: fp32 logits, bf16 gradient
    const double wanted =
        kSlack * bytes_per_token_ * static_cast<double>(num_tokens) + kBytesOfLogit * static_cast<double>(num_logits_);
    return !works_beside_host() || wanted <= static_cast<double>(place_.room.left());
  }

  void prepare(Parameters& parameters, const model::Snapshot& snapshot) override { upload(parameters, &snapshot); }

  bool reads_in_place(const std::string& tensor) const override {
    const bool copies_head = numerics().lm_head == torch::kFloat32;
    if (numerics().own_lm_head && (tensor == "lm_head" || tensor == "embed_tokens")) return false;
    if (tensor.find(".lora_") != std::string::npos) return false;  // the forward pass rounds the adapters' masters
    return numerics().low_bit() && (tensor != "lm_head" || !copies_head);
  }

 protected:
  model::DeviceWeights& decoder() const { return *decoder_; }
  const torch::Device& device() const { return place_.device; }

  void upload(Parameters& parameters, const model::Snapshot* snapshot) {
    if (!numerics().low_bit()) return;
    decoder_->upload(*snapshot);
    if (!tables_read_ && !parameters.options().reads_tables) parameters.read_tables(*decoder_);
    tables_read_ = true;
  }

  TargetScores score_by_ops(const Parameters& parameters, const ForwardTask& task, const SampledPass* sampled) const {
    const PolicyWeights& policy = task.policy != nullptr ? *task.policy : parameters.policy();
    ForwardOptions options = forward_options(task);
    if (sampled != nullptr) options.after_layer = &sampled->after_layer;
    const auto ops = std::make_shared<const TorchOps>(place_rows(task.rows, config().rotary_dim(), place_.device),
                                                      config(), numerics(), TorchDevice{place_.kernels, decoder_});
    return device_target_log_probs(hidden_states(policy, ops, options), policy.lm_head, task.targets, place_.kernels,
                                   sampled != nullptr ? &sampled->scores : nullptr);
  }

 private:
  void read_weights(Parameters& parameters, const model::Snapshot& snapshot, model::DeviceWeights* device,
                    bool is_on_device) override {
    QRL_INVARIANT(device != nullptr || !numerics().low_bit(), "publish", "weights on the device for a low_bit learner",
                  "no weights on the device");
    const bool has_base =
        parameters.options().lora.enabled() && &snapshot == base_of_ && snapshot.base_number() == base_number_;
    base_of_ = &snapshot;
    base_number_ = snapshot.base_number();
    if (parameters.options().fake_quant && !has_base) {
      if (is_on_device) parameters.read_quantized(*device);
      else parameters.read_quantized(snapshot);
    }
    decoder_ = device;
    tables_read_ = false;
  }

  std::unique_ptr<const cuda::TrainingKernels> own_kernels_;
  TorchPlace place_;
  model::DeviceWeights* decoder_ = nullptr;   // weights of the snapshot last read
  bool tables_read_ = false;                  // whether embedding and lm_head were read
  double bytes_per_token_ = 0;                // largest number of bytes kept per token for a backward pass
  std::int64_t num_logits_ = 0;               // logits per chunk
  const model::Snapshot* base_of_ = nullptr;  // snapshot last read
  std::int64_t base_number_ = 0;
};

class SampledEngine final : public TorchEngine {
 public:
  using TorchEngine::TorchEngine;

  bool works_beside_host() const override { return false; }

  TargetScores score(Parameters& parameters, const model::Snapshot* snapshot, const ForwardTask& task) override {
    upload(parameters, snapshot);
    if (task.policy != nullptr)
      return score_by_ops(parameters, task, nullptr);  // the decoder lacks this policy's adapters
    const bool has_backward = torch::GradMode::is_enabled();
    const SampledPass sampled = sampled_pass(decoder(), config(), task.rows, task.targets, device(), has_backward);
    return has_backward ? score_by_ops(parameters, task, &sampled) : sampled.scores;
  }
};

}  // namespace

void check_torch_engine(const model::ModelConfig& config, const LearnerOptions& options) {
  QRL_REQUIRE(!config.has_experts(), "trainer.device cuda", "a dense model",
              std::to_string(config.num_experts) + " experts", "use trainer.device cpu");
  QRL_REQUIRE(options.numerics.backward != LearnerBackward::int8, "trainer.device cuda",
              "quant.learner.backward model_dtype or fp8_e4m3", "int8", "use trainer.device cpu");
}

void require_gpu_kernels(const model::ModelConfig& config) {
  const std::string missing = model::missing_on_gpu(config);
  QRL_REQUIRE(missing.empty(), "trainer.device cuda", "a model that the CUDA kernels compute", "one with " + missing,
              "use trainer.device cpu");
}

std::unique_ptr<ForwardEngine> make_torch_engine(const model::ModelConfig& config, const LearnerOptions& options,
                                                 const TorchPlace& place) {
  check_torch_engine(config, options);
  if (place.kernels != nullptr) require_gpu_kernels(config);
  const bool low_bit = options.numerics.forward == LearnerForward::low_bit;
  if (options.numerics.bitwise && low_bit) return std::make_unique<SampledEngine>(config, options, place);
  return std::make_unique<TorchEngine>(config, options, place);
}

}  // namespace qrl::learner
