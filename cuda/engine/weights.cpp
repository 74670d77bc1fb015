#include "cuda/engine/weights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "cuda/gemm/block_scales.h"
#include "cuda/quantize/quantize_weights.h"
#include "cuda/quantize/rows.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

void put(Memory& memory, const void* from, std::size_t num_bytes, const Stream& stream) {
  if (memory.empty()) memory = Memory(num_bytes);
  QRL_INVARIANT(memory.num_bytes() == num_bytes, "upload", std::to_string(memory.num_bytes()) + " bytes as before",
                std::to_string(num_bytes));
  if (from != nullptr) copy_to_device(memory.data(), from, num_bytes, stream);
}

void grow(Memory& memory, std::size_t num_bytes, const Stream& stream) {
  if (memory.num_bytes() >= num_bytes) return;
  stream.wait();
  memory = Memory();
  memory = Memory(num_bytes);
}

/// Keeps the matrix's scales in cuBLASLt's order, too, so that no tick arranges them.
void arrange(const MatrixMemory& matrix, const Stream& stream) {
  if (!matrix.block_scales.empty()) arrange_weight_scales({matrix.view, matrix.block_scales.as<float>()}, stream);
}

/// Returns how many of a tensor's rows are quantized at once: all, or if they are rotated first, whole blocks of 128
/// rows with at most `most_rotated` weights. One scale for a tensor needs all rows.
std::int64_t rows_per_part(const DeviceMatrix& w, std::int64_t num_rows, std::int64_t most_rotated) {
  constexpr std::int64_t kBlockRows = 128;  // those of fp8_block128
  if (!w.rotation || quant::spec(w.format).scope == quant::ScaleScope::tensor) return num_rows;
  return std::min(num_rows, std::max(kBlockRows, most_rotated / w.at.in / kBlockRows * kBlockRows));
}

void put_floats(Memory& memory, const float* from, std::int64_t count, const Stream& stream) {
  if (from == nullptr) return;
  put(memory, from, static_cast<std::size_t>(count) * sizeof(float), stream);
}

}  // namespace

void Weights::upload_matrix(const HostMatrix& host, std::int64_t out, std::int64_t in, MatrixMemory& matrix,
                            const Stream& stream) {
  put_floats(matrix.bias, host.bias, out, stream);
  QRL_INVARIANT(host.out == out && host.in == in, "upload",
                "a matrix [" + std::to_string(out) + ", " + std::to_string(in) + "]",
                "[" + std::to_string(host.out) + ", " + std::to_string(host.in) + "]");
  QRL_REQUIRE(host.format != quant::Format::f32, "rollout.device: cuda", "weights of bf16 or fewer bits", "fp32",
              "set quant.rollout.weights to another format, and quant.rollout.lm_head to auto");
  const MatrixLayout at = matrix_layout(host.format, out, in);
  if (matrix.quantized.empty()) {
    // Zeroes the padding, which GEMMs read and nothing writes.
    Memory quantized = Memory::zeroed(static_cast<std::size_t>(at.num_bytes()));
    matrix.scales = Memory::zeroed(static_cast<std::size_t>(at.num_scales * at.rows) * sizeof(float));
    if (host.format == quant::Format::fp8_block128)
      matrix.block_scales = Memory(static_cast<std::size_t>(num_arranged_scales(at)) * sizeof(float));
    matrix.scale_rule = host.scale_rule;
    matrix.quantized = std::move(quantized);  // after all allocations succeeded
    matrix.view = {host.format,
                   at,
                   matrix.quantized.as<std::uint8_t>(),
                   at.num_scales > 0 ? matrix.scales.as<float>() : nullptr,
                   matrix.block_scales.empty() ? nullptr : matrix.block_scales.as<float>(),
                   host.rotation};
  }
  QRL_INVARIANT(matrix.view.format == host.format && matrix.view.rotation == host.rotation, "upload",
                "the format and rotation of the first upload, " + std::string(name(matrix.view.format)),
                std::string(name(host.format)));
  if (host.panels == nullptr) return;
  const auto panel_bytes = static_cast<std::size_t>(at.rows * at.num_words) * sizeof(std::uint32_t);
  grow(staging_, panel_bytes, stream);
  copy_to_device(staging_.data(), host.panels, panel_bytes, stream);
  repack({staging_.as<std::uint32_t>(), word_order(host.format), at, matrix.quantized.as<std::uint8_t>()}, stream);
  if (at.num_scales == 0) return;
  QRL_INVARIANT(host.scales != nullptr && host.scale_stride == at.rows, "upload",
                "scales of " + std::to_string(at.rows) + " columns", std::to_string(host.scale_stride));
  const auto count = static_cast<std::size_t>(at.num_scales * at.rows);
  if (quant::spec(host.format).weights != quant::Element::int4) {
    copy_to_device(matrix.scales.data(), host.scales, count * sizeof(float), stream);
    return arrange(matrix, stream);
  }
  std::vector<float>& wide = wide_scales_.emplace_back(count);
  std::transform(static_cast<const base::bf16*>(host.scales), static_cast<const base::bf16*>(host.scales) + count,
                 wide.begin(), [](base::bf16 scale) { return to_float(scale); });
  copy_to_device(matrix.scales.data(), wide.data(), count * sizeof(float), stream);
}

