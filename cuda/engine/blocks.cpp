#include "cuda/engine/blocks.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

QuantizedRows rows_for(quant::Format format, std::int64_t width, void* quantized, float* scales) {
  const quant::FormatSpec& what = quant::spec(format);
  return {what.activations,
          quantized,
          what.has_activation_scales() ? scales : nullptr,
          round_up(width, kInputChunk),
          width,
          what.activation_scale_inputs == 0 ? width : what.activation_scale_inputs};
}

Blocks::Blocks(const EngineOptions& options, const TickMemory& ticks, const Weights& weights, Gemms& gemms)
    : options_(options),
      weights_(weights),
      gemms_(gemms),
      qkv_stride_(round_up(options.model.q_size() + 2 * options.model.kv_size(), kOutputTile)),
      width_stride_(round_up(options.model.hidden_size, kOutputTile)),
      gate_up_stride_(round_up(2 * options.model.intermediate_size, kOutputTile)),
      x_(floats(ticks.max_rows() * options.model.hidden_size)),
      qkv_(gemm_memory(ticks.max_rows() * qkv_stride_)),
      q_(floats(ticks.max_rows() * options.model.q_size())),
      context_(floats(ticks.max_rows() * options.model.q_size())),
      y_(gemm_memory(ticks.max_rows() * width_stride_)),
      gate_up_(gemm_memory(ticks.max_rows() * gate_up_stride_)),
      normed_(ticks.max_rows(), options.model.hidden_size),
      attended_(ticks.max_rows(), options.model.q_size()),
      gated_(ticks.max_rows(), options.model.intermediate_size),
      partial_contexts_(floats(ticks.max_partials() * options.model.q_size())),
      partial_stats_(floats(ticks.max_partials() * options.model.num_attention_heads * 2)) {}

Memory Blocks::gemm_memory(std::int64_t count) const {
  return Memory(static_cast<std::size_t>(count) * (options_.f32_gemms ? sizeof(float) : sizeof(std::uint16_t)));
}

void Blocks::multiply(const QuantizedRows& x, const DeviceMatrix& w, std::int64_t num_rows, const Memory& y,
                      std::int64_t y_stride, const Stream& stream) const {
  gemms_.multiply({x, num_rows, w, y.data(), y_stride, options_.f32_gemms}, stream);
}

void Blocks::embed(const TickArrays& arrays, const std::int32_t* sampled, const Stream& stream) {
  QRL_CUDA_TARGET::embed({weights_.embedding_VD(), arrays.tokens, sampled, options_.model.hidden_size, x_.as<float>()},
                         arrays.shape.rows, stream);
  branch_ = {};
}

void Blocks::resume(const float* x, std::int64_t num_rows, const Stream& stream) {
  copy_on_device(x_.data(), x, static_cast<std::size_t>(num_rows * options_.model.hidden_size) * sizeof(float), stream);
  branch_ = {};
}

void Blocks::store(std::size_t layer_idx, const TickArrays& arrays, const KvPages& pages, const Stream& stream) {
  const model::ModelConfig& config = options_.model;
  const std::int64_t num_rows = arrays.shape.rows;
  const LayerMemory& layer = weights_.layer(layer_idx);
  const QuantizedRows before = normed_.for_layer(layer.qkv.view);
  norm_quantize(
      {x_.as<float>(), branch_, nullptr, layer.input_norm_D.as<float>(), nullptr, config.rms_norm_eps, before},
      num_rows, stream);
  multiply(before, layer.qkv.view, num_rows, qkv_, qkv_stride_, stream);
  rope_and_store(
      {rows_of(qkv_, qkv_stride_), config.num_attention_heads, layer.qkv.bias.as<float>(), layer.q_norm_E.as<float>(),
       layer.k_norm_E.as<float>(), config.rms_norm_eps, weights_.rope_table(), arrays.where, pages, q_.as<float>()},
      num_rows, stream);
}

void Blocks::attend(std::size_t layer_idx, const TickArrays& arrays, const KvPages& pages, const Stream& stream) {
  const model::ModelConfig& config = options_.model;
  const std::int64_t num_rows = arrays.shape.rows;
  const LayerMemory& layer = weights_.layer(layer_idx);
  const QuantizedRows attended = attended_.for_layer(layer.o.view), after = normed_.for_layer(layer.gate_up.view),
                      gated = gated_.for_layer(layer.down.view);
  // Rows without scales need no pass over the whole row, so attention writes them itself.
  const bool is_bf16 = attended.element == quant::Element::bf16;
  attention({q_.as<float>(), config.num_attention_heads, arrays.where, pages, arrays.attention,
             partial_stats_.as<float>(), partial_contexts_.as<float>(), context_.as<float>(),
             is_bf16 ? static_cast<std::uint16_t*>(attended.quantized) : nullptr, attended.stride},
            stream);
  if (!is_bf16) quantize_rows({context_.as<float>(), attended}, num_rows, stream);
  multiply(attended, layer.o.view, num_rows, y_, width_stride_, stream);
  norm_quantize({x_.as<float>(), rows_of(y_, width_stride_), layer.o.bias.as<float>(), layer.post_norm_D.as<float>(),
                 nullptr, config.rms_norm_eps, after},
                num_rows, stream);
  multiply(after, layer.gate_up.view, num_rows, gate_up_, gate_up_stride_, stream);
  swiglu_quantize({rows_of(gate_up_, gate_up_stride_), gated}, num_rows, stream);
  multiply(gated, layer.down.view, num_rows, y_, width_stride_, stream);
  branch_ = rows_of(y_, width_stride_);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
