#include "learner/parameters.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "base/threads.h"
#include "learner/device_quantized.h"
#include "learner/quantized.h"
#include "learner/shards.h"
#include "model/block.h"

namespace qrl::learner {

namespace {

bool is_matrix(const model::WeightSpec& spec) {
  return spec.kind != model::WeightKind::norm && spec.kind != model::WeightKind::bias;
}

/// Layers' matrices, other matrices, the rest.
int rank_of_kind(const model::WeightSpec& spec) {
  return !is_matrix(spec) ? 2 : (spec.kind == model::WeightKind::linear ? 0 : 1);
}

/// Tensors that one matmul reads as one matrix (or bias) must follow each other: their order within a layer. Those of
/// one module's matrix come last.
int rank_in_group(std::string_view name) {
  int next = 0, rank = -1;
  model::visit_matrices(model::ModelConfig(), [&](const model::BlockMatrix& matrix, const auto&) {
    if (matrix.modules.size() == 1) return;
    for (const model::BlockModule& module : matrix.modules) {
      if (name.find(std::string(module.name) + ".") != std::string_view::npos) rank = next;
      ++next;
    }
  });
  return rank < 0 ? next : rank;
}

/// −1: of no layer.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kPrefix = "model.layers.";
  return name.starts_with(kPrefix) ? std::stoll(std::string(name.substr(kPrefix.size()))) : -1;
}

base::Device on_device(const Tensor& values) { return values.is_cpu() ? base::Device::cpu : base::Device::cuda; }

/// Copies every view of `from` into the view of the same name of `to`; an input error when names or shapes differ.
/// `what` names the set in the message.
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
    if (view.data != source.data) std::memcpy(view.data, source.data, view.num_bytes());
  }
}

}  // namespace

Parameters::Parameters(const model::ModelConfig& config, const model::WeightSource& initial,
                       const ParameterOptions& options)
    : config_(config), options_(options) {
  QRL_INVARIANT(!has_adapters() || !is_sharded(), "parameters", "adapters on every rank", "shards of them");
  policy_.lm_head_dtype = options.f32_lm_head ? torch::kFloat32 : options.compute;
  place(has_adapters() ? model::adapter_specs(config, options.lora) : model::weight_specs(config));
  share_out();
  make_segments();
  for (const Placement& placement : placements_) {
    if (!is_mine(placement)) continue;
    const Tensor to = masters(placement.owned_offset, placement.spec.shape.numel());
    const Tensor values = to.is_cpu() ? to : torch::empty(to.sizes());
    initial.read(placement.spec, values.data_ptr<float>());
    if (!to.is_cpu()) to.copy_(values);
  }
  bind_policy(initial);
  if (!has_adapters() || options.torch_ops) return;
  if (options.packs_head) pack_head();
  policy_.lm_head = {};  // the packed one is all that is read of it
}

bool Parameters::has_copies() const {
  if (has_adapters()) return false;  // what is trained is rounded when it is read
  return is_sharded() || (options_.torch_ops && (options_.compute != torch::kFloat32 || options_.fake_quant));
}

Tensor Parameters::zeros(std::int64_t count, torch::ScalarType dtype) const {
  return torch::zeros({count}, torch::TensorOptions().dtype(dtype).device(options_.device));
}

void Parameters::place(const std::vector<model::WeightSpec>& specs) {
  for (const model::WeightSpec& spec : specs) placements_.push_back({spec});
  std::vector<Placement*> order;
  for (Placement& placement : placements_) order.push_back(&placement);
  if (!has_adapters())  // their specs are in order
    std::stable_sort(order.begin(), order.end(), [](const Placement* a, const Placement* b) {
      const auto key = [](const model::WeightSpec& spec) {
        return std::tuple(rank_of_kind(spec), layer_of(spec.name), rank_in_group(spec.name));
      };
      return key(a->spec) < key(b->spec);
    });
  std::int64_t next = 0;
  for (Placement* placement : order) {
    placement->offset = next;
    next += placement->spec.shape.numel();
    if (is_matrix(placement->spec)) num_decayed_ = next;
    if (rank_of_kind(placement->spec) == 0) first_other_ = next;
  }
  first_adamw_ = options_.muon ? first_other_ : 0;
  if (options_.trainable) gradients_ = zeros(next);
}

