#include "model/snapshot.h"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"
#include "model/block.h"
#include "model/device_weights.h"
#include "model/int8_profile.h"
#include "model/matrix_parts.h"

namespace qrl::model {

namespace {

using base::DType;
using quant::Format;

/// Returns the format of the embedding and of exempt layers.
Format wide_format(Format format) { return format == Format::f32 ? Format::f32 : Format::bf16; }

Format head_format(const SnapshotFormats& formats) {
  if (formats.int8_lm_head) return Format::int8;
  return formats.f32_lm_head ? Format::f32 : wide_format(formats.linear);
}

/// Chooses the formats of matrices. check_patterns then verifies that every pattern matched and that some layer is not
/// exempt.
class FormatChooser {
 public:
  explicit FormatChooser(const SnapshotFormats& formats) : formats_(formats), used_(formats.ignore.size(), false) {
    (void)ignored("model.embed_tokens");  // no linear layer, but often in other engines' ignore lists
    (void)ignored("lm_head");
  }

  Format choose(std::int64_t layer_idx, const BlockMatrix& matrix) {
    std::vector<std::string> modules;
    for (const BlockModule& module : matrix.modules)
      modules.push_back(layer_prefix(layer_idx) + std::string(module.name));
    if (!matrix.is_wide()) return choose(modules);
    for (const std::string& module : modules) (void)ignored(module);  // often in other engines' ignore lists
    return wide_format(formats_.linear);
  }
  Format choose(std::int64_t layer_idx, const BlockExperts& experts, std::int64_t expert) {
    std::vector<std::string> modules;
    for (const BlockModule& module : experts.matrix.modules)
      modules.push_back(expert_module(layer_prefix(layer_idx), expert, module));
    return choose(modules);
  }

  void check_patterns() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      QRL_REQUIRE(used_[i], "quant.rollout.ignore", "patterns that match a linear layer",
                  base::quoted(formats_.ignore[i]),
                  "use names such as model.layers.0.self_attn.q_proj or, for all layers, q_proj");
    }
    QRL_REQUIRE(any_chosen_, "quant.rollout.ignore", "patterns that leave some linear layers to quant.rollout.weights",
                "patterns that match all linear layers", "set quant.rollout.weights: bf16 instead");
  }

 private:
  Format choose(const std::vector<std::string>& modules) {
    std::size_t num_ignored = 0;
    for (const std::string& module : modules) num_ignored += ignored(module) ? 1 : 0;
    QRL_REQUIRE(num_ignored == 0 || num_ignored == modules.size(), "quant.rollout.ignore",
                "all or none of " + base::joined(modules, ", ") + ", which share a matrix", "some of them",
                "name the other modules as well");
    any_chosen_ = any_chosen_ || num_ignored == 0;
    return num_ignored > 0 ? wide_format(formats_.linear) : formats_.linear;
  }
  bool ignored(const std::string& module) {
    const std::string last = module.substr(module.rfind('.') + 1);
    bool any = false;
    for (std::size_t i = 0; i < used_.size(); ++i) {
      const char* pattern = formats_.ignore[i].c_str();
      if (fnmatch(pattern, module.c_str(), 0) != 0 && fnmatch(pattern, last.c_str(), 0) != 0) continue;
      any = used_[i] = true;
    }
    return any;
  }

  const SnapshotFormats& formats_;
  std::vector<bool> used_;
  bool any_chosen_ = false;  ///< whether some layer has the requested format
};

base::Buffer make_gain(std::int64_t width) { return base::Buffer(DType::f32, {width}); }

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

/// The last group of a row may be smaller only with this group size, the default.
constexpr std::int64_t kLargestGroup = 128;

std::span<const float> values_of(const base::View& view) {
  return {view.as<float>(), static_cast<std::size_t>(view.numel())};
}

void store_vector(std::span<const float> values, float offset, float* to) {
  std::transform(values.begin(), values.end(), to, [=](float value) { return offset == 0 ? value : value + offset; });
}

