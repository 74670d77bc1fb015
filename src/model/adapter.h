// Owns low-rank adapters (LoRA, Hu et al. 2021): which linear layers have one, the names and shapes of A and B, and how
// the kernels read and apply them. Knows nothing of training or of files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/threads.h"
#include "model/block.h"
#include "model/config.h"
#include "model/weights.h"
#include "ops/linear.h"

namespace qrl::model {

/// PEFT's rule for modules in a list: a whole name ("model.layers.0.mlp.down_proj") or its end ("down_proj").
bool is_named(const std::string& module, const std::string& name);

/// W' = W + scale()·B·A for each module that is targeted: A is [rank, in], B [out, rank].
struct LoraConfig {
  std::int64_t rank = 0;  ///< 0: no adapters
  double alpha = 32;
  bool rslora = false;
  /// By is_named; empty: all linear layers of all blocks.
  std::vector<std::string> target_modules;
  bool train_norms = false;  ///< the gains of all norms are trained with them

  bool enabled() const { return rank > 0; }
  double scale() const;  ///< alpha / rank, or alpha / √rank with rslora
  bool targets(const std::string& module) const;
  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

/// How errors name what a LoraConfig was read from, and what they advise; a recipe's section unless said otherwise.
struct LoraSource {
  std::string rank = "lora.rank", target_modules = "lora.target_modules";
  std::string if_too_wide = "set a lower one, or leave that module out of lora.target_modules";
};
/// An input error for a target that fits no linear layer of this model, and for a rank above a matrix's smaller side.
void check_lora(const ModelConfig& config, const LoraConfig& lora, const LoraSource& source = {});

/// "model.layers.0.mlp.up_proj" + ".lora_A.weight".
std::string lora_a_name(const std::string& module);
std::string lora_b_name(const std::string& module);
bool is_lora_name(const std::string& weight);

/// What is trained, in one fixed order: layer by layer, of each matrix the A of its modules and then the B; with
/// train_norms the gains behind all of them. Nothing without adapters.
std::vector<WeightSpec> adapter_specs(const ModelConfig& config, const LoraConfig& lora);

/// PEFT's start: A uniform within ±1/√in (kaiming_uniform, a = √5), B zero. Every element depends on (seed, tensor's
/// index, element) alone. Gains are not its own: an internal error.
WeightSource new_adapters(const ModelConfig& config, const LoraConfig& lora, std::uint64_t seed);

/// All of a source's adapter_specs in memory.
Weights read_adapters(const ModelConfig& config, const LoraConfig& lora, const WeightSource& source);

/// `base` with its linear layers' W + scale()·B·A and its trained gains, in fp32 (products and sums too), a tensor at a
/// time. `adapters` has adapter_specs' tensors.
WeightSource merged_weights(const ModelConfig& config, const WeightSource& base, const LoraConfig& lora,
                            const WeightSource& adapters);

/// Adds scale·B·A to W, all fp32 row-major: [out, in], [out, rank], [rank, in].
void add_product(const float* b, const float* a, base::Range rows, std::int64_t rank, std::int64_t in, double scale,
                 float* weight);

/// The adapters of one matrix as the kernels read them: bf16, or fp32 where the snapshot is. Empty: it has none.
struct MatrixAdapter {
  /// Of one module: some columns of the matrix's output.
  struct Part {
    std::string module;             ///< "model.layers.0.self_attn.q_proj"
    std::int64_t first_output = 0;  ///< in the matrix's output
    ops::PackedLinear b;            ///< scale·B
  };
  ops::PackedLinear a;  ///< the A of its parts, one behind the other
  std::vector<Part> parts;

  bool empty() const { return parts.empty(); }
  std::int64_t rank() const { return parts.front().b.in; }
  std::int64_t out = 0;  ///< of the matrix
};

/// Whether a matrix reads its inputs as its adapter does, not rotated and without scales: both then read the same rows.
bool reads_adapters_inputs(const ops::PackedLinear& matrix);

/// Makes one with zeros, which adds nothing. `format`: bf16 or f32.
MatrixAdapter make_matrix_adapter(const LoraConfig& lora, const std::string& prefix, const BlockMatrix& matrix,
                                  quant::Format format);

/// Packs A and scale·B, fp32 by name, by the calling thread alone. Returns the name of one that is not finite, or
/// nothing.
std::string pack_adapter(const LoraConfig& lora, const WeightViews& values, MatrixAdapter& adapter);

/// A·x of some rows: fp32 sums, rounded to the adapter's format.
struct AdapterProducts {
  AdapterProducts() = default;
  /// For adapters of up to `num_parts` modules.
  AdapterProducts(quant::Format format, std::int64_t max_rows, std::size_t num_parts, std::int64_t rank);
  std::vector<ops::Activations> parts;  ///< [max_rows, rank] each
  base::Buffer sums;                    ///< fp32 [max_rows, num_parts · rank]
};

/// Makes A·x of rows [rows.begin, rows.end), by the calling thread alone. x: rows in a format whose values are the
/// adapter's (bf16 or fp32). No row's bits depend on other rows.
void multiply_by_a(const MatrixAdapter& adapter, const ops::Activations& x, base::Range rows,
                   AdapterProducts& products);

/// y[row, c] += scale·B·(A·x[row]) for some columns c of y, fp32 [*, out], by the calling thread alone: B's fp32 sum is
/// added to what is there. No element's bits depend on the others.
void add_times_b(const MatrixAdapter& adapter, const AdapterProducts& products, base::Range rows, base::Range columns,
                 float* y);

/// y[row, c] = x[row]·Ŵᵀ + bias + scale·B·(A·x[row]), or y += that when `accumulate`, for some columns c of y, fp32
/// [*, out], by the calling thread alone. They begin and end with panels of `weight`. B's fp32 sum is added to the
/// matrix's while that is in registers. To accumulate, modules must have whole panels, as one alone has.
void multiply_adapted(const ops::PackedLinear& weight, const ops::Activations& x, const MatrixAdapter& adapter,
                      const AdapterProducts& products, base::Range rows, base::Range columns, bool accumulate,
                      float* y);

}  // namespace qrl::model
