#include "decoder/device/device_backend.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/threads.h"
#include "cuda/engine/sequence_scorer.h"
#include "cuda/engine/weight_store.h"
#include "decoder/device/device_masters.h"
#include "decoder/device/device_ticks.h"
#include "model/block.h"
#include "model/rope.h"

namespace qrl::decoder {

namespace {

cuda::HostMatrix host_matrix(const ops::PackedLinear& packed, bool has_values) {
  return {packed.format,
          packed.out,
          packed.in,
          has_values ? packed.panels.view().data : nullptr,
          packed.scales.empty() ? nullptr : packed.scales.view().data,
          packed.scales.empty() ? 0 : packed.scales.shape()[1],
          packed.bias.empty() ? nullptr : packed.bias.as<float>(),
          packed.scale_rule,
          packed.rotation};
}

class DeviceBackend final : public Backend, public model::DeviceWeights {
 public:
  DeviceBackend(const model::ModelConfig& config, const DecoderOptions& options,
                std::unique_ptr<cuda::DecodeEngine> engine)
      : options_(options),
        vocab_size_(config.vocab_size),
        head_dim_(config.head_dim),
        num_kv_scales_(static_cast<std::size_t>(config.num_attention_layers() * config.num_key_value_heads)),
        num_pages_(options.kv_pages),
        engine_(std::move(engine)),
        ropes_(config, options.max_model_len),
        tick_(options.page_size),
        masters_(config) {
    base::log_info("rollouts on " + engine_->describe());
  }

  void load(const model::Snapshot& snapshot) override {
    snapshot_ = &snapshot;
    uploaded_version_ = uploaded_base_ = -1;
  }
  void set_kv_scales(KvScales scales) override;
  void calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options) override;
  const KvScales& kv_scales() const override { return kv_scales_; }
  std::int64_t begin() override;
  int num_ticks_ahead() const override { return 1; }
  bool needs_host_logits(const ops::SampleParams& params) const override {
    return params.cuts() && !cuda::device_can_cut(params.top_p, params.top_k, params.max_kept, vocab_size_);
  }
  void start(const Plan& plan, std::span<ops::SampledToken> samples) override;
  void finish() override;
  void release_kv() override { engine_->release_kv(); }
  DeviceStats device_stats() const override {
    const cuda::EngineStats& stats = engine_->stats();
    return {stats.graph_ticks, stats.held_graphs, static_cast<std::int64_t>(stats.graph_bytes), stats.waited_s};
  }
  model::DeviceWeights* device_weights() override { return this; }

  bool holds(const model::Snapshot& snapshot) const override {
    return &snapshot == snapshot_ && uploaded_version_ >= 0 &&
           (!snapshot.lora().enabled() || uploaded_base_ == snapshot.base_number());
  }
  std::string rewrite(std::span<const model::DeviceMaster> masters) override;
  void finish(std::int64_t version) override { uploaded_version_ = version; }
  void upload(const model::Snapshot& snapshot) override;
  void dequantize(std::span<const model::DequantizedTensor> wanted, void* stream) override {
    engine_->weights().dequantize(masters_.of(wanted), {stream});
  }
  model::DeviceTable table(const std::string& tensor) override {
    const cuda::Table table = engine_->weights().table(masters_.matrix(tensor).name);
    return {const_cast<std::uint16_t*>(table.values), table.stride};
  }
  model::MatmulWorkspace matmul_workspace(const std::string& matrix, std::int64_t num_rows) override {
    const cuda::MatmulRoom room = engine_->weights().matmul_room(masters_.matrix(matrix), num_rows);
    return {static_cast<std::size_t>(room.quantized_bytes), room.y_columns,
            room.y_is_f32 ? base::DType::f32 : base::DType::bf16};
  }
  void multiply(const float* x, const model::MatmulInput& input, void* y, void* stream) override {
    engine_->weights().matmul(x, placed(input), y, {stream});
  }
  void dequantize_input(const model::MatmulInput& input, const base::View& to, void* stream) override {
    engine_->weights().dequantize(placed(input), to.data, to.dtype == base::DType::f32, {stream});
  }
  void forward(const model::PackedSequences& rows, std::span<float* const> after_layer, void* stream) override {
    const PackedTicks packed(rows, limits());
    engine_->sequences().forward(packed.ticks(), packed.num_pages(), after_layer, {stream});
  }
  void score(const float* x, const model::TargetTokens& targets, std::span<float> logprobs, std::span<float> entropies,
             void* stream) override;