/// Stores this member's share of the embedding. Returns false if a weight in it is not finite.
bool store_table(const base::Team& team, const base::View& from, const base::Buffer& to) {
  constexpr std::int64_t kGrain = 1024;
  const base::Range mine = team.slice(from.numel(), kGrain);
  const auto values =
      values_of(from).subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.size()));
  if (to.view().dtype == DType::f32) std::copy(values.begin(), values.end(), to.as<float>() + mine.begin);
  else std::transform(values.begin(), values.end(), to.as<base::bf16>() + mine.begin, base::to_bf16);
  return all_finite(values);
}

/// Calls visit(format, inputs, module name) for each matrix of the layers.
template <class Visit>
void visit_formats(const ModelConfig& config, FormatChooser& formats_of, const Visit& visit) {
  for (std::int64_t idx = 0; idx < config.num_hidden_layers; ++idx) {
    visit_matrices(
        config, idx,
        [&](const BlockMatrix& matrix, const auto&) {
          visit(formats_of.choose(idx, matrix), matrix.in,
                layer_prefix(idx) + std::string(matrix.modules.front().name));
        },
        [&](const BlockExperts& experts, const auto&) {
          for (std::int64_t expert = 0; expert < experts.count; ++expert)
            visit(formats_of.choose(idx, experts, expert), experts.matrix.in,
                  expert_module(layer_prefix(idx), expert, experts.matrix.modules.front()));
        });
  }
}

}  // namespace

quant::Rotation fitting_rotation(const ModelConfig& config, const SnapshotFormats& formats) {
  FormatChooser formats_of(formats);
  const quant::Rotation& rotation = formats.rotation;
  bool fits = true;
  const auto note = [&](Format format, std::int64_t in, const std::string& module) {
    if (format != formats.linear || rotation.fits(in)) return;
    QRL_REQUIRE(formats.rotates_if_it_fits, "quant.rollout.rotation",
                "hadamard with input widths that are multiples of quant.rollout.rotation_block = " +
                    std::to_string(rotation.block),
                std::to_string(in) + " inputs of " + module,
                "set a smaller block, add the module to quant.rollout.ignore, or set quant.rollout.rotation: none");
    fits = false;
  };
  visit_formats(config, formats_of, note);
  formats_of.check_patterns();
  return fits && quant::spec(formats.linear).has_weight_scales() ? rotation : quant::Rotation();
}

void check_formats(const ModelConfig& config, const SnapshotFormats& formats) {
  (void)fitting_rotation(config, formats);
  const std::int64_t group = quant::spec(formats.linear).scale_inputs;
  if (!quant::is_int4(formats.linear) || group >= kLargestGroup) return;
  FormatChooser formats_of(formats);
  visit_formats(config, formats_of, [&](Format format, std::int64_t in, const std::string& module) {
    QRL_REQUIRE(format != formats.linear || in % group == 0, "quant.rollout.group_size",
                "a size that divides every input width, or 128",
                std::to_string(group) + " with " + std::to_string(in) + " inputs of " + module,
                "set another size, or add the module to quant.rollout.ignore");
  });
}