void Weights::upload(const HostWeights& host, const Stream& stream) {
  const model::ModelConfig& config = options_.model;
  QRL_INVARIANT(static_cast<std::int64_t>(host.layers.size()) == config.num_hidden_layers, "upload",
                std::to_string(config.num_hidden_layers) + " layers", std::to_string(host.layers.size()));
  const bool takes_head = host.lm_head.format == quant::Format::bf16 || host.lm_head.format == quant::Format::int8;
  QRL_REQUIRE(takes_head && (host.embedding_VD != nullptr || host.lm_head.panels == nullptr), "rollout.device: cuda",
              "an embedding of bf16 and an lm_head of bf16 or int8", std::string(name(host.lm_head.format)),
              "set quant.rollout.weights to another format than fp32, and quant.rollout.lm_head to auto or int8");
  put(embedding_, host.embedding_VD, static_cast<std::size_t>(config.vocab_size * config.hidden_size) * 2, stream);
  put_floats(final_norm_, host.final_norm_D, config.hidden_size, stream);
  put_floats(rope_table_, host.rope_table, options_.max_positions * config.rotary_dim(), stream);
  if (config.sliding_rope_theta > 0)
    put_floats(sliding_rope_table_, host.sliding_rope_table, options_.max_positions * config.rotary_dim(), stream);
  layers_.resize(host.layers.size());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const HostLayer& from = host.layers[i];
    LayerMemory& to = layers_[i];
    model::visit_block(
        config, static_cast<std::int64_t>(i),
        [&](const model::BlockGain& gain, const auto& of) {
          QRL_INVARIANT(of(from) != nullptr, "upload, " + std::string(gain.name), "a gain", "no gain");
          put_floats(of(to), of(from), gain.width, stream);
        },
        [&](const model::BlockMatrix& matrix, const auto& of) {
          QRL_INVARIANT((of(from).bias != nullptr) == matrix.has_bias, "upload, " + std::string(matrix.name),
                        matrix.has_bias ? "a bias" : "no bias", matrix.has_bias ? "no bias" : "a bias");
          upload_matrix(of(from), matrix.out(), matrix.in, of(to), stream);
          of(to).view.at.has_whole_blocks = std::all_of(matrix.modules.begin(), matrix.modules.end(),
                                                        [](const auto& each) { return each.rows % kInputChunk == 0; });
        });
  }
  upload_matrix(host.lm_head, config.vocab_size, config.hidden_size, lm_head_, stream);
  stream.wait();
  wide_scales_.clear();
}

void Weights::require_layer(std::int64_t layer) const {
  QRL_INVARIANT(uploaded() && 0 <= layer && layer < options_.model.num_hidden_layers, "weights", "an uploaded layer",
                std::to_string(layer));
}

const Memory& Weights::vector_at(const WeightId& id) const {
  if (id.name == kFinalNorm) return final_norm_;
  const LayerMemory& layer = layers_[static_cast<std::size_t>(id.layer)];
  const Memory* found = nullptr;
  model::visit_block(
      options_.model, id.layer,
      [&](const model::BlockGain& gain, const auto& of) {
        if (gain.name == id.name) found = &of(layer);
      },
      [&](const model::BlockMatrix& matrix, const auto& of) {
        if (matrix.name == id.name) found = &of(layer).bias;
      });
  QRL_INVARIANT(found != nullptr, "weights", "a gain or a bias of the model", std::string(id.name));
  return *found;
}

const MatrixMemory* Weights::matrix_at(const WeightId& id) const {
  if (id.is_bias) return nullptr;
  if (id.name == kLmHead) return &lm_head_;
  const LayerMemory& layer = layers_[static_cast<std::size_t>(id.layer)];
  const MatrixMemory* found = nullptr;
  model::visit_matrices(options_.model, id.layer, [&](const model::BlockMatrix& matrix, const auto& of) {
    if (matrix.name == id.name) found = &of(layer);
  });
  return found;
}

const float* Weights::to_device(Memory& memory, const float* from, std::int64_t count, const Stream& stream) {
  if (from == nullptr) return nullptr;
  const std::size_t num_bytes = static_cast<std::size_t>(count) * sizeof(float);
  grow(memory, num_bytes, stream);
  copy_to_device(memory.data(), from, num_bytes, stream);
  return memory.as<float>();
}

