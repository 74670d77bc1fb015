#include "train/plan/memory_estimate.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "decoder/device/device_backend.h"
#include "decoder/kv/delta_states.h"
#include "learner/learner.h"
#include "learner/weights/parameter_layout.h"
#include "model/block.h"
#include "model/snapshot.h"
#include "ops/delta_net.h"
#include "ops/linear.h"
#include "ops/paged_attention.h"
#include "train/plan/formats.h"
#include "train/plan/options.h"

namespace qrl::train {

namespace {

using model::WeightKind;
using model::WeightSpec;

constexpr double kF32 = 4, kBf16 = 2;
constexpr double kProgram = 130e6;  // bytes of the process without a model
constexpr auto kStaging = static_cast<double>(learner::kStagingBytes);

double padded_columns(std::int64_t out) {
  constexpr std::int64_t kPanel = ops::kPanelColumns;
  return static_cast<double>((out + kPanel - 1) / kPanel * kPanel);
}

double linear_bytes(quant::Format format, std::int64_t out, std::int64_t in) {
  const quant::FormatSpec& spec = quant::spec(format);
  double bytes = padded_columns(out) * static_cast<double>(in) * spec.weight_bits / 8;
  if (!spec.has_weight_scales()) return bytes;
  const std::int64_t groups = spec.scale_inputs > 0 ? (in + spec.scale_inputs - 1) / spec.scale_inputs : 1;
  const double num_scales = padded_columns(out) * static_cast<double>(groups);
  bytes += num_scales * (spec.weights == quant::Element::int4 ? kBf16 : kF32);
  return bytes + (spec.activations == quant::Element::int8 ? num_scales * kF32 : 0);  // column sums
}

/// Returns the bytes of the sampler's layers, in which some modules share a matrix.
double matrix_bytes(const model::ModelConfig& config, quant::Format linear, quant::Format unquantized) {
  double bytes = 0;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    model::visit_matrices(
        config, layer,
        [&](const model::BlockMatrix& matrix, const auto&) {
          bytes += linear_bytes(matrix.is_wide() ? unquantized : linear, matrix.out(), matrix.in);
        },
        [&](const model::BlockExperts& experts, const auto&) {
          bytes += static_cast<double>(experts.count) * linear_bytes(linear, experts.matrix.out(), experts.matrix.in);
        });
  }
  return bytes;
}

double sampler_bytes(const QuantRecipe& quant, const model::ModelConfig& config) {
  const model::SnapshotFormats formats = snapshot_formats(quant);
  const quant::Format unquantized = formats.linear == quant::Format::f32 ? quant::Format::f32 : quant::Format::bf16;
  const double wide = unquantized == quant::Format::f32 ? kF32 : kBf16;
  double bytes = matrix_bytes(config, formats.linear, unquantized);
  for (const WeightSpec& spec : model::weight_specs(config)) {
    if (is_layer_matrix(spec.kind)) continue;
    const auto count = static_cast<double>(spec.shape.numel());
    if (spec.kind == WeightKind::embedding) bytes += count * wide;
    else if (spec.kind != WeightKind::lm_head) bytes += count * kF32;
  }
  const quant::Format head = formats.int8_lm_head                  ? quant::Format::int8
                             : formats.f32_lm_head || wide == kF32 ? quant::Format::f32
                                                                   : quant::Format::bf16;
  return bytes + linear_bytes(head, config.vocab_size, config.hidden_size);
}

double adapter_bytes(const model::SnapshotFormats& formats, const model::ModelConfig& config) {
  const double wide = formats.linear == quant::Format::f32 ? kF32 : kBf16;
  double bytes = 0;
  for (const WeightSpec& spec : model::adapter_specs(config, formats.lora))
    bytes += static_cast<double>(spec.shape.numel()) * wide;
  return bytes;
}

/// Returns the bytes of the frozen base that an adapter learner holds itself, without linear layers that it reads from
/// the snapshot.
double frozen_bytes(const Recipe& recipe, const model::ModelConfig& config) {
  const double dtype = recipe.model.dtype == learner::ComputeDType::bf16 ? kBf16 : kF32;
  const bool on_gpu = learns_on_gpu(recipe);
  const bool reads_snapshot = on_gpu ? recipe.quant.learner.forward == learner::LearnerForward::low_bit
                                     : recipe.quant.learner.forward != learner::LearnerForward::bf16;
  const model::SnapshotFormats formats = snapshot_formats(recipe.quant);
  const double table = formats.f32_lm_head ? kF32 : dtype;
  double bytes = 0;
  for (const WeightSpec& spec : model::weight_specs(config)) {
    const bool is_small = model::is_vector(spec.kind);
    const bool is_table = spec.kind == WeightKind::embedding || spec.kind == WeightKind::lm_head;
    // The CPU's packed lm_head is counted separately.
    const bool is_kept = is_small || (!reads_snapshot && (on_gpu || spec.kind != WeightKind::lm_head)) ||
                         (is_table && on_gpu && formats.int8_lm_head);
    if (is_kept)
      bytes += static_cast<double>(spec.shape.numel()) * (is_small ? kF32 : is_table && on_gpu ? table : dtype);
  }
  // An fp32 lm_head is copied; a bf16 lm_head is read in place.
  if (on_gpu && reads_snapshot && table == kF32)
    bytes += static_cast<double>(config.vocab_size * config.hidden_size) * kF32;
  return bytes;
}

/// Counts the values that a layer's MLP saves per token. D is the hidden size, F the intermediate size.
struct MlpValues {
  double inner = 0;          ///< values within the MLP: F, or the sum of F over the token's experts
  double entering = 0;       ///< inputs of gate and up: D, or D for each of the token's experts
  double of_rows = 0;        ///< experts' inputs: `entering`, as no norm recomputes them; 0 without experts
  double router_inputs = 0;  ///< unquantized router inputs: D, or 0 without experts
  double route_bytes = 0;    ///< bytes of fp32 router logits, plus 16 for each of the token's experts
};
MlpValues mlp_values(const model::ModelConfig& config, bool is_sparse) {
  const auto width = static_cast<double>(config.hidden_size);
  if (!is_sparse) return {static_cast<double>(config.intermediate_size), width, 0, 0, 0};
  const auto chosen = static_cast<double>(config.num_experts_per_tok);
  return {chosen * static_cast<double>(config.moe_intermediate_size), chosen * width, chosen * width, width,
          kF32 * static_cast<double>(config.num_experts) + 16 * chosen};
}

/// Counts the values that attention or a DeltaNet saves per token, besides the layer's residual sums.
struct MixerValues {
  double projections = 0;  ///< outputs of its projections: q, k, v, gates and z
  double attended = 0;     ///< inputs of the output projection
  double between = 0;      ///< of attention with gates: the gates, and what they multiply
  double wide_inputs = 0;  ///< inputs that are kept unquantized, and that no norm recomputes
  double state_bytes = 0;  ///< fp32 arrays: a DeltaNet's kept states and gates
};
MixerValues mixer_values(const Recipe& recipe, const model::ModelConfig& config, std::int64_t layer) {
  const auto queries = static_cast<double>(config.q_size());
  if (config.layer_kind(layer) == model::LayerKind::attention) {
    return {queries + 2 * static_cast<double>(config.kv_size()), queries, config.attention_gate ? 2 * queries : 0, 0,
            0};
  }
  const ops::DeltaShape shape = model::delta_shape(config);
  const auto state = static_cast<double>(shape.num_value_heads * shape.key_dim * shape.value_dim) * kF32;
  // A state before each chunk of tokens, and one for the prompt that a group shares.
  const auto family = static_cast<double>(recipe.data.max_prompt_length) +
                      static_cast<double>(recipe.rollout.n * recipe.data.max_response_length);
  return {static_cast<double>(shape.row_width()), static_cast<double>(shape.out_width()), 0,
          static_cast<double>(config.hidden_size),
          state * (1.0 / static_cast<double>(ops::kDeltaChunk) + 1 / family) +
              2 * static_cast<double>(shape.num_value_heads) * kF32};
}

/// Returns the bytes per token that a layer saves for its backward pass. The CPU saves the residual stream at both
/// norms; q, k and v before RoPE; attention's output; gate and up; experts' inputs. A DeltaNet saves its projections
/// and states. A quantized forward pass on the CPU saves fp32 values between matmuls, and quantized inputs of matmuls.
/// On a GPU, each matmul saves its input, and attention saves q after RoPE and all keys and values that it reads. With
/// QK norms, the GPU also saves q, k and v before RoPE.
double layer_activations(const Recipe& recipe, const model::ModelConfig& config, std::int64_t layer) {
  const MlpValues mlp = mlp_values(config, config.is_sparse(layer));
  const auto width = static_cast<double>(config.hidden_size), inner = mlp.inner;
  const auto queries = static_cast<double>(config.q_size());
  const double qkv = queries + 2 * static_cast<double>(config.kv_size());
  const double sums = 2 * width * kF32;
  const double dtype = recipe.model.dtype == learner::ComputeDType::bf16 ? kBf16 : kF32;
  const quant::Element code = quant::spec(snapshot_formats(recipe.quant).linear).activations;
  if (learns_on_gpu(recipe)) {
    // On a GPU, attention stores a shared prompt's keys and values once per sample.
    const auto prompt = static_cast<double>(recipe.data.max_prompt_length),
               response = static_cast<double>(recipe.data.max_response_length);
    const double repeated = (prompt + response) / (prompt / static_cast<double>(recipe.rollout.n) + response);
    const double keys = 2 * static_cast<double>(config.kv_size()) * repeated;
    const double before_norms = config.qk_norm ? qkv : 0;
    if (recipe.quant.learner.forward == learner::LearnerForward::low_bit) {
      // Saved inputs of matmuls are bf16 with adapters, else quantized.
      const bool is_wide = code == quant::Element::bf16 || trains_adapters(recipe);
      const double value_bytes = is_wide ? kBf16 : 1;
      return sums + (before_norms + qkv + queries + 2 * inner + keys) * dtype +
             (2 * width + queries + inner) * value_bytes;
    }
    const double between = recipe.quant.learner.forward == learner::LearnerForward::bf16 ? dtype : kF32;
    return sums + (before_norms + queries + 2 * inner) * between + (2 * width + qkv + keys + inner) * dtype;
  }
  const MixerValues mixer = mixer_values(recipe, config, layer);
  const double kept = sums + mlp.route_bytes + mixer.state_bytes, mixed = mixer.projections + mixer.between;
  if (recipe.quant.learner.forward == learner::LearnerForward::bf16)
    return kept + (mixed + mixer.attended + mixer.wide_inputs + 2 * inner + mlp.of_rows) * dtype;
  const double value_bytes = code == quant::Element::int8 ? 1 : code == quant::Element::f32 ? kF32 : kBf16;
  const double unquantized = code == quant::Element::f32 ? kF32 : kBf16;
  const double rotated = recipe.rollout.bitwise && mixer.state_bytes == 0 ? qkv : 0;
  const double wide = mlp.router_inputs + mixer.wide_inputs;
  // Adapter training saves attention's output in bf16 or fp32, instead of recomputing it.
  if (trains_adapters(recipe))
    return kept + (mixed + rotated + 2 * inner) * kF32 + (mixer.attended + wide) * unquantized;
  return kept + (mixed + rotated + 2 * inner) * kF32 + (width + mlp.entering + mixer.attended + inner) * value_bytes +
         wide * unquantized;
}

/// Returns the bytes of low_bit's largest backward matmul on a GPU: dequantized weight and input. With fp8_e4m3, the
/// input is fp32, and quantization needs six more fp32 arrays. Each has kFp8GradientTokens rows, and the width of input
/// or output, whichever is larger.
double dequantized_operands(const Recipe& recipe, const model::ModelConfig& config, std::int64_t tokens) {
  const bool in_fp8 = recipe.quant.learner.backward == learner::LearnerBackward::fp8_e4m3;
  const double dtype = recipe.model.dtype == learner::ComputeDType::bf16 ? kBf16 : kF32;
  const auto of = [&](std::int64_t out, std::int64_t in) {
    const double weight = static_cast<double>(out * in) * dtype;
    const double input = static_cast<double>(tokens * in) * (in_fp8 ? kF32 : dtype);
    const std::int64_t at_once = in_fp8 ? 6 * std::min(tokens, learner::kFp8GradientTokens) * std::max(out, in) : 0;
    return weight + input + static_cast<double>(at_once) * kF32;
  };
  double largest = 0;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    model::visit_matrices(config, layer, [&](const model::BlockMatrix& matrix, const auto&) {
      largest = std::max(largest, of(matrix.out(), matrix.in));
    });
  }
  return largest;
}