Snapshot::Snapshot(const ModelConfig& config, const SnapshotFormats& formats)
    : config_(config), format_(formats.linear), rotation_(fitting_rotation(config, formats)), lora_(formats.lora) {
  check_lora(config, lora_);
  const Format wide = wide_format(format_);
  const std::int64_t width = config.hidden_size;
  FormatChooser formats_of(formats);
  embedding_VD_ = base::Buffer(wide == Format::f32 ? DType::f32 : DType::bf16, {config.vocab_size, width});
  final_norm_D_ = make_gain(width);
  lm_head_ = ops::make_packed_linear(head_format(formats), config.vocab_size, width, false, &matrices_);
  for (std::int64_t idx = 0; idx < config.num_hidden_layers; ++idx) {
    LayerSnapshot& layer = layers_.emplace_back();
    const auto make = [&](Format format, const BlockMatrix& matrix) {
      ops::PackedLinear packed = ops::make_packed_linear(format, matrix.out(), matrix.in, matrix.has_bias, &matrices_);
      if (packed.format == format_) packed.rotation = rotation_;
      packed.scale_rule = formats.scale_rule;
      if (matrix.modules.size() > 1)
        for (const BlockModule& module : matrix.modules) packed.tensors.push_back(module.rows);
      return packed;
    };
    visit_block(
        config, idx, [&](const BlockGain& gain, const auto& of) { of(layer) = make_gain(gain.shape().numel()); },
        [&](const BlockMatrix& matrix, const auto& of) {
          of(layer) = make(formats_of.choose(idx, matrix), matrix);
          if (!matrix.is_router()) of(layer.adapters) = make_matrix_adapter(lora_, layer_prefix(idx), matrix, wide);
        },
        [&](const BlockExperts& experts, const auto& of) {
          for (std::int64_t expert = 0; expert < experts.count; ++expert)
            of(layer).push_back(make(formats_of.choose(idx, experts, expert), experts.matrix));
        });
  }
}

class Snapshot::Writer {
 public:
  Writer(Snapshot& snapshot, std::int64_t version) : snapshot_(snapshot), version_(version) {
    QRL_INVARIANT(version >= 0, "publish", "a policy version of 0 or more", std::to_string(version));
    for (const auto& part : matrix_parts(snapshot.config_, snapshot.layers_, snapshot.lm_head_))
      matrices_.emplace(part.weight, part);
    add_vector("model.norm.weight", snapshot.final_norm_D_.as<float>());
    for (std::size_t idx = 0; idx < snapshot.layers_.size(); ++idx) add_vectors(idx);
    snapshot.version_ = -1;  // no version is valid until all weights are written
    snapshot.is_elsewhere_ = false;
  }

  /// Writes one weight; SPMD (ops/linear.h).
  void write(base::Team& team, const WeightSpec& spec, const base::View& view) {
    const std::string& name = spec.name;
    if (spec.kind == WeightKind::embedding) note(store_table(team, view, snapshot_.embedding_VD_), name);
    if (const auto vector = vectors_.find(name); vector != vectors_.end() && team.rank() == 0) {
      const auto values = values_of(view);
      store_vector(values, spec.kind == WeightKind::norm ? snapshot_.config_.norm_offset : 0, vector->second);
      if (const float* smoothing = smoothing_of(snapshot_.profile_.get(), name); smoothing != nullptr) {
        for (std::size_t i = 0; i < values.size(); ++i) vector->second[i] /= smoothing[i];
      }
      note(all_finite(values), name);
    }
    if (const auto found = matrices_.find(name); found != matrices_.end()) {
      const MatrixPart<ops::PackedLinear>& part = found->second;
      if (!part.experts.empty()) return write_experts(team, part, spec, view);
      // Waits for the previous part, which may share a panel.
      if (part.first_row > 0) team.barrier();
      std::int64_t changed = 0;
      note(ops::pack_rows(team, view.as<float>(), view.shape[0], part.first_row, *part.matrix,
                          fixed_scales(snapshot_.config_, snapshot_.profile_.get(), name, part.matrix->format),
                          &changed),
           name);
      count(*part.matrix, changed);
    }
  }

  void finish() {
    if (broken_.load() != nullptr) fail_broken("publish: " + *broken_.load(), version_);
    snapshot_.finish_gains(true, version_);
    snapshot_.version_ = version_;
    if (++snapshot_.base_number_ > 1) snapshot_.num_changed_ += changed_;
  }

