// Owns the entry to what training computes between its GEMMs on an NVIDIA GPU, in plain structs of pointers and sizes.
// Knows nothing of tensors that own memory, autograd or models. runtime/no_cuda.cpp stands in without CUDA.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/shared_library.h"
#include "cuda/runtime/callers_stream.h"

namespace qrl::cuda {

/// Rows of bf16 or fp32 numbers in device memory, one every `stride` numbers.
struct ReadRows {
  const void* values = nullptr;
  std::int64_t stride = 0;
  bool is_f32 = false;
};
struct WrittenRows {
  void* values = nullptr;
  std::int64_t stride = 0;
  bool is_f32 = false;
};

/// out = silu(gate) · up; of a row of halves gate comes first, up from number `width` on. Arithmetic fp32.
struct SwigluTask {
  ReadRows halves;
  WrittenRows out;
  std::int64_t num_rows = 0, width = 0;  ///< of out
};
/// d_halves, as halves lies, from d_out and halves.
struct SwigluGradientTask {
  ReadRows halves, d_out;
  WrittenRows d_halves;
  std::int64_t num_rows = 0, width = 0;
};

/// sum = x + branch + bias, out = sum / rms · gain, rms = √(mean sum² + eps) over a row (RMSNorm). Without a branch sum
/// is x. Arithmetic fp32.
struct AddNormTask {
  ReadRows x, branch;           ///< branch.values null: none, and no bias
  const float* bias = nullptr;  ///< one a column; null: none
  const float* gain = nullptr;  ///< one a column
  float eps = 0;
  WrittenRows sum, out;          ///< sum is not written without a branch
  float* inverse_rms = nullptr;  ///< written, one a row
  std::int64_t num_rows = 0, width = 0;
};
/// d_x, and the same numbers as d_branch, from d_out and d_sum. Adds to the gain's and the
/// bias's gradients: sums over rows fp32, 32 rows one after another, then these sums in one order.
struct AddNormGradientTask {
  ReadRows sum;  ///< as it was written; x without a branch
  const float *gain = nullptr, *inverse_rms = nullptr;
  ReadRows d_out, d_sum;                       ///< d_sum.values null: all 0
  WrittenRows d_x, d_branch;                   ///< d_branch.values null: not wanted
  float *d_gain = nullptr, *d_bias = nullptr;  ///< null: not wanted
  float* scratch = nullptr;                    ///< TrainingKernels::add_norm_scratch_floats of them
  std::int64_t num_rows = 0, width = 0;
};

/// Rows of q heads, k heads and v heads side by side, and what the transform adds to them and multiplies by.
struct HeadTransform {
  std::int64_t num_rows = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;  ///< even, at most kMostHeadDim
  const float* bias = nullptr;                                               ///< one a column; null: none
  const float *q_gain = nullptr, *k_gain = nullptr;                          ///< one a number of a head; null: no norms
  float norm_eps = 0;
  const float* angles = nullptr;  ///< [rows, head_dim], of each row's position: cosines, then sines
  constexpr std::int64_t num_columns() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
};
inline constexpr std::int64_t kMostHeadDim = 512;

/// q, k, v = what attention reads of the heads: with their bias, q and k heads normed (RMSNorm over a head) where there
/// are gains, and rotated by halves, as transformers has it. Arithmetic fp32.
struct HeadsTask {
  HeadTransform transform;
  ReadRows heads;
  WrittenRows q, k, v;
};
/// d_heads from gradients of q, k and v. Adds to the bias's and the gains' gradients where there are some: sums over
/// rows fp32, 32 rows one after another, then these sums in one order. `heads` is read with gains only.
struct HeadsGradientTask {
  HeadTransform transform;
  ReadRows heads, d_q, d_k, d_v;
  WrittenRows d_heads;
  float *d_bias = nullptr, *d_q_gain = nullptr, *d_k_gain = nullptr;  ///< null: not wanted; of gains both or none
  float* scratch = nullptr;                                           ///< TrainingKernels::heads_scratch_floats of them
};

/// What a row of logits is as a distribution: Σ exp((logit − largest) / temperature).
struct RowSums {
  float largest = 0, sum = 0;
};

/// Log-probs of targets under softmax(logits / temperature), and entropies, in one pass over logits, fp32 [rows,
/// vocab_size] dense. Σ fp32 within a thread, fp64 over the threads of a part of a row (of 16,384 logits, rounded to
/// fp32) and over its parts, in an order that the vocabulary alone decides. A logit of −inf is a token that cannot be
/// sampled; a row with NaN or +inf, or of nothing but −inf, has NaN for both.
struct ScoreTask {
  const float* logits = nullptr;
  std::int64_t num_rows = 0, vocab_size = 0;
  const std::int64_t* targets = nullptr;  ///< one a row, within the vocabulary
  float temperature = 1;                  ///< above 0
  float *log_probs = nullptr, *entropies = nullptr;
  RowSums* sums = nullptr;
  float* scratch = nullptr;  ///< TrainingKernels::score_scratch_floats of them
};
/// d_logits = d_log_prob · ∂ log p_target / ∂ logits + d_entropy · ∂ entropy / ∂ logits, in one pass. d_logits dense;
/// fp32 ones may be where the logits are.
struct ScoreGradientTask {
  ScoreTask scored;  ///< entropies and sums as `score` left them; log_probs and scratch are not read
  const float* d_log_probs = nullptr;
  const float* d_entropies = nullptr;  ///< null: all 0
  void* d_logits = nullptr;
  bool is_f32 = false;  ///< else bf16
};

/// Sums of rows by lists: row i of `to` = Σ of `from`'s rows that list i names, fp32 one after another, rounded once.
/// Lists of one row each gather rows. A second pair of `from` and `to` has the same done to it in the same launch.
struct RowListsTask {
  ReadRows from[2];  ///< the second without values: none
  WrittenRows to[2];
  const std::int32_t* starts = nullptr;   ///< num_lists + 1, where each begins in `rows`; null: list i is rows[i]
  const std::int32_t* rows = nullptr;     ///< null: 0, 1, 2, …
  const std::int32_t* to_rows = nullptr;  ///< the row of `to` that list i is summed in, none twice; null: i
  bool adds = false;                      ///< to what `to` holds, which then comes first in each sum
  std::int64_t num_lists = 0, width = 0;
};

/// A tensor among others in one array; its sum of squares is that of the parts from first_part on.
struct TensorSpan {
  std::int64_t begin = 0, count = 0, first_part = 0;
};
/// Numbers of a tensor that one block squares; the last part of a tensor has fewer.
inline constexpr std::int64_t kSquaresPart = std::int64_t{1} << 16;
/// Σ x² of each part of each tensor: squares fp32 numbers in fp64, and sums in fp64 in one order.
struct SquaresTask {
  const float* values = nullptr;
  const TensorSpan* tensors = nullptr;  ///< on the device, ascending by first_part, which has no gaps
  std::int64_t num_tensors = 0, num_parts = 0;
  double* squares = nullptr;  ///< written, one a part
};

/// AdamW's step of `count` weights by ops::AdamW's formula, arithmetic fp32, in one pass over memory. Gradients are
/// scaled first and cleared at the end. Weights are left rounded in a second place, too.
struct AdamwTask {
  float *weights = nullptr, *gradients = nullptr, *exp_avg = nullptr, *exp_avg_sq = nullptr;
  void* copy = nullptr;      ///< null: none
  bool copy_is_f32 = false;  ///< else bf16
  std::int64_t count = 0;
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, gradient_scale = 1;
  float first_correction = 1, second_correction = 1;  ///< 1 / (1 − β^t)
};

/// The kernels, on one device. Each call returns at once, with its work at the end of the caller's stream, and gives
/// the same bits each time. From any thread. A launch that fails is an internal error.
class TrainingKernels {
 public:
  TrainingKernels() = default;
  TrainingKernels(const TrainingKernels&) = delete;
  TrainingKernels& operator=(const TrainingKernels&) = delete;
  virtual ~TrainingKernels() = default;

