#include "learner/weights/parameters.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/threads.h"
#include "learner/device/device_quantized.h"
#include "learner/forward/quantized.h"
#include "learner/tensors/host_copies.h"
#include "model/block.h"

namespace qrl::learner {

namespace {

/// Converts parts from elements of `values` to bytes.
std::vector<dist::Part> in_bytes(std::vector<dist::Part> parts, const Tensor& values) {
  for (dist::Part& part : parts) {
    part.begin *= values.element_size();
    part.count *= values.element_size();
  }
  return parts;
}

}  // namespace

Parameters::Parameters(const model::ModelConfig& config, const model::WeightSource& initial,
                       const ParameterOptions& options)
    : config_(config),
      options_(options),
      layout_(config, options),
      flat_(layout_, options.trainable, options.device),
      named_(layout_, flat_, options.torch_ops, options.staging_bytes) {
  policy_.lm_head_dtype = options.f32_lm_head ? torch::kFloat32 : options.compute;
  make_segments();
  for (const Placement& placement : layout_.placements()) {
    if (!layout_.is_mine(placement)) continue;
    const Tensor to = flat_.master(placement);
    const Tensor values = to.is_cpu() ? to : torch::empty(to.sizes());
    initial.read(placement.spec, values.data_ptr<float>());
    if (!to.is_cpu()) to.copy_(values);
  }
  bind_policy(initial);
  if (!options_.lora.enabled() || options.torch_ops) return;
  if (options.packs_head) pack_head();
  policy_.lm_head = {};  // the forward pass reads only the packed head
}

bool Parameters::has_copies() const {
  if (options_.lora.enabled()) return false;  // adapters are rounded when read
  return layout_.is_sharded() || (options_.torch_ops && (options_.compute != torch::kFloat32 || options_.fake_quant));
}

void Parameters::make_segments() {
  if (!has_copies()) {
    segments_.push_back({layout_.all(), flat_.masters});
    return;
  }
  const auto add = [&](const GradientRange& range, torch::ScalarType dtype, bool is_read) {
    const auto how = torch::TensorOptions().dtype(dtype).device(options_.device);
    segments_.push_back({range, is_read ? torch::zeros({range.count}, how) : Tensor()});
  };
  add(layout_.layers(), options_.compute, options_.reads_layers);
  add(layout_.tables(), policy_.lm_head_dtype, options_.reads_tables);
  add(layout_.vectors(), torch::kFloat32, true);
}

Weight Parameters::weight(const std::vector<std::string>& names) const {
  const Placement& first = layout_.placement(names.front());
  std::int64_t rows = 0, next = first.offset;
  for (const std::string& name : names) {
    const Placement& part = layout_.placement(name);
    QRL_INVARIANT(part.offset == next, "parameters", name + " next to " + names.front(), "a gap between them");
    rows += part.spec.shape[0];
    next += part.spec.shape.numel();
  }
  std::vector<std::int64_t> shape(first.spec.shape.dims().begin(), first.spec.shape.dims().end());
  shape[0] = rows;
  const auto slice = [&](const Tensor& flat, std::int64_t begin) {
    return flat.defined() ? flat.narrow(0, first.offset - begin, next - first.offset).view(shape) : Tensor();
  };
  const auto segment = std::find_if(segments_.begin(), segments_.end(),
                                    [&](const Copy& each) { return first.offset < each.range.end(); });
  return {slice(segment->values, segment->range.begin), slice(flat_.gradients, 0)};
}

Weight Parameters::frozen(const std::vector<std::string>& names, const model::WeightSource& base, bool is_kept) const {
  std::vector<model::WeightSpec> parts;
  for (const model::WeightSpec& spec : model::weight_specs(config_)) {
    if (std::find(names.begin(), names.end(), spec.name) != names.end()) parts.push_back(spec);
  }
  QRL_INVARIANT(parts.size() == names.size(), "parameters", "tensor " + names.front(), "no tensor of that name");
  const bool is_table = is_matrix(parts.front()) && !is_layer_matrix(parts.front().kind);
  if (is_matrix(parts.front()) && !options_.reads_layers && !is_kept) return {};
  std::vector<std::int64_t> shape(parts.front().shape.dims().begin(), parts.front().shape.dims().end());
  shape[0] = 0;
  for (const model::WeightSpec& spec : parts) shape[0] += spec.shape[0];
  const torch::ScalarType dtype = !is_matrix(parts.front()) ? torch::kFloat32
                                  : is_table                ? policy_.lm_head_dtype
                                                            : options_.compute;
  const Tensor values = torch::empty(shape, torch::TensorOptions().dtype(dtype).device(options_.device));
  std::int64_t first = 0;
  for (const model::WeightSpec& spec : parts) {
    const Tensor part = torch::empty(std::vector<std::int64_t>(spec.shape.dims().begin(), spec.shape.dims().end()));
    base.read(spec, part.data_ptr<float>());
    values.narrow(0, first, spec.shape[0]).copy_(part);
    first += spec.shape[0];
  }
  return {values, {}};
}

LinearAdapter Parameters::bind_adapter(const std::string& prefix, const model::BlockMatrix& matrix) const {
  LinearAdapter adapter;
  adapter.scale = options_.lora.scale();
  std::vector<std::string> all_a;
  std::int64_t first = 0;
  for (const model::BlockModule& part : matrix.modules) {
    const std::string module = prefix + std::string(part.name);
    if (options_.lora.targets(module)) {
      all_a.push_back(model::lora_a_name(module));
      adapter.parts.push_back({weight({model::lora_b_name(module)}), first});
    }
    first += part.rows;
  }
  if (!all_a.empty()) adapter.a = weight(all_a);
  return adapter;
}

void Parameters::bind_policy(const model::WeightSource& base) {
  const model::ModelConfig& config = config_;
  const auto weight = [&](const std::vector<std::string>& names, bool is_kept = false) {
    return layout_.contains(names.front()) ? this->weight(names) : frozen(names, base, is_kept);
  };
  const bool keeps_tables = options_.torch_ops && options_.reads_tables;
  policy_.embedding = weight({"model.embed_tokens.weight"}, keeps_tables);
  policy_.final_norm = weight({"model.norm.weight"});
  policy_.norm_offset = config.norm_offset;
  const std::string lm_head = config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  const bool f32_lm_head = policy_.lm_head_dtype == torch::kFloat32;
  const bool has_table = config.tie_word_embeddings && policy_.embedding.defined();
  policy_.lm_head = has_table ? policy_.embedding : weight({lm_head}, keeps_tables || options_.packs_head);
  if (options_.packs_head) {
    policy_.head = ops::make_packed_linear(f32_lm_head ? quant::Format::f32 : quant::Format::bf16, config.vocab_size,
                                           config.hidden_size, false);
  }
  std::int64_t num_sparse = 0;
  for (std::int64_t idx = 0; idx < config.num_hidden_layers; ++idx) {
    const std::string layer = model::layer_prefix(idx);
    LayerWeights bound;
    if (config.is_sparse(idx)) bound.sparse_idx = num_sparse++;
    bound.rope = config.rope(idx);
    bound.norm_offset = config.norm_offset;
    bound.window = config.window(idx);
    bound.kind = config.layer_kind(idx);
    bound.gated = config.attention_gate;
    model::visit_block(
        config, idx, [&](const model::BlockGain& gain, const auto& of) { of(bound) = weight({layer + gain.tensor()}); },
        [&](const model::BlockMatrix& matrix, const auto& of) {
          std::vector<std::string> weights, biases;
          for (const model::BlockModule& module : matrix.modules) {
            weights.push_back(layer + std::string(module.name) + ".weight");
            biases.push_back(layer + std::string(module.name) + ".bias");
          }
          of(bound).name = model::snapshot_layer_prefix(idx) + std::string(matrix.name);
          of(bound).weight = weight(weights);
          if (matrix.has_bias) of(bound).bias = weight(biases);
          if (options_.lora.enabled() && !matrix.is_router()) of(bound).adapter = bind_adapter(layer, matrix);
        },
        [&](const model::BlockExperts& experts, const auto& of) {
          of(bound).name = model::snapshot_layer_prefix(idx) + std::string(experts.matrix.name);
          of(bound).weight = weight({layer + std::string(experts.tensor) + ".weight"});
        });
    policy_.layers.push_back(bound);
  }
}

void Parameters::refresh(RankTensors& ranks) {
  begin_refresh(layout_.all(), ranks);
  end_refresh(ranks);
}

std::vector<Parameters::Copy> Parameters::copies_of(const GradientRange& range) const {
  if (!has_copies()) return {{range, {}}};
  std::vector<Copy> copies;
  for (const Copy& segment : segments_) {
    const std::int64_t begin = std::max(segment.range.begin, range.begin);
    const std::int64_t end = std::min(segment.range.end(), range.end());
    if (begin >= end) continue;
    const bool is_read = segment.values.defined();
    copies.push_back({{begin, end - begin},
                      is_read ? segment.values.narrow(0, begin - segment.range.begin, end - begin) : Tensor()});
  }
  return copies;
}

void Parameters::begin_refresh(const GradientRange& range, RankTensors& ranks, bool are_written) {
  if (!has_copies()) return;
  for (const auto& [here, values] : copies_of(range)) {
    if (!values.defined()) continue;
    for (const Placement& placement : layout_.placements()) {
      if (!layout_.is_mine(placement) || !here.holds(placement.offset)) continue;
      if (are_written && !layout_.is_muons(placement)) continue;
      const std::int64_t count = placement.spec.shape.numel();
      values.narrow(0, placement.offset - here.begin, count).copy_(flat_.master(placement));
    }
    if (!layout_.is_sharded()) continue;
    ranks.begin_copies(values, in_bytes(layout_.parts(here), values));
  }
}

void Parameters::end_refresh(RankTensors& ranks) {
  if (layout_.is_sharded()) ranks.end_copies();
  if (options_.packs_head && !options_.lora.enabled()) pack_head();
}

void Parameters::bind_quantized(const model::Snapshot& snapshot) {
  for (std::size_t idx = 0; idx < policy_.layers.size(); ++idx) {
    const auto layer = static_cast<std::int64_t>(idx);
    const model::LayerSnapshot& from = snapshot.layer_form(layer);
    model::visit_matrices(
        config_, layer,
        [&](const model::BlockMatrix&, const auto& of) {
          of(policy_.layers[idx]).quantized = &of(from);
          of(policy_.layers[idx]).adapter.packed = &of(from.adapters);
        },
        [&](const model::BlockExperts&, const auto& of) { of(policy_.layers[idx]).quantized = of(from); });
  }
}

void Parameters::read_quantized(const model::Snapshot& snapshot) {
  QRL_INVARIANT(options_.fake_quant, "parameters", "fake_quant", "another forward pass");
  const auto read = [](const ops::PackedLinear& packed, const Tensor& to) {
    if (!packed.rotation) return to.copy_(dequantized_weight(packed, to.scalar_type()));
    const Tensor weight = dequantized_weight(packed, torch::kFloat32);
    rotate_in_place(packed.rotation, weight);  // rotates it back
    return to.copy_(weight);
  };
  // The sampler's embedding is bf16 even with an fp32 compute dtype. A tied lm_head is the same tensor.
  policy_.embedding.value.copy_(snapshot_embedding(snapshot));
  const bool is_tied = policy_.lm_head.value.data_ptr() == policy_.embedding.value.data_ptr();
  if (!is_tied && !options_.own_lm_head) read(snapshot.lm_head(), policy_.lm_head.value);
  for (std::size_t idx = 0; idx < policy_.layers.size(); ++idx) {
    const auto layer = static_cast<std::int64_t>(idx);
    const model::LayerSnapshot& from = snapshot.layer(layer);
    const LayerWeights& to = policy_.layers[idx];
    model::visit_matrices(snapshot.config(), layer,
                          [&](const model::BlockMatrix&, const auto& of) { read(of(from), of(to).weight.value); });
  }
}

void Parameters::read_quantized(model::DeviceWeights& weights) {
  QRL_INVARIANT(options_.fake_quant, "parameters", "fake_quant", "another forward pass");
  std::vector<model::DequantizedTensor> wanted;
  const auto want = [&](const std::string& tensor, const Tensor& to) {
    wanted.push_back({tensor, view_of(to, {to.size(0), to.size(1)})});
  };
  want("embed_tokens", policy_.embedding.value);
  const bool is_tied = policy_.lm_head.value.data_ptr() == policy_.embedding.value.data_ptr();
  if (!is_tied && !options_.own_lm_head) want("lm_head", policy_.lm_head.value);
  for (std::size_t idx = 0; idx < policy_.layers.size(); ++idx) {
    const LayerWeights& to = policy_.layers[idx];
    model::visit_matrices(config_, static_cast<std::int64_t>(idx),
                          [&](const model::BlockMatrix&, const auto& of) { want(of(to).name, of(to).weight.value); });
  }
  weights.dequantize(wanted, stream_on(options_.device));
}

void Parameters::read_tables(model::DeviceWeights& weights) {
  QRL_INVARIANT(!options_.reads_tables, "parameters", "tables on a device", "tables of their own");
  const std::int64_t vocab_size = config_.vocab_size, width = config_.hidden_size;
  policy_.embedding.value = device_table(weights, "embed_tokens", vocab_size, width, options_.device);
  policy_.lm_head.value =
      device_table(weights, "lm_head", vocab_size, width, options_.device).to(policy_.lm_head_dtype);
}

void Parameters::wait_for_device() const { wait_for(options_.device); }

void Parameters::pack_head() {
  constexpr std::int64_t kRows = 64 * ops::kPanelColumns;
  for (std::int64_t first = 0; first < policy_.head.out; first += kRows) {
    const std::int64_t count = std::min(kRows, policy_.head.out - first);
    const Tensor rows = policy_.lm_head.value.narrow(0, first, count).to(torch::kFloat32);
    base::parallel(0,
                   [&](base::Team& team) { ops::pack_rows(team, rows.data_ptr<float>(), count, first, policy_.head); });
  }
}

void Parameters::read_master(const model::WeightSpec& spec, float* to, dist::Collectives& world) const {
  const Placement& from = layout_.placement(spec.name);
  const auto count = static_cast<std::size_t>(spec.shape.numel());
  if (layout_.is_mine(from)) {
    const auto size = static_cast<std::int64_t>(count);
    torch::from_blob(to, {size}).copy_(flat_.master(from));
  }
  if (layout_.is_sharded()) world.broadcast(std::as_writable_bytes(std::span(to, count)), from.owner);
}

void Parameters::visit_masters(RankTensors& ranks, const std::function<void(const model::WeightViews&)>& visit) const {
  if (!layout_.is_sharded()) {
    model::WeightViews all;
    for (const Placement& from : layout_.placements())
      all[from.spec.name] = view_of(flat_.master(from), from.spec.shape);
    wait_for_device();
    return visit(all);
  }
  for (const GradientRange& range : layout_.published()) {
    const Tensor values = torch::empty({range.count}, flat_.masters.options());
    model::WeightViews views;
    for (const Placement& from : layout_.placements()) {
      if (!range.holds(from.offset)) continue;
      const Tensor of_tensor = values.narrow(0, from.offset - range.begin, from.spec.shape.numel());
      if (layout_.is_mine(from)) of_tensor.copy_(flat_.master(from));
      views[from.spec.name] = view_of(of_tensor, from.spec.shape);
    }
    ranks.begin_copies(values, in_bytes(layout_.parts(range), values));
    ranks.end_copies();
    wait_for_device();
    visit(views);
  }
}

void Parameters::clear_moments() {
  flat_.exp_avg.zero_();
  flat_.exp_avg_sq.zero_();
}

}  // namespace qrl::learner