 private:
  void add_vector(const std::string& weight, float* to) { vectors_.emplace(weight, to); }
  void add_vectors(std::size_t idx) {
    LayerSnapshot& layer = snapshot_.layers_[idx];
    const auto number = static_cast<std::int64_t>(idx);
    const std::string prefix = layer_prefix(number);
    visit_block(
        snapshot_.config_, number,
        [&](const BlockGain& gain, const auto& of) {
          add_vector(prefix + gain.tensor(), of(layer).template as<float>());
        },
        [&](const BlockMatrix& matrix, const auto& of) {
          if (!matrix.has_bias) return;
          auto* bias = of(layer).bias.template as<float>();
          for (const BlockModule& module : matrix.modules) {
            add_vector(prefix + std::string(module.name) + ".bias", bias);
            bias += module.rows;
          }
        },
        [](const BlockExperts&, const auto&) {});
  }
  /// Packs this member's share of the experts.
  void write_experts(const base::Team& team, const MatrixPart<ops::PackedLinear>& part, const WeightSpec& spec,
                     const base::View& view) {
    base::Team alone = base::Team::solo();
    const base::Range mine = team.slice(std::ssize(part.experts));
    const std::size_t num_modules = spec.parts.size() / part.experts.size();
    for (std::int64_t expert = mine.begin; expert < mine.end; ++expert) {
      ops::PackedLinear& packed = part.experts[static_cast<std::size_t>(expert)];
      const ops::FixedScales fixed =
          fixed_scales(snapshot_.config_, snapshot_.profile_.get(), part.weight, packed.format);
      const std::vector<std::int64_t> whole{packed.out};
      std::int64_t first = 0;
      std::size_t module = static_cast<std::size_t>(expert) * num_modules;
      for (const std::int64_t rows : packed.tensors.empty() ? whole : packed.tensors) {
        const std::int64_t row = expert * packed.out + first;
        const float* scales = fixed.row_scales == nullptr ? nullptr : fixed.row_scales + row;
        std::int64_t changed = 0;
        note(ops::pack_rows(alone, view.as<float>() + row * packed.in, rows, first, packed,
                            {fixed.input_factors, scales}, &changed),
             spec.parts[module++].name);
        count(packed, changed);
        first += rows;
      }
    }
  }
  void count(const ops::PackedLinear& packed, std::int64_t changed) {
    if (quant::spec(packed.format).has_weight_scales()) changed_.fetch_add(changed, std::memory_order_relaxed);
  }
  void note(bool finite, const std::string& weight) {
    if (!finite) broken_.store(&weight, std::memory_order_relaxed);
  }

  Snapshot& snapshot_;
  std::int64_t version_;
  std::map<std::string, MatrixPart<ops::PackedLinear>> matrices_;
  std::map<std::string, float*> vectors_;  ///< addresses of gains and of modules' biases
  std::atomic<const std::string*> broken_{nullptr};
  std::atomic<std::int64_t> changed_ = 0;
};

void Snapshot::publish(const WeightViews& masters, std::int64_t version) {
  const std::vector<WeightSpec> specs = weight_specs(config_);
  // Checks all views first, so that wrong masters change nothing.
  std::vector<base::View> views;
  views.reserve(specs.size());
  for (const WeightSpec& spec : specs) views.push_back(find_view(masters, spec));
  Writer writer(*this, version);
  base::parallel(0, [&](base::Team& team) {
    for (std::size_t i = 0; i < specs.size(); ++i) writer.write(team, specs[i], views[i]);
  });
  writer.finish();
}

void Snapshot::publish(const WeightSource& source, std::int64_t version) {
  const std::vector<WeightSpec> specs = weight_specs(config_);
  std::int64_t largest = 0;
  for (const WeightSpec& spec : specs) largest = std::max(largest, spec.shape.numel());
  const base::Buffer staged(DType::f32, {largest});
  Writer writer(*this, version);
  for (const WeightSpec& spec : specs) {
    source.read(spec, staged.as<float>());
    const base::View view{staged.as<float>(), DType::f32, spec.shape};
    base::parallel(0, [&](base::Team& team) { writer.write(team, spec, view); });
  }
  writer.finish();
}