double dequantized_on_gpu(const Recipe& recipe, const model::ModelConfig& config) {
  const bool learns = learns_on_gpu(recipe) && recipe.quant.learner.forward == learner::LearnerForward::low_bit;
  const std::int64_t num_rows = std::max(recipe.rollout.max_num_batched_tokens,
                                         learns ? recipe.actor.max_tokens_per_micro_batch.value : std::int64_t{0});
  return static_cast<double>(
      decoder::dequantized_bytes(config, snapshot_formats(recipe.quant).linear, num_rows, recipe.rollout.bitwise));
}

/// Returns the bytes of logits and their gradient together, divided by the bytes of fp32 logits. An fp32 gradient
/// overwrites the logits.
double logit_arrays_on_gpu(const Recipe& recipe) {
  const bool f32 = recipe.model.dtype == learner::ComputeDType::f32 || snapshot_formats(recipe.quant).f32_lm_head;
  return f32 ? 1 : 1.5;
}

/// Returns an upper bound on a rank's bytes of the token ids that top-k and top-p keep in a step. Both the samples and
/// the micro-batches hold these ids.
double kept_tokens_bytes(const Recipe& recipe, const model::ModelConfig& config, int num_ranks) {
  if (!sample_params(recipe.rollout).cuts()) return 0;
  const std::int64_t left = recipe.rollout.top_k == -1 ? kMaxKeptTokens : recipe.rollout.top_k;
  const std::int64_t groups = (recipe.data.train_batch_size + num_ranks - 1) / num_ranks;
  const std::int64_t tokens = groups * recipe.rollout.n * recipe.data.max_response_length;
  return 2 * static_cast<double>(tokens) * static_cast<double>(std::min(left, config.vocab_size)) *
         sizeof(types::TokenId);
}

