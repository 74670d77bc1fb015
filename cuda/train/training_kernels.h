#pragma once

#include <cstdint>
#include <memory>

#include "cuda/runtime/runtime.h"
#include "cuda/train/training.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

std::unique_ptr<TrainingKernels> make_device_training(int device_number);

// Implement training.h, with 16-byte accesses if pointers, strides and widths allow it.
void swiglu(const SwigluTask& task, const Stream& stream);
void swiglu_gradient(const SwigluGradientTask& task, const Stream& stream);
void add_norm(const AddNormTask& task, const Stream& stream);
std::int64_t add_norm_scratch_floats(std::int64_t num_rows, std::int64_t width, bool has_bias);
void add_norm_gradient(const AddNormGradientTask& task, const Stream& stream);
void transform_heads(const HeadsTask& task, const Stream& stream);
std::int64_t heads_scratch_floats(const HeadTransform& transform);
void transform_heads_gradient(const HeadsGradientTask& task, const Stream& stream);
void score(const ScoreTask& task, const Stream& stream);
std::int64_t score_scratch_floats(std::int64_t num_rows, std::int64_t vocab_size);
void score_gradient(const ScoreGradientTask& task, const Stream& stream);
void sum_rows(const RowListsTask& task, const Stream& stream);
void squares(const SquaresTask& task, const Stream& stream);
void adamw(const AdamwTask& task, const Stream& stream);

/// Computes to[c] += Σ over rows of from[row, c], in fp32 in a fixed order.
struct ColumnSumsTask {
  const float* from;
  std::int64_t num_rows, stride, num_columns;
  float* to;
};
void add_column_sums(const ColumnSumsTask& task, const Stream& stream);

}  // namespace qrl::cuda::QRL_CUDA_TARGET
