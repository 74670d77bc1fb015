#include "model/snapshot.h"

#include <fnmatch.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"

namespace qrl::model {

namespace {

using base::DType;
using quant::Format;

/// What embedding and lm_head have, and the layers that are exempt.
Format wide_format(Format format) { return format == Format::f32 ? Format::f32 : Format::bf16; }

/// The formats of a block's matrices, asked in turn; at the end every pattern must have fitted something.
class FormatChooser {
 public:
  explicit FormatChooser(const SnapshotFormats& formats) : formats_(formats), used_(formats.ignore.size(), false) {
    (void)ignored("embed_tokens");
    (void)ignored("lm_head");
  }

  Format choose(std::int64_t layer_idx, std::initializer_list<std::string> modules) {
    const std::string prefix = "model.layers." + std::to_string(layer_idx) + ".";
    std::size_t num_ignored = 0;
    for (const std::string& module : modules) num_ignored += ignored(prefix + module) ? 1 : 0;
    QRL_REQUIRE(num_ignored == 0 || num_ignored == modules.size(), "quant.rollout.ignore",
                "all or none of the modules that are one matrix (q, k and v; gate and up)",
                "some of those of " + prefix + *modules.begin(), "name the others too");
    return num_ignored > 0 ? wide_format(formats_.linear) : formats_.linear;
  }

  void check_all_used() const {
    for (std::size_t i = 0; i < used_.size(); ++i) {
      QRL_REQUIRE(used_[i], "quant.rollout.ignore", "patterns that fit a linear layer",
                  base::quoted(formats_.ignore[i]),
                  "modules are named as model.layers.0.self_attn.q_proj or, for all layers, q_proj");
    }
  }