std::int64_t route_bytes_of_token(const model::ModelConfig& config) {
  return config.num_sparse_layers() * config.num_experts_per_tok;
}

/// Returns an upper bound on the bytes of a step's expert routes on a rank. Both the samples and the micro-batches hold
/// the routes.
double route_bytes(const Recipe& recipe, const model::ModelConfig& config, int num_ranks) {
  const std::int64_t groups = (recipe.data.train_batch_size + num_ranks - 1) / num_ranks;
  const std::int64_t tokens =
      groups * recipe.rollout.n * (recipe.data.max_prompt_length + recipe.data.max_response_length);
  return 2 * static_cast<double>(tokens * route_bytes_of_token(config));
}

double largest_tensor_bytes(const model::ModelConfig& config) {
  double largest = 0;
  for (const WeightSpec& spec : model::weight_specs(config))
    largest = std::max(largest, static_cast<double>(spec.shape.numel()) * kF32);
  return largest;
}

/// Returns the bytes of a rank's orthogonalized bf16 updates, which all exist at once; 0 with AdamW.
double muon_update_bytes(const Recipe& recipe, const model::ModelConfig& config, int num_ranks) {
  if (recipe.optim.name != learner::OptimName::muon) return 0;
  const model::LoraConfig lora = recipe.lora;
  double bytes = 0;
  for (const WeightSpec& spec : lora.enabled() ? model::adapter_specs(config, lora) : model::weight_specs(config))
    bytes += is_layer_matrix(spec.kind) ? static_cast<double>(spec.shape.numel()) * kBf16 : 0;
  return bytes / num_ranks;
}