void Snapshot::publish_adapters(const WeightViews& adapters, std::int64_t version) {
  QRL_INVARIANT(version >= 0 && version_ >= 0, "publish", "a base that was published before",
                "version " + std::to_string(version_));
  for (const WeightSpec& spec : adapter_specs(config_, lora_)) (void)find_view(adapters, spec);
  version_ = -1;
  is_elsewhere_ = false;
  const auto store_gain = [&](const std::string& weight, WeightKind kind, const base::Buffer& to) -> std::string {
    if (!lora_.train_norms || !is_norm(kind)) return {};
    const auto values = values_of(adapters.find(weight)->second);
    store_vector(values, kind == WeightKind::norm ? config_.norm_offset : 0, to.as<float>());
    return all_finite(values) ? "" : weight;
  };
  std::vector<std::string> broken(layers_.size() + 1);
  base::parallel_for(config_.num_hidden_layers, 1, [&](base::Range range) {
    for (std::int64_t idx = range.begin; idx < range.end; ++idx) {
      const auto at = static_cast<std::size_t>(idx);
      const auto note = [&](const std::string& weight) {
        if (!weight.empty()) broken[at] = weight;
      };
      visit_block(
          config_, idx,
          [&](const BlockGain& gain, const auto& of) {
            note(store_gain(layer_prefix(idx) + gain.tensor(), gain.kind, of(layers_[at])));
          },
          [&](const BlockMatrix&, const auto& of) { note(pack_adapter(lora_, adapters, of(layers_[at].adapters))); },
          [](const BlockExperts&, const auto&) {});
    }
  });
  broken.back() = store_gain("model.norm.weight", WeightKind::norm, final_norm_D_);
  for (const std::string& weight : broken) {
    if (!weight.empty()) fail_broken("publish: " + weight, version);
  }
  finish_gains(lora_.train_norms, version);
  version_ = version;
}

template <class Visit>
void Snapshot::visit_gains(const Visit& visit) {
  const auto show = [&](const base::Buffer& gain) {
    visit(std::span(gain.as<float>(), gain.num_bytes() / sizeof(float)));
  };
  for (std::size_t idx = 0; idx < layers_.size(); ++idx) {
    visit_block(
        config_, static_cast<std::int64_t>(idx),
        [&](const BlockGain& gain, const auto& of) {
          if (is_norm(gain.kind)) show(of(layers_[idx]));
        },
        [](const BlockMatrix&, const auto&) {}, [](const BlockExperts&, const auto&) {});
  }
  show(final_norm_D_);
}

void Snapshot::finish_gains(bool gains_are_new, std::int64_t version) {
  if (noise_.sigma == 0 && gains_.empty()) return;
  if (gains_are_new || gains_.empty()) {
    gains_.clear();
    visit_gains([&](std::span<float> gains) { gains_.insert(gains_.end(), gains.begin(), gains.end()); });
  }
  std::uint32_t norm = 0;
  auto clean = gains_.cbegin();
  visit_gains([&](std::span<float> gains) {
    std::copy_n(clean, gains.size(), gains.begin());
    clean += static_cast<std::ptrdiff_t>(gains.size());
    if (noise_.sigma != 0) add_gain_noise(noise_, version, norm, gains);
    ++norm;
  });
}

Snapshot::DeviceWriter::DeviceWriter(Snapshot& snapshot, DeviceWeights& device, std::int64_t version)
    : snapshot_(snapshot),
      device_(device),
      version_(version),
      specs_(snapshot.lora_.enabled() ? adapter_specs(snapshot.config_, snapshot.lora_)
                                      : weight_specs(snapshot.config_)) {
  QRL_INVARIANT(version >= 0, "publish", "a policy version of 0 or more", std::to_string(version));
  QRL_INVARIANT(device.holds(snapshot), "publish", "a device that holds this snapshot's weights", "a different device");
  QRL_INVARIANT(snapshot.noise_.sigma == 0, "publish", "gains without noise on a device", "noisy gains");
  for (const auto& part : matrix_parts(snapshot.config_, snapshot.layers_, snapshot.lm_head_))
    formats_.emplace(part.weight, part.matrix->format);
  snapshot.version_ = -1;
  snapshot.is_elsewhere_ = true;
}