void Parameters::share_out() {
  if (is_sharded()) {
    std::vector<model::WeightSpec> specs;
    for (const Placement& placement : placements_) specs.push_back(placement.spec);
    const std::vector<int> owners = shard_owners(specs, options_.muon, options_.shards);
    for (std::size_t i = 0; i < owners.size(); ++i) placements_[i].owner = owners[i];
  }
  std::vector<std::int64_t> next(static_cast<std::size_t>(options_.shards), 0);
  for (const std::size_t i : in_order()) {
    Placement& placement = placements_[i];
    const std::int64_t count = placement.spec.shape.numel();
    std::int64_t& end = next[static_cast<std::size_t>(placement.owner)];
    placement.owned_offset = end;
    end += count;
    if (is_mine(placement) && is_muons(placement)) num_muons_ = end;
    gradient_parts_.push_back(
        {static_cast<std::size_t>(placement.offset), static_cast<std::size_t>(count), placement.owner});
  }
  num_mine_ = next[static_cast<std::size_t>(options_.rank)];
  masters_ = zeros(num_mine_);
  if (!options_.trainable) return;
  exp_avg_ = zeros(num_mine_);
  exp_avg_sq_ = zeros(num_mine_ - num_muons_);
}

void Parameters::make_segments() {
  const auto size = static_cast<std::int64_t>(gradient_parts_.back().begin + gradient_parts_.back().count);
  if (!has_copies()) {
    segments_.push_back({0, size, masters_});
    return;
  }
  const auto add = [&](std::int64_t begin, std::int64_t end, torch::ScalarType dtype, bool is_read) {
    segments_.push_back({begin, end, is_read ? zeros(end - begin, dtype) : Tensor()});
  };
  add(0, first_other_, options_.compute, options_.reads_layers);
  add(first_other_, num_decayed_, policy_.lm_head_dtype, options_.reads_tables);
  add(num_decayed_, size, torch::kFloat32, true);
}

GradientRange Parameters::layer_gradients(std::size_t layer) const {
  GradientRange range{first_other_, 0};
  for (const Placement& placement : placements_) {
    if (rank_of_kind(placement.spec) != 0 || layer_of(placement.spec.name) != static_cast<std::int64_t>(layer))
      continue;
    range.begin = std::min(range.begin, placement.offset);
    range.count += placement.spec.shape.numel();
  }
  return range;
}

std::vector<dist::Part> Parameters::gradient_parts(const GradientRange& range) const {
  std::vector<dist::Part> parts;
  for (dist::Part part : gradient_parts_) {
    if (!range.holds(static_cast<std::int64_t>(part.begin))) continue;
    part.begin -= static_cast<std::size_t>(range.begin);
    parts.push_back(part);
  }
  return parts;
}

std::vector<std::size_t> Parameters::in_order() const {
  std::vector<std::size_t> order(placements_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return placements_[a].offset < placements_[b].offset; });
  return order;
}

bool Parameters::is_muons(const Placement& placement) const { return placement.offset < first_adamw_; }

std::vector<AdamwSegment> Parameters::adamw_segments(const GradientRange& range) const {
  std::vector<AdamwSegment> segments;
  for (const std::size_t i : in_order()) {
    const Placement& placement = placements_[i];
    if (!is_mine(placement) || is_muons(placement) || !range.holds(placement.offset)) continue;
    const std::int64_t count = placement.spec.shape.numel();
    const bool decays = placement.offset < num_decayed_;
    const bool goes_on = !segments.empty() && segments.back().decays == decays &&
                         segments.back().offset + segments.back().count == placement.offset;
    if (goes_on) segments.back().count += count;
    else segments.push_back({placement.offset, placement.owned_offset, count, decays});
  }
  return segments;
}

