#include <cstring>
#include <memory>

#include "learner/forward/entering_rows.h"
#include "learner/forward/fused_ops.h"
#include "learner/forward/quantized.h"
#include "ops/matmul.h"

namespace qrl::learner {

namespace {

torch::ScalarType type_of(quant::Format format) {
  return format == quant::Format::f32 ? torch::kFloat32 : torch::kBFloat16;
}
quant::Format format_of(torch::ScalarType type) {
  return type == torch::kFloat32 ? quant::Format::f32 : quant::Format::bf16;
}

Tensor empty_rows(std::int64_t rows, std::int64_t width, torch::ScalarType type) {
  return torch::empty({rows, width}, torch::TensorOptions().dtype(type));
}

ops::Operand columns_of(const Tensor& matrix, std::int64_t first = 0, bool transposed = false) {
  auto* data = static_cast<std::byte*>(matrix.data_ptr()) + first * static_cast<std::int64_t>(matrix.element_size());
  return {{data, matrix.scalar_type() == torch::kBFloat16}, matrix.stride(0), transposed};
}

void take_rows(const Tensor& matrix, base::Range rows, std::int64_t first, ops::Activations& to) {
  const auto bytes = static_cast<std::int64_t>(matrix.element_size());
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const auto* from = static_cast<const std::byte*>(matrix.data_ptr()) + (row * matrix.stride(0) + first) * bytes;
    if (matrix.scalar_type() == torch::kFloat32)
      ops::quantize_row(reinterpret_cast<const float*>(from), row - rows.begin, to);
    else std::memcpy(to.row(row - rows.begin), from, static_cast<std::size_t>(to.width * bytes));
  }
}

void keep_rows(const ops::Activations& from, const Tensor& matrix, base::Range rows, std::int64_t first = 0) {
  if (!matrix.defined()) return;
  const auto bytes = static_cast<std::int64_t>(matrix.element_size());
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    auto* to = static_cast<std::byte*>(matrix.data_ptr()) + (row * matrix.stride(0) + first) * bytes;
    std::memcpy(to, from.row(row - rows.begin), static_cast<std::size_t>(from.width * bytes));
  }
}

Tensor rounded(const Tensor& values, torch::ScalarType format, torch::ScalarType compute) {
  return (format == torch::kBFloat16 ? values.to(torch::kBFloat16) : values).to(compute).contiguous();
}

ops::PackedLinear packed(const Tensor& values, torch::ScalarType type) {
  const Tensor f32 = values.to(torch::kFloat32).contiguous();
  ops::PackedLinear layer = ops::make_packed_linear(format_of(type), f32.size(0), f32.size(1), false);
  base::parallel(0, [&](base::Team& team) { ops::pack_rows(team, f32.data_ptr<float>(), f32.size(0), 0, layer); });
  return layer;
}

struct Dense {
  Dense(const LinearAdapter& adapter, std::int64_t out, torch::ScalarType type)
      : a(adapter.a.value.to(type)), b(torch::zeros({a.size(0), out}, torch::TensorOptions().dtype(type))) {
    for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
      const LinearAdapter::Part& part = adapter.parts[i];
      b.narrow(0, static_cast<std::int64_t>(i) * adapter.rank(), adapter.rank())
          .narrow(1, part.first_output, part.b.value.size(0))
          .copy_(part.b.value.t().mul(adapter.scale));
    }
  }
  Tensor a;  ///< the parts' A, stacked: [parts · rank, in]
  Tensor b;  ///< scale·B transposed, [parts · rank, out], block-diagonal: one block per part
};

/// Holds the dtype to which A, scale·B, x and A·x are rounded, and the matmuls' dtype.
struct Types {
  torch::ScalarType format, compute;
};

/// Computes U = dY·(scale·B) and the adapter's part of dX, U·A.
class InputGradient {
 public:
  InputGradient(const LinearAdapter& adapter, const Types& types, const Tensor& d_y)
      : adapter_(adapter),
        d_y_(d_y),
        a_(packed(rounded(adapter.a.value, types.format, types.compute).t(), types.compute)),
        u_(empty_rows(d_y.size(0), a_.in, types.compute)) {
    for (const LinearAdapter::Part& part : adapter.parts) {
      const Tensor scaled = rounded(part.b.value.mul(adapter.scale), types.format, types.compute);
      b_.push_back(packed(scaled.t(), types.compute));
    }
  }