 private:
  cuda::MatmulInput placed(const model::MatmulInput& input) const {
    return {masters_.matrix(input.matrix), input.num_rows, input.quantized};
  }
  TickLimits limits() const { return {options_.max_num_batched_tokens, options_.max_num_seqs, options_.page_size}; }
  void upload_unless_there();
  void upload_weights(bool has_base);  ///< `has_base`: the device already has the base's matrices
  void upload_adapters();
  void sample_from_whole_rows(const Plan& plan, std::span<ops::SampledToken> samples);

  DecoderOptions options_;
  std::int64_t vocab_size_, head_dim_;
  std::size_t num_kv_scales_;
  std::int64_t num_pages_;
  std::unique_ptr<cuda::DecodeEngine> engine_;
  model::RopeTables ropes_;
  DeviceTick tick_;
  DeviceMasters masters_;
  KvScales kv_scales_;
  const model::Snapshot* snapshot_ = nullptr;
  std::int64_t uploaded_version_ = -1, uploaded_base_ = -1;
  bool has_adapters_ = false;
  struct Samples {
    void clear();
    void add(const Plan& plan, std::size_t sample_idx);
    std::vector<std::size_t> places;  ///< indices into the plan's samples
    std::vector<std::int32_t> rows;
    std::vector<double> uniforms;
    std::vector<float> temperatures;
    std::vector<cuda::RowCuts> cuts;       ///< of rows that the device samples
    std::vector<std::uint8_t> wants_kept;  ///< whether max_kept is set
  };
  Samples whole_rows_;  ///< rows that need host logits
  struct StartedSamples {
    Samples on_device;
    std::span<ops::SampledToken> samples;
  };
  StartedSamples started_[2];  ///< samples of even and of odd ticks
  std::int64_t num_started_ = 0, num_finished_ = 0;
  std::vector<cuda::SampledToken> sampled_;
  std::vector<float> logits_;
};

void DeviceBackend::set_kv_scales(KvScales scales) {
  QRL_INVARIANT(options_.kv_format == quant::KvFormat::fp8_e4m3 && scales.keys_LK.size() == num_kv_scales_ &&
                    scales.values_LK.size() == num_kv_scales_,
                "KV scales", std::to_string(num_kv_scales_) + " for fp8_e4m3 pages",
                std::to_string(scales.keys_LK.size()) + " for " + std::string(name(options_.kv_format)));
  engine_->set_kv_scales(scales.keys_LK, scales.values_LK);
  kv_scales_ = std::move(scales);
}

void DeviceBackend::calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options) {
  std::vector<std::int32_t> tokens, starts{0};
  for (const std::vector<types::TokenId>& sequence : sequences) {
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    starts.push_back(static_cast<std::int32_t>(tokens.size()));
  }
  QRL_REQUIRE(!tokens.empty(), "KV calibration", "one prompt or more", "no prompts");
  upload_unless_there();
  const PackedTicks packed({tokens, starts, {}}, limits());
  const cuda::Tick& tick = packed.ticks().front();
  const std::int64_t count = static_cast<std::int64_t>(tick.tokens_N.size()) * head_dim_;
  KvScales scales{snapshot_->version(), std::vector<float>(num_kv_scales_), std::vector<float>(num_kv_scales_)};
  engine_->sequences().kv_percentiles(tick, num_above_percentile(count, options.percentile), scales.keys_LK,
                                      scales.values_LK);
  for (std::vector<float>* side : {&scales.keys_LK, &scales.values_LK}) {
    for (float& x : *side) {
      if (!std::isfinite(x)) model::fail_broken("KV calibration, keys and values", snapshot_->version());
      x = kv_scale(x, options);
    }
  }
  set_kv_scales(std::move(scales));
}

