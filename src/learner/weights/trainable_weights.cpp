#include "learner/weights/trainable_weights.h"

#include "base/error.h"
#include "base/log.h"
#include "learner/tensors/cuda_library.h"
#include "learner/tensors/rank_tensors.h"

namespace qrl::learner {

namespace {

ParameterOptions with_options(ParameterOptions how, const LearnerOptions& options, const dist::Collectives& world) {
  how.trainable = options.trainable;
  how.muon = options.optim.name == OptimName::muon;
  how.lora = options.lora;
  if (options.shard_optimizer && options.trainable) {
    how.rank = world.rank();
    how.shards = world.size();
  }
  return how;
}

/// Uses NCCL if every rank has its own GPU, else host memory. Warns if ranks share GPUs. Collective.
std::unique_ptr<RankTensors> ranks_on(const torch::Device& device, dist::Collectives& world) {
  if (!device.is_cuda() || world.size() == 1) return ranks_through_host(world, device);
  if (share_gpus(device.index(), world)) {
    base::log_warning(
        "ranks share GPUs and exchange data through host memory (with a GPU for each process they would use NCCL)");
    return ranks_through_host(world, device);
  }
  return ranks_by_nccl(world, device, "libnccl.so.2");
}

model::WeightSource first_masters(const model::ModelConfig& config, const model::WeightSource& initial,
                                  const LearnerOptions& options) {
  if (!options.lora.enabled()) return initial;
  QRL_INVARIANT(options.optim.name == OptimName::adamw && !options.shard_optimizer, "adapters", "AdamW on every rank",
                "another optimizer, or shards");
  model::check_lora(config, options.lora);
  const bool is_given = options.lora_initial.has_value();
  const model::WeightSource adapters =
      is_given ? *options.lora_initial : model::new_adapters(config, options.lora, options.lora_seed);
  return model::WeightSource(
      [initial, adapters, is_given, lora = options.lora](const model::WeightSpec& spec, float* to) {
        const bool is_trained = model::is_lora_name(spec.name) || (lora.train_norms && model::is_norm(spec.kind));
        // New adapters start with the base's norm gains.
        if (is_trained && (is_given || model::is_lora_name(spec.name))) adapters.read(spec, to);
        else initial.read(spec, to);
      });
}

}  // namespace

TrainableWeights::TrainableWeights(const model::ModelConfig& config, const model::WeightSource& initial,
                                   const LearnerOptions& options, ParameterOptions how, dist::Collectives& world)
    : world_(world),
      base_(initial),
      parameters_(config, first_masters(config, initial, options), with_options(std::move(how), options, world)),
      ranks_(ranks_on(parameters_.options().device, world)) {}

void TrainableWeights::require_trainable() const {
  QRL_INVARIANT(parameters_.flat().trainable(), "learner", "a trainable learner", "a learner made only for scoring");
}

base::Buffer TrainableWeights::master(const std::string& name) const {
  if (!lora().enabled()) return parameters_.named().master(name);
  for (const model::WeightSpec& spec : model::weight_specs(config())) {
    if (spec.name != name) continue;
    base::Buffer values(base::DType::f32, spec.shape);
    base_.read(spec, values.as<float>());
    return values;
  }
  return {};
}

model::WeightSource TrainableWeights::trained_masters() {
  return model::WeightSource(
      [this](const model::WeightSpec& spec, float* to) { parameters_.read_master(spec, to, world_); });
}

model::WeightSource TrainableWeights::all_masters() {
  if (!lora().enabled()) return trained_masters();
  return model::merged_weights(config(), base_, lora(), trained_masters());
}

ReferencePolicy::ReferencePolicy(const model::ModelConfig& config, const model::LoraConfig& lora,
                                 const Parameters& parameters, const model::WeightSource& base,
                                 const std::optional<model::WeightSource>& start)
    : config_(config), lora_(lora), parameters_(parameters) {
  const PolicyWeights& from = parameters.policy();
  policy_.embedding = from.embedding;
  policy_.layers = from.layers;
  policy_.final_norm = from.final_norm;
  policy_.lm_head = from.lm_head;
  policy_.lm_head_dtype = from.lm_head_dtype;
  if (lora.train_norms) take_gains(start ? *start : base);
  packed_.resize(policy_.layers.size());
  if (start) {
    take_adapters(*start);
    return;
  }
  for (std::size_t idx = 0; idx < policy_.layers.size(); ++idx) {
    model::visit_matrices(
        config_, static_cast<std::int64_t>(idx),
        [&](const model::BlockMatrix&, const auto& of) { of(policy_.layers[idx]).adapter = {}; },
        [](const model::BlockExperts&, const auto&) {});
  }
}

void ReferencePolicy::read(const model::WeightSource& source, const std::string& name, const Tensor& to) const {
  for (const model::WeightSpec& spec : model::adapter_specs(config_, lora_)) {
    if (spec.name != name) continue;
    const Tensor values = to.is_cpu() ? to : torch::empty(to.sizes());
    source.read(spec, values.data_ptr<float>());
    if (!to.is_cpu()) to.copy_(values);
    return;
  }
}

void ReferencePolicy::take_gains(const model::WeightSource& source) {
  const auto take = [&](Weight& gain, const std::string& name) {
    gain = {torch::empty_like(gain.value), {}};
    read(source, name, gain.value);
  };
  take(policy_.final_norm, "model.norm.weight");
  for (std::size_t idx = 0; idx < policy_.layers.size(); ++idx) {
    const auto layer = static_cast<std::int64_t>(idx);
    const std::string prefix = model::layer_prefix(layer);
    model::visit_block(
        config_, layer,
        [&](const model::BlockGain& gain, const auto& of) {
          if (model::is_norm(gain.kind)) take(of(policy_.layers[idx]), prefix + gain.tensor());
        },
        [](const model::BlockMatrix&, const auto&) {}, [](const model::BlockExperts&, const auto&) {});
  }
}

void ReferencePolicy::take_adapters(const model::WeightSource& start) {
  for (std::size_t idx = 0; idx < policy_.layers.size(); ++idx) {
    const auto layer = static_cast<std::int64_t>(idx);
    const std::string prefix = model::layer_prefix(layer);
    model::visit_matrices(
        config_, layer,
        [&](const model::BlockMatrix& matrix, const auto& of) {
          LinearAdapter& adapter = of(policy_.layers[idx]).adapter;
          if (adapter.empty()) return;
          const auto format =
              parameters_.options().compute == torch::kFloat32 ? quant::Format::f32 : quant::Format::bf16;
          model::MatrixAdapter& packed = of(packed_[idx].adapters);
          packed = model::make_matrix_adapter(lora_, prefix, matrix,
                                              adapter.packed != nullptr ? adapter.packed->a.format : format);
          adapter.a = {torch::empty_like(adapter.a.value), {}};
          model::WeightViews views;
          std::int64_t row = 0;
          for (std::size_t i = 0; i < packed.parts.size(); ++i, row += lora_.rank) {
            const std::string a = model::lora_a_name(packed.parts[i].module),
                              b = model::lora_b_name(packed.parts[i].module);
            const Tensor a_values = adapter.a.value.narrow(0, row, lora_.rank);
            Weight& part = adapter.parts[i].b;
            part = {torch::empty_like(part.value), {}};
            read(start, a, a_values);
            read(start, b, part.value);
            views.emplace(a, view_of(a_values, {lora_.rank, matrix.in}));
            views.emplace(b, view_of(part.value, {part.value.size(0), lora_.rank}));
          }
          if (parameters_.options().torch_ops) return;  // LibTorch's operations read unpacked values
          if (const std::string broken = model::pack_adapter(lora_, views, packed); !broken.empty())
            model::fail_broken(broken, 0);
          if (adapter.packed != nullptr) adapter.packed = &packed;
        },
        [](const model::BlockExperts&, const auto&) {});
  }
}

const PolicyWeights& ReferencePolicy::policy() {
  policy_.embedding = parameters_.policy().embedding;
  policy_.lm_head = parameters_.policy().lm_head;
  for (std::size_t idx = 0; idx < policy_.layers.size(); ++idx) {
    const LayerWeights& now = parameters_.policy().layers[idx];
    model::visit_matrices(
        config_, static_cast<std::int64_t>(idx),
        [&](const model::BlockMatrix&, const auto& of) { of(policy_.layers[idx]).quantized = of(now).quantized; },
        [&](const model::BlockExperts&, const auto& of) { of(policy_.layers[idx]).quantized = of(now).quantized; });
  }
  return policy_;
}

}  // namespace qrl::learner