 private:
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
};

base::Buffer make_gain(std::int64_t width) { return base::Buffer(DType::f32, {width}); }

/// Rows of a packed matrix that one or more weights of the model fill, and their bias.
struct MatrixPart {
  std::string weight;  ///< its spec's name
  ops::PackedLinear* matrix = nullptr;
  std::int64_t first_row = 0;
};

/// A fp32 vector (norm gain, or a stretch of a bias) as the snapshot keeps it.
struct VectorPart {
  std::string weight;
  float* to = nullptr;
};

bool all_finite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

std::span<const float> values_of(const base::View& view) {
  return {view.as<float>(), static_cast<std::size_t>(view.numel())};
}

/// This member's share of the table in the snapshot's dtype; false when one of its weights is not finite.
bool store_table(const base::Team& team, const base::View& from, const base::Buffer& to) {
  constexpr std::int64_t kGrain = 1024;
  const base::Range mine = team.slice(from.numel(), kGrain);
  const auto values =
      values_of(from).subspan(static_cast<std::size_t>(mine.begin), static_cast<std::size_t>(mine.size()));
  if (to.view().dtype == DType::f32) std::copy(values.begin(), values.end(), to.as<float>() + mine.begin);
  else std::transform(values.begin(), values.end(), to.as<base::bf16>() + mine.begin, base::to_bf16);
  return all_finite(values);
}

}  // namespace

Snapshot::Snapshot(const ModelConfig& config, const SnapshotFormats& formats)
    : config_(config), format_(formats.linear) {
  const Format wide = wide_format(format_);
  const std::int64_t width = config.hidden_size;
  FormatChooser formats_of(formats);
  embedding_VD_ = base::Buffer(wide == Format::f32 ? DType::f32 : DType::bf16, {config.vocab_size, width});
  final_norm_D_ = make_gain(width);
  lm_head_ = ops::make_packed_linear(formats.f32_lm_head ? Format::f32 : wide, config.vocab_size, width, false);
  for (std::int64_t idx = 0; idx < config.num_hidden_layers; ++idx) {
    LayerSnapshot& layer = layers_.emplace_back();
    layer.input_norm_D = make_gain(width);
    layer.post_norm_D = make_gain(width);
    if (config.qk_norm) {
      layer.q_norm_E = make_gain(config.head_dim);
      layer.k_norm_E = make_gain(config.head_dim);
    }
    layer.qkv =
        ops::make_packed_linear(formats_of.choose(idx, {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}),
                                config.q_size() + 2 * config.kv_size(), width, config.qkv_bias);
    layer.o = ops::make_packed_linear(formats_of.choose(idx, {"self_attn.o_proj"}), width, config.q_size(), false);
    layer.gate_up = ops::make_packed_linear(formats_of.choose(idx, {"mlp.gate_proj", "mlp.up_proj"}),
                                            2 * config.intermediate_size, width, false);
    layer.down =
        ops::make_packed_linear(formats_of.choose(idx, {"mlp.down_proj"}), width, config.intermediate_size, false);
  }
  formats_of.check_all_used();
}

void Snapshot::publish(const WeightViews& masters, std::int64_t version) {
  QRL_INVARIANT(version >= 0, "publish", "a policy version of 0 or more", std::to_string(version));
  const std::string embedding = "model.embed_tokens.weight";
  std::vector<MatrixPart> matrices;
  std::vector<VectorPart> vectors = {{"model.norm.weight", final_norm_D_.as<float>()}};
  matrices.push_back({config_.tie_word_embeddings ? embedding : "lm_head.weight", &lm_head_, 0});
  for (std::size_t idx = 0; idx < layers_.size(); ++idx) {
    LayerSnapshot& layer = layers_[idx];
    const std::string prefix = "model.layers." + std::to_string(idx) + ".";
    vectors.push_back({prefix + "input_layernorm.weight", layer.input_norm_D.as<float>()});
    vectors.push_back({prefix + "post_attention_layernorm.weight", layer.post_norm_D.as<float>()});
    if (config_.qk_norm) {
      vectors.push_back({prefix + "self_attn.q_norm.weight", layer.q_norm_E.as<float>()});
      vectors.push_back({prefix + "self_attn.k_norm.weight", layer.k_norm_E.as<float>()});
    }
    const std::int64_t q_size = config_.q_size();
    for (const auto& [name, first_row] : {std::pair("q_proj", std::int64_t{0}), std::pair("k_proj", q_size),
                                          std::pair("v_proj", q_size + config_.kv_size())}) {
      matrices.push_back({prefix + "self_attn." + name + ".weight", &layer.qkv, first_row});
      if (config_.qkv_bias)
        vectors.push_back({prefix + "self_attn." + name + ".bias", layer.qkv.bias.as<float>() + first_row});
    }
    matrices.push_back({prefix + "self_attn.o_proj.weight", &layer.o, 0});
    matrices.push_back({prefix + "mlp.gate_proj.weight", &layer.gate_up, 0});
    matrices.push_back({prefix + "mlp.up_proj.weight", &layer.gate_up, config_.intermediate_size});
    matrices.push_back({prefix + "mlp.down_proj.weight", &layer.down, 0});
  }
  // Every view is looked at before the first byte is written: a wrong set of masters changes nothing.
  WeightViews views;
  for (const WeightSpec& spec : weight_specs(config_)) views.emplace(spec.name, find_view(masters, spec));

  version_ = -1;  // until all of it is written, the buffers hold no policy
  std::atomic<const std::string*> broken{nullptr};
  const auto note = [&](bool finite, const std::string& weight) {
    if (!finite) broken.store(&weight, std::memory_order_relaxed);
  };
  base::parallel(0, [&](base::Team& team) {
    note(store_table(team, views.at(embedding), embedding_VD_), embedding);
    if (team.rank() == 0) {
      for (const VectorPart& part : vectors) {
        const auto values = values_of(views.at(part.weight));
        std::copy(values.begin(), values.end(), part.to);
        note(all_finite(values), part.weight);
      }
    }
    for (const MatrixPart& part : matrices) {
      const base::View& view = views.at(part.weight);
      // Parts of one matrix may meet within a panel: the one before must be done.
      if (part.first_row > 0) team.barrier();
      note(ops::pack_rows(team, view.as<float>(), view.shape[0], part.first_row, *part.matrix), part.weight);
    }
  });
  QRL_REQUIRE(broken.load() == nullptr, "publish: " + *broken.load(), "finite weights", "a NaN or an infinity",
              "the weights are broken: go back to a checkpoint");
  version_ = version;
}

namespace {

std::size_t packed_bytes(const ops::PackedLinear& linear) {
  return linear.panels.num_bytes() + linear.scales.num_bytes() + linear.column_sums.num_bytes() +
         linear.bias.num_bytes();
}

std::string describe_packed(const std::string& name, const ops::PackedLinear& linear) {
  std::string line = name + ": " + std::string(quant::name(linear.format)) + " [" + std::to_string(linear.out) + ", " +
                     std::to_string(linear.in) + "]";
  if (!linear.scales.empty()) {
    line += ", scales [" + std::to_string(linear.scales.shape()[0]) + ", " + std::to_string(linear.out) + "] " +
            std::string(base::name(linear.scales.view().dtype));
  }
  if (!linear.bias.empty()) line += ", bias fp32";
  return line;
}

std::string describe_buffer(const std::string& name, const base::Buffer& buffer) {
  return name + ": " + (buffer.view().dtype == DType::f32 ? "fp32 " : "bf16 ") + buffer.shape().to_string();
}

}  // namespace

bool Snapshot::has_exempt_layers() const {
  return std::ranges::any_of(layers_, [this](const LayerSnapshot& layer) {
    return layer.qkv.format != format_ || layer.o.format != format_ || layer.gate_up.format != format_ ||
           layer.down.format != format_;
  });
}

std::size_t Snapshot::num_bytes() const {
  std::size_t total = embedding_VD_.num_bytes() + final_norm_D_.num_bytes() + packed_bytes(lm_head_);
  for (const LayerSnapshot& layer : layers_) {
    total += layer.input_norm_D.num_bytes() + layer.post_norm_D.num_bytes() + layer.q_norm_E.num_bytes() +
             layer.k_norm_E.num_bytes() + packed_bytes(layer.qkv) + packed_bytes(layer.o) +
             packed_bytes(layer.gate_up) + packed_bytes(layer.down);
  }
  return total;
}

std::vector<std::string> Snapshot::describe() const {
  std::vector<std::string> lines = {describe_buffer("embed_tokens", embedding_VD_)};
  for (std::size_t idx = 0; idx < layers_.size(); ++idx) {
    const LayerSnapshot& layer = layers_[idx];
    const std::string prefix = "layers." + std::to_string(idx) + ".";
    lines.push_back(describe_buffer(prefix + "input_layernorm", layer.input_norm_D));
    lines.push_back(describe_packed(prefix + "qkv", layer.qkv));
    if (config_.qk_norm) {
      lines.push_back(describe_buffer(prefix + "q_norm", layer.q_norm_E));
      lines.push_back(describe_buffer(prefix + "k_norm", layer.k_norm_E));
    }
    lines.push_back(describe_packed(prefix + "o", layer.o));
    lines.push_back(describe_buffer(prefix + "post_attention_layernorm", layer.post_norm_D));
    lines.push_back(describe_packed(prefix + "gate_up", layer.gate_up));
    lines.push_back(describe_packed(prefix + "down", layer.down));
  }
  lines.push_back(describe_buffer("norm", final_norm_D_));
  lines.push_back(describe_packed("lm_head", lm_head_));
  return lines;
}

}  // namespace qrl::model
