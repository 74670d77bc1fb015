#include "model/compressed_tensors.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/bf16.h"
#include "base/error.h"
#include "ops/linear.h"
#include "state/json.h"

namespace qrl::model {

namespace {

using base::DType;
using quant::Element;
using quant::Format;
using quant::ScaleScope;
using Json = nlohmann::json;

constexpr std::int64_t kBlockSide = 128;

enum class Strategy : std::uint8_t { channel, group, block };

struct Spelling {
  Strategy strategy = Strategy::channel;
  std::int64_t outputs = 1, inputs = 0;  ///< numbers of outputs and inputs that share a scale
};

/// Returns the largest part of `side` that divides `count`.
std::int64_t equal_part(std::int64_t count, std::int64_t side) { return count < side ? count : std::gcd(count, side); }

Spelling spelling(Format format, std::int64_t out, std::int64_t in, const std::string& module) {
  const quant::FormatSpec& what = quant::spec(format);
  if (what.scale_inputs == 0 || in < what.scale_inputs) return {Strategy::channel, 1, in};
  if (what.scope == ScaleScope::group) return {Strategy::group, 1, equal_part(in, what.scale_inputs)};
  QRL_REQUIRE(in % kBlockSide == 0, "--quantized, " + module,
              "a number of inputs divisible by 128 (quant.rollout.granularity: block128)", std::to_string(in),
              "export without --quantized: compressed-tensors cannot describe a token's last, shorter block");
  return {Strategy::block, equal_part(out, kBlockSide), kBlockSide};
}

Json weight_arguments(Format format, const Spelling& spelled) {
  const Element element = quant::spec(format).weights;
  Json arguments = {{"num_bits", quant::spec(format).weight_bits},
                    {"type", element == Element::fp8_e4m3 ? "float" : "int"},
                    {"symmetric", true},
                    {"dynamic", false}};
  arguments["strategy"] = spelled.strategy == Strategy::channel ? "channel"
                          : spelled.strategy == Strategy::group ? "group"
                                                                : "block";
  if (spelled.strategy == Strategy::group) arguments["group_size"] = spelled.inputs;
  if (spelled.strategy == Strategy::block) arguments["block_structure"] = {spelled.outputs, spelled.inputs};
  return arguments;
}

Json activation_arguments(Format format, const Spelling& spelled) {
  if (!quant::spec(format).has_activation_scales()) return nullptr;
  Json arguments = {{"num_bits", 8},
                    {"type", quant::spec(format).activations == Element::fp8_e4m3 ? "float" : "int"},
                    {"symmetric", true},
                    {"dynamic", true},
                    {"strategy", "token"}};
  if (spelled.strategy != Strategy::block) return arguments;
  arguments["strategy"] = "group";
  arguments["group_size"] = spelled.inputs;
  return arguments;
}

bool is_packed(Format format) { return quant::spec(format).weights == Element::int4; }

std::string_view format_word(Format format) {
  return is_packed(format)                                  ? "pack-quantized"
         : quant::spec(format).weights == Element::fp8_e4m3 ? "float-quantized"
                                                            : "int-quantized";
}

/// Holds a folder's tensors, each with a function that writes its bytes on demand.
class Tensors {
 public:
  using Fill = std::function<void(std::byte* to)>;

  void add(std::string name, DType dtype, const base::Shape& shape, Fill fill, std::string_view dtype_name = {}) {
    fills_.push_back(std::move(fill));
    views_.push_back({std::move(name), {&fills_.back(), dtype, shape}, {}, dtype_name});
  }
  void add_floats(std::string name, const base::Shape& shape, const float* values) {
    const auto num_bytes = static_cast<std::size_t>(shape.numel()) * sizeof(float);
    add(std::move(name), DType::f32, shape, [values, num_bytes](std::byte* to) { std::memcpy(to, values, num_bytes); });
  }
  void add_buffer(std::string name, const base::Buffer& buffer) {
    add(std::move(name), buffer.view().dtype, buffer.shape(),
        [&buffer](std::byte* to) { std::memcpy(to, buffer.view().data, buffer.num_bytes()); });
  }

