#include "learner/entering_rows.h"

#include "ops/transformer.h"

namespace qrl::learner {

EnteringRows::EnteringRows(const Linear& linear, std::int64_t most)
    : linear_(linear),
      adapter_(linear.adapter.empty() ? nullptr : linear.adapter.packed),
      quantized_(linear.quantized->format, most, linear.quantized->in) {
  if (adapter_ == nullptr) return;
  if (quant::spec(quantized_.format).has_activation_scales())
    plain_ = ops::Activations(adapter_->a.format, most, adapter_->a.in);
  products_ = model::AdapterProducts(adapter_->a.format, most, adapter_->parts.size(), adapter_->rank());
}

void EnteringRows::quantize(base::Team& alone, const float* x, std::int64_t rows) {
  ops::quantize(alone, x, {0, rows}, quantized_);
  if (plain_.max_rows() > 0) ops::quantize(alone, x, {0, rows}, plain_);
}

void EnteringRows::swiglu(base::Team& alone, const float* halves, std::int64_t rows) {
  ops::swiglu(alone, halves, {0, rows}, quantized_, plain_.max_rows() > 0 ? &plain_ : nullptr);
}

void EnteringRows::multiply(base::Team& alone, std::int64_t rows, float* y) {
  ops::linear(alone, quantized_, *linear_.quantized, {0, rows}, false, y);
  if (adapter_ != nullptr) add_adapter(alone, rows, y);
}

void EnteringRows::add_adapter(base::Team& alone, std::int64_t rows, float* y) {
  model::add_adapter(alone, *adapter_, adapters(), {0, rows}, products_, y);
}

}  // namespace qrl::learner