const Placement& Parameters::placement(const std::string& name) const {
  const auto found = std::find_if(placements_.begin(), placements_.end(),
                                  [&](const Placement& placement) { return placement.spec.name == name; });
  QRL_INVARIANT(found != placements_.end(), "parameters", "tensor " + name, "none of that name");
  return *found;
}

Weight Parameters::weight(const std::vector<std::string>& names) const {
  const Placement& first = placement(names.front());
  std::int64_t rows = 0, next = first.offset;
  for (const std::string& name : names) {
    const Placement& part = placement(name);
    QRL_INVARIANT(part.offset == next, "parameters", name + " next to " + names.front(), "apart");
    rows += part.spec.shape[0];
    next += part.spec.shape.numel();
  }
  std::vector<std::int64_t> shape(first.spec.shape.dims().begin(), first.spec.shape.dims().end());
  shape[0] = rows;
  const auto slice = [&](const Tensor& flat, std::int64_t begin) {
    return flat.defined() ? flat.narrow(0, first.offset - begin, next - first.offset).view(shape) : Tensor();
  };
  const auto segment =
      std::find_if(segments_.begin(), segments_.end(), [&](const Segment& each) { return first.offset < each.end; });
  return {slice(segment->values, segment->begin), slice(gradients_, 0)};
}

Weight Parameters::frozen(const std::vector<std::string>& names, const model::WeightSource& base,
                          bool is_packed) const {
  std::vector<model::WeightSpec> parts;
  for (const model::WeightSpec& spec : model::weight_specs(config_)) {
    if (std::find(names.begin(), names.end(), spec.name) != names.end()) parts.push_back(spec);
  }
  QRL_INVARIANT(parts.size() == names.size(), "parameters", "tensor " + names.front(), "none of that name");
  const bool is_table = rank_of_kind(parts.front()) == 1;
  // Tables too are then the snapshot's.
  if (is_matrix(parts.front()) && !options_.reads_layers && !is_packed) return {};
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
  const auto weight = [&](const std::vector<std::string>& names, bool is_packed = false) {
    const bool is_trained = std::ranges::any_of(
        placements_, [&](const Placement& placement) { return placement.spec.name == names.front(); });
    return is_trained ? this->weight(names) : frozen(names, base, is_packed);
  };
  policy_.embedding = weight({"model.embed_tokens.weight"});
  policy_.final_norm = weight({"model.norm.weight"});
  const std::string lm_head = config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  const bool f32_lm_head = policy_.lm_head_dtype == torch::kFloat32;
  const bool has_table = config.tie_word_embeddings && policy_.embedding.defined();
  policy_.lm_head = has_table ? policy_.embedding : weight({lm_head}, options_.packs_head);
  if (options_.packs_head) {
    policy_.head = ops::make_packed_linear(f32_lm_head ? quant::Format::f32 : quant::Format::bf16, config.vocab_size,
                                           config.hidden_size, false);
  }
  for (std::int64_t idx = 0; idx < config.num_hidden_layers; ++idx) {
    const std::string layer = model::layer_prefix(idx);
    LayerWeights bound;
    model::visit_block(
        config,
        [&](const model::BlockGain& gain, const auto& of) {
          of(bound) = weight({layer + std::string(gain.module) + ".weight"});
        },
        [&](const model::BlockMatrix& matrix, const auto& of) {
          std::vector<std::string> weights, biases;
          for (const model::BlockModule& module : matrix.modules) {
            weights.push_back(layer + std::string(module.name) + ".weight");
            biases.push_back(layer + std::string(module.name) + ".bias");
          }
          of(bound).name = model::snapshot_layer_prefix(idx) + std::string(matrix.name);
          of(bound).weight = weight(weights);
          if (matrix.has_bias) of(bound).bias = weight(biases);
          if (has_adapters()) of(bound).adapter = bind_adapter(layer, matrix);
        });
    policy_.layers.push_back(bound);
  }
}

void Parameters::refresh(RankTensors& ranks) {
  begin_refresh(all_gradients(), ranks);
  end_refresh(ranks);
}

