#include "learner/forward/quantized.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "base/threads.h"
#include "learner/forward/entering_rows.h"
#include "ops/linear.h"

namespace qrl::learner {

namespace {

constexpr quant::Format kFp8 = quant::Format::fp8_block128;
constexpr std::int64_t kFp8Segment = 128;   // values per scale
constexpr std::int64_t kFp8BlockRows = 96;  // rows per ops::linear call; each call dequantizes the weights

/// Dequantizes rows to `type`, in blocks whose fp32 values stay in the cache.
template <class DequantizeRows>
Tensor dequantized(std::int64_t num_rows, std::int64_t width, torch::ScalarType type,
                   const DequantizeRows& dequantize_rows) {
  const Tensor values = torch::empty({num_rows, width}, torch::TensorOptions().dtype(type));
  by_blocks(num_rows, [&] {
    const Tensor f32 = type == torch::kFloat32 ? Tensor() : torch::empty({kBlockRows, width});
    return [&, f32](base::Team&, base::Range rows) {
      if (!f32.defined()) return dequantize_rows(rows, values.data_ptr<float>() + rows.begin * width);
      dequantize_rows(rows, f32.data_ptr<float>());
      values.narrow(0, rows.begin, rows.size()).copy_(f32.narrow(0, 0, rows.size()));
    };
  });
  return values;
}

/// Copies columns `range` of d_y to `columns`, each column contiguous, and multiplies each element by its row's scale.
template <class Scale>
void gather_columns(const Tensor& d_y, base::Range range, float* columns, const Scale& scale) {
  constexpr std::int64_t kRowsAtOnce = 16;  // one cache line of each column
  const std::int64_t num_rows = d_y.size(0), stride = d_y.size(1);
  for (std::int64_t first = 0; first < num_rows; first += kRowsAtOnce) {
    const std::int64_t end = std::min(num_rows, first + kRowsAtOnce);
    for (std::int64_t c = range.begin; c < range.end; ++c) {
      const float* from = d_y.data_ptr<float>() + c;
      float* to = columns + (c - range.begin) * num_rows;
      for (std::int64_t row = first; row < end; ++row) to[row] = from[row * stride] * scale(row);
    }
  }
}

/// Computes dX = dY·Ŵ with int8 products: multiplies dY by the weights' scales, then quantizes rows.
Tensor int8_input_gradient(const Tensor& d_y, const ops::PackedLinear& packed,
                           const std::function<AddToRows()>& make_add) {
  ops::PackedLinear weight = ops::make_unscaled(packed.in, packed.out);
  base::parallel(0, [&](base::Team& team) { ops::transpose_quantized(team, packed, weight); });
  const Tensor d_x = torch::empty({d_y.size(0), packed.in});
  const float* scales = packed.scales.as<float>();
  by_blocks(d_y.size(0), [&] {
    const auto quantized = std::make_shared<ops::Activations>(quant::Format::int8, kBlockRows, packed.out);
    return [&, quantized, add = make_add ? make_add() : AddToRows()](base::Team& alone, base::Range rows) {
      for (std::int64_t row = rows.begin; row < rows.end; ++row)
        ops::quantize_product(d_y.data_ptr<float>() + row * packed.out, scales, row - rows.begin, *quantized);
      float* to = d_x.data_ptr<float>() + rows.begin * packed.in;
      ops::linear(alone, *quantized, weight, {0, rows.size()}, false, to);
      ops::rotate_rows(packed.rotation, rows.size(), packed.in, to);
      if (add) add(alone, rows, to);
    };
  });
  return d_x;
}

/// Adds dYᵀ·X̂ with int8 products: multiplies dY by the tokens' scales, then quantizes columns.
void add_int8_weight_gradient(const Tensor& d_y, const ops::Activations& x, const Tensor& gradient) {
  const std::int64_t num_rows = d_y.size(0), num_outputs = d_y.size(1);
  ops::PackedLinear inputs = ops::make_unscaled(x.width, num_rows);
  base::parallel(0, [&](base::Team& team) { ops::transpose_quantized(team, x, inputs); });
  ops::Activations quantized(quant::Format::int8, num_outputs, num_rows);
  const float* scales = x.scales.as<float>();
  by_blocks(num_outputs, [&] {
    return [&, columns = std::vector<float>(static_cast<std::size_t>(kBlockRows * num_rows))](
               base::Team& alone, base::Range outputs) mutable {
      gather_columns(d_y, outputs, columns.data(), [scales](std::int64_t row) { return scales[row]; });
      for (std::int64_t o = outputs.begin; o < outputs.end; ++o)
        ops::quantize_row(columns.data() + (o - outputs.begin) * num_rows, o, quantized);
      ops::linear(alone, quantized, inputs, outputs, true, gradient.data_ptr<float>());
    };
  });
}

/// Computes dX = dY·Ŵ with e4m3 operands: quantizes rows of dY in segments of 128 outputs, and transposes the weights'
/// blocks.
Tensor fp8_input_gradient(const Tensor& d_y, const ops::PackedLinear& packed) {
  const std::int64_t inputs = ops::transposed_inputs(packed);
  ops::PackedLinear weight = ops::make_packed_linear(kFp8, packed.in, inputs, false);
  base::parallel(0, [&](base::Team& team) { ops::transpose_blocks(team, packed, weight); });
  const Tensor d_x = torch::empty({d_y.size(0), packed.in});
  const auto multiply = [&] {
    const auto quantized = std::make_shared<ops::Activations>(kFp8, kFp8BlockRows, inputs);
    return [&, quantized, spread = std::vector<float>(static_cast<std::size_t>(inputs))](base::Team& alone,
                                                                                         base::Range rows) mutable {
      for (std::int64_t row = rows.begin; row < rows.end; ++row) {
        ops::spread_outputs(packed, d_y.data_ptr<float>() + row * packed.out, spread.data());
        ops::quantize_row(spread.data(), row - rows.begin, *quantized);
      }
      ops::linear(alone, *quantized, weight, {0, rows.size()}, false, d_x.data_ptr<float>() + rows.begin * packed.in);
    };
  };
  by_blocks(d_y.size(0), multiply, kFp8BlockRows);
  return d_x;
}

/// Adds dYᵀ·X̂ with e4m3 operands: quantizes columns of dY and X̂ in segments of 128 tokens.
void add_fp8_weight_gradient(const Tensor& d_y, const ops::Activations& x, const Tensor& gradient) {
  const std::int64_t num_rows = d_y.size(0), num_outputs = d_y.size(1);
  ops::PackedLinear inputs = ops::make_packed_linear(kFp8, x.width, num_rows, false);
  const auto quantize_inputs = [&] {
    return [&, values = std::vector<float>(static_cast<std::size_t>(kFp8Segment * x.width))](base::Team&,
                                                                                             base::Range rows) mutable {
      for (std::int64_t row = rows.begin; row < rows.end; ++row)
        ops::dequantize_row(x, row, values.data() + (row - rows.begin) * x.width);
      ops::quantize_columns(values.data(), rows.begin, rows.size(), inputs);
    };
  };
  by_blocks(num_rows, quantize_inputs, kFp8Segment);
  const auto multiply = [&] {
    const auto quantized = std::make_shared<ops::Activations>(kFp8, kFp8BlockRows, num_rows);
    return [&, quantized, columns = std::vector<float>(static_cast<std::size_t>(kFp8BlockRows * num_rows))](
               base::Team& alone, base::Range outputs) mutable {
      gather_columns(d_y, outputs, columns.data(), [](std::int64_t) { return 1.0F; });
      for (std::int64_t o = 0; o < outputs.size(); ++o) ops::quantize_row(columns.data() + o * num_rows, o, *quantized);
      ops::linear(alone, *quantized, inputs, {0, outputs.size()}, true,
                  gradient.data_ptr<float>() + outputs.begin * x.width);
    };
  };
  by_blocks(num_outputs, multiply, kFp8BlockRows);
}

void rotate_back_and_add(const Tensor& d_x, const quant::Rotation& rotation,
                         const std::function<AddToRows()>& make_add) {
  if (!rotation && !make_add) return;
  by_blocks(d_x.size(0), [&] {
    return [&, add = make_add ? make_add() : AddToRows()](base::Team& alone, base::Range rows) {
      float* first = d_x.data_ptr<float>() + rows.begin * d_x.size(1);
      ops::rotate_rows(rotation, rows.size(), d_x.size(1), first);
      if (add) add(alone, rows, first);
    };
  });
}

/// Returns the requested backward format if the layer's format supports it, else model_dtype.
LearnerBackward backward_of(const Quantized& quantized) {
  const quant::Format format = quantized.packed->format;
  const bool has_format = quantized.backward == LearnerBackward::int8 ? format == quant::Format::int8 : format == kFp8;
  return has_format ? quantized.backward : LearnerBackward::model_dtype;
}

Tensor bias_of(const ops::PackedLinear& packed) {
  return torch::from_blob(packed.bias.as<float>(), {packed.out}, torch::kFloat32);
}

}  // namespace

Tensor snapshot_embedding(const model::Snapshot& snapshot) {
  const base::View& view = snapshot.embedding_VD().view();
  const auto dtype = view.dtype == base::DType::f32 ? torch::kFloat32 : torch::kBFloat16;
  return torch::from_blob(view.data, {view.shape[0], view.shape[1]}, dtype);
}

Tensor dequantized_weight(const ops::PackedLinear& packed, torch::ScalarType type) {
  return dequantized(packed.out, packed.in, type,
                     [&](base::Range rows, float* to) { ops::unpack_rows(packed, rows.begin, rows.size(), to); });
}

Tensor dequantized_input(const ops::Activations& quantized, torch::ScalarType type) {
  return dequantized(quantized.max_rows(), quantized.width, type, [&](base::Range rows, float* to) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row)
      ops::dequantize_row(quantized, row, to + (row - rows.begin) * quantized.width);
  });
}