std::vector<MemoryPart> optimizer_parts(const Recipe& recipe, const model::ModelConfig& config, int num_ranks) {
  const bool muon = recipe.optim.name == learner::OptimName::muon;
  const int num_shards = recipe.trainer.zero_stage > 0 ? num_ranks : 1;
  const model::LoraConfig lora = recipe.lora;
  const std::vector<WeightSpec> specs =
      lora.enabled() ? model::adapter_specs(config, lora) : model::weight_specs(config);
  const std::vector<int> owners = learner::shard_owners(specs, muon, num_shards);
  struct Share {
    double masters = 0, moments = 0;
  };
  std::vector<Share> shares(static_cast<std::size_t>(num_shards));
  double all = 0, largest = 0, copies = 0;
  const bool f32 = recipe.model.dtype == learner::ComputeDType::f32;
  const bool f32_head = f32 || snapshot_formats(recipe.quant).f32_lm_head;
  const bool on_gpu = learns_on_gpu(recipe);
  const bool low_bit = recipe.quant.learner.forward == learner::LearnerForward::low_bit;
  const bool reads_layers = recipe.quant.learner.forward == learner::LearnerForward::bf16 || (on_gpu && !low_bit);
  // If false, the learner reads the decoder's embedding and lm_head instead of copies.
  const bool reads_tables = !(on_gpu && low_bit && !f32_head && !snapshot_formats(recipe.quant).int8_lm_head);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto bytes = static_cast<double>(specs[i].shape.numel()) * kF32;
    const bool is_layers = is_layer_matrix(specs[i].kind);
    const bool is_table = specs[i].kind == WeightKind::embedding || specs[i].kind == WeightKind::lm_head;
    Share& share = shares[static_cast<std::size_t>(owners[i])];
    share.masters += bytes;
    share.moments += bytes * (muon && is_layers ? 1 : 2);
    all += bytes;
    largest = std::max(largest, bytes);
    const bool is_bf16 = (is_layers && !f32) || (is_table && !f32_head);
    if (is_layers ? reads_layers : !is_table || reads_tables) copies += is_bf16 ? bytes / 2 : bytes;
  }
  const Share most = *std::ranges::max_element(
      shares, [](const Share& a, const Share& b) { return a.masters + a.moments < b.masters + b.moments; });
  std::vector<MemoryPart> parts = {{"master weights", most.masters, true, on_gpu},
                                   {"gradients", all, true, on_gpu},
                                   {"optimizer moments", most.moments, true, on_gpu}};
  if (lora.enabled()) parts.push_back({"the base to compute with", frozen_bytes(recipe, config), true, on_gpu});
  else if (num_shards > 1 || (on_gpu && (!f32 || low_bit)))
    parts.push_back({"weights to compute with", copies, true, on_gpu});
  if (num_shards > 1 || on_gpu) parts.push_back({"a tensor to be quantized", largest});
  if (num_shards > 1 && on_gpu && samples_on_gpu(recipe)) {
    std::int64_t most_at_once = 0;
    for (const learner::GradientRange& range : learner::ParameterLayout(config, {}).published())
      most_at_once = std::max(most_at_once, range.count);
    parts.push_back({"a layer's masters of all ranks", static_cast<double>(most_at_once) * kF32, true, true});
  }
  if (on_gpu) parts.push_back({"a checkpoint's way to its files", std::min(largest, kStaging)});
  return parts;
}

