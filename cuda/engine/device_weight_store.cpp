#include "base/error.h"
#include "cuda/engine/engine_state.h"
#include "cuda/quantize/quantize_weights.h"
#include "cuda/quantize/rows.h"
#include "cuda/runtime/out_of_memory.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::Element;

std::int64_t quantized_bytes_of(const DeviceMatrix& w, std::int64_t num_rows) {
  return num_rows * round_up(w.at.in, kInputChunk) * (quant::spec(w.format).activations == Element::bf16 ? 2 : 1);
}
QuantizedRows rows_in(void* memory, const DeviceMatrix& w, std::int64_t num_rows) {
  auto* scales = static_cast<std::uint8_t*>(memory) + quantized_bytes_of(w, num_rows);
  return rows_for(w, memory, reinterpret_cast<float*>(scales));
}

}  // namespace

void DeviceWeightStore::upload(const HostWeights& weights) {
  engine_.synchronize_callers_stream();
  with_memory({"rollout.device: cuda", "the weights",
               "choose quant.rollout.weights of fewer bits, or stop other programs that use the device"},
              [&] { engine_.weights.upload(weights, engine_.stream); });
  // Reserves the GEMMs' memory before KV pages take the rest, and before any graph is recorded.
  for (std::size_t i = 0; i < engine_.weights.num_layers(); ++i) {
    const LayerMemory& layer = engine_.weights.layer(i);
    model::visit_matrices(engine_.options.model, static_cast<std::int64_t>(i),
                          [&](const model::BlockMatrix&, const auto& of) {
                            engine_.gemms->reserve(of(layer).view, engine_.tick.max_rows());
                          });
  }
}

std::int64_t DeviceWeightStore::rewrite(std::span<const Master> masters) {
  for (const Master& master : masters) engine_.require_on_device(master.values, "publish, a master");
  engine_.synchronize_callers_stream();
  return with_memory({kUtilization, "publishing weights", kLowerIt},
                     [&] { return engine_.weights.rewrite(masters, engine_.stream); });
}

std::int64_t DeviceWeightStore::rewrite_adapters(std::span<const AdapterMaster> masters) {
  for (const AdapterMaster& master : masters) {
    if (!master.on_host) engine_.require_on_device(master.values, "publish, an adapter");
  }
  engine_.synchronize_callers_stream();
  return with_memory({kUtilization, "publishing adapters", kLowerIt}, [&] {
    const std::int64_t num_before = engine_.weights.num_adapted();
    const std::int64_t broken = engine_.weights.rewrite_adapters(masters, engine_.stream);
    engine_.blocks.reserve_adapters(engine_.weights.adapter_rank());
    // Recorded graphs lack the new adapters' GEMMs.
    if (engine_.weights.num_adapted() > num_before) engine_.forget_graphs();
    return broken;
  });
}

void DeviceWeightStore::dequantize(std::span<const DequantizedMatrix> wanted, CallersStream stream) {
  for (const DequantizedMatrix& one : wanted) engine_.require_on_device(one.to, "dequantize, the result");
  engine_.run_on_callers_stream(stream, [&](const Stream& theirs) { engine_.weights.dequantize(wanted, theirs); });
}

MatmulRoom DeviceWeightStore::matmul_room(const WeightId& matrix, std::int64_t num_rows) const {
  const DeviceMatrix& w = engine_.weights.matrix(matrix);
  const QuantizedRows rows = rows_in(nullptr, w, 0);
  const std::int64_t num_scales = quant::spec(w.format).has_activation_scales() ? num_rows * rows.num_scales() : 0;
  return {quantized_bytes_of(w, num_rows) + num_scales * static_cast<std::int64_t>(sizeof(float)), w.at.rows,
          engine_.options.f32_gemms};
}

void DeviceWeightStore::matmul(const float* x, const MatmulInput& input, void* y, CallersStream stream) {
  engine_.require_on_device(x, "matmul, x");
  engine_.require_on_device(input.quantized, "matmul, quantized rows");
  if (y != nullptr) engine_.require_on_device(y, "matmul, y");
  const DeviceMatrix& w = engine_.weights.matrix(input.matrix);
  const QuantizedRows rows = rows_in(input.quantized, w, input.num_rows);
  engine_.run_on_callers_stream(stream, [&](const Stream& theirs) {
    quantize_rows({x, rows}, input.num_rows, theirs);
    if (y == nullptr) return;
    engine_.gemms->multiply({rows, input.num_rows, w, y, w.at.rows, engine_.options.f32_gemms}, theirs);
  });
}

void DeviceWeightStore::dequantize(const MatmulInput& input, void* to, bool to_f32, CallersStream stream) {
  engine_.require_on_device(input.quantized, "dequantize, quantized rows");
  engine_.require_on_device(to, "dequantize, the result");
  const QuantizedRows rows = rows_in(input.quantized, engine_.weights.matrix(input.matrix), input.num_rows);
  engine_.run_on_callers_stream(stream, [&](const Stream& theirs) {
    dequantize_rows({rows, to, to_f32}, input.num_rows, theirs);
  });
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
