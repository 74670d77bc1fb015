// Owns low-rank adapters (LoRA, Hu et al. 2021).
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

/// Returns whether `module` is `name`, or ends with "." + `name` ("down_proj"), as PEFT matches.
bool is_named(const std::string& module, const std::string& name);

/// Describes W' = W + scale()·B·A for each targeted module, where A is [rank, in] and B is [out, rank].
struct LoraConfig {
  std::int64_t rank = 0;  ///< 0: no adapters
  double alpha = 32;
  bool rslora = false;
  /// Names, matched by is_named. If empty, all linear layers of the blocks are targeted.
  std::vector<std::string> target_modules;
  bool train_norms = false;

  bool enabled() const { return rank > 0; }
  double scale() const;  ///< alpha / rank, or alpha / √rank with rslora
  bool targets(const std::string& module) const;
  friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

/// Holds the names and the advice that check_lora's errors contain. The defaults name a recipe's keys.
struct LoraSource {
  std::string rank = "lora.rank", target_modules = "lora.target_modules";
  std::string if_too_wide = "set a lower rank, or remove that module from lora.target_modules";
};
/// Throws an input error if a target matches no linear layer, or matches an expert or a router. Does the same if the
/// rank exceeds the smaller side of a targeted matrix.
void check_lora(const ModelConfig& config, const LoraConfig& lora, const LoraSource& source = {});

/// Return `module` + ".lora_A.weight" and `module` + ".lora_B.weight".
std::string lora_a_name(const std::string& module);
std::string lora_b_name(const std::string& module);
bool is_lora_name(const std::string& weight);

/// Returns the trained tensors in order: for each matrix, A of all its modules, then B of all. With train_norms, norms'
/// gains follow. Empty without adapters.
std::vector<WeightSpec> adapter_specs(const ModelConfig& config, const LoraConfig& lora);

/// Returns PEFT's initial values: A uniform within ±1/√in (kaiming_uniform, a = √5), B zero. A value depends on (seed,
/// tensor's index, element's index) alone. Reading a gain is an internal error.
WeightSource new_adapters(const ModelConfig& config, const LoraConfig& lora, std::uint64_t seed);

Weights read_adapters(const ModelConfig& config, const LoraConfig& lora, const WeightSource& source);

/// Returns `base` with trained gains, and with W + scale()·B·A for targeted modules, in fp32. Computes a tensor when it
/// is read. `adapters` must have the tensors of adapter_specs.
WeightSource merged_weights(const ModelConfig& config, const WeightSource& base, const LoraConfig& lora,
                            const WeightSource& adapters);

/// Adds scale·B·A to rows of W: fp32 row-major W [out, in], B [out, rank], A [rank, in].
void add_product(const float* b, const float* a, base::Range rows, std::int64_t rank, std::int64_t in, double scale,
                 float* weight);

/// Holds a matrix's packed adapters: bf16, or fp32 in an fp32 snapshot. May be empty.
struct MatrixAdapter {
  struct Part {
    std::string module;             ///< "model.layers.0.self_attn.q_proj"
    std::int64_t first_output = 0;  ///< first column in the matrix's output
    ops::PackedLinear b;            ///< scale·B
  };
  ops::PackedLinear a;  ///< stacked A of all parts
  std::vector<Part> parts;

  bool empty() const { return parts.empty(); }
  std::int64_t rank() const { return parts.front().b.in; }
  std::int64_t out = 0;
};

/// Returns whether a matrix has neither rotation nor activation scales, so that its adapter can read the same input
/// rows.
bool reads_adapters_inputs(const ops::PackedLinear& matrix);

/// Makes zero-initialized adapters for those modules of a matrix that `lora` targets. `format`: bf16 or f32.
MatrixAdapter make_matrix_adapter(const LoraConfig& lora, const std::string& prefix, const BlockMatrix& matrix,
                                  quant::Format format);

/// Packs A and scale·B from fp32 values on the calling thread; returns the name of a non-finite tensor, or "".
std::string pack_adapter(const LoraConfig& lora, const WeightViews& values, MatrixAdapter& adapter);

/// Holds A·x for some rows of x: the fp32 sums, and each part's sums rounded to the adapter's format.
struct AdapterProducts {
  AdapterProducts() = default;
  AdapterProducts(quant::Format format, std::int64_t max_rows, std::size_t num_parts, std::int64_t rank);
  std::vector<ops::Activations> parts;  ///< [max_rows, rank] each
  base::Buffer sums;                    ///< fp32 [max_rows, num_parts · rank]
};

/// Computes A·x for `rows` of x on the calling thread.
void multiply_by_a(const MatrixAdapter& adapter, const ops::Activations& x, base::Range rows,
                   AdapterProducts& products);

/// Adds scale·B·(A·x[row]) to `columns` of y, fp32 [*, out], on the calling thread. Each product's fp32 sum is
/// completed before it is added to y.
void add_times_b(const MatrixAdapter& adapter, const AdapterProducts& products, base::Range rows, base::Range columns,
                 float* y);

/// Computes y[row, c] = x[row]·Ŵᵀ + bias + scale·B·(A·x[row]) for `columns` of y, fp32 [*, out], on the calling thread.
/// `columns` are whole panels of `weight`. W's and B's fp32 sums are completed separately, then added. `accumulate`
/// adds the result to y, and requires modules of whole panels.
void multiply_adapted(const ops::PackedLinear& weight, const ops::Activations& x, const MatrixAdapter& adapter,
                      const AdapterProducts& products, base::Range rows, base::Range columns, bool accumulate,
                      float* y);

}  // namespace qrl::model