void Parameters::begin_refresh(const GradientRange& range, RankTensors& ranks) {
  if (!has_copies()) return;
  for (const Segment& segment : segments_) {
    const std::int64_t begin = std::max(segment.begin, range.begin), end = std::min(segment.end, range.end());
    if (!segment.values.defined() || begin >= end) continue;
    const GradientRange here{begin, end - begin};
    const Tensor values = segment.values.narrow(0, begin - segment.begin, here.count);
    for (const Placement& placement : placements_) {
      if (!is_mine(placement) || !here.holds(placement.offset)) continue;
      const std::int64_t count = placement.spec.shape.numel();
      values.narrow(0, placement.offset - begin, count).copy_(masters(placement.owned_offset, count));
    }
    if (!is_sharded()) continue;
    std::vector<dist::Part> byte_parts = gradient_parts(here);
    for (dist::Part& part : byte_parts) {
      part.begin *= values.element_size();
      part.count *= values.element_size();
    }
    ranks.begin_copies(values, byte_parts);
  }
}

void Parameters::end_refresh(RankTensors& ranks) {
  if (is_sharded()) ranks.end_copies();
  if (options_.packs_head && !has_adapters()) pack_head();
}

void Parameters::bind_quantized(const model::Snapshot& snapshot) {
  for (std::size_t idx = 0; idx < policy_.layers.size(); ++idx) {
    const model::LayerSnapshot& from = snapshot.layer_form(static_cast<std::int64_t>(idx));
    model::visit_matrices(config_, [&](const model::BlockMatrix&, const auto& of) {
      of(policy_.layers[idx]).quantized = &of(from);
      of(policy_.layers[idx]).adapter.packed = &of(from.adapters);
    });
  }
}

void Parameters::read_quantized(const model::Snapshot& snapshot) {
  QRL_INVARIANT(options_.fake_quant, "parameters", "fake_quant", "another forward pass");
  const auto read = [](const ops::PackedLinear& packed, Tensor to) {
    // Of a compute dtype, so that what is copied to a device is no larger than what stays there.
    to.copy_(dequantized_weight(packed, to.scalar_type()));
  };
  // The sampler's are bf16 where the compute dtype may be fp32; a tied head is the embedding.
  policy_.embedding.value.copy_(snapshot_embedding(snapshot));
  const bool is_tied = policy_.lm_head.value.data_ptr() == policy_.embedding.value.data_ptr();
  if (!is_tied) read(snapshot.lm_head(), policy_.lm_head.value);
  for (std::size_t idx = 0; idx < policy_.layers.size(); ++idx) {
    const model::LayerSnapshot& from = snapshot.layer(static_cast<std::int64_t>(idx));
    const LayerWeights& to = policy_.layers[idx];
    model::visit_matrices(snapshot.config(),
                          [&](const model::BlockMatrix&, const auto& of) { read(of(from), of(to).weight.value); });
  }
}

