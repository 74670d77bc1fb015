#include "learner/adapter.h"

#include <memory>

#include "learner/quantized.h"
#include "ops/matmul.h"

namespace qrl::learner {

namespace {

/// Columns [first, …) of a matrix whose rows lie next to each other, as an operand.
ops::Operand columns_of(const Tensor& matrix, std::int64_t first = 0, bool transposed = false) {
  auto* data = static_cast<std::byte*>(matrix.data_ptr()) + first * static_cast<std::int64_t>(matrix.element_size());
  return {{data, matrix.scalar_type() == torch::kBFloat16}, matrix.stride(0), transposed};
}

ops::MatmulType type_of(torch::ScalarType compute) {
  return compute == torch::kBFloat16 ? ops::MatmulType::bf16 : ops::MatmulType::f32;
}

/// What rounding to `format` leaves, in `compute`.
Tensor rounded(const Tensor& values, torch::ScalarType format, torch::ScalarType compute) {
  return (format == torch::kBFloat16 ? values.to(torch::kBFloat16) : values).to(compute).contiguous();
}

/// A and scale·B as a forward pass multiplies them.
struct Operands {
  Operands(const LinearAdapter& adapter, torch::ScalarType format_in, torch::ScalarType compute_in)
      : format(format_in), compute(compute_in), a(rounded(adapter.a.value, format, compute)) {
    for (const LinearAdapter::Part& part : adapter.parts)
      scaled_b.push_back(rounded(part.b.value.mul(adapter.scale), format, compute));
  }
  torch::ScalarType format;   ///< what A, scale·B, x and A·x were rounded to
  torch::ScalarType compute;  ///< of the matmuls
  Tensor a;                   ///< [parts · rank, in]
  TensorList scaled_b;        ///< [out, rank] each
};

/// Adds the adapter's gradients, and its share of dX to d_x, fp32. products: A·x, [N, parts · rank].
void add_adapter_gradients(const LinearAdapter& adapter, const Operands& with, const Tensor& d_y, const Tensor& x,
                           const Tensor& products, const Tensor& d_x) {
  const ops::MatmulType type = type_of(with.compute);
  const std::int64_t num_rows = d_y.size(0), rank = adapter.rank(), all = with.a.size(0), in = with.a.size(1);
  const Tensor u = torch::empty({num_rows, all}, torch::TensorOptions().dtype(with.compute));
  const Tensor t = products.to(with.compute);
  for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
    const LinearAdapter::Part& part = adapter.parts[i];
    const std::int64_t out = part.b.value.size(0), column = static_cast<std::int64_t>(i) * rank;
    ops::matmul({type, num_rows, rank, out, columns_of(d_y, part.first_output), columns_of(with.scaled_b[i]),
                 columns_of(u, column).values, all});
    const Tensor d_b = torch::empty({out, rank});
    ops::matmul({type, out, rank, num_rows, columns_of(d_y, part.first_output, true), columns_of(t, column),
                 columns_of(d_b).values, rank});
    Tensor gradient = part.b.gradient;
    gradient.add_(d_b, adapter.scale);
  }
  // x in fp32 is rounded as the matmul reads it where that is of bf16.
  const Tensor x_read = with.compute == torch::kFloat32 ? rounded(x, with.format, with.compute) : x.contiguous();
  accumulate_weight_gradient(u, x_read, adapter.a.gradient);
  ops::matmul({type, num_rows, in, all, columns_of(u), columns_of(with.a), columns_of(d_x).values, in, true});
}

/// Rows of activations as a tensor that keeps them.
Tensor as_tensor(const std::shared_ptr<ops::Activations>& rows) {
  const auto dtype = rows->quantized.view().dtype == base::DType::f32 ? torch::kFloat32 : torch::kBFloat16;
  return torch::from_blob(
      rows->quantized.view().data, {rows->max_rows(), rows->width}, {rows->stride, 1}, [rows](void*) {}, dtype);
}

Tensor products_of(model::AdapterProducts& products) {
  TensorList parts;
  for (ops::Activations& part : products.parts)
    parts.push_back(as_tensor(std::make_shared<ops::Activations>(std::move(part))));
  return torch::cat(parts, 1);
}

Tensor on_snapshot(const Linear& linear, const Recomputable& x, const ForwardNumerics& numerics) {
  const LinearAdapter& adapter = linear.adapter;
  const model::MatrixAdapter& packed = *adapter.packed;
  const Quantized quantized{linear.quantized, numerics.low_bit(), numerics.compute, numerics.backward};
  const std::int64_t num_rows = x.value.size(0);
  const auto input = std::make_shared<ops::Activations>(linear.quantized->format, num_rows, linear.quantized->in);
  std::shared_ptr<ops::Activations> plain;
  if (quant::spec(input->format).has_activation_scales())
    plain = std::make_shared<ops::Activations>(packed.a.format, num_rows, packed.a.in);
  model::AdapterProducts products(packed.a.format, num_rows, packed.parts.size(), packed.rank());
  const Tensor y = quantized_output(x.value, quantized, *input, {&packed, plain.get(), &products});
  if (!torch::GradMode::is_enabled()) return y;

  const auto format = packed.a.format == quant::Format::f32 ? torch::kFloat32 : torch::kBFloat16;
  Recompute read_x = x.recompute;
  if (!read_x) read_x = [kept = as_tensor(plain ? plain : input)] { return kept; };
  return differentiable({x.value}, {y},
                        [adapter, quantized, read_x, format, t = products_of(products)](const TensorList& d) {
                          const Tensor d_x = quantized_input_gradient(d[0], quantized);
                          add_adapter_gradients(adapter, Operands(adapter, format, quantized.compute),
                                                d[0].to(quantized.compute).contiguous(), read_x(), t, d_x);
                          return TensorList{d_x};
                        })[0];
}

Tensor in_compute_dtype(const Linear& linear, const Recomputable& x) {
  const LinearAdapter& adapter = linear.adapter;
  const torch::ScalarType type = x.value.scalar_type();
  const Operands with(adapter, type, type);
  const std::int64_t num_rows = x.value.size(0), rank = adapter.rank();
  const Tensor entering = x.value.detach();
  const Tensor sums = times_transposed(entering, linear.weight.value, torch::kFloat32);
  const Tensor t = times_transposed(entering, with.a, type);
  for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
    ops::matmul({type_of(type), num_rows, with.scaled_b[i].size(0), rank,
                 columns_of(t, static_cast<std::int64_t>(i) * rank), columns_of(with.scaled_b[i], 0, true),
                 columns_of(sums, adapter.parts[i].first_output).values, sums.size(1), true});
  }
  Recompute read_x = x.recompute;
  if (!read_x) read_x = [entering] { return entering; };
  return differentiable({x.value}, {sums.to(type)}, [linear, read_x, type, t](const TensorList& d) {
    const Tensor d_y = d[0].contiguous(), d_x = times(d_y, linear.weight.value, torch::kFloat32);
    add_adapter_gradients(linear.adapter, Operands(linear.adapter, type, type), d_y, read_x(), t, d_x);
    return TensorList{d_x.to(type)};
  })[0];
}

}  // namespace

Tensor adapted_linear(const Linear& linear, const Recomputable& x, const ForwardNumerics& numerics) {
  return linear.quantized != nullptr ? on_snapshot(linear, x, numerics) : in_compute_dtype(linear, x);
}

}  // namespace qrl::learner