void Weights::rewrite_matrix(const Master& master, const MatrixMemory& matrix, std::uint32_t* not_finite,
                             const Stream& stream) {
  const MatrixLayout& at = matrix.view.at;
  const quant::FormatSpec& what = quant::spec(matrix.view.format);
  QRL_INVARIANT(0 <= master.first && 0 < master.count && master.first + master.count <= at.out, "rewrite",
                "rows of a matrix of " + std::to_string(at.out), std::to_string(master.count));
  QRL_INVARIANT(master.row_scales == nullptr || what.scope == quant::ScaleScope::channel, "rewrite",
                "row scales only for a format that has them", std::string(what.name));
  const std::int64_t part = rows_per_part(matrix.view, master.count, options_.rotated_weights);
  const auto num_sizes = num_magnitudes(what.scope, part, at.num_scales);
  grow(magnitudes_, static_cast<std::size_t>(num_sizes) * sizeof(std::uint32_t), stream);
  QuantizeWeightsTask task{master.values,
                           master.count,
                           to_device(factors_, master.factors, at.in, stream),
                           to_device(row_scales_, master.row_scales, master.count, stream),
                           what.weights,
                           what.scope,
                           what.scale_inputs == 0 ? at.in : what.scale_inputs,
                           matrix.scale_rule,
                           word_order(matrix.view.format),
                           at,
                           master.first,
                           matrix.quantized.as<std::uint8_t>(),
                           matrix.scales.as<float>(),
                           magnitudes_.as<std::uint32_t>(),
                           not_finite};
  if (!matrix.view.rotation) {
    quantize_weights(task, stream);
  } else {
    grow(rotated_, static_cast<std::size_t>(part * at.in) * sizeof(float), stream);
    const float* factors = std::exchange(task.input_factors, nullptr);
    task.weights = rotated_.as<float>();
    for (std::int64_t row = 0; row < master.count; row += part) {
      task.num_rows = std::min(part, master.count - row);
      task.first_row = master.first + row;
      rotate_weights({master.values + row * at.in, task.num_rows, at.in, factors, row_rotation(matrix.view.rotation),
                      rotated_.as<float>()},
                     stream);
      quantize_weights(task, stream);
      if (task.row_scales != nullptr) task.row_scales += task.num_rows;
    }
  }
  arrange(matrix, stream);
}

std::int64_t Weights::rewrite(std::span<const Master> masters, const Stream& stream) {
  std::uint32_t* not_finite = clear_flags(masters.size(), stream);
  for (const Master& master : masters) {
    require_layer(master.weight.layer);
    if (const MatrixMemory* matrix = matrix_at(master.weight); matrix != nullptr) {
      rewrite_matrix(master, *matrix, not_finite, stream);
    } else if (master.weight.name == kEmbedding) {
      QRL_INVARIANT(master.first == 0 && master.count == options_.model.vocab_size, "rewrite", "the whole embedding",
                    std::to_string(master.count) + " rows");
      round_table({master.values, master.count * options_.model.hidden_size, nullptr, embedding_.data(), not_finite},
                  stream);
    } else {
      const Memory& vector = vector_at(master.weight);
      const auto size = static_cast<std::int64_t>(vector.num_bytes() / sizeof(float));
      QRL_INVARIANT(0 <= master.first && master.first + master.count <= size, "rewrite",
                    "elements of a vector of " + std::to_string(size), std::to_string(master.count));
      store_vector(
          {master.values, master.count, to_device(factors_, master.factors, master.count, stream),
           vector.as<float>() + master.first, not_finite, master.weight.is_bias ? 0.0F : options_.model.norm_offset},
          stream);
    }
    ++not_finite;
  }
  return first_broken(masters.size(), stream);
}

std::uint32_t* Weights::clear_flags(std::size_t count, const Stream& stream) {
  grow(not_finite_, count * sizeof(std::uint32_t), stream);
  fill_zero(not_finite_.data(), count * sizeof(std::uint32_t), stream);
  return not_finite_.as<std::uint32_t>();
}

std::int64_t Weights::first_broken(std::size_t count, const Stream& stream) const {
  std::vector<std::uint32_t> flags(count);
  copy_to_host(flags.data(), not_finite_.data(), count * sizeof(std::uint32_t), stream);
  stream.wait();
  const auto broken = std::find(flags.begin(), flags.end(), 1U);
  return broken == flags.end() ? -1 : broken - flags.begin();
}