/// Returns the number of KV pages that groups of full-length samples write. Samples share their prompt's pages.
std::int64_t kv_pages_of(const Recipe& recipe, std::int64_t groups, std::int64_t group_size) {
  const std::int64_t samples = std::min(recipe.rollout.max_num_seqs.value, groups * group_size);
  const std::int64_t shared = recipe.rollout.prefix_sharing
                                  ? (samples - (samples + group_size - 1) / group_size) *
                                        (recipe.data.max_prompt_length / recipe.rollout.page_size)
                                  : 0;
  return samples * pages_of_longest(recipe) - shared;
}

/// Returns the most that a step or an evaluation uses of `all`. of_groups(groups, samples of each) returns what a
/// rank's groups use.
template <class OfGroups>
std::int64_t most_in_use(const Recipe& recipe, int num_ranks, std::optional<std::int64_t> held_out, std::int64_t all,
                         const OfGroups& of_groups) {
  const bool evaluates =
      recipe.eval.freq > 0 && (!recipe.data.val_files.empty() || !recipe.data.val_generator.task.empty());
  if (evaluates && !held_out) return all;
  const auto of = [&](std::int64_t prompts, std::int64_t n) {
    return of_groups((prompts + num_ranks - 1) / num_ranks, n);
  };
  const std::int64_t drawn =
      recipe.algorithm.filter_groups.enable ? *recipe.data.gen_batch_size : recipe.data.train_batch_size;
  const std::int64_t of_evaluation = evaluates ? of(*held_out, recipe.eval.n) : 0;
  return std::min(all, std::max(of(drawn, recipe.rollout.n), of_evaluation));
}

/// Returns the number of KV pages that a step or an evaluation writes, because unwritten pages take no CPU memory.
std::int64_t kv_pages_in_use(const Recipe& recipe, int num_ranks, std::optional<std::int64_t> held_out) {
  return most_in_use(recipe, num_ranks, held_out, kv_pages(recipe),
                     [&](std::int64_t groups, std::int64_t n) { return kv_pages_of(recipe, groups, n); });
}