void DeviceBackend::score(const float* x, const model::TargetTokens& targets, std::span<float> logprobs,
                          std::span<float> entropies, void* stream) {
  std::vector<cuda::TokenScore> scores(logprobs.size());
  engine_->sequences().score(x, {targets.rows, targets.tokens, targets.temperature, targets.kept}, scores, {stream});
  for (std::size_t i = 0; i < scores.size(); ++i) {
    logprobs[i] = scores[i].logprob;
    entropies[i] = scores[i].entropy;
  }
}

void DeviceBackend::upload_unless_there() {
  const model::Snapshot& snapshot = *snapshot_;
  if (uploaded_version_ == snapshot.version()) return;
  const bool has_adapters = snapshot.lora().enabled();
  QRL_INVARIANT(has_adapters || !has_adapters_, "upload", "a snapshot with adapters, like the first",
                "a snapshot without adapters");
  has_adapters_ = has_adapters;
  upload_weights(has_adapters && uploaded_base_ == snapshot.base_number());
  uploaded_base_ = snapshot.base_number();
  if (has_adapters) upload_adapters();
  uploaded_version_ = snapshot.version();
}

void DeviceBackend::upload_weights(bool has_base) {
  const model::Snapshot& snapshot = *snapshot_;
  cuda::HostWeights weights;
  if (!has_base && snapshot.embedding_VD().view().dtype == base::DType::bf16)
    weights.embedding_VD = static_cast<const std::uint16_t*>(snapshot.embedding_VD().view().data);
  weights.final_norm_D = snapshot.final_norm_D().as<float>();
  weights.rope_table = ropes_.of(model::RopeKind::common).as<float>();
  if (snapshot.config().sliding_rope_theta > 0)
    weights.sliding_rope_table = ropes_.of(model::RopeKind::sliding).as<float>();
  weights.lm_head = host_matrix(snapshot.lm_head(), !has_base);
  for (std::int64_t i = 0; i < snapshot.config().num_hidden_layers; ++i) {
    const model::LayerSnapshot& from = snapshot.layer(i);
    cuda::HostLayer& to = weights.layers.emplace_back();
    model::visit_block(
        snapshot.config(), i, [&](const model::BlockGain&, const auto& of) { of(to) = of(from).template as<float>(); },
        [&](const model::BlockMatrix&, const auto& of) { of(to) = host_matrix(of(from), !has_base); });
  }
  engine_->weights().upload(weights);
}

/// Uploads adapters one matrix at a time, so that few fp32 copies are in host memory.
void DeviceBackend::upload_adapters() {
  const model::Snapshot& snapshot = *snapshot_;
  std::vector<base::Buffer> values;
  std::vector<cuda::AdapterMaster> masters;
  const auto add = [&](const std::string& weight, const ops::PackedLinear& packed, std::int64_t first_row,
                       std::int64_t num_rows) {
    const base::Buffer& dense = values.emplace_back(base::DType::f32, base::Shape{num_rows, packed.in});
    ops::unpack_rows(packed, first_row, num_rows, dense.as<float>());
    cuda::AdapterMaster& master = masters.emplace_back(*masters_.adapter(weight));
    master.values = dense.as<float>();
    master.on_host = true;
    master.rank = snapshot.lora().rank;  // `scale` stays 1: the snapshot's B is already scaled
  };
  for (std::int64_t i = 0; i < snapshot.config().num_hidden_layers; ++i) {
    model::visit_matrices(snapshot.config(), i, [&](const model::BlockMatrix&, const auto& of) {
      const model::MatrixAdapter& adapter = of(snapshot.layer(i).adapters);
      if (adapter.empty()) return;
      values.clear();
      masters.clear();
      std::int64_t first_row = 0;
      for (const model::MatrixAdapter::Part& part : adapter.parts) {
        add(model::lora_a_name(part.module), adapter.a, first_row, adapter.rank());
        add(model::lora_b_name(part.module), part.b, 0, part.b.out);
        first_row += adapter.rank();
      }
      (void)engine_->weights().rewrite_adapters(masters);  // cannot fail: publishing checked that all values are finite
    });
  }
}