void Parameters::read_quantized(model::DeviceWeights& weights) {
  QRL_INVARIANT(options_.fake_quant, "parameters", "fake_quant", "another forward pass");
  std::vector<model::DequantizedTensor> wanted;
  const auto want = [&](const std::string& tensor, const Tensor& to) {
    const base::DType dtype = to.scalar_type() == torch::kFloat32 ? base::DType::f32 : base::DType::bf16;
    wanted.push_back({tensor, {to.data_ptr(), dtype, {to.size(0), to.size(1)}, on_device(to)}});
  };
  want("embed_tokens", policy_.embedding.value);
  if (policy_.lm_head.value.data_ptr() != policy_.embedding.value.data_ptr()) want("lm_head", policy_.lm_head.value);
  for (std::size_t idx = 0; idx < policy_.layers.size(); ++idx) {
    const LayerWeights& to = policy_.layers[idx];
    model::visit_matrices(config_,
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

void Parameters::wait_for_device() const {
  if (options_.device.is_cuda()) at::accelerator::getCurrentStream(options_.device.index()).synchronize();
}

void Parameters::pack_head() {
  constexpr std::int64_t kRows = 64 * ops::kPanelColumns;  // of a bf16 copy that are fp32 at once
  for (std::int64_t first = 0; first < policy_.head.out; first += kRows) {
    const std::int64_t count = std::min(kRows, policy_.head.out - first);
    const Tensor rows = policy_.lm_head.value.narrow(0, first, count).to(torch::kFloat32);
    base::parallel(0,
                   [&](base::Team& team) { ops::pack_rows(team, rows.data_ptr<float>(), count, first, policy_.head); });
  }
}

void Parameters::read_master(const model::WeightSpec& spec, float* to, dist::Collectives& world) const {
  const Placement& from = placement(spec.name);
  const auto count = static_cast<std::size_t>(spec.shape.numel());
  if (is_mine(from)) {
    const auto size = static_cast<std::int64_t>(count);
    torch::from_blob(to, {size}).copy_(masters(from.owned_offset, size));
  }
  if (is_sharded()) world.broadcast(std::as_writable_bytes(std::span(to, count)), from.owner);
}

void Parameters::visit_masters(RankTensors& ranks, const std::function<void(const model::WeightViews&)>& visit) const {
  const auto view_of = [](const model::WeightSpec& spec, const Tensor& values) {
    return base::View{values.data_ptr(), base::DType::f32, spec.shape, on_device(values)};
  };
  if (!is_sharded()) {
    model::WeightViews all;
    for (const Placement& from : placements_)
      all[from.spec.name] = view_of(from.spec, masters(from.owned_offset, from.spec.shape.numel()));
    wait_for_device();
    return visit(all);
  }
  for (const Placement& from : placements_) {
    const std::int64_t count = from.spec.shape.numel();
    const Tensor values = is_mine(from) ? masters(from.owned_offset, count) : torch::empty({count}, masters_.options());
    ranks.broadcast(values, from.owner);
    wait_for_device();
    visit({{from.spec.name, view_of(from.spec, values)}});
  }
}

const Tensor& Parameters::on_host(const Tensor& values, Tensor& copy, bool is_read) const {
  if (!options_.torch_ops) return values;
  if (!copy.defined()) {
    copy = torch::zeros(values.sizes(), torch::TensorOptions().pinned_memory(!values.is_cpu()));  // for fast copies
  }
  if (is_read) copy.copy_(values);
  return copy;
}

model::WeightViews Parameters::master_views(const Tensor& masters) const {
  model::WeightViews named;
  for (const Placement& each : placements_) {
    if (is_mine(each))
      named[each.spec.name] = {masters.data_ptr<float>() + each.owned_offset, base::DType::f32, each.spec.shape,
                               on_device(masters)};
  }
  return named;
}

model::WeightViews Parameters::moment_views(const Tensor& exp_avg, const Tensor& exp_avg_sq) const {
  model::WeightViews named;
  if (!trainable()) return named;
  for (const Placement& each : placements_) {
    if (!is_mine(each)) continue;
    named["exp_avg." + each.spec.name] = {exp_avg.data_ptr<float>() + each.owned_offset, base::DType::f32,
                                          each.spec.shape, on_device(exp_avg)};
    if (is_muons(each)) continue;
    named["exp_avg_sq." + each.spec.name] = {exp_avg_sq.data_ptr<float>() + each.owned_offset - num_muons_,
                                             base::DType::f32, each.spec.shape, on_device(exp_avg_sq)};
  }
  return named;
}

model::WeightViews Parameters::named_masters() const { return master_views(on_host(masters_, host_.masters, true)); }
model::WeightViews Parameters::named_moments() const {
  if (!trainable()) return {};
  return moment_views(on_host(exp_avg_, host_.exp_avg, true), on_host(exp_avg_sq_, host_.exp_avg_sq, true));
}
model::WeightViews Parameters::masters_in_place() const { return master_views(masters_); }
model::WeightViews Parameters::moments_in_place() const { return moment_views(exp_avg_, exp_avg_sq_); }

state::StagedRead Parameters::staged_read() const {
  if (!options_.torch_ops) return {};
  return [this](const base::View& view, std::size_t first_byte, std::size_t num_bytes) {
    if (!staging_.defined()) {
      std::size_t largest = 0;
      for (const Placement& each : placements_)
        largest = std::max(largest, static_cast<std::size_t>(each.spec.shape.numel()) * sizeof(float));
      const auto count = static_cast<std::int64_t>(std::min(options_.staging_bytes, largest) / sizeof(float));
      staging_ = torch::empty({count}, torch::TensorOptions().pinned_memory(options_.device.is_cuda()));
    }
    const auto bytes = static_cast<std::int64_t>(std::min(num_bytes, staging_.nbytes()));
    const Tensor from = torch::from_blob(static_cast<std::byte*>(view.data) + first_byte,
                                         {bytes / static_cast<std::int64_t>(sizeof(float))},
                                         torch::TensorOptions().device(options_.device));
    staging_.narrow(0, 0, from.numel()).copy_(from);
    return std::span(static_cast<const std::byte*>(staging_.data_ptr()), static_cast<std::size_t>(bytes));
  };
}

base::Buffer Parameters::master(const std::string& name) const {
  const Placement& from = placement(name);
  if (!is_mine(from)) return {};
  base::Buffer copy(base::DType::f32, from.spec.shape);
  const std::int64_t count = from.spec.shape.numel();
  torch::from_blob(copy.as<float>(), {count}).copy_(masters(from.owned_offset, count));
  return copy;
}

void Parameters::fill(const std::function<void(const std::string& name, const base::View& to)>& fill) {
  Tensor host;
  const auto fill_all = [&](const model::WeightViews& views) {
    for (const auto& [name, view] : views) {
      if (!options_.torch_ops) {
        fill(name, view);
        continue;
      }
      if (!host.defined() || host.numel() < view.numel()) {
        host = Tensor();  // first, so that both are never there
        host = torch::empty({view.numel()});
      }
      fill(name, {host.data_ptr(), base::DType::f32, view.shape});
      torch::from_blob(view.data, {view.numel()}, torch::TensorOptions().device(options_.device))
          .copy_(host.narrow(0, 0, view.numel()));
    }
  };
  fill_all(masters_in_place());
  fill_all(moments_in_place());
}

void Parameters::change_masters(const std::function<bool(const std::string& name)>& chosen,
                                const std::function<void(const std::string& name, std::span<float> values)>& change) {
  for (const Placement& each : placements_) {
    if (!is_mine(each) || !chosen(each.spec.name)) continue;
    const Tensor values = masters(each.owned_offset, each.spec.shape.numel());
    const Tensor host = values.cpu();  // itself where it is there
    change(each.spec.name, {host.data_ptr<float>(), static_cast<std::size_t>(host.numel())});
    if (!values.is_cpu()) values.copy_(host);
  }
}

model::WeightViews Parameters::named_gradients() const {
  auto* gradients = on_host(gradients_, host_.gradients, true).data_ptr<float>();
  model::WeightViews named;
  for (const Placement& each : placements_)
    named[each.spec.name] = {gradients + each.offset, base::DType::f32, each.spec.shape};
  return named;
}

void Parameters::restore_masters(const model::WeightViews& masters) {
  copy_views(masters, master_views(on_host(masters_, host_.masters, false)), "checkpointed weights");
  if (options_.torch_ops) masters_.copy_(host_.masters);
}

void Parameters::restore_moments(const model::WeightViews& moments) {
  if (!trainable()) return copy_views(moments, {}, "checkpointed optimizer state");
  copy_views(moments,
             moment_views(on_host(exp_avg_, host_.exp_avg, false), on_host(exp_avg_sq_, host_.exp_avg_sq, false)),
             "checkpointed optimizer state");
  if (!options_.torch_ops) return;
  exp_avg_.copy_(host_.exp_avg);
  exp_avg_sq_.copy_(host_.exp_avg_sq);
}

void Parameters::clear_moments() {
  exp_avg_.zero_();
  exp_avg_sq_.zero_();
}

void Parameters::free_moments() {
  exp_avg_ = exp_avg_sq_ = Tensor();
  host_.exp_avg = host_.exp_avg_sq = Tensor();
}

}  // namespace qrl::learner
