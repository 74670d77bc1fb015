#include "learner/device/torch_linear.h"

namespace qrl::learner {

namespace {

Tensor as_f32(const Tensor& x) { return x.to(torch::kFloat32); }

}  // namespace

Tensor exact_matmul(const Tensor& x, const Tensor& y) {
  if (x.scalar_type() == torch::kFloat32) return torch::mm(x, y);
  if (!x.is_cpu()) return at::mm(x, y, torch::kFloat32);
  return torch::mm(as_f32(x), as_f32(y));
}

void add_exact_matmul(const Tensor& x, const Tensor& y, Tensor sum) {
  if (!x.is_cpu() && x.scalar_type() != torch::kFloat32) {
    at::addmm_out(sum, sum, x, y, torch::kFloat32);
  } else {
    sum.addmm_(as_f32(x), as_f32(y));
  }
}

void add_matmul(const Tensor& x, const Tensor& y, const Tensor& sum) {
  if (sum.scalar_type() == torch::kFloat32) return add_exact_matmul(x, y, sum);
  if (!sum.is_cpu()) sum.addmm_(x, y);
  else sum.add_(exact_matmul(x, y));  // LibTorch sums this in fp32
}

Tensor rounded_activations(const Tensor& x, quant::Format format) {
  const quant::FormatSpec& what = quant::spec(format);
  if (what.activations == quant::Element::f32) return x;
  if (what.activations == quant::Element::bf16) return as_f32(x.to(torch::kBFloat16));
  const std::int64_t width = x.size(1),
                     segment = what.activation_scale_inputs == 0 ? width : what.activation_scale_inputs;
  const Tensor padded = torch::constant_pad_nd(x, {0, (segment - width % segment) % segment});
  const Tensor segments = padded.view({x.size(0), -1, segment});
  const Tensor scale = segments.abs().amax(-1, true) / static_cast<double>(quant::max_magnitude(what.activations));
  Tensor ratio = (segments / scale).masked_fill(scale == 0, 0);
  if (what.activations == quant::Element::int8) {
    ratio = ratio.round().clamp(-127, 127);
  } else {
    ratio = as_f32(ratio.clamp(-448, 448).to(torch::kFloat8_e4m3fn));
  }
  return (ratio * scale).view({x.size(0), -1}).narrow(1, 0, width);
}

Tensor device_linear(const Tensor& x, const Weight& weight, std::optional<quant::Format> format, bool is_read,
                     const LayerAddition& beside) {
  const torch::ScalarType type = weight.value.scalar_type();
  const Tensor read_x = format ? rounded_activations(x.detach(), *format).to(type) : x.detach();
  const auto y_options = read_x.options().dtype(format ? torch::kFloat32 : type);
  const Tensor y = !is_read ? torch::empty({x.size(0), weight.value.size(0)}, y_options)
                   : format ? exact_matmul(read_x, weight.value.t())
                            : torch::mm(read_x, weight.value.t());
  if (beside.add_to_output && is_read) beside.add_to_output(y);
  const Tensor kept_x = weight.gradient.defined() ? read_x : Tensor();
  return differentiable(
      {x}, {y},
      [kept_x, weight, type, is_rounded = format.has_value(), more = beside.input_gradient](const TensorList& d) {
        const Tensor d_y = d[0].to(type);
        if (kept_x.defined()) add_exact_matmul(d_y.t(), kept_x, weight.gradient);
        if (!more) return TensorList{is_rounded ? exact_matmul(d_y, weight.value) : torch::mm(d_y, weight.value)};
        const Tensor d_x = more(d_y);
        add_matmul(d_y, weight.value, d_x);
        return TensorList{d_x};
      })[0];
}

}  // namespace qrl::learner