std::string DeviceBackend::rewrite(std::span<const model::DeviceMaster> masters) {
  uploaded_version_ = -1;  // no valid version until all weights are rewritten
  std::vector<model::DeviceMaster> others;
  std::vector<cuda::AdapterMaster> adapters;
  std::vector<std::string> names, adapter_names;
  for (const model::DeviceMaster& master : masters) {
    const cuda::AdapterMaster* place = masters_.adapter(master.weight);
    if (place == nullptr) {
      others.push_back(master);
      continue;
    }
    cuda::AdapterMaster& placed = adapters.emplace_back(*place);
    placed.values = static_cast<const float*>(master.values.data);
    placed.rank = snapshot_->lora().rank;
    if (placed.is_b) placed.scale = static_cast<float>(snapshot_->lora().scale());
    adapter_names.push_back(master.weight);
  }
  const auto named = [](std::int64_t broken, const std::vector<std::string>& of) {
    return broken < 0 ? std::string() : of[static_cast<std::size_t>(broken)];
  };
  const std::vector<cuda::Master> placed = masters_.of(others, names);
  std::string broken;
  if (!placed.empty()) broken = named(engine_->weights().rewrite(placed), names);
  if (adapters.empty() || !broken.empty()) return broken;
  return named(engine_->weights().rewrite_adapters(adapters), adapter_names);
}

void DeviceBackend::upload(const model::Snapshot& snapshot) {
  QRL_INVARIANT(&snapshot == snapshot_ && snapshot.version() >= 0, "device weights",
                "the published snapshot that the decoder reads", "another snapshot");
  upload_unless_there();
}

std::int64_t DeviceBackend::begin() {
  QRL_INVARIANT(snapshot_->version() >= 0, "decoder", "a published snapshot", "an incomplete snapshot");
  upload_unless_there();
  num_finished_ = num_started_;
  const std::int64_t num_pages = engine_->allocate_kv();
  if (num_pages != num_pages_) {
    base::log_info("KV cache on the GPU: " + std::to_string(num_pages) + " pages of the " +
                   std::to_string(options_.kv_pages) + " that all sequences at once could need");
    num_pages_ = num_pages;
  }
  return num_pages;
}

void DeviceBackend::Samples::clear() {
  places.clear();
  rows.clear();
  uniforms.clear();
  temperatures.clear();
  cuts.clear();
  wants_kept.clear();
}

void DeviceBackend::Samples::add(const Plan& plan, std::size_t sample_idx) {
  const Sequence& sequence = *plan.sampled_sequences[sample_idx];
  places.push_back(sample_idx);
  rows.push_back(plan.sample_rows[sample_idx]);
  uniforms.push_back(sampling_uniform(sequence));
  temperatures.push_back(sequence.group->sample_params.temperature);
  wants_kept.push_back(sequence.group->sample_params.max_kept > 0 ? 1 : 0);
}

void DeviceBackend::start(const Plan& plan, std::span<ops::SampledToken> samples) {
  const cuda::Tick tick = tick_.fill(plan);
  StartedSamples& started = started_[num_started_ % 2];
  Samples& on_device = started.on_device;
  started.samples = samples;
  on_device.clear();
  whole_rows_.clear();
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const ops::SampleParams& params = plan.sampled_sequences[i]->group->sample_params;
    const bool is_whole = needs_host_logits(params);
    (is_whole ? whole_rows_ : on_device).add(plan, i);
    if (is_whole) continue;
    on_device.cuts.push_back(params.cuts() ? cuda::row_cuts(params.top_p, params.top_k, params.max_kept, vocab_size_)
                                           : cuda::RowCuts{});
  }
  engine_->start(tick, {on_device.rows, on_device.uniforms, on_device.temperatures, on_device.cuts});
  ++num_started_;
  if (!whole_rows_.places.empty()) sample_from_whole_rows(plan, samples);
}