void Weights::rewrite_adapter(const AdapterMaster& master, std::uint32_t* not_finite, const Stream& stream) {
  AdapterMemory* adapter = nullptr;
  model::BlockMatrix matrix;
  model::visit_matrices(options_.model, master.matrix.layer, [&](const model::BlockMatrix& each, const auto& of) {
    if (each.name != master.matrix.name) return;
    matrix = each;
    adapter = &of(layers_[static_cast<std::size_t>(master.matrix.layer)]).adapter;
  });
  QRL_INVARIANT(adapter != nullptr && master.module < matrix.modules.size(), "adapters", "a module of a block's matrix",
                std::string(master.matrix.name) + ", module " + std::to_string(master.module));
  if (adapter->empty()) {
    const std::int64_t all = static_cast<std::int64_t>(matrix.modules.size()) * master.rank;
    const MatrixLayout a = matrix_layout(quant::Format::bf16, all, matrix.in),
                       b = matrix_layout(quant::Format::bf16, matrix.out(), all);
    Memory a_values = Memory::zeroed(static_cast<std::size_t>(a.num_bytes()));
    adapter->b_values = Memory::zeroed(static_cast<std::size_t>(b.num_bytes()));
    adapter->a_values = std::move(a_values);  // after both allocations succeeded
    adapter->a = {quant::Format::bf16, a, adapter->a_values.as<std::uint8_t>(), nullptr};
    adapter->b = {quant::Format::bf16, b, adapter->b_values.as<std::uint8_t>(), nullptr};
    ++num_adapted_;
  }
  std::int64_t first_output = 0;
  for (std::size_t i = 0; i < master.module; ++i) first_output += matrix.modules[i].rows;
  const std::int64_t first = static_cast<std::int64_t>(master.module) * master.rank;
  const std::int64_t num_rows = master.is_b ? matrix.modules[master.module].rows : master.rank,
                     width = master.is_b ? master.rank : matrix.in;
  const std::int64_t stride = (master.is_b ? adapter->b : adapter->a).at.width;
  std::uint16_t* to = master.is_b ? adapter->b_values.as<std::uint16_t>() + first_output * stride + first
                                  : adapter->a_values.as<std::uint16_t>() + first * stride;
  const float* values = master.on_host ? to_device(from_host_, master.values, num_rows * width, stream) : master.values;
  place_rows({values, num_rows, width, master.scale, to, stride, not_finite}, stream);
}

std::int64_t Weights::rewrite_adapters(std::span<const AdapterMaster> masters, const Stream& stream) {
  std::uint32_t* not_finite = clear_flags(masters.size(), stream);
  for (const AdapterMaster& master : masters) {
    require_layer(master.matrix.layer);
    QRL_INVARIANT(master.rank > 0 && (adapter_rank_ == 0 || master.rank == adapter_rank_), "adapters",
                  "the rank of the first adapter, " + std::to_string(adapter_rank_), std::to_string(master.rank));
    adapter_rank_ = master.rank;
    rewrite_adapter(master, not_finite++, stream);
  }
  return first_broken(masters.size(), stream);
}

const DeviceMatrix& Weights::matrix(const WeightId& id) const {
  require_layer(id.layer);
  const MatrixMemory* found = id.name == kLmHead ? nullptr : matrix_at(id);
  QRL_INVARIANT(found != nullptr, "matmul", "a matrix of a block", std::string(id.name));
  return found->view;
}

Table Weights::table(std::string_view name) const {
  require_layer(0);
  if (name == kEmbedding) return {embedding_VD(), options_.model.hidden_size};
  QRL_INVARIANT(name == kLmHead && lm_head_.view.format == quant::Format::bf16, "table",
                "the embedding, or an lm_head of bf16", std::string(name));
  return {lm_head_.quantized.as<std::uint16_t>(), lm_head_.view.at.width};
}

void Weights::dequantize(std::span<const DequantizedMatrix> wanted, const Stream& stream) const {
  const std::int64_t width = options_.model.hidden_size;
  for (const DequantizedMatrix& one : wanted) {
    require_layer(one.matrix.layer);
    if (const MatrixMemory* matrix = matrix_at(one.matrix); matrix != nullptr) {
      const DeviceMatrix& w = matrix->view;
      const quant::FormatSpec& what = quant::spec(w.format);
      dequantize_weights({w, what.weights, what.scale_inputs == 0 ? w.at.in : what.scale_inputs, word_order(w.format),
                          one.to, one.to_f32, row_rotation(w.rotation)},
                         stream);
    } else {
      QRL_INVARIANT(one.matrix.name == kEmbedding, "dequantize", "a matrix", std::string(one.matrix.name));
      dequantize_rows({{quant::Element::bf16, embedding_.data(), nullptr, width, width, width}, one.to, one.to_f32},
                      options_.model.vocab_size, stream);
    }
  }
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