/// Returns the bytes of the states that a step or an evaluation writes, because unwritten slots take no memory.
double state_bytes_in_use(const Recipe& recipe, const model::ModelConfig& config, int num_ranks,
                          std::optional<std::int64_t> held_out) {
  const std::int64_t sequences = most_sequences_with_states(recipe), all = state_slots(recipe);
  const std::int64_t slots = most_in_use(recipe, num_ranks, held_out, all, [&](std::int64_t groups, std::int64_t n) {
    const std::int64_t prefixes = n > 1 && recipe.rollout.prefix_sharing ? groups : 0;
    return std::min(sequences, groups * n) + std::min(all - sequences, prefixes);
  });
  return static_cast<double>(slots * decoder::state_slot_bytes(config));
}

void add_teacher(const Recipe& recipe, std::vector<MemoryPart>& parts) {
  const std::filesystem::path file = std::filesystem::path(recipe.algorithm.teacher.path) / "config.json";
  if (!std::filesystem::exists(file)) return;
  const model::ModelConfig config = model::read_config(file);
  double all = 0;
  for (const WeightSpec& spec : model::weight_specs(config)) all += static_cast<double>(spec.shape.numel());
  QuantRecipe quant;
  quant.weights = recipe.algorithm.teacher.weights;
  const bool is_quantized = quant.weights != WeightFormat::bf16 && quant.weights != WeightFormat::f32;
  const double low_bit = is_quantized ? sampler_bytes(quant, config) : 0;
  parts.push_back({"teacher", all * kF32 + low_bit, true, learns_on_gpu(recipe)});
}

void add_sampler_on_gpu(const Recipe& recipe, const model::ModelConfig& config, std::vector<MemoryPart>& parts) {
  parts.push_back({"its weights on the GPU", sampler_bytes(recipe.quant, config), false, true});
  const std::int64_t bytes_of_adapters =
      decoder::device_adapter_bytes(config, sampler_formats(recipe).lora, recipe.rollout.max_num_batched_tokens);
  if (bytes_of_adapters > 0)
    parts.push_back({"its adapters on the GPU", static_cast<double>(bytes_of_adapters), false, true});
  if (!recipe.rollout.enforce_eager) {
    parts.push_back({"CUDA graphs, at most (a run measures one's bytes)", static_cast<double>(decoder::graph_bytes()),
                     false, true});
  }
  if (const double bytes = dequantized_on_gpu(recipe, config); bytes > 0)
    parts.push_back({"dequantized operands", bytes, true, true});
}

}  // namespace

double phase_bytes(const std::vector<MemoryPart>& parts, bool on_gpu, MemoryPhase phase) {
  double bytes = 0;
  for (const MemoryPart& part : parts) bytes += part.on_gpu == on_gpu && part.phase == phase ? part.bytes : 0;
  return bytes;
}

double certain_bytes(const std::vector<MemoryPart>& parts, bool on_gpu) {
  double bytes = 0;
  for (const MemoryPart& part : parts) {
    const bool is_certain = part.is_exact && part.phase == MemoryPhase::always;
    bytes += part.on_gpu == on_gpu && is_certain ? part.bytes : 0;
  }
  return bytes;
}

double peak_bytes(const std::vector<MemoryPart>& parts, bool on_gpu, bool phases_take_turns) {
  const auto sum = [&](MemoryPhase phase) { return phase_bytes(parts, on_gpu, phase); };
  const double sampling = sum(MemoryPhase::sampling), learning = sum(MemoryPhase::learning);
  return sum(MemoryPhase::always) + (phases_take_turns ? std::max(sampling, learning) : sampling + learning);
}

std::string memory_amount(double bytes) {
  constexpr double kMiB = 1 << 20, kGiB = 1 << 30;
  const bool large = bytes >= kGiB;
  return base::format("%.2f %s", bytes / (large ? kGiB : kMiB), large ? "GiB" : "MiB");
}