void DeviceBackend::finish() {
  const StartedSamples& started = started_[num_finished_++ % 2];
  sampled_.resize(started.on_device.places.size());
  engine_->finish(sampled_);
  for (std::size_t i = 0; i < sampled_.size(); ++i) {
    const cuda::SampledToken& from = sampled_[i];
    if (from.token < 0) ops::fail_logits("NaN, +inf or only -inf");
    ops::SampledToken& to = started.samples[started.on_device.places[i]];
    to = {from.token, from.logprob, {}, from.limited};
    if (started.on_device.wants_kept[i] != 0) to.kept.assign(from.kept.begin(), from.kept.end());
  }
}

/// Samples rows that need host logits on the CPU. No other tick may be in flight: the engine's hidden states must be
/// this tick's.
void DeviceBackend::sample_from_whole_rows(const Plan& plan, std::span<ops::SampledToken> samples) {
  if (logits_.empty()) {
    base::log_info("top-k and top-p that may keep more than " + std::to_string(cuda::kMostKept) +
                   " tokens: sampled on the CPU, from logits that the device sends");
    logits_.resize(static_cast<std::size_t>(engine_->max_logit_rows() * vocab_size_));
  }
  const auto step = static_cast<std::size_t>(engine_->max_logit_rows());
  const auto width = static_cast<std::size_t>(vocab_size_);
  for (std::size_t first = 0; first < whole_rows_.rows.size(); first += step) {
    const std::size_t count = std::min(step, whole_rows_.rows.size() - first);
    engine_->logits(std::span(whole_rows_.rows).subspan(first, count), std::span(logits_).first(count * width));
    base::parallel_for(static_cast<std::int64_t>(count), 1, [&](base::Range range) {
      for (auto i = static_cast<std::size_t>(range.begin); i < static_cast<std::size_t>(range.end); ++i) {
        const std::size_t place = whole_rows_.places[first + i];
        samples[place] =
            ops::sample(logits_.data() + i * width, vocab_size_, plan.sampled_sequences[place]->group->sample_params,
                        whole_rows_.uniforms[first + i]);
      }
    });
  }
}

}  // namespace

std::int64_t dequantized_bytes(const model::ModelConfig& config, quant::Format format, std::int64_t num_rows,
                               bool row_only_sums) {
  return cuda::dequantized_bytes(format, config, num_rows, row_only_sums);
}

std::int64_t graph_bytes() { return static_cast<std::int64_t>(cuda::kGraphBytes); }

std::int64_t kept_back_bytes() { return static_cast<std::int64_t>(cuda::kKeptBackBytes); }

std::int64_t device_adapter_bytes(const model::ModelConfig& config, const model::LoraConfig& lora,
                                  std::int64_t num_rows) {
  if (!lora.enabled()) return 0;
  std::int64_t bytes = cuda::adapter_rows_bytes(config, lora.rank, num_rows);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string layer = model::layer_prefix(i);
    model::visit_matrices(config, i, [&](const model::BlockMatrix& matrix, const auto&) {
      const bool has_some = std::ranges::any_of(matrix.modules, [&](const model::BlockModule& module) {
        return lora.targets(layer + std::string(module.name));
      });
      if (has_some) bytes += cuda::adapter_bytes(matrix, lora.rank);
    });
  }
  return bytes;
}

cuda::EngineOptions engine_options(const model::ModelConfig& config, const DecoderOptions& options) {
  cuda::EngineOptions made{config,
                           options.device_number,
                           options.max_num_batched_tokens,
                           options.max_num_seqs,
                           options.max_model_len,
                           options.kv_pages,
                           options.gpu_memory_utilization,
                           options.page_size,
                           options.kv_format};
  made.graphs = !options.enforce_eager;
  made.row_only_sums = options.row_only_sums;
  return made;
}

std::unique_ptr<Backend> make_device_backend(const model::ModelConfig& config, const DecoderOptions& options,
                                             std::unique_ptr<cuda::DecodeEngine> engine) {
  return std::make_unique<DeviceBackend>(config, options, std::move(engine));
}

}  // namespace qrl::decoder