  /// Adds fp32 gains as files store them: without `offset`.
  void add_gain(std::string name, const base::Shape& shape, const base::Buffer& gain, float offset) {
    add(std::move(name), DType::f32, shape, [&gain, offset](std::byte* to) {
      std::transform(gain.as<float>(), gain.as<float>() + gain.shape().numel(), reinterpret_cast<float*>(to),
                     [=](float value) { return offset == 0 ? value : value - offset; });
    });
  }

  void write(const std::filesystem::path& dir, std::uint64_t max_shard_bytes) const {
    std::vector<std::byte> bytes;
    const void* held = nullptr;
    write_shards(dir, views_, max_shard_bytes, [&](const base::View& view, std::size_t first, std::size_t count) {
      if (view.data != held) {
        bytes.resize(view.num_bytes());
        (*static_cast<const Fill*>(view.data))(bytes.data());
        held = view.data;
      }
      return std::span<const std::byte>(bytes).subspan(first, count);
    });
  }

 private:
  std::deque<Fill> fills_;  ///< a deque, because views point to its elements
  std::vector<state::NamedView> views_;
};

void add_wide(Tensors& tensors, const std::string& weight, const ops::PackedLinear& packed, std::int64_t first,
              std::int64_t rows) {
  const bool is_f32 = packed.format == Format::f32;
  tensors.add(
      weight, is_f32 ? DType::f32 : DType::bf16, {rows, packed.in}, [&packed, first, rows, is_f32](std::byte* to) {
        std::vector<float> row(static_cast<std::size_t>(packed.in));
        for (std::int64_t i = 0; i < rows; ++i) {
          ops::unpack_rows(packed, first + i, 1, row.data());
          if (is_f32) std::copy(row.begin(), row.end(), reinterpret_cast<float*>(to) + i * packed.in);
          else std::transform(row.begin(), row.end(), reinterpret_cast<base::bf16*>(to) + i * packed.in, base::to_bf16);
        }
      });
}

/// Packs int4 weights as value + 8, eight inputs to a word, the first in the lowest bits. Pads rows with zeros.
void pack_words(const ops::PackedLinear& packed, std::int64_t first, std::int64_t rows, std::uint32_t* words) {
  std::vector<std::uint8_t> row(static_cast<std::size_t>(packed.in));
  const std::int64_t per_row = (packed.in + 7) / 8;
  std::fill_n(words, rows * per_row, 0U);
  for (std::int64_t i = 0; i < rows; ++i) {
    ops::unpack_quantized(packed, first + i, 1, row.data());
    for (std::int64_t k = 0; k < packed.in; ++k) {
      const std::uint32_t value = (row[static_cast<std::size_t>(k)] + 8U) & 15U;
      words[i * per_row + k / 8] |= value << (k % 8 * 4);
    }
  }
}

void add_scales(Tensors& tensors, const std::string& name, const ops::PackedLinear& packed, std::int64_t first,
                std::int64_t rows, const Spelling& spelled) {
  const base::Shape shape{rows / spelled.outputs, packed.in / spelled.inputs};
  const std::int64_t scale_inputs = quant::spec(packed.format).scale_inputs;
  const bool is_f32 = packed.scales.view().dtype == DType::f32;
  tensors.add(name, packed.scales.view().dtype, shape, [=, &packed](std::byte* to) {
    for (std::int64_t r = 0; r < shape[0]; ++r) {
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        const std::int64_t segment = scale_inputs == 0 ? 0 : c * spelled.inputs / scale_inputs;
        const float scale = ops::weight_scale(packed, segment, first + r * spelled.outputs);
        const std::int64_t at = r * shape[1] + c;
        if (is_f32) reinterpret_cast<float*>(to)[at] = scale;
        else reinterpret_cast<base::bf16*>(to)[at] = base::to_bf16(scale);
      }
    }
  });
}

void add_quantized(Tensors& tensors, const std::string& module, const ops::PackedLinear& packed, std::int64_t first,
                   std::int64_t rows) {
  const std::int64_t in = packed.in;
  if (is_packed(packed.format)) {
    tensors.add(module + ".weight_packed", DType::i32, {rows, (in + 7) / 8},
                [=, &packed](std::byte* to) { pack_words(packed, first, rows, reinterpret_cast<std::uint32_t*>(to)); });
    tensors.add(module + ".weight_shape", DType::i64, {2}, [rows, in](std::byte* to) {
      const std::int64_t shape[] = {rows, in};
      std::memcpy(to, shape, sizeof shape);
    });
  } else {
    const bool is_fp8 = quant::spec(packed.format).weights == Element::fp8_e4m3;
    tensors.add(
        module + ".weight", is_fp8 ? DType::u8 : DType::i8, {rows, in},
        [=, &packed](std::byte* to) {
          ops::unpack_quantized(packed, first, rows, reinterpret_cast<std::uint8_t*>(to));
        },
        is_fp8 ? "F8_E4M3" : "");
  }
  add_scales(tensors, module + ".weight_scale", packed, first, rows, spelling(packed.format, rows, in, module));
}

void add_layer(Tensors& tensors, const Snapshot& snapshot, std::int64_t idx) {
  const LayerSnapshot& layer = snapshot.layer(idx);
  const std::string prefix = layer_prefix(idx);
  const auto add_module = [&](const std::string& module, const ops::PackedLinear& packed, std::int64_t first,
                              std::int64_t rows) {
    if (quant::spec(packed.format).has_weight_scales()) add_quantized(tensors, module, packed, first, rows);
    else add_wide(tensors, module + ".weight", packed, first, rows);
  };
  visit_block(
      snapshot.config(), idx,
      [&](const BlockGain& gain, const auto& of) {
        const float offset = gain.kind == WeightKind::norm ? snapshot.config().norm_offset : 0;
        tensors.add_gain(prefix + gain.tensor(), gain.shape(), of(layer), offset);
      },
      [&](const BlockMatrix& matrix, const auto& of) {
        const ops::PackedLinear& packed = of(layer);
        std::int64_t first = 0;
        for (const BlockModule& part : matrix.modules) {
          const std::string module = prefix + std::string(part.name);
          add_module(module, packed, first, part.rows);
          if (matrix.has_bias)
            tensors.add_floats(module + ".bias", {part.rows}, packed.bias.template as<float>() + first);
          first += part.rows;
        }
      },
      [&](const BlockExperts& experts, const auto& of) {
        for (std::int64_t expert = 0; expert < experts.count; ++expert) {
          std::int64_t first = 0;
          for (const BlockModule& part : experts.matrix.modules) {
            add_module(expert_module(prefix, expert, part), of(layer)[static_cast<std::size_t>(expert)], first,
                       part.rows);
            first += part.rows;
          }
        }
      });
}

void require_one_format(const LayerSnapshot& layer, std::int64_t idx) {
  for (const std::vector<ops::PackedLinear>* experts : {&layer.expert_gate_up, &layer.expert_down}) {
    for (const ops::PackedLinear& expert : *experts) {
      const Format first = layer.expert_gate_up.front().format;
      QRL_REQUIRE(expert.format == first, "--quantized, " + layer_prefix(idx) + "mlp.experts",
                  "one format for a layer's experts",
                  std::string(quant::name(first)) + " and " + std::string(quant::name(expert.format)),
                  "name all of a layer's experts in quant.rollout.ignore, or none");
    }
  }
}

/// Returns a regular expression for all modules of this kind: "re:.*down_proj$".
std::string target_of(const ModelConfig& config, const std::string& module) {
  const std::string last = module.substr(module.rfind('.') + 1);
  if (module.find(".mlp.experts.") != std::string::npos) return R"(re:.*mlp\.experts\.\d+\.)" + last + "$";
  if (config.has_experts() && module.find(".mlp.") != std::string::npos) return R"(re:.*mlp\.)" + last + "$";
  return "re:.*" + last + "$";
}

}  // namespace