std::string check_memory(const std::vector<MemoryPart>& parts, bool phases_take_turns, int num_here,
                         const base::MemoryLimit& limit) {
  if (limit.bytes == 0) return "";
  const double certain = certain_bytes(parts, false);
  const MemoryPart* largest = nullptr;
  for (const MemoryPart& part : parts) {
    if (part.on_gpu || !part.is_exact || part.phase != MemoryPhase::always) continue;
    if (largest == nullptr || part.bytes > largest->bytes) largest = &part;
  }
  const std::string who = num_here > 1 ? " in " + std::to_string(num_here) + " processes here" : "";
  const auto most = static_cast<double>(limit.bytes), free = static_cast<double>(limit.free_bytes);
  QRL_REQUIRE(certain * num_here <= most, "memory", "a plan within " + limit.what + ", " + memory_amount(most),
              memory_amount(certain * num_here) + who + " for weights, gradients and moments alone",
              "the largest part is \"" + largest->name + "\", " + memory_amount(largest->bytes) +
                  ": train a smaller model, adapters (lora.rank), or with trainer.zero_stage 1 on more machines; "
                  "--dry-run lists all parts");
  const double all = peak_bytes(parts, false, phases_take_turns) * num_here;
  if (all > most)
    return "the plan of " + memory_amount(all) + who + " is more than " + limit.what + ", " + memory_amount(most);
  if (all > free)
    return "the plan of " + memory_amount(all) + who + " is more than the " + memory_amount(free) + " of free memory";
  return "";
}

std::int64_t tokens_of_update(const Recipe& recipe, int num_ranks) {
  const std::int64_t groups = (prompts_per_update(recipe) + num_ranks - 1) / num_ranks, n = recipe.rollout.n;
  const std::int64_t shared = n > 1 ? recipe.data.max_prompt_length - 1 : 0;  // a prompt's samples share its tokens
  return groups * (shared + n * (recipe.data.max_prompt_length + recipe.data.max_response_length - shared));
}

std::int64_t trained_tokens_at_once(const Recipe& recipe, int num_ranks) {
  // Dynamic sampling may give all groups to one rank. Only the first rank runs a cold start.
  const std::int64_t of_update = tokens_of_update(recipe, recipe.algorithm.filter_groups.enable ? 1 : num_ranks);
  const std::int64_t longest_row =
      recipe.sft.max_length.value_or(recipe.data.max_prompt_length + recipe.data.max_response_length);
  const std::int64_t of_cold_start = has_cold_start(recipe.sft) ? recipe.sft.batch_size * longest_row : 0;
  return std::min(recipe.actor.max_tokens_per_micro_batch.value, std::max(of_update, of_cold_start));
}

double activation_bytes(const Recipe& recipe, const model::ModelConfig& config) {
  // Recomputation keeps fp32 inputs of each layer. A bitwise learner on a GPU keeps one array, the residual stream.
  // Other learners keep two arrays. On a GPU, these are the stream and the branch to add. On the CPU, they are the
  // stream before each norm.
  const bool sampled_there = learns_on_gpu(recipe) && recipe.rollout.bitwise;
  const double entering = (sampled_there ? 1 : 2) * static_cast<double>(config.hidden_size) * kF32;
  double all = 0, largest = 0;
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const double of_layer = layer_activations(recipe, config, layer);
    all += of_layer;
    largest = std::max(largest, of_layer);
  }
  const bool computes_again = recipe.actor.activation_checkpointing || sampled_there;
  return computes_again ? static_cast<double>(config.num_hidden_layers) * entering + largest : all;
}

