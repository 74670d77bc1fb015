#include "learner/device/device_quantized.h"

#include <ATen/DeviceAccelerator.h>

#include <algorithm>

#include "learner/options.h"

namespace qrl::learner {

namespace {

base::View view_of(const Tensor& matrix) {
  return {matrix.data_ptr(), matrix.scalar_type() == torch::kFloat32 ? base::DType::f32 : base::DType::bf16,
          base::Shape{matrix.size(0), matrix.size(1)}, matrix.is_cpu() ? base::Device::cpu : base::Device::cuda};
}

Tensor dequantized_weight_there(const DeviceLayer& layer, const torch::Device& device) {
  Tensor weight =
      torch::empty({layer.form->out, layer.form->in}, torch::TensorOptions().dtype(layer.compute).device(device));
  const model::DequantizedTensor wanted{layer.matrix, view_of(weight)};
  layer.weights->dequantize({&wanted, 1}, stream_on(device));
  return weight;
}

Tensor input_gradient(const Tensor& d_y, const DeviceLayer& layer, const Tensor& share) {
  const Tensor weight = dequantized_weight_there(layer, d_y.device());
  if (!share.defined()) return exact_matmul(d_y, weight);
  add_exact_matmul(d_y, weight, share);
  return share;
}

/// Rounds rows of dY to e4m3, with one scale per 128 outputs. These segments restart at each tensor of a fused matrix.
Tensor rounded_outputs(const Tensor& d_y, const ops::PackedLinear& form) {
  if (form.tensors.empty()) return rounded_activations(d_y, form.format);
  TensorList parts;
  for (const Tensor& part : d_y.split_with_sizes(form.tensors, 1))
    parts.push_back(rounded_activations(part.contiguous(), form.format));
  return torch::cat(parts, 1);
}

Tensor rounded_columns(const Tensor& x, quant::Format format) {
  return rounded_activations(x.t().contiguous(), format);
}

/// Returns dX. Adds dYᵀ·X̂ to `gradient` if defined. Both products have e4m3 operands. d_y has any dtype. x is X̂ in
/// fp32, and is read only if `gradient` is defined.
Tensor fp8_gradients(const Tensor& d_y, const Tensor& x, const DeviceLayer& layer, const Tensor& gradient) {
  const quant::Format format = layer.form->format;
  const Tensor weight = dequantized_weight_there(layer, d_y.device());
  Tensor d_x = torch::empty({d_y.size(0), layer.form->in}, d_y.options().dtype(torch::kFloat32));
  for (std::int64_t first = 0; first < d_y.size(0); first += kFp8GradientTokens) {
    const std::int64_t count = std::min(kFp8GradientTokens, d_y.size(0) - first);
    const Tensor d_rows = d_y.narrow(0, first, count).to(torch::kFloat32).contiguous();
    d_x.narrow(0, first, count).copy_(exact_matmul(rounded_outputs(d_rows, *layer.form).to(layer.compute), weight));
    if (!gradient.defined()) continue;
    const Tensor columns = rounded_columns(x.narrow(0, first, count), format).to(layer.compute);
    add_exact_matmul(rounded_columns(d_rows, format).to(layer.compute), columns.t(), gradient);
  }
  return d_x;
}

}  // namespace

void* stream_on(const torch::Device& device) {
  return device.is_cuda() ? at::accelerator::getCurrentStream(device.index()).native_handle() : nullptr;
}

Tensor device_quantized_linear(const Tensor& x, const Weight& master, const DeviceLayer& layer, bool needs_output,
                               const LayerAddition& beside) {
  const torch::Device device = x.device();
  const auto there = torch::TensorOptions().device(device);
  const Tensor rows = x.detach().contiguous();
  const model::MatmulWorkspace room = layer.weights->matmul_workspace(layer.matrix, rows.size(0));
  const Tensor quantized = torch::empty({static_cast<std::int64_t>(room.quantized_bytes)}, there.dtype(torch::kUInt8));
  const Tensor padded =
      torch::empty({rows.size(0), room.y_columns},
                   there.dtype(room.y_dtype == base::DType::f32 ? torch::kFloat32 : torch::kBFloat16));
  const auto input = [matrix = layer.matrix, quantized, num_rows = rows.size(0)] {
    return model::MatmulInput{matrix, num_rows, quantized.data_ptr()};
  };
  if (needs_output || master.gradient.defined())
    layer.weights->multiply(rows.data_ptr<float>(), input(), needs_output ? padded.data_ptr() : nullptr,
                            stream_on(device));
  Tensor y = padded.narrow(1, 0, layer.form->out);
  if (layer.compute == torch::kFloat32) y = y.to(torch::kFloat32);  // makes y's gradient fp32
  if (beside.add_to_output && needs_output) beside.add_to_output(y);
  const bool in_fp8 = layer.backward == LearnerBackward::fp8_e4m3 && layer.form->format == quant::Format::fp8_block128;
  if (!master.gradient.defined()) {
    return differentiable({x}, {y}, [layer, in_fp8, more = beside.input_gradient](const TensorList& d) {
      const Tensor share = more ? more(d[0]) : Tensor();
      if (!in_fp8) return TensorList{input_gradient(d[0].to(layer.compute), layer, share)};
      const Tensor d_x = fp8_gradients(d[0], {}, layer, {});
      return TensorList{share.defined() ? share.add_(d_x) : d_x};
    })[0];
  }
  QRL_INVARIANT(!beside.input_gradient, "learner", "no adapter on a trained matrix", "an adapter");
  return differentiable({x}, {y}, [input, master, layer, device, in_fp8, num_rows = rows.size(0)](const TensorList& d) {
    const Tensor kept_x =
        torch::empty({num_rows, layer.form->in},
                     torch::TensorOptions().device(device).dtype(in_fp8 ? torch::kFloat32 : layer.compute));
    layer.weights->dequantize_input(input(), view_of(kept_x), stream_on(device));
    if (in_fp8) return TensorList{fp8_gradients(d[0], kept_x, layer, master.gradient)};
    const Tensor d_y = d[0].to(layer.compute);
    add_exact_matmul(d_y.t(), kept_x, master.gradient);
    return TensorList{input_gradient(d_y, layer, {})};
  })[0];
}

Tensor device_table(model::DeviceWeights& weights, const std::string& tensor, std::int64_t num_rows, std::int64_t width,
                    const torch::Device& device) {
  const model::DeviceTable table = weights.table(tensor);
  return torch::from_blob(table.values, {num_rows, width}, {table.stride, 1},
                          torch::TensorOptions().dtype(torch::kBFloat16).device(device));
}

}  // namespace qrl::learner
