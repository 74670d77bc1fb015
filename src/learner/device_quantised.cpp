#include "learner/device_quantised.h"

#include <ATen/DeviceAccelerator.h>

#include "learner/device_forward.h"

namespace qrl::learner {

namespace {

base::View view_of(const Tensor& matrix) {
  return {matrix.data_ptr(), matrix.scalar_type() == torch::kFloat32 ? base::DType::f32 : base::DType::bf16,
          base::Shape{matrix.size(0), matrix.size(1)}, matrix.is_cpu() ? base::Device::cpu : base::Device::cuda};
}

Tensor decoded_weight_there(const DeviceLayer& layer, const torch::Device& device) {
  const Tensor weight = torch::empty({layer.out, layer.in}, torch::TensorOptions().dtype(layer.compute).device(device));
  const model::DecodedTensor wanted{layer.matrix, view_of(weight)};
  layer.weights->decode({&wanted, 1}, stream_on(device));
  return weight;
}

}  // namespace

void* stream_on(const torch::Device& device) {
  return device.is_cuda() ? at::accelerator::getCurrentStream(device.index()).native_handle() : nullptr;
}

Tensor device_quantised_linear(const Tensor& x, const Weight& master, const DeviceLayer& layer) {
  const torch::Device device = x.device();
  const auto there = torch::TensorOptions().device(device);
  const Tensor rows = x.detach().contiguous();
  const model::ProductRoom room = layer.weights->product_room(layer.matrix, rows.size(0));
  const Tensor codes = torch::empty({static_cast<std::int64_t>(room.code_bytes)}, there.dtype(torch::kUInt8));
  const Tensor padded =
      torch::empty({rows.size(0), room.y_columns},
                   there.dtype(room.y_dtype == base::DType::f32 ? torch::kFloat32 : torch::kBFloat16));
  const auto input = [matrix = layer.matrix, codes, num_rows = rows.size(0)] {
    return model::ProductInput{matrix, num_rows, codes.data_ptr()};
  };
  layer.weights->multiply(rows.data_ptr<float>(), input(), padded.data_ptr(), stream_on(device));
  Tensor y = padded.narrow(1, 0, layer.out);
  if (layer.compute == torch::kFloat32) y = y.to(torch::kFloat32);  // so that its gradient is
  return differentiable({x}, {y}, [input, master, layer, device, num_rows = rows.size(0)](const TensorList& d) {
    const Tensor d_y = d[0].to(layer.compute);
    const Tensor kept_x = torch::empty({num_rows, layer.in}, d_y.options());
    layer.weights->decode_input(input(), view_of(kept_x), stream_on(device));
    add_exact_product(d_y.t(), kept_x, master.gradient);
    return TensorList{exact_product(d_y, decoded_weight_there(layer, device))};
  })[0];
}

Tensor device_table(model::DeviceWeights& weights, const std::string& tensor, std::int64_t num_rows, std::int64_t width,
                    const torch::Device& device) {
  const model::DeviceTable table = weights.table(tensor);
  return torch::from_blob(table.values, {num_rows, width}, {table.stride, 1},
                          torch::TensorOptions().dtype(torch::kBFloat16).device(device));
}

}  // namespace qrl::learner
