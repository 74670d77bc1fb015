#include "ops/training.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/training.h"

namespace qrl::ops {

namespace {

/// Minimum number of rows, or elements, per thread.
constexpr std::int64_t kRowGrain = 16, kElementGrain = 16384;

template <class Body>
void over(std::int64_t count, std::int64_t grain, const Body& body) {
  base::parallel_for(count, grain, [&](base::Range range) { body(range.begin, range.end); });
}

/// Sums over rows in fixed blocks: body(begin, end, part) adds a block's rows to the zeroed `part` [width]. add_part
/// then receives the parts in order.
template <class Body, class Add>
void sum_over_rows(std::int64_t rows, std::int64_t width, const Body& body, const Add& add_part) {
  constexpr std::int64_t kBlockRows = 128;
  const std::int64_t num_blocks = (rows + kBlockRows - 1) / kBlockRows;
  std::vector<float> parts(static_cast<std::size_t>(num_blocks * width));
  base::parallel_for(num_blocks, 1, [&](base::Range blocks) {
    for (std::int64_t b = blocks.begin; b < blocks.end; ++b) {
      body(b * kBlockRows, std::min(rows, (b + 1) * kBlockRows), parts.data() + b * width);
    }
  });
  for (std::int64_t b = 0; b < num_blocks; ++b) add_part(parts.data() + b * width);
}

void add_floats(const float* part, std::int64_t count, float* total) {
  if (total == nullptr) return;
  for (std::int64_t i = 0; i < count; ++i) total[i] += part[i];
}

}  // namespace

void add_rms_norm(const AddRmsNorm& args) {
  const TrainingKernels& table = *kernels().training;
  over(args.rows, kRowGrain, [&](auto begin, auto end) { table.add_rms_norm(args, begin, end); });
}

void add_rms_norm_backward(const AddRmsNormBackward& args) {
  const TrainingKernels& table = *kernels().training;
  const std::int64_t bias_size = args.d_y_bias != nullptr ? args.width : 0;
  sum_over_rows(
      args.rows, args.width + bias_size,
      [&](auto begin, auto end, float* part) {
        AddRmsNormBackward block = args;
        block.d_gain = part;
        block.d_y_bias = bias_size > 0 ? part + args.width : nullptr;
        table.add_rms_norm_backward(block, begin, end);
      },
      [&](const float* part) {
        add_floats(part, args.width, args.d_gain);
        add_floats(part + args.width, bias_size, args.d_y_bias);
      });
}

void qkv_transform(const QkvTransform& args, float* out, float* inverse_rms) {
  const TrainingKernels& table = *kernels().training;
  over(args.rows, kRowGrain, [&](auto begin, auto end) { table.qkv_transform(args, out, inverse_rms, begin, end); });
}

void qkv_transform_backward(const QkvTransform& args, const float* inverse_rms, const QkvGradients& gradients) {
  constexpr std::int64_t kMaxHeadDim = 1024;  // size of the kernels' row buffer
  QRL_REQUIRE(args.head_dim <= kMaxHeadDim, "training", "head_dim of at most " + std::to_string(kMaxHeadDim),
              std::to_string(args.head_dim));
  const TrainingKernels& table = *kernels().training;
  const std::int64_t bias_size =
      gradients.d_bias != nullptr ? (args.num_heads + 2 * args.num_kv_heads) * args.head_dim : 0;
  const std::int64_t gain_size = args.q_gain != nullptr ? args.head_dim : 0;
  sum_over_rows(
      args.rows, bias_size + 2 * gain_size,
      [&](auto begin, auto end, float* part) {
        const QkvGradients parts{gradients.d_out, gradients.d_in, bias_size > 0 ? part : nullptr, part + bias_size,
                                 part + bias_size + gain_size};
        table.qkv_transform_backward(args, inverse_rms, parts, begin, end);
      },
      [&](const float* part) {
        add_floats(part, bias_size, gradients.d_bias);
        add_floats(part + bias_size, gain_size, gradients.d_q_gain);
        add_floats(part + bias_size + gain_size, gain_size, gradients.d_k_gain);
      });
}

void swiglu(base::Gate activation, std::int64_t rows, std::int64_t width, MixedArray halves, MixedArray out) {
  const TrainingKernels& table = *kernels().training;
  over(rows, kRowGrain, [&](auto begin, auto end) { table.swiglu(activation, width, halves, out, begin, end); });
}

void swiglu_backward(base::Gate activation, std::int64_t rows, std::int64_t width, MixedArray halves, MixedArray d_out,
                     MixedArray d_halves) {
  QRL_INVARIANT(halves.is_bf16 == d_halves.is_bf16, "swiglu_backward", "one dtype for halves and its gradient", "two");
  const TrainingKernels& table = *kernels().training;
  over(rows, kRowGrain,
       [&](auto begin, auto end) { table.swiglu_backward(activation, width, halves, d_out, d_halves, begin, end); });
}

void token_log_probs(const TokenDistribution& args, const float* logits, float* log_probs, float* entropy, float* lse) {
  const TrainingKernels& table = *kernels().training;
  over(args.rows, kRowGrain,
       [&](auto begin, auto end) { table.token_log_probs(args, logits, log_probs, entropy, lse, begin, end); });
}

void token_log_probs_backward(const TokenDistribution& args, const float* logits, const TokenGradients& gradients) {
  const TrainingKernels& table = *kernels().training;
  over(args.rows, kRowGrain,
       [&](auto begin, auto end) { table.token_log_probs_backward(args, logits, gradients, begin, end); });
}

void embedding_backward(const std::int32_t* tokens, std::int64_t rows, std::int64_t width, const float* d_rows,
                        float* d_table) {
  // Splits the columns over threads, so that each sum keeps the rows' order.
  over(width, kRowGrain, [&](auto begin, auto end) {
    for (std::int64_t r = 0; r < rows; ++r) {
      float* to = d_table + tokens[r] * width;
      const float* from = d_rows + r * width;
      for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
    }
  });
}

double sum_of_squares(const float* values, std::int64_t count) {
  const TrainingKernels& table = *kernels().training;
  constexpr std::int64_t kBlock = 1 << 16;
  std::vector<double> parts(static_cast<std::size_t>((count + kBlock - 1) / kBlock));
  over(static_cast<std::int64_t>(parts.size()), 1, [&](auto begin, auto end) {
    for (std::int64_t b = begin; b < end; ++b) {
      parts[static_cast<std::size_t>(b)] =
          table.sum_of_squares(values + b * kBlock, std::min(kBlock, count - b * kBlock));
    }
  });
  double total = 0;
  for (const double part : parts) total += part;
  return total;
}

void adamw_step(const AdamW& args, std::int64_t count, float* weights, float* gradients, float* exp_avg,
                float* exp_avg_sq) {
  const TrainingKernels& table = *kernels().training;
  over(count, kElementGrain, [&](auto begin, auto end) {
    table.adamw_step(args, end - begin, weights + begin, gradients + begin, exp_avg + begin, exp_avg_sq + begin);
  });
}

}  // namespace qrl::ops
