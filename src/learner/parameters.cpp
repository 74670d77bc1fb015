#include "learner/parameters.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "base/threads.h"

namespace qrl::learner {

namespace {

bool is_matrix(const model::WeightSpec& spec) {
  return spec.kind != model::WeightKind::norm && spec.kind != model::WeightKind::bias;
}

/// Layers' matrices, other matrices, the rest.
int rank_of_kind(const model::WeightSpec& spec) {
  return !is_matrix(spec) ? 2 : (spec.kind == model::WeightKind::linear ? 0 : 1);
}

/// Tensors that one product reads as one matrix (or bias) must follow each other: their order within a layer.
int rank_in_group(std::string_view name) {
  constexpr std::array<std::string_view, 5> kOrder = {"q_proj.", "k_proj.", "v_proj.", "gate_proj.", "up_proj."};
  for (std::size_t i = 0; i < kOrder.size(); ++i) {
    if (name.find(kOrder[i]) != std::string_view::npos) return static_cast<int>(i);
  }
  return static_cast<int>(kOrder.size());
}

std::string layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  if (!name.starts_with(kPrefix)) return {};
  return std::string(name.substr(0, name.find('.', kPrefix.size())));
}

}  // namespace

Parameters::Parameters(const model::ModelConfig& config, const model::WeightSource& initial,
                       const ParameterOptions& options)
    : options_(options) {
  policy_.lm_head_dtype = options.f32_lm_head ? torch::kFloat32 : options.compute;
  place(model::weight_specs(config));
  for (const Placement& placement : placements_) initial.read(placement.spec, masters() + placement.offset);
  bind_policy(config);
  refresh_head();
}

void Parameters::place(const std::vector<model::WeightSpec>& specs) {
  for (const model::WeightSpec& spec : specs) placements_.push_back({spec, 0});
  std::vector<Placement*> order;
  for (Placement& placement : placements_) order.push_back(&placement);
  std::stable_sort(order.begin(), order.end(), [](const Placement* a, const Placement* b) {
    if (rank_of_kind(a->spec) != rank_of_kind(b->spec)) return rank_of_kind(a->spec) < rank_of_kind(b->spec);
    const std::string layer_a = layer_of(a->spec.name), layer_b = layer_of(b->spec.name);
    return layer_a == layer_b && rank_in_group(a->spec.name) < rank_in_group(b->spec.name);
  });
  std::int64_t next = 0;
  for (Placement* placement : order) {
    placement->offset = next;
    next += placement->spec.shape.numel();
    if (is_matrix(placement->spec)) num_decayed_ = next;
    if (options_.muon && rank_of_kind(placement->spec) == 0) first_adamw_ = next;
  }
  masters_ = torch::zeros({next});
  if (options_.trainable) {
    for (Tensor* flat : {&gradients_, &exp_avg_}) *flat = torch::zeros({next});
    exp_avg_sq_ = torch::zeros({next - first_adamw_});
  }
}

Weight Parameters::weight(const std::vector<std::string>& names) const {
  const Placement* first = nullptr;
  std::int64_t rows = 0, next = 0;
  for (const std::string& name : names) {
    const auto found = std::find_if(placements_.begin(), placements_.end(),
                                    [&](const Placement& placement) { return placement.spec.name == name; });
    QRL_INVARIANT(found != placements_.end(), "parameters", "tensor " + name, "none of that name");
    if (first == nullptr) first = &*found;
    QRL_INVARIANT(first == &*found || found->offset == next, "parameters", name + " next to " + names.front(), "apart");
    rows += found->spec.shape[0];
    next = found->offset + found->spec.shape.numel();
  }
  std::vector<std::int64_t> shape(first->spec.shape.dims().begin(), first->spec.shape.dims().end());
  shape[0] = rows;
  const auto slice = [&](const Tensor& flat) {
    return flat.narrow(0, first->offset, next - first->offset).view(shape);
  };
  return {slice(masters_), trainable() ? slice(gradients_) : Tensor()};
}

void Parameters::bind_policy(const model::ModelConfig& config) {
  policy_.embedding = weight({"model.embed_tokens.weight"});
  policy_.final_norm = weight({"model.norm.weight"});
  const std::string lm_head = config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  const bool f32_lm_head = policy_.lm_head_dtype == torch::kFloat32;
  policy_.lm_head = weight({lm_head});
  if (options_.packs_head) {
    policy_.head = ops::make_packed_linear(f32_lm_head ? quant::Format::f32 : quant::Format::bf16, config.vocab_size,
                                           config.hidden_size, false);
  }
  for (std::int64_t idx = 0; idx < config.num_hidden_layers; ++idx) {
    const std::string layer = "model.layers." + std::to_string(idx) + ".";
    const std::string attention = layer + "self_attn.", mlp = layer + "mlp.";
    LayerWeights bound;
    bound.input_norm = weight({layer + "input_layernorm.weight"});
    bound.post_norm = weight({layer + "post_attention_layernorm.weight"});
    bound.qkv = weight({attention + "q_proj.weight", attention + "k_proj.weight", attention + "v_proj.weight"});
    bound.o = weight({attention + "o_proj.weight"});
    bound.gate_up = weight({mlp + "gate_proj.weight", mlp + "up_proj.weight"});
    bound.down = weight({mlp + "down_proj.weight"});
    if (config.qkv_bias) {
      bound.transform.bias = weight({attention + "q_proj.bias", attention + "k_proj.bias", attention + "v_proj.bias"});
    }
    if (config.qk_norm) {
      bound.transform.q_gain = weight({attention + "q_norm.weight"});
      bound.transform.k_gain = weight({attention + "k_norm.weight"});
    }
    policy_.layers.push_back(bound);
  }
}

void Parameters::refresh_head() {
  if (!options_.packs_head) return;
  base::parallel(0, [&](base::Team& team) {
    ops::pack_rows(team, policy_.lm_head.value.data_ptr<float>(), policy_.head.out, 0, policy_.head);
  });
}

model::WeightViews Parameters::views(float* flat, const std::string& prefix) const {
  model::WeightViews named;
  for (const Placement& placement : placements_) {
    named[prefix + placement.spec.name] = {flat + placement.offset, base::DType::f32, placement.spec.shape};
  }
  return named;
}

model::WeightViews Parameters::moments() const {
  if (!trainable()) return {};
  model::WeightViews named = views(exp_avg(), "exp_avg.");
  for (const Placement& placement : placements_) {
    if (placement.offset < first_adamw_) continue;
    named["exp_avg_sq." + placement.spec.name] = {exp_avg_sq() + (placement.offset - first_adamw_), base::DType::f32,
                                                  placement.spec.shape};
  }
  return named;
}

void Parameters::clear_moments() {
  exp_avg_.zero_();
  exp_avg_sq_.zero_();
}

void copy_views(const model::WeightViews& from, const model::WeightViews& to, const std::string& what) {
  for (const auto& [name, view] : from) {
    QRL_REQUIRE(to.contains(name), what, "tensors of this model", "an extra one, " + name);
    (void)view;
  }
  for (const auto& [name, view] : to) {
    const auto found = from.find(name);
    QRL_REQUIRE(found != from.end(), what, "tensor " + name, "none of that name");
    const base::View& source = found->second;
    QRL_REQUIRE(source.shape == view.shape && source.dtype == base::DType::f32, what + ", tensor " + name,
                "F32 " + view.shape.to_string(),
                std::string(base::name(source.dtype)) + " " + source.shape.to_string());
    std::memcpy(view.data, source.data, view.num_bytes());
  }
}

}  // namespace qrl::learner