Tensor quantized_output(const Tensor& x, const Quantized& quantized, ops::Activations& input, bool needs_output) {
  const ops::PackedLinear& packed = *quantized.packed;
  const std::int64_t num_rows = x.size(0);
  Tensor y;
  if (quantized.multiplies_quantized || !needs_output) y = torch::empty({num_rows, packed.out});
  by_blocks(num_rows, [&] {
    return [&](base::Team& alone, base::Range rows) {
      ops::quantize(alone, x.data_ptr<float>(), rows, input);
      if (y.defined() && needs_output) ops::linear(alone, input, packed, rows, false, y.data_ptr<float>());
    };
  });
  if (y.defined()) return y;
  y = times_transposed(dequantized_input(input, quantized.compute), dequantized_weight(packed, quantized.compute),
                       torch::kFloat32);
  if (!packed.bias.empty()) y += bias_of(packed);
  return y;
}

Tensor quantized_input_gradient(const Tensor& d_y, const Quantized& quantized,
                                const std::function<AddToRows()>& make_add) {
  const LearnerBackward backward = backward_of(quantized);
  if (backward == LearnerBackward::int8) return int8_input_gradient(d_y.contiguous(), *quantized.packed, make_add);
  const Tensor d_x = backward == LearnerBackward::fp8_e4m3
                         ? fp8_input_gradient(d_y.contiguous(), *quantized.packed)
                         : times(d_y.to(quantized.compute).contiguous(),
                                 dequantized_weight(*quantized.packed, quantized.compute), torch::kFloat32);
  rotate_back_and_add(d_x, quantized.packed->rotation, make_add);
  return d_x;
}

