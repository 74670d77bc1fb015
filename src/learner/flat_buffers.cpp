#include "learner/flat_buffers.h"

namespace qrl::learner {

FlatBuffers::FlatBuffers(const ParameterLayout& layout, bool trainable, const torch::Device& device) {
  const auto zeros = [&](std::int64_t count) {
    return torch::zeros({count}, torch::TensorOptions().dtype(torch::kFloat32).device(device));
  };
  if (trainable) gradients = zeros(layout.all().count);
  masters = zeros(layout.num_mine());
  if (!trainable) return;
  exp_avg = zeros(layout.num_mine());
  exp_avg_sq = zeros(layout.num_mine() - layout.num_muons());
}

base::View view_of(const Tensor& values, const base::Shape& shape) {
  return {values.data_ptr(), values.scalar_type() == torch::kFloat32 ? base::DType::f32 : base::DType::bf16, shape,
          values.is_cpu() ? base::Device::cpu : base::Device::cuda};
}

}  // namespace qrl::learner