std::vector<MemoryPart> estimate_memory(const Recipe& recipe, const model::ModelConfig& config, int num_ranks,
                                        std::optional<std::int64_t> held_out) {
  double all = 0;
  for (const WeightSpec& spec : model::weight_specs(config)) all += static_cast<double>(spec.shape.numel());
  const bool bf16 = recipe.model.dtype == learner::ComputeDType::bf16;
  const bool f32_head = !bf16 || snapshot_formats(recipe.quant).f32_lm_head;
  const double head =
      padded_columns(config.vocab_size) * static_cast<double>(config.hidden_size) * (f32_head ? kF32 : kBf16);
  const bool learns_there = learns_on_gpu(recipe);
  const bool reads_snapshot = recipe.quant.learner.forward != learner::LearnerForward::bf16;
  const bool shares_head = reads_snapshot && (recipe.quant.lm_head != HeadFormat::int8 || recipe.rollout.bitwise);
  const bool packs_head = !shares_head && !learns_there;

  std::vector<MemoryPart> parts = optimizer_parts(recipe, config, num_ranks);
  parts.push_back({"the program and LibTorch", kProgram, false});
  if (packs_head) parts.push_back({"packed lm_head", head});
  double reference = all * kF32;
  if (packs_head) reference += head;
  if (learns_there && bf16) reference += all * kBf16;
  if (reads_snapshot) reference += sampler_bytes(recipe.quant, config);
  const bool has_adapters = trains_adapters(recipe);
  if (recipe.algorithm.kl_loss_coef != 0 && !has_adapters)
    parts.push_back({"reference model", reference, true, learns_there});

  if (!recipe.algorithm.teacher.path.empty()) add_teacher(recipe, parts);

  const std::int64_t most_tokens = trained_tokens_at_once(recipe, num_ranks);
  const auto tokens = static_cast<double>(most_tokens);
  const auto layers = static_cast<double>(config.num_attention_layers());
  const bool sampled_there = learns_there && recipe.rollout.bitwise;
  const double kept = activation_bytes(recipe, config);
  constexpr MemoryPhase kLearning = MemoryPhase::learning, kSampling = MemoryPhase::sampling;
  parts.push_back({"activations of a micro-batch", tokens * kept, false, learns_there, kLearning});
  if (learns_there && recipe.quant.learner.forward == learner::LearnerForward::low_bit)
    parts.push_back({"a layer's matrix and its input, dequantized", dequantized_operands(recipe, config, most_tokens),
                     false, true, kLearning});
  const double chunk = std::min(tokens, static_cast<double>(recipe.actor.logprob_chunk_tokens));
  const double arrays = learns_there ? logit_arrays_on_gpu(recipe) : 2;
  const double logits = arrays * chunk * static_cast<double>(config.vocab_size) * kF32;
  parts.push_back({"logits of a chunk", logits, false, learns_there, kLearning});
  const double learning = tokens * kept + logits;
  if (const double beyond = muon_update_bytes(recipe, config, num_ranks) - learning; beyond > 0)
    parts.push_back({"Muon's updates, beyond activations", beyond, false, learns_there, kLearning});
  if (const double bytes = kept_tokens_bytes(recipe, config, num_ranks); bytes > 0)
    parts.push_back({"tokens that top-k and top-p leave, at most", bytes});
  if (config.has_experts())
    parts.push_back({"routes of a step, at most", route_bytes(recipe, config, num_ranks), false});
  parts.push_back({"sampler's weights", sampler_bytes(recipe.quant, config)});
  if (has_adapters) parts.push_back({"sampler's adapters", adapter_bytes(sampler_formats(recipe), config)});
  // The base is quantized before activations exist, so the tensor can use their memory. Only the tensor's bytes beyond
  // the activations are added.
  if (const double beyond = largest_tensor_bytes(config) - learning; has_adapters && beyond > 0)
    parts.push_back({"a tensor to be quantized", beyond});
  const auto page_bytes =
      static_cast<double>(ops::kv_page_bytes({config.num_attention_heads, config.num_key_value_heads, config.head_dim},
                                             kv_format(recipe.quant), recipe.rollout.page_size));
  if (sampled_there) {  // each sequence begins a new page, so the pages at most double
    const double pages = 2 * std::ceil(tokens / static_cast<double>(recipe.rollout.page_size));
    parts.push_back({"a layer's KV cache of a micro-batch", 2 * pages * page_bytes, false, true, kLearning});
  }
  const bool on_gpu = samples_on_gpu(recipe);
  const std::int64_t num_pages = on_gpu ? kv_pages(recipe) : kv_pages_in_use(recipe, num_ranks, held_out);
  const auto route_page_bytes = static_cast<double>(recipe.rollout.page_size * route_bytes_of_token(config));
  const double kv_bytes = static_cast<double>(num_pages) * (2 * layers * page_bytes + route_page_bytes);
  if (on_gpu) add_sampler_on_gpu(recipe, config, parts);
  parts.push_back({on_gpu ? "KV cache on the GPU, at most" : "KV cache", kv_bytes, !on_gpu, on_gpu, kSampling});
  if (const double bytes = state_bytes_in_use(recipe, config, num_ranks, held_out); bytes > 0)
    parts.push_back({"states of DeltaNet layers", bytes, true, false, kSampling});
  return parts;
}

}  // namespace qrl::train
