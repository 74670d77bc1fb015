#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/shared_library.h"
#include "cuda/runtime/callers_stream.h"

namespace qrl::cuda {

/// Describes rows of bf16 or fp32 numbers in device memory, `stride` numbers apart.
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

/// Computes out = silu(gate) · up in fp32. A row of `halves` is `width` numbers of gate, then `width` of up.
struct SwigluTask {
  ReadRows halves;
  WrittenRows out;
  std::int64_t num_rows = 0, width = 0;  ///< rows and columns of `out`
};
/// Computes d_halves, the gradient of `halves`, in the same layout.
struct SwigluGradientTask {
  ReadRows halves, d_out;
  WrittenRows d_halves;
  std::int64_t num_rows = 0, width = 0;
};

/// Adds a residual branch and applies RMSNorm, in fp32: sum = x + branch + bias, and out = sum / rms · gain, with
/// rms = √(mean sum² + eps) over a row. If branch.values is null, sum is x.
struct AddNormTask {
  ReadRows x, branch;           ///< branch.values null: neither branch nor bias is added
  const float* bias = nullptr;  ///< one per column; null: none
  const float* gain = nullptr;  ///< one per column
  float eps = 0;
  WrittenRows sum, out;          ///< sum: not written if branch.values is null
  float* inverse_rms = nullptr;  ///< output, one per row
  std::int64_t num_rows = 0, width = 0;
};
/// Computes d_x from d_out and d_sum, and also writes it to d_branch. Adds sums over rows to d_gain and d_bias. Each 32
/// rows are summed in order in fp32. The partial sums are then added in a fixed order.
struct AddNormGradientTask {
  ReadRows sum;  ///< AddNormTask::sum, or AddNormTask::x if no branch was added
  const float *gain = nullptr, *inverse_rms = nullptr;
  ReadRows d_out, d_sum;                       ///< d_sum.values null: zeros
  WrittenRows d_x, d_branch;                   ///< d_branch.values null: not written
  float *d_gain = nullptr, *d_bias = nullptr;  ///< null: not computed
  float* scratch = nullptr;                    ///< [add_norm_scratch_floats]
  std::int64_t num_rows = 0, width = 0;
};

struct HeadTransform {
  std::int64_t num_rows = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;  ///< head_dim: even, at most kMostHeadDim
  const float* bias = nullptr;                                               ///< one per column; null: none
  const float *q_gain = nullptr, *k_gain = nullptr;  ///< one per element of a head; null: no norms
  float norm_eps = 0;
  const float* angles = nullptr;  ///< [rows, head_dim]: cosines, then sines, of the row's position
  constexpr std::int64_t num_columns() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
};
inline constexpr std::int64_t kMostHeadDim = 512;

/// Computes attention's q, k and v in fp32. Adds the bias, applies RMSNorm to each q and k head if gains are set, and
/// applies RoPE by halves, like Hugging Face transformers.
struct HeadsTask {
  HeadTransform transform;
  ReadRows heads;
  WrittenRows q, k, v;
};
/// Computes d_heads from the gradients of q, k and v. Adds to the gradients of bias and gains unless null. Sums over
/// rows like AddNormGradientTask. Reads `heads` only if gains are set.
struct HeadsGradientTask {
  HeadTransform transform;
  ReadRows heads, d_q, d_k, d_v;
  WrittenRows d_heads;
  float *d_bias = nullptr, *d_q_gain = nullptr, *d_k_gain = nullptr;  ///< null: not computed; set both gains or none
  float* scratch = nullptr;                                           ///< [heads_scratch_floats]
};

/// Holds a row's softmax statistics: the largest logit, and sum = Σ exp((logit − largest) / temperature).
struct RowSums {
  float largest = 0, sum = 0;
};

/// Computes the targets' log-probs under softmax(logits / temperature), and the rows' entropies. Logits: fp32 [rows,
/// vocab_size] dense, read once.
///
/// A part has 16,384 logits. In a part, each thread sums in fp32, and the threads' sums are added in fp64 and rounded
/// to fp32. The sums of parts are added in fp64. The order depends on the vocabulary size alone. A logit of −inf means
/// probability 0. Both results are NaN if a row contains NaN or +inf, or if all its logits are −inf.
struct ScoreTask {
  const float* logits = nullptr;
  std::int64_t num_rows = 0, vocab_size = 0;
  const std::int64_t* targets = nullptr;  ///< one per row, within the vocabulary
  float temperature = 1;                  ///< above 0
  float *log_probs = nullptr, *entropies = nullptr;
  RowSums* sums = nullptr;
  float* scratch = nullptr;  ///< [score_scratch_floats]
};
/// Computes d_logits (dense) = d_log_prob · ∂ log p_target / ∂ logits + d_entropy · ∂ entropy / ∂ logits, in one pass.
/// fp32 d_logits may overwrite the logits.
struct ScoreGradientTask {
  ScoreTask scored;  ///< task that `score` has run; log_probs and scratch are not read
  const float* d_log_probs = nullptr;
  const float* d_entropies = nullptr;  ///< null: zeros
  void* d_logits = nullptr;
  bool is_f32 = false;  ///< type of d_logits; false: bf16
};

/// Sums rows by lists. Row i of `to` is the sum of the rows of `from` in list i, added in order in fp32 and rounded
/// once. A list of one row copies that row. One launch can process a second pair of `from` and `to`.
struct RowListsTask {
  ReadRows from[2];  ///< the second pair is optional
  WrittenRows to[2];
  const std::int32_t* starts = nullptr;   ///< num_lists + 1 offsets in `rows`; null: list i is rows[i]
  const std::int32_t* rows = nullptr;     ///< rows of `from`; null: 0, 1, 2, …
  const std::int32_t* to_rows = nullptr;  ///< list i's row of `to`, all distinct; null: i
  bool adds = false;                      ///< if set, sums start with the value in `to`
  std::int64_t num_lists = 0, width = 0;
};

/// Describes a tensor: elements [begin, begin + count) of SquaresTask::values. first_part is the index of the tensor's
/// first part.
struct TensorSpan {
  std::int64_t begin = 0, count = 0, first_part = 0;
};
/// Elements per part. A tensor's last part may have fewer.
inline constexpr std::int64_t kSquaresPart = std::int64_t{1} << 16;
/// Computes Σ x² of each part (kSquaresPart elements) of fp32 tensors, in fp64 in a fixed order.
struct SquaresTask {
  const float* values = nullptr;
  const TensorSpan* tensors = nullptr;  ///< tensors in device memory, ordered by first_part, without gaps
  std::int64_t num_tensors = 0, num_parts = 0;
  double* squares = nullptr;  ///< output, one per part
};

/// Updates `count` weights by ops::AdamW's formula in fp32, in one pass over memory. Scales gradients first, zeroes
/// them at the end, and writes the rounded weights to `copy`.
struct AdamwTask {
  float *weights = nullptr, *gradients = nullptr, *exp_avg = nullptr, *exp_avg_sq = nullptr;
  void* copy = nullptr;      ///< null: none
  bool copy_is_f32 = false;  ///< false: bf16
  std::int64_t count = 0;
  float lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, gradient_scale = 1;
  float first_correction = 1, second_correction = 1;  ///< 1 / (1 − β^t)
};

/// Runs the kernels on one device. A call enqueues its work on the caller's stream and returns at once. Results are
/// reproducible. Any thread may call. A failed launch throws an internal error.
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
  virtual std::int64_t heads_scratch_floats(const HeadTransform& transform) const = 0;
  virtual void transform_heads_gradient(const HeadsGradientTask& task, CallersStream stream) const = 0;
  virtual void score(const ScoreTask& task, CallersStream stream) const = 0;
  virtual std::int64_t score_scratch_floats(std::int64_t num_rows, std::int64_t vocab_size) const = 0;
  virtual void score_gradient(const ScoreGradientTask& task, CallersStream stream) const = 0;
  virtual void sum_rows(const RowListsTask& task, CallersStream stream) const = 0;
  virtual void squares(const SquaresTask& task, CallersStream stream) const = 0;
  virtual void adamw(const AdamwTask& task, CallersStream stream) const = 0;
};

/// Device numbers and errors are those of make_engine.
std::unique_ptr<TrainingKernels> make_training_kernels(int device_number);

struct DeviceIdentity {
  std::string uuid;  ///< the driver's UUID, the same in every process
  std::size_t total_bytes = 0;
};
DeviceIdentity identify_device(int device_number);

/// Returns the required and found versions of the libraries that a GPU needs (driver, cuBLASLt). Empty without CUDA.
std::vector<base::LibraryReport> find_libraries();

}  // namespace qrl::cuda
