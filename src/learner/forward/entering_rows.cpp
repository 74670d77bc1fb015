#include "learner/forward/entering_rows.h"

#include "ops/transformer.h"

namespace qrl::learner {

EnteringRows::EnteringRows(const Linear& linear, std::int64_t most)
    : linear_(linear),
      adapter_(linear.adapter.empty() ? nullptr : linear.adapter.packed),
      quantized_(*linear.quantized, most) {
  if (adapter_ == nullptr) return;
  if (!model::reads_adapters_inputs(*linear.quantized))
    plain_ = ops::Activations(adapter_->a.format, most, adapter_->a.in);
  products_ = model::AdapterProducts(adapter_->a.format, most, adapter_->parts.size(), adapter_->rank());
}

void EnteringRows::quantize(base::Team& alone, const float* x, std::int64_t rows) {
  if (plain_.max_rows() == 0) return ops::quantize(alone, x, {0, rows}, quantized_);
  for (std::int64_t row = 0; row < rows; ++row, x += quantized_.width) {
    ops::quantize_row(x, row, quantized_);
    ops::quantize_row(x, row, plain_);
  }
}

void EnteringRows::swiglu(base::Team& alone, base::Gate activation, const float* halves, std::int64_t rows) {
  ops::swiglu(alone, activation, halves, {0, rows}, quantized_, plain_.max_rows() > 0 ? &plain_ : nullptr);
}

void EnteringRows::multiply(base::Team& alone, std::int64_t rows, float* y) {
  const std::int64_t out = linear_.quantized->out;
  if (adapter_ == nullptr) return ops::linear(alone, quantized_, *linear_.quantized, {0, rows}, false, y);
  multiply_by_a(rows);
  model::multiply_adapted(*linear_.quantized, quantized_, *adapter_, products_, {0, rows}, {0, out}, false, y);
}

void EnteringRows::multiply_by_a(std::int64_t rows) {
  model::multiply_by_a(*adapter_, adapters(), {0, rows}, products_);
}

void EnteringRows::add_adapter(std::int64_t rows, float* y) {
  multiply_by_a(rows);
  model::add_times_b(*adapter_, products_, {0, rows}, {0, linear_.quantized->out}, y);
}

}  // namespace qrl::learner