  AddToRows adding() const {
    struct Block {
      std::vector<ops::Activations> d_y;  // each part's columns of dY
      ops::Activations u;
      base::Buffer sums;
    };
    const auto block = std::make_shared<Block>();
    for (const ops::PackedLinear& b : b_) block->d_y.emplace_back(b.format, kBlockRows, b.in);
    block->u = ops::Activations(a_.format, kBlockRows, a_.in);
    block->sums = base::Buffer(base::DType::f32, {kBlockRows, a_.in});
    return [this, block](base::Team& alone, base::Range rows, float* d_x) {
      const base::Range here{0, rows.size()};
      auto* sums = block->sums.as<float>();
      std::int64_t column = 0;
      for (std::size_t i = 0; i < b_.size(); ++i, column += adapter_.rank()) {
        take_rows(d_y_, rows, adapter_.parts[i].first_output, block->d_y[i]);
        ops::linear_into(alone, block->d_y[i], b_[i], here, false, sums + column, a_.in);
      }
      ops::quantize(alone, sums, here, block->u);
      keep_rows(block->u, u_, rows);
      ops::linear(alone, block->u, a_, here, true, d_x);
    };
  }
  /// Returns U, [N, parts · rank]; complete after adding()'s function has run for all rows.
  const Tensor& u() const { return u_; }

 private:
  const LinearAdapter& adapter_;
  Tensor d_y_;
  ops::PackedLinear a_;               // A, transposed
  std::vector<ops::PackedLinear> b_;  // scale·B of each part, transposed
  Tensor u_;
};

/// Adds dB = scale·dYᵀ·(A·x) and dA = Uᵀ·x to the gradients. products: A·x, [N, parts · rank].
void add_weight_gradients(const LinearAdapter& adapter, const Types& types, const Tensor& d_y, const Tensor& x,
                          const Tensor& products, const Tensor& u) {
  const auto type = types.compute == torch::kBFloat16 ? ops::MatmulType::bf16 : ops::MatmulType::f32;
  const std::int64_t rank = adapter.rank();
  for (std::size_t i = 0; i < adapter.parts.size(); ++i) {
    const LinearAdapter::Part& part = adapter.parts[i];
    // Computes dBᵀ, not dB, to pack dY in memory order.
    const Tensor d_b = torch::empty({rank, part.b.value.size(0)});
    ops::matmul({type, rank, d_b.size(1), d_y.size(0), columns_of(products, static_cast<std::int64_t>(i) * rank, true),
                 columns_of(d_y, part.first_output), columns_of(d_b).values, d_b.size(1)});
    Tensor gradient = part.b.gradient;
    gradient.add_(d_b.t(), adapter.scale);
  }
  const Tensor x_read = types.compute == torch::kFloat32 ? rounded(x, types.format, types.compute) : x.contiguous();
  accumulate_weight_gradient(u, x_read, adapter.a.gradient);
}

struct Forward {
  Tensor y, x, products;
};

void make_kept(Forward& made, const model::MatrixAdapter& adapter, bool keeps_x) {
  if (!torch::GradMode::is_enabled()) return;
  made.products = empty_rows(made.y.size(0), adapter.a.out, type_of(adapter.a.format));
  if (keeps_x) made.x = empty_rows(made.y.size(0), adapter.a.in, type_of(adapter.a.format));
}

void keep_block(const ops::Activations& x, const model::AdapterProducts& products, std::int64_t rank, base::Range rows,
                const Forward& made) {
  keep_rows(x, made.x, rows);
  const std::int64_t kept = made.products.defined() ? made.products.size(1) : 0;
  for (std::size_t i = 0; static_cast<std::int64_t>(i) * rank < kept; ++i)
    keep_rows(products.parts[i], made.products, rows, static_cast<std::int64_t>(i) * rank);
}