  virtual void swiglu(const SwigluTask& task, CallersStream stream) const = 0;
  virtual void swiglu_gradient(const SwigluGradientTask& task, CallersStream stream) const = 0;
  virtual void add_norm(const AddNormTask& task, CallersStream stream) const = 0;
  virtual std::int64_t add_norm_scratch_floats(std::int64_t num_rows, std::int64_t width, bool has_bias) const = 0;
  virtual void add_norm_gradient(const AddNormGradientTask& task, CallersStream stream) const = 0;
  virtual void transform_heads(const HeadsTask& task, CallersStream stream) const = 0;
  /// Of HeadsGradientTask::scratch.
  virtual std::int64_t heads_scratch_floats(const HeadTransform& transform) const = 0;
  virtual void transform_heads_gradient(const HeadsGradientTask& task, CallersStream stream) const = 0;
  virtual void score(const ScoreTask& task, CallersStream stream) const = 0;
  virtual std::int64_t score_scratch_floats(std::int64_t num_rows, std::int64_t vocab_size) const = 0;
  virtual void score_gradient(const ScoreGradientTask& task, CallersStream stream) const = 0;
  virtual void sum_rows(const RowListsTask& task, CallersStream stream) const = 0;
  virtual void squares(const SquaresTask& task, CallersStream stream) const = 0;
  virtual void adamw(const AdamwTask& task, CallersStream stream) const = 0;
};

/// Errors as make_engine's; the device by its number as there.
std::unique_ptr<TrainingKernels> make_training_kernels(int device_number);

struct DeviceIdentity {
  std::string uuid;  ///< the driver's: the same in every process that has the device, and no other device's
  std::size_t total_bytes = 0;
};
/// Identifies a device by its number as above.
DeviceIdentity identify_device(int device_number);

/// What this program needs of a machine to use a GPU, wanted and found: driver, cuBLASLt. Nothing without CUDA.
std::vector<base::LibraryReport> find_libraries();

}  // namespace qrl::cuda