std::string quantization_config(const Snapshot& snapshot) {
  const Format format = snapshot.format();
  QRL_INVARIANT(quant::spec(format).has_weight_scales(), "quantization_config", "a low-bit format",
                std::string(quant::name(format)));
  std::map<std::string, std::vector<std::string>> modules;  // key: JSON of the modules' scheme
  std::vector<std::string> ignore;
  for (std::int64_t idx = 0; idx < snapshot.config().num_hidden_layers; ++idx) {
    const auto add = [&](Format own, const BlockModule& part, std::int64_t in, const std::string& name) {
      if (own != format) return ignore.push_back(name);
      const Spelling spelled = spelling(format, part.rows, in, name);
      const Json scheme = {{"weights", weight_arguments(format, spelled)},
                           {"input_activations", activation_arguments(format, spelled)},
                           {"output_activations", nullptr}};
      std::vector<std::string>& targets = modules[scheme.dump()];
      const std::string target = target_of(snapshot.config(), name);
      if (std::ranges::find(targets, target) == targets.end()) targets.push_back(target);
    };
    require_one_format(snapshot.layer(idx), idx);
    visit_matrices(
        snapshot.config(), idx,
        [&](const BlockMatrix& matrix, const auto& of) {
          for (const BlockModule& part : matrix.modules)
            add(of(snapshot.layer(idx)).format, part, matrix.in, layer_prefix(idx) + std::string(part.name));
        },
        [&](const BlockExperts& experts, const auto& of) {
          const Format own = of(snapshot.layer(idx)).front().format;
          for (std::int64_t expert = 0; expert < experts.count; ++expert) {
            for (const BlockModule& part : experts.matrix.modules)
              add(own, part, experts.matrix.in, expert_module(layer_prefix(idx), expert, part));
          }
        });
  }
  ignore.emplace_back("lm_head");
  Json groups = Json::object();
  for (const auto& [scheme, targets] : modules) {
    Json& group = groups["group_" + std::to_string(groups.size())] = Json::parse(scheme);
    group["targets"] = modules.size() == 1 ? std::vector<std::string>{"Linear"} : targets;
  }
  return Json{{"quant_method", "compressed-tensors"},
              {"quantization_status", "compressed"},
              {"format", format_word(format)},
              {"config_groups", groups},
              {"ignore", ignore},
              {"kv_cache_scheme", nullptr}}
      .dump();
}

void save_compressed(const std::filesystem::path& dir, const Snapshot& snapshot, std::uint64_t max_shard_bytes) {
  QRL_INVARIANT(!snapshot.rotation(), "compressed-tensors", "matrices that are not rotated", "rotated matrices");
  const std::string quantization = quantization_config(snapshot);
  ModelConfig config = snapshot.config();
  const ops::PackedLinear& head = snapshot.lm_head();
  const bool same_dtype = (head.format == Format::f32) == (snapshot.embedding_VD().view().dtype == DType::f32);
  config.tie_word_embeddings = config.tie_word_embeddings && same_dtype;
  Tensors tensors;
  tensors.add_buffer("model.embed_tokens.weight", snapshot.embedding_VD());
  for (std::int64_t idx = 0; idx < config.num_hidden_layers; ++idx) add_layer(tensors, snapshot, idx);
  tensors.add_gain("model.norm.weight", {config.hidden_size}, snapshot.final_norm_D(), config.norm_offset);
  if (!config.tie_word_embeddings) add_wide(tensors, "lm_head.weight", head, 0, head.out);
  tensors.write(dir, max_shard_bytes);
  write_config(dir, config, quantization);
}

}  // namespace qrl::model