/// Keeps A·x for the backward pass, and x if keeps_x.
Forward forward_on_snapshot(const Linear& linear, const Tensor& x, const Quantized& quantized, bool keeps_x,
                            bool needs_output) {
  const std::int64_t num_rows = x.size(0), in = x.size(1), out = linear.quantized->out;
  Forward made;
  if (!needs_output || quantized.multiplies_quantized) {
    made.y = torch::empty({num_rows, out});
  } else {
    ops::Activations input(*linear.quantized, num_rows);
    made.y = quantized_output(x, quantized, input);
  }
  make_kept(made, *linear.adapter.packed, keeps_x);
  by_blocks(num_rows, [&] {
    return [&, entering = std::make_shared<EnteringRows>(linear, kBlockRows)](base::Team& alone, base::Range rows) {
      float* y = made.y.data_ptr<float>() + rows.begin * out;
      entering->quantize(alone, x.data_ptr<float>() + rows.begin * in, rows.size());
      if (!needs_output) entering->multiply_by_a(rows.size());
      else if (quantized.multiplies_quantized) entering->multiply(alone, rows.size(), y);
      else entering->add_adapter(rows.size(), y);
      keep_block(entering->adapters(), entering->products(), linear.adapter.rank(), rows, made);
    };
  });
  return made;
}

Tensor on_snapshot(const Linear& linear, const Recomputable& x, const ForwardNumerics& numerics, bool needs_output) {
  const Quantized quantized{linear.quantized, numerics.low_bit(), numerics.compute, numerics.backward};
  const Forward made = forward_on_snapshot(linear, x.value, quantized, !x.recompute, needs_output);
  Recompute read_x = x.recompute;
  if (!read_x) read_x = [kept = made.x] { return kept; };
  const Types types{type_of(linear.adapter.packed->a.format), quantized.compute};
  return differentiable({x.value}, {made.y},
                        [adapter = linear.adapter, quantized, read_x, types, t = made.products](const TensorList& d) {
                          const Tensor d_y = d[0].contiguous();
                          const InputGradient gradient(adapter, types, d_y);
                          const Tensor d_x =
                              quantized_input_gradient(d_y, quantized, [&] { return gradient.adding(); });
                          add_weight_gradients(adapter, types, d_y, read_x(), t, gradient.u());
                          return TensorList{d_x};
                        })[0];
}

/// Computes adapted_linear without a snapshot. An fp32 sum over x continues over A·x, and is rounded once. dX is summed
/// in the same way over dY and U = dY·(scale·B).
Tensor in_compute_dtype(const Linear& linear, const Recomputable& x, bool needs_output) {
  const torch::ScalarType type = x.value.scalar_type();
  const Tensor entering = x.value.detach();
  const Dense with(linear.adapter, linear.weight.value.size(0), type);
  const Tensor products = times_transposed(entering, with.a, type);
  const Tensor y = needs_output ? times_transposed(entering, linear.weight.value, type, {products, with.b})
                                : empty_rows(entering.size(0), linear.weight.value.size(0), type);
  Recompute read_x = x.recompute;
  if (!read_x) read_x = [entering] { return entering; };
  return differentiable({x.value}, {y}, [linear, read_x, type, products](const TensorList& d) {
    const Tensor d_y = d[0].contiguous();
    const Dense again(linear.adapter, d_y.size(1), type);
    const Tensor u = times_transposed(d_y, again.b, type);
    const Tensor d_x = times(d_y, linear.weight.value, type, {u, again.a});
    add_weight_gradients(linear.adapter, {type, type}, d_y, read_x(), products, u);
    return TensorList{d_x};
  })[0];
}

}  // namespace

Tensor adapted_linear(const Linear& linear, const Recomputable& x, const ForwardNumerics& numerics, bool needs_output) {
  return linear.quantized != nullptr ? on_snapshot(linear, x, numerics, needs_output)
                                     : in_compute_dtype(linear, x, needs_output);
}

}  // namespace qrl::learner