void Snapshot::DeviceWriter::write(const WeightViews& masters) {
  const Int8Profile* profile = snapshot_.profile_.get();
  std::vector<DeviceMaster> quantized;
  for (const WeightSpec& spec : specs_) {
    const auto found = masters.find(spec.name);
    if (found == masters.end()) continue;
    QRL_INVARIANT(found->second.dtype == DType::f32 && found->second.shape == spec.shape, "publish, " + spec.name,
                  "F32 " + spec.shape.to_string(), found->second.shape.to_string());
    ops::FixedScales fixed{smoothing_of(profile, spec.name), nullptr};
    if (const auto format = formats_.find(spec.name); format != formats_.end())
      fixed = fixed_scales(snapshot_.config_, profile, spec.name, format->second);
    quantized.push_back({spec.name, found->second, fixed.input_factors, fixed.row_scales});
  }
  num_written_ += quantized.size();
  if (const std::string broken = device_.rewrite(quantized); broken_.empty()) broken_ = broken;
}

void Snapshot::DeviceWriter::finish() {
  QRL_INVARIANT(num_written_ == specs_.size(), "publish", std::to_string(specs_.size()) + " weights",
                std::to_string(num_written_));
  if (!broken_.empty()) fail_broken("publish: " + broken_, version_);
  device_.finish(version_);
  snapshot_.version_ = version_;
}

void fail_broken(const std::string& where, std::int64_t version) {
  if (version == 0) base::fail_input(where, "finite weights", "a NaN or an infinity", "the loaded model contains it");
  throw base::Error(base::ErrorKind::guard, where, "finite weights", "a NaN or an infinity from training",
                    "resume from an earlier checkpoint with a lower learning rate");
}

QuantizedValues quantized_values(const Snapshot& snapshot) {
  QuantizedValues values{0, snapshot.num_changed_};
  const auto add = [&](const ops::PackedLinear& packed) {
    if (quant::spec(packed.format).has_weight_scales()) values.count += packed.out * packed.in;
  };
  for (std::size_t idx = 0; idx < snapshot.layers_.size(); ++idx) {
    const LayerSnapshot& layer = snapshot.layers_[idx];
    visit_matrices(
        snapshot.config_, static_cast<std::int64_t>(idx), [&](const BlockMatrix&, const auto& of) { add(of(layer)); },
        [&](const BlockExperts&, const auto& of) { std::ranges::for_each(of(layer), add); });
  }
  add(snapshot.lm_head_);
  return values;
}

Format adapter_format(const Snapshot& snapshot) { return wide_format(snapshot.format()); }

ops::DeltaShape delta_shape(const ModelConfig& config) {
  return {config.linear_num_key_heads,  config.linear_num_value_heads, config.linear_key_head_dim,
          config.linear_value_head_dim, config.linear_conv_kernel_dim, config.rms_norm_eps};
}

ops::DeltaWeights delta_weights(const LayerSnapshot& layer) {
  return {layer.taps_CT.as<float>(), layer.a_log_H.as<float>(), layer.dt_bias_H.as<float>(),
          layer.delta_norm_V.as<float>()};
}

ops::Router router_of(const ModelConfig& config) {
  return {config.num_experts, config.num_experts_per_tok, config.norm_topk_prob};
}

bool has_exempt_layers(const Snapshot& snapshot) {
  bool any = false;
  const auto note = [&](const ops::PackedLinear& packed) { any = any || packed.format != snapshot.format(); };
  for (std::int64_t idx = 0; idx < snapshot.config().num_hidden_layers; ++idx) {
    const LayerSnapshot& layer = snapshot.layer_form(idx);
    visit_matrices(
        snapshot.config(), idx,
        [&](const BlockMatrix& matrix, const auto& of) {
          if (!matrix.is_router()) note(of(layer));
        },
        [&](const BlockExperts&, const auto& of) { std::ranges::for_each(of(layer), note); });
  }
  return any;
}

}  // namespace qrl::model