Tensor quantized_linear(const Tensor& x, const Weight& master, const Quantized& quantized, bool needs_output) {
  const auto input = std::make_shared<ops::Activations>(*quantized.packed, x.size(0));
  const Tensor y = quantized_output(x, quantized, *input, needs_output);
  if (!master.gradient.defined()) {
    return differentiable({x}, {y}, [quantized](const TensorList& d) {
      return TensorList{quantized_input_gradient(d[0], quantized)};
    })[0];
  }
  return differentiable({x}, {y}, [input, master, quantized](const TensorList& d) {
    const bool is_exact = backward_of(quantized) != LearnerBackward::model_dtype;
    const Tensor d_y = (is_exact ? d[0] : d[0].to(quantized.compute)).contiguous();
    add_quantized_weight_gradient(d_y, *input, quantized, master.gradient);
    return TensorList{quantized_input_gradient(d_y, quantized)};
  })[0];
}

void add_quantized_weight_gradient(const Tensor& d_y, const ops::Activations& input, const Quantized& quantized,
                                   const Tensor& gradient) {
  const LearnerBackward backward = backward_of(quantized);
  if (backward == LearnerBackward::int8) add_int8_weight_gradient(d_y.contiguous(), input, gradient);
  else if (backward == LearnerBackward::fp8_e4m3) add_fp8_weight_gradient(d_y.contiguous(), input, gradient);
  else
    accumulate_weight_gradient(d_y.to(quantized.compute).contiguous(), dequantized_input(input, quantized.compute),
                               gradient);
}

bool gathers_rotated(const Linear& linear) {
  return linear.quantized != nullptr && linear.quantized->rotation && linear.weight.gradient.defined();
}

void rotate_in_place(const quant::Rotation& rotation, const Tensor& rows) {
  by_blocks(rows.size(0), [&] {
    return [&](base::Team&, base::Range range) {
      ops::rotate_rows(rotation, range.size(), rows.size(1), rows.data_ptr<float>() + range.begin * rows.size(1));
    };
  });
}

void rotate_gradient(const Linear& linear) {
  if (gathers_rotated(linear)) rotate_in_place(linear.quantized->rotation, linear.weight.gradient);
}

Tensor quantized_mlp(const Tensor& x, const Linear& first, const Linear& second, base::Gate activation) {
  const std::int64_t width = first.quantized->in, both = first.quantized->out, out = second.quantized->out;
  const Tensor y = torch::empty({x.size(0), out});
  struct Between {
    EnteringRows normed, gated;
    base::Buffer halves;
  };
  by_blocks(x.size(0), [&] {
    const auto between =
        std::make_shared<Between>(Between{EnteringRows(first, kBlockRows), EnteringRows(second, kBlockRows),
                                          base::Buffer(base::DType::f32, {kBlockRows, both})});
    return [&, between](base::Team& alone, base::Range rows) {
      auto* halves = between->halves.as<float>();
      between->normed.quantize(alone, x.data_ptr<float>() + rows.begin * width, rows.size());
      between->normed.multiply(alone, rows.size(), halves);
      between->gated.swiglu(alone, activation, halves, rows.size());
      between->gated.multiply(alone, rows.size(), y.data_ptr<float>() + rows.begin * out);
    };
  });
  return y;
}

}  // namespace qrl::learner
