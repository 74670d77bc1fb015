#include "cuda/engine/blocks.h"

#include <algorithm>

#include "cuda/attention/attention_task.h"
#include "cuda/quantize/rows.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

QuantizedRows rows_for(const DeviceMatrix& w, void* quantized, float* scales) {
  const quant::FormatSpec& what = quant::spec(w.format);
  const std::int64_t width = w.at.in;
  return {what.activations,
          quantized,
          what.has_activation_scales() ? scales : nullptr,
          round_up(width, kInputChunk),
          width,
          what.activation_scale_inputs == 0 ? width : what.activation_scale_inputs,
          row_rotation(w.rotation)};
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
      partial_stats_(floats(ticks.max_partials() * options.model.num_attention_heads * 2)),
      max_rows_(ticks.max_rows()) {
  const model::ModelConfig& config = options.model;
  if (config.norms != model::NormPlace::before || config.residual_multiplier != 1)
    branch_rows_ = floats(max_rows_ * config.hidden_size);
  if (config.qk_norm_whole) inverse_rms_ = floats(max_rows_ * 2);
}

void Blocks::reserve_adapters(std::int64_t rank) {
  if (!wide_rows_.empty()) return;
  const model::ModelConfig& config = options_.model;
  const std::int64_t widest = std::max({config.hidden_size, config.q_size(), config.intermediate_size});
  constexpr std::int64_t kBf16Bytes = 2;
  model::visit_matrices(config, kAnyLayer, [&](const model::BlockMatrix& matrix, const auto& of) {
    const std::int64_t width = round_up(static_cast<std::int64_t>(matrix.modules.size()) * rank, kInputChunk);
    of(adapter_products_) = Memory::zeroed(static_cast<std::size_t>(max_rows_ * width * kBf16Bytes));
  });
  wide_rows_ = Memory(static_cast<std::size_t>(max_rows_ * round_up(widest, kInputChunk) * kBf16Bytes));
}

Memory Blocks::gemm_memory(std::int64_t count) const {
  return Memory(static_cast<std::size_t>(count) * (options_.f32_gemms ? sizeof(float) : sizeof(std::uint16_t)));
}

std::uint16_t* Blocks::wide_rows(const MatrixMemory& w, const QuantizedRows& x) const {
  const bool needs = !w.adapter.empty() && (x.element != quant::Element::bf16 || x.rotation.block != 0);
  return needs ? wide_rows_.as<std::uint16_t>() : nullptr;
}

void Blocks::multiply(const QuantizedRows& x, const MatrixMemory& w, std::int64_t num_rows, const Memory& y,
                      std::int64_t y_stride, const Memory& products, const Stream& stream) const {
  gemms_.multiply({x, num_rows, w.view, y.data(), y_stride, options_.f32_gemms}, stream);
  if (w.adapter.empty()) return;
  const auto bf16_rows = [](void* rows, const MatrixLayout& at) {
    return QuantizedRows{quant::Element::bf16, rows, nullptr, at.width, at.in, at.in};
  };
  const DeviceMatrix &a = w.adapter.a, &b = w.adapter.b;
  std::uint16_t* wide = wide_rows(w, x);
  gemms_.multiply({wide != nullptr ? bf16_rows(wide, a.at) : x, num_rows, a, products.data(), b.at.width, false},
                  stream);
  gemms_.multiply({bf16_rows(products.data(), b.at), num_rows, b, y.data(), y_stride, options_.f32_gemms, true},
                  stream);
}

void Blocks::embed(const TickArrays& arrays, const std::int32_t* sampled, const Stream& stream) {
  QRL_CUDA_TARGET::embed({weights_.embedding_VD(), arrays.tokens, sampled, options_.model.hidden_size, x_.as<float>(),
                          options_.model.embedding_multiplier},
                         arrays.shape.rows, stream);
  branch_ = {};
}

void Blocks::resume(const float* x, std::int64_t num_rows, const Stream& stream) {
  copy_on_device(x_.data(), x, static_cast<std::size_t>(num_rows * options_.model.hidden_size) * sizeof(float), stream);
  branch_ = {};
}

GemmRows Blocks::branch_of(const Memory& gain, const float*& bias, std::int64_t num_rows, const Stream& stream) const {
  const GemmRows y = rows_of(y_, width_stride_);
  if (branch_rows_.empty()) return y;
  const model::ModelConfig& config = options_.model;
  branch_rows({y, bias, gain.as<float>(), config.rms_norm_eps, config.residual_multiplier, config.hidden_size,
               branch_rows_.as<float>()},
              num_rows, stream);
  bias = nullptr;
  return {branch_rows_.data(), config.hidden_size, true};
}

void Blocks::store(std::size_t layer_idx, const TickArrays& arrays, const KvPages& pages, const Stream& stream) {
  const model::ModelConfig& config = options_.model;
  const std::int64_t num_rows = arrays.shape.rows;
  const LayerMemory& layer = weights_.layer(layer_idx);
  const QuantizedRows before = normed_.for_layer(layer.qkv.view);
  norm_quantize({x_.as<float>(), branch_, nullptr, layer.input_norm_D.as<float>(), nullptr, config.rms_norm_eps, before,
                 wide_rows(layer.qkv, before)},
                num_rows, stream);
  multiply(before, layer.qkv, num_rows, qkv_, qkv_stride_, adapter_products_.qkv, stream);
  const GemmRows qkv = rows_of(qkv_, qkv_stride_);
  if (config.qk_norm_whole)
    projection_rms({qkv, layer.qkv.bias.as<float>(), config.q_size(), config.kv_size(), config.rms_norm_eps,
                    inverse_rms_.as<float>()},
                   num_rows, stream);
  const model::RopeKind rope = config.rope(static_cast<std::int64_t>(layer_idx));
  rope_and_store({qkv, config.num_attention_heads, layer.qkv.bias.as<float>(), layer.q_norm_E.as<float>(),
                  layer.k_norm_E.as<float>(), config.rms_norm_eps, weights_.rope_table(rope), arrays.where, pages,
                  q_.as<float>(), rope == model::RopeKind::none ? 0 : config.rotary_dim(),
                  config.qk_norm_whole ? inverse_rms_.as<float>() : nullptr},
                 num_rows, stream);
}

void Blocks::attend(std::size_t layer_idx, const TickArrays& arrays, const KvPages& pages, const Stream& stream) {
  const model::ModelConfig& config = options_.model;
  const std::int64_t num_rows = arrays.shape.rows;
  const LayerMemory& layer = weights_.layer(layer_idx);
  const QuantizedRows attended = attended_.for_layer(layer.o.view), after = normed_.for_layer(layer.gate_up.view),
                      gated = gated_.for_layer(layer.down.view);
  // The attention kernel itself writes bf16 rows that are not rotated, because they have no scales.
  const bool is_bf16 = attended.element == quant::Element::bf16 && attended.rotation.block == 0;
  attention({q_.as<float>(), config.num_attention_heads, arrays.where, pages, arrays.attention,
             partial_stats_.as<float>(), partial_contexts_.as<float>(), context_.as<float>(),
             is_bf16 ? static_cast<std::uint16_t*>(attended.quantized) : nullptr, attended.stride, config.score_scale(),
             static_cast<std::int32_t>(config.window(static_cast<std::int64_t>(layer_idx)))},
            stream);
  if (!is_bf16) quantize_rows({context_.as<float>(), attended, wide_rows(layer.o, attended)}, num_rows, stream);
  multiply(attended, layer.o, num_rows, y_, width_stride_, adapter_products_.o, stream);
  const float* bias = layer.o.bias.as<float>();
  const GemmRows branch = branch_of(layer.attention_norm_D, bias, num_rows, stream);
  norm_quantize({x_.as<float>(), branch, bias, layer.post_norm_D.as<float>(), nullptr, config.rms_norm_eps, after,
                 wide_rows(layer.gate_up, after)},
                num_rows, stream);
  multiply(after, layer.gate_up, num_rows, gate_up_, gate_up_stride_, adapter_products_.gate_up, stream);
  swiglu_quantize({rows_of(gate_up_, gate_up_stride_), gated, wide_rows(layer.down, gated), config.gate}, num_rows,
                  stream);
  multiply(gated, layer.down, num_rows, y_, width_stride_, adapter_products_.down, stream);
  const float* no_bias = nullptr;
  branch_ = branch_of(layer.mlp_norm_D, no_bias, num_rows, stream);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
