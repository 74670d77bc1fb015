#include "device_engine.h"

#include <algorithm>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "kernels.h"
#include "products.h"
#include "tick_memory.h"
#include "weight_codes.h"
#include "weights.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::Code;
using quant::KvFormat;

/// Rows whose logits are made at once, and how many of their columns: what a draw needs of a tile is small.
constexpr std::int64_t kDrawRows = 256;
constexpr std::int64_t kTileTokens = 8192;
static_assert(kTileTokens % kDrawBlock == 0 && kTileTokens % kOutputTile == 0);
/// Rows whose logits are made whole, for top-k and top-p.
constexpr std::int64_t kWholeRows = 32;

constexpr std::int64_t kMaxHeadDim = 256;

std::string range_text(std::int64_t count) { return "[0, " + std::to_string(count) + ")"; }

/// Rows of a width as a matrix of this format reads them.
EncodedRows rows_for(quant::Format format, std::int64_t width, void* codes, float* scales) {
  const quant::FormatSpec& what = quant::spec(format);
  return {what.activations,           codes, what.has_activation_scales() ? scales : nullptr,
          round_up(width, kInputRun), width, what.activation_scale_inputs == 0 ? width : what.activation_scale_inputs};
}

/// Memory for rows of a width in any code, and their scales.
struct EncodedMemory {
  EncodedMemory(std::int64_t rows, std::int64_t width_)
      : width(width_),
        codes(static_cast<std::size_t>(rows * round_up(width_, kInputRun)) * 2),
        scales(static_cast<std::size_t>(rows * ceil_div(width_, kInputRun)) * sizeof(float)) {}
  EncodedRows for_layer(const DeviceMatrix& w) const {
    return rows_for(w.format, width, codes.data(), scales.as<float>());
  }
  std::int64_t width;
  Memory codes, scales;
};

/// The same in one stretch of a caller's memory, of as many bytes as these rows need: codes, then scales.
std::int64_t code_bytes_of(const DeviceMatrix& w, std::int64_t num_rows) {
  return num_rows * round_up(w.at.in, kInputRun) * (quant::spec(w.format).activations == Code::bf16 ? 2 : 1);
}
EncodedRows rows_in(void* memory, const DeviceMatrix& w, std::int64_t num_rows) {
  auto* scales = static_cast<std::uint8_t*>(memory) + code_bytes_of(w, num_rows);
  return rows_for(w.format, w.at.in, memory, reinterpret_cast<float*>(scales));
}

Memory floats(std::int64_t count) { return Memory(static_cast<std::size_t>(count) * sizeof(float)); }

constexpr std::size_t drawn_bytes(std::int64_t num_rows) {
  return static_cast<std::size_t>(num_rows) * (sizeof(std::int32_t) + sizeof(float));
}

struct LayerKv {
  Memory keys, values, key_slot_scales, value_slot_scales;
};

void check(const EngineOptions& options, const DeviceFacts& device) {
  const ModelShape& shape = options.shape;
  QRL_REQUIRE(options.kv_format != KvFormat::f32, "rollout.device: cuda", "a KV cache of bf16, int8 or fp8_e4m3",
              "fp32", "set quant.rollout.kv_cache");
  QRL_REQUIRE(shape.head_dim <= kMaxHeadDim, "rollout.device: cuda",
              "a head_dim of at most " + std::to_string(kMaxHeadDim), std::to_string(shape.head_dim));
  // The widest row that a kernel holds in shared memory; 1 KiB besides.
  const std::int64_t widest = std::max({shape.width, shape.ffn, shape.num_heads * shape.head_dim});
  const std::int64_t num_blocks = ceil_div(shape.vocab_size, kDrawBlock);
  const std::int64_t shared_bytes = std::max(widest * 4, num_blocks * 16 + 2 * kDrawBlock * 4) + 1024;
  QRL_REQUIRE(shared_bytes <= static_cast<std::int64_t>(device.shared_bytes), "rollout.device: cuda",
              "rows that fit the " + std::to_string(device.shared_bytes) + " bytes of shared memory of " + device.name,
              std::to_string(shared_bytes));
}

class DeviceEngine final : public Engine {
 public:
  DeviceEngine(const EngineOptions& options, const DeviceFacts& device);

  std::string describe() const override;
  void upload(const HostWeights& weights) override {
    take_back();
    weights_.upload(weights, stream_);
  }
  std::int64_t rewrite(std::span<const Master> masters) override {
    take_back();
    return weights_.rewrite(masters, stream_);
  }
  void decode(std::span<const DecodedMatrix> wanted, CallersStream stream) override {
    lend(stream, [&](const Stream& theirs) { weights_.decode(wanted, theirs); });
  }
  Table table(WeightPlace place) const override { return weights_.table(place); }
  ProductRoom product_room(const MatrixId& matrix, std::int64_t num_rows) const override;
  void multiply(const float* x, const ProductInput& input, void* y, CallersStream stream) override;
  void decode(const ProductInput& input, void* to, bool to_f32, CallersStream stream) override;
  void set_kv_scales(std::span<const float> keys_LK, std::span<const float> values_LK) override;
  void kv_percentiles(const Tick& tick, std::int64_t num_above, std::span<float> keys_LK,
                      std::span<float> values_LK) override;
  std::int64_t allocate_kv() override;
  void release_kv() override;
  void run(const Tick& tick, const Draws& draws, std::span<DrawnToken> drawn) override;
  void logits(std::span<const std::int32_t> rows, std::span<float> logits_RV) override;
  std::int64_t max_logit_rows() const override { return kWholeRows; }
  const EngineStats& stats() const override { return stats_; }

 private:
  /// Keys and values that a forward pass leaves in pages which every layer uses anew, and where their percentiles go.
  struct Observed {
    KvPages pages;
    std::int64_t num_pages;
    std::uint32_t num_above;
    float *keys_LK, *values_LK;
  };
  void check(const Tick& tick, std::int64_t num_pages) const;
  void check_rows(std::span<const std::int32_t> rows) const;
  void wait();
  template <class Work>
  void lend(CallersStream stream, const Work& work);
  void take_back();
  void forward(const TickArrays& arrays, const Observed* observed = nullptr);
  void draw(const TickArrays& arrays);
  void launch_graph(const TickArrays& arrays);
  std::int64_t affordable_pages(std::size_t page_bytes) const;
  KvLayout kv_layout_of(KvFormat format) const {
    return kv_layout(format, options_.shape.num_kv_heads, options_.page_size, options_.shape.head_dim);
  }
  KvPages pages(std::size_t layer_idx) const;
  Memory products_of(std::int64_t count) const {
    return Memory(static_cast<std::size_t>(count) * (options_.f32_products ? sizeof(float) : sizeof(std::uint16_t)));
  }
  ProductRows rows_of(const Memory& y, std::int64_t stride) const { return {y.data(), stride, options_.f32_products}; }
  void product(const EncodedRows& x, const DeviceMatrix& w, std::int64_t num_rows, void* y, std::int64_t y_stride,
               bool y_is_f32);
  void final_norm(const std::int32_t* row_ids, std::int64_t num_rows);
  void logit_tile(std::int64_t first_token, std::int64_t num_rows, float* y, std::int64_t y_stride,
                  std::int64_t num_tokens);

  EngineOptions options_;
  DeviceFacts device_;
  Stream stream_;
  std::unique_ptr<Products> products_;
  Weights weights_;
  std::vector<LayerKv> kv_;
  std::int64_t num_pages_ = 0;  // of kv_
  Memory kv_head_scales_;       // keys [L, K], then values
  TickMemory tick_;
  std::int64_t qkv_stride_, width_stride_, gate_up_stride_, tile_tokens_, num_draw_blocks_, max_draw_rows_;
  Memory x_, qkv_, q_, context_, y_, gate_up_;
  EncodedMemory normed_, attended_, gated_, final_normed_;
  Memory partials_;  // contexts, then stats
  Memory tile_, block_max_, block_sum_, whole_, whole_rows_;
  Memory drawn_host_, drawn_;          // tokens, then log-probs
  std::map<TickShape, Graph> graphs_;  // empty: a tick of this shape was launched
  std::int64_t num_rows_ = 0;          // of the last tick
  bool in_flight_ = false;             // the device may still read the last tick's arrays
  std::optional<CallersStream> lent_;  // has work that may not be done
  EngineStats stats_;
};

DeviceEngine::DeviceEngine(const EngineOptions& options, const DeviceFacts& device)
    : options_(options),
      device_(device),
      products_(make_products(device)),
      weights_(options),
      tick_(options),
      qkv_stride_(
          round_up((options.shape.num_heads + 2 * options.shape.num_kv_heads) * options.shape.head_dim, kOutputTile)),
      width_stride_(round_up(options.shape.width, kOutputTile)),
      gate_up_stride_(round_up(2 * options.shape.ffn, kOutputTile)),
      tile_tokens_(std::min(round_up(options.shape.vocab_size, kOutputTile), kTileTokens)),
      num_draw_blocks_(ceil_div(options.shape.vocab_size, kDrawBlock)),
      max_draw_rows_(std::min(tick_.max_rows(), kDrawRows)),
      x_(floats(tick_.max_rows() * options.shape.width)),
      qkv_(products_of(tick_.max_rows() * qkv_stride_)),
      q_(floats(tick_.max_rows() * options.shape.num_heads * options.shape.head_dim)),
      context_(floats(tick_.max_rows() * options.shape.num_heads * options.shape.head_dim)),
      y_(products_of(tick_.max_rows() * width_stride_)),
      gate_up_(products_of(tick_.max_rows() * gate_up_stride_)),
      normed_(tick_.max_rows(), options.shape.width),
      attended_(tick_.max_rows(), options.shape.num_heads * options.shape.head_dim),
      gated_(tick_.max_rows(), options.shape.ffn),
      final_normed_(std::max(max_draw_rows_, kWholeRows), options.shape.width),
      partials_(floats(tick_.max_partials() * options.shape.num_heads * (options.shape.head_dim + 2))),
      tile_(floats(max_draw_rows_ * tile_tokens_)),
      block_max_(floats(max_draw_rows_ * num_draw_blocks_)),
      block_sum_(floats(max_draw_rows_ * num_draw_blocks_)),
      whole_rows_(kWholeRows * sizeof(std::int32_t)),
      drawn_host_(drawn_bytes(tick_.max_rows()), Memory::Place::host),
      drawn_(drawn_bytes(tick_.max_rows())) {}

std::string DeviceEngine::describe() const {
  return device_.name + ", device " + std::to_string(device_.number) + " of " + std::to_string(device_.count) +
         " (sm_" + std::to_string(device_.major) + std::to_string(device_.minor) + ", " +
         std::to_string(device_.total_bytes >> 30) + " GiB); products: " + products_->describe();
}

void DeviceEngine::set_kv_scales(std::span<const float> keys_LK, std::span<const float> values_LK) {
  const auto wanted = static_cast<std::size_t>(options_.shape.num_layers * options_.shape.num_kv_heads);
  QRL_INVARIANT(options_.kv_format == KvFormat::fp8_e4m3 && keys_LK.size() == wanted && values_LK.size() == wanted,
                "KV scales", std::to_string(wanted) + " for fp8_e4m3 pages", std::to_string(keys_LK.size()));
  if (kv_head_scales_.empty()) kv_head_scales_ = floats(static_cast<std::int64_t>(2 * wanted));
  copy_to_device(kv_head_scales_.data(), keys_LK.data(), wanted * sizeof(float), stream_);
  copy_to_device(kv_head_scales_.as<float>() + wanted, values_LK.data(), wanted * sizeof(float), stream_);
  stream_.wait();
}

/// How many of options_.num_pages there is memory for now, each of `page_bytes` in all layers.
std::int64_t DeviceEngine::affordable_pages(std::size_t page_bytes) const {
  std::size_t available = free_bytes();
  if (options_.memory_utilization > 0) {
    const auto kept_free =
        static_cast<std::size_t>((1 - options_.memory_utilization) * static_cast<double>(device_.total_bytes));
    available -= std::min(available, kept_free);
  }
  return std::min(options_.num_pages, static_cast<std::int64_t>(available / page_bytes));
}

std::int64_t DeviceEngine::allocate_kv() {
  if (!kv_.empty()) return num_pages_;
  const KvLayout at = kv_layout_of(options_.kv_format);
  const bool scaled = options_.kv_format == KvFormat::int8;
  const auto page_slots = static_cast<std::size_t>(at.slots(1));
  const std::size_t slot_bytes = static_cast<std::size_t>(at.slot_bytes()) + (scaled ? sizeof(float) : 0);
  const std::size_t page_bytes = 2 * static_cast<std::size_t>(options_.shape.num_layers) * page_slots * slot_bytes;
  const std::int64_t num_pages = affordable_pages(page_bytes);
  const bool may_be_fewer = options_.memory_utilization > 0;
  const std::int64_t fewest = may_be_fewer ? ceil_div(options_.max_positions, options_.page_size) : options_.num_pages;
  const auto mib = [](std::size_t bytes) { return std::to_string(bytes >> 20) + " MiB"; };
  QRL_REQUIRE(
      num_pages >= fewest, may_be_fewer ? "rollout.gpu_memory_utilization" : "rollout.kv_pages",
      "memory for " + std::to_string(fewest) + " KV pages, " + mib(static_cast<std::size_t>(fewest) * page_bytes),
      "room for " + std::to_string(num_pages) + " in the " + mib(free_bytes()) + " that the device has left",
      may_be_fewer ? "raise it, lower data.max_response_length, or end what else uses the device"
                   : "lower rollout.kv_pages or rollout.max_num_seqs");
  const auto slots = static_cast<std::size_t>(at.slots(num_pages));
  std::vector<LayerKv> layers(static_cast<std::size_t>(options_.shape.num_layers));
  for (LayerKv& layer : layers) {
    layer.keys = Memory(slots * static_cast<std::size_t>(at.slot_bytes()));
    layer.values = Memory(slots * static_cast<std::size_t>(at.slot_bytes()));
    if (!scaled) continue;
    layer.key_slot_scales = Memory(slots * sizeof(float));
    layer.value_slot_scales = Memory(slots * sizeof(float));
  }
  kv_ = std::move(layers);  // all or nothing
  num_pages_ = num_pages;
  return num_pages_;
}

void DeviceEngine::release_kv() {
  wait();
  graphs_.clear();  // they name its addresses
  kv_.clear();
}

KvPages DeviceEngine::pages(std::size_t layer_idx) const {
  const LayerKv& layer = kv_[layer_idx];
  const ModelShape& shape = options_.shape;
  KvPages pages{options_.kv_format,
                kv_layout_of(options_.kv_format),
                shape.head_dim,
                layer.keys.as<std::uint8_t>(),
                layer.values.as<std::uint8_t>(),
                layer.key_slot_scales.as<float>(),
                layer.value_slot_scales.as<float>(),
                nullptr,
                nullptr};
  if (options_.kv_format == KvFormat::fp8_e4m3) {
    pages.key_head_scales_K = kv_head_scales_.as<float>() + static_cast<std::int64_t>(layer_idx) * shape.num_kv_heads;
    pages.value_head_scales_K = pages.key_head_scales_K + shape.num_layers * shape.num_kv_heads;
  }
  return pages;
}

void DeviceEngine::check(const Tick& tick, std::int64_t num_pages) const {
  const auto num_rows = static_cast<std::int64_t>(tick.tokens_N.size());
  QRL_INVARIANT(weights_.uploaded(), "tick", "weights", "none");
  QRL_INVARIANT(0 < num_rows && num_rows <= options_.max_rows && tick.positions_N.size() == tick.tokens_N.size() &&
                    tick.first_page_N.size() == tick.tokens_N.size(),
                "tick", "1 to " + std::to_string(options_.max_rows) + " rows, arrays of one length",
                std::to_string(num_rows));
  const std::int64_t max_pages = ceil_div(options_.max_positions, options_.page_size);
  QRL_INVARIANT(static_cast<std::int64_t>(tick.page_ids.size()) <= options_.max_sequences * max_pages &&
                    static_cast<std::int64_t>(tick.copies.size()) <= options_.max_sequences,
                "tick", "pages and copies of at most " + std::to_string(options_.max_sequences) + " sequences",
                std::to_string(tick.page_ids.size()) + " and " + std::to_string(tick.copies.size()));
  for (std::size_t row = 0; row < tick.tokens_N.size(); ++row) {
    const std::int64_t token = tick.tokens_N[row], position = tick.positions_N[row], first = tick.first_page_N[row];
    QRL_INVARIANT(0 <= token && token < options_.shape.vocab_size, "tick, row " + std::to_string(row),
                  "a token in " + range_text(options_.shape.vocab_size), std::to_string(token));
    QRL_INVARIANT(0 <= position && position < options_.max_positions && first >= 0 &&
                      first + position / options_.page_size < static_cast<std::int64_t>(tick.page_ids.size()),
                  "tick, row " + std::to_string(row),
                  "a position in " + range_text(options_.max_positions) + " with pages", std::to_string(position));
  }
  const auto page_exists = [&](std::int64_t page) { return 0 <= page && page < num_pages; };
  QRL_INVARIANT(std::ranges::all_of(tick.page_ids, page_exists), "tick", "pages in " + range_text(num_pages),
                "another");
  for (const SlotCopy& copy : tick.copies) {
    QRL_INVARIANT(page_exists(copy.from) && page_exists(copy.to) && copy.from != copy.to && 0 <= copy.num_slots &&
                      copy.num_slots <= options_.page_size,
                  "tick", "copies within pages", std::to_string(copy.num_slots) + " slots");
  }
}

void DeviceEngine::wait() {
  const double start_s = base::now_s();
  stream_.wait();
  stats_.waited_s += base::now_s() - start_s;
  in_flight_ = false;
}

/// work(stream) in a caller's stream. The products' workspaces are one stream's at a time.
template <class Work>
void DeviceEngine::lend(CallersStream stream, const Work& work) {
  enter_device(device_);
  if (in_flight_) wait();
  if (lent_ && lent_->handle != stream.handle) take_back();
  lent_ = stream;
  work(Stream(stream.handle));
}

/// Until all that was lent is done.
void DeviceEngine::take_back() {
  if (lent_) Stream(lent_->handle).wait();
  lent_.reset();
}

ProductRoom DeviceEngine::product_room(const MatrixId& matrix, std::int64_t num_rows) const {
  const DeviceMatrix& w = weights_.matrix(matrix);
  const EncodedRows rows = rows_in(nullptr, w, 0);
  const std::int64_t num_scales = quant::spec(w.format).has_activation_scales() ? num_rows * rows.num_scales() : 0;
  return {code_bytes_of(w, num_rows) + num_scales * static_cast<std::int64_t>(sizeof(float)), w.at.rows,
          options_.f32_products};
}

void DeviceEngine::multiply(const float* x, const ProductInput& input, void* y, CallersStream stream) {
  const DeviceMatrix& w = weights_.matrix(input.matrix);
  const EncodedRows rows = rows_in(input.codes, w, input.num_rows);
  lend(stream, [&](const Stream& theirs) {
    encode({x, rows}, input.num_rows, theirs);
    products_->multiply({rows, input.num_rows, w, y, w.at.rows, options_.f32_products}, theirs);
  });
}

void DeviceEngine::decode(const ProductInput& input, void* to, bool to_f32, CallersStream stream) {
  const EncodedRows rows = rows_in(input.codes, weights_.matrix(input.matrix), input.num_rows);
  lend(stream, [&](const Stream& theirs) { decode_rows({rows, to, to_f32}, input.num_rows, theirs); });
}

void DeviceEngine::product(const EncodedRows& x, const DeviceMatrix& w, std::int64_t num_rows, void* y,
                           std::int64_t y_stride, bool y_is_f32) {
  products_->multiply({x, num_rows, w, y, y_stride, y_is_f32}, stream_);
}

void DeviceEngine::run(const Tick& tick, const Draws& draws, std::span<DrawnToken> drawn) {
  QRL_INVARIANT(weights_.uploaded() && !kv_.empty(), "tick", "weights and KV memory", "none");
  QRL_INVARIANT(options_.kv_format != KvFormat::fp8_e4m3 || !kv_head_scales_.empty(), "tick", "calibrated KV scales",
                "none");
  check(tick, num_pages_);
  num_rows_ = static_cast<std::int64_t>(tick.tokens_N.size());
  check_rows(draws.rows);
  QRL_INVARIANT(
      draws.rows.size() == draws.uniforms.size() && draws.rows.size() == drawn.size() && draws.temperature >= 0, "draw",
      "a uniform and a place a row", std::to_string(draws.rows.size()));
  take_back();
  if (in_flight_) wait();
  in_flight_ = true;
  const TickArrays arrays = tick_.send(tick, draws, stream_);
  if (!tick.copies.empty()) {
    for (std::size_t i = 0; i < weights_.num_layers(); ++i)
      copy_slots({arrays.copies, pages(i)}, static_cast<std::int64_t>(tick.copies.size()), stream_);
  }
  if (options_.graphs && draws.rows.size() == tick.tokens_N.size()) {
    launch_graph(arrays);
  } else {
    forward(arrays);
    draw(arrays);
  }
  if (draws.rows.empty()) return;
  wait();
  const auto* logprobs = drawn_host_.as<float>() + arrays.shape.draws;
  for (std::size_t i = 0; i < drawn.size(); ++i) drawn[i] = {drawn_host_.as<std::int32_t>()[i], logprobs[i]};
}

/// The first tick of a shape is launched one by one: that loads kernels and makes cuBLASLt's plans, which recording
/// must not. From the second on it is a graph.
void DeviceEngine::launch_graph(const TickArrays& arrays) {
  const auto launch = [&] {
    forward(arrays);
    draw(arrays);
  };
  const auto [found, is_new] = graphs_.try_emplace(arrays.shape);
  if (is_new) return launch();
  Graph& graph = found->second;
  if (graph.empty()) {
    graph = Graph(stream_, launch);
    ++stats_.num_graphs;
  }
  graph.launch(stream_);
  ++stats_.graph_ticks;
}

void DeviceEngine::kv_percentiles(const Tick& tick, std::int64_t num_above, std::span<float> keys_LK,
                                  std::span<float> values_LK) {
  const auto wanted = static_cast<std::size_t>(options_.shape.num_layers * options_.shape.num_kv_heads);
  const auto num_pages = static_cast<std::int64_t>(tick.page_ids.size());
  check(tick, num_pages);
  QRL_INVARIANT(keys_LK.size() == wanted && values_LK.size() == wanted && tick.copies.empty() && num_above >= 0,
                "KV percentiles", std::to_string(wanted) + " places of each and no copies",
                std::to_string(keys_LK.size()) + " and " + std::to_string(tick.copies.size()));
  const KvLayout at = kv_layout_of(KvFormat::bf16);
  const auto num_bytes = static_cast<std::size_t>(at.slots(num_pages) * at.slot_bytes());
  const Memory keys(num_bytes), values(num_bytes), found(2 * wanted * sizeof(float));  // zero where nothing is stored
  KvPages shared{KvFormat::bf16, at, options_.shape.head_dim};
  shared.keys = keys.as<std::uint8_t>();
  shared.values = values.as<std::uint8_t>();
  const Observed observed{shared, num_pages, static_cast<std::uint32_t>(num_above), found.as<float>(),
                          found.as<float>() + wanted};
  take_back();
  if (in_flight_) wait();
  num_rows_ = 0;  // nothing of it stays for `logits`
  forward(tick_.send(tick, {}, stream_), &observed);
  copy_to_host(keys_LK.data(), observed.keys_LK, keys_LK.size_bytes(), stream_);
  copy_to_host(values_LK.data(), observed.values_LK, values_LK.size_bytes(), stream_);
  wait();
}

void DeviceEngine::forward(const TickArrays& arrays, const Observed* observed) {
  const ModelShape& shape = options_.shape;
  const std::int64_t num_rows = arrays.shape.rows;
  auto* partial_contexts = partials_.as<float>();
  float* partial_stats = partial_contexts + tick_.max_partials() * shape.num_heads * shape.head_dim;
  auto* x = x_.as<float>();
  const bool wide = options_.f32_products;

  embed({weights_.embedding_VD(), arrays.tokens, shape.width, x}, num_rows, stream_);
  for (std::size_t i = 0; i < weights_.num_layers(); ++i) {
    const LayerMemory& layer = weights_.layer(i);
    const EncodedRows before = normed_.for_layer(layer.qkv.view), attended = attended_.for_layer(layer.o.view);
    const EncodedRows after = normed_.for_layer(layer.gate_up.view), gated = gated_.for_layer(layer.down.view);
    const ProductRows y = rows_of(y_, width_stride_);
    const KvPages kv = observed != nullptr ? observed->pages : pages(i);
    norm_encode(
        {x, i == 0 ? ProductRows{} : y, nullptr, layer.input_norm_D.as<float>(), nullptr, shape.rms_norm_eps, before},
        num_rows, stream_);
    product(before, layer.qkv.view, num_rows, qkv_.data(), qkv_stride_, wide);
    rope_and_store(
        {rows_of(qkv_, qkv_stride_), shape.num_heads, layer.qkv_bias.as<float>(), layer.q_norm_E.as<float>(),
         layer.k_norm_E.as<float>(), shape.rms_norm_eps, weights_.rope_table(), arrays.where, kv, q_.as<float>()},
        num_rows, stream_);
    if (observed != nullptr) {
      const std::int64_t first = static_cast<std::int64_t>(i) * shape.num_kv_heads;
      cuda::QRL_CUDA_TARGET::kv_percentiles({kv.keys, kv.values, kv.at, observed->num_pages, observed->num_above,
                                             observed->keys_LK + first, observed->values_LK + first},
                                            stream_);
    }
    attention({q_.as<float>(), shape.num_heads, arrays.where, kv, arrays.attention, partial_stats, partial_contexts,
               context_.as<float>()},
              stream_);
    encode({context_.as<float>(), attended}, num_rows, stream_);
    product(attended, layer.o.view, num_rows, y_.data(), width_stride_, wide);
    norm_encode({x, y, layer.o_bias_D.as<float>(), layer.post_norm_D.as<float>(), nullptr, shape.rms_norm_eps, after},
                num_rows, stream_);
    product(after, layer.gate_up.view, num_rows, gate_up_.data(), gate_up_stride_, wide);
    swiglu_encode({rows_of(gate_up_, gate_up_stride_), gated}, num_rows, stream_);
    product(gated, layer.down.view, num_rows, y_.data(), width_stride_, wide);
  }
}

void DeviceEngine::check_rows(std::span<const std::int32_t> rows) const {
  QRL_INVARIANT(std::ranges::all_of(rows, [&](std::int64_t row) { return 0 <= row && row < num_rows_; }) &&
                    std::ranges::adjacent_find(rows, std::greater_equal<>()) == rows.end(),
                "draw", "rows in " + range_text(num_rows_) + ", ascending", "others");
}

/// The chosen rows of the last tick, the last layer's sum added, ready for lm_head.
void DeviceEngine::final_norm(const std::int32_t* row_ids, std::int64_t num_rows) {
  norm_encode({x_.as<float>(), rows_of(y_, width_stride_), nullptr, weights_.final_norm_D(), row_ids,
               options_.shape.rms_norm_eps, final_normed_.for_layer(weights_.lm_head())},
              num_rows, stream_);
}

void DeviceEngine::logit_tile(std::int64_t first_token, std::int64_t num_rows, float* y, std::int64_t y_stride,
                              std::int64_t num_tokens) {
  DeviceMatrix part = weights_.lm_head();
  part.codes += first_token * part.at.row_bytes;
  part.at.rows = round_up(num_tokens, kOutputTile);
  part.at.out = num_tokens;
  product(final_normed_.for_layer(part), part, num_rows, y, y_stride, true);
}

void DeviceEngine::draw(const TickArrays& arrays) {
  const std::int64_t num_rows = arrays.shape.draws, vocab_size = options_.shape.vocab_size;
  const bool all_there = vocab_size <= tile_tokens_;
  for (std::int64_t first = 0; first < num_rows; first += max_draw_rows_) {
    const std::int64_t count = std::min(max_draw_rows_, num_rows - first);
    final_norm(arrays.draw_rows + first, count);
    for (std::int64_t begin = 0; begin < vocab_size; begin += tile_tokens_) {
      const std::int64_t num_tokens = std::min(tile_tokens_, vocab_size - begin);
      logit_tile(begin, count, tile_.as<float>(), tile_tokens_, num_tokens);
      summarise_logits({tile_.as<float>(), tile_tokens_, begin, num_tokens, arrays.draw_settings, num_draw_blocks_,
                        block_max_.as<float>(), block_sum_.as<float>(), nullptr},
                       count, stream_);
    }
    draw_tokens({{block_max_.as<float>(), block_sum_.as<float>(), num_draw_blocks_, vocab_size, arrays.draw_settings,
                  all_there ? tile_.as<float>() : nullptr, tile_tokens_, final_normed_.codes.as<std::uint16_t>(),
                  reinterpret_cast<const std::uint16_t*>(weights_.lm_head().codes), weights_.lm_head().at.width},
                 arrays.uniforms + first,
                 drawn_.as<std::int32_t>() + first,
                 drawn_.as<float>() + num_rows + first},
                count, stream_);
  }
  copy_to_host(drawn_host_.data(), drawn_.data(), drawn_bytes(num_rows), stream_);
}

void DeviceEngine::logits(std::span<const std::int32_t> rows, std::span<float> logits_RV) {
  const std::int64_t vocab_size = options_.shape.vocab_size, stride = round_up(vocab_size, kOutputTile);
  QRL_INVARIANT(static_cast<std::int64_t>(rows.size()) <= kWholeRows &&
                    static_cast<std::int64_t>(logits_RV.size()) == static_cast<std::int64_t>(rows.size()) * vocab_size,
                "logits", "at most " + std::to_string(kWholeRows) + " rows and room for them",
                std::to_string(rows.size()));
  check_rows(rows);
  if (rows.empty()) return;
  take_back();
  if (whole_.empty()) whole_ = floats(kWholeRows * stride);
  copy_to_device(whole_rows_.data(), rows.data(), rows.size_bytes(), stream_);
  const auto num_rows = static_cast<std::int64_t>(rows.size());
  final_norm(whole_rows_.as<std::int32_t>(), num_rows);
  logit_tile(0, num_rows, whole_.as<float>(), stride, vocab_size);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    copy_to_host(logits_RV.data() + row * vocab_size, whole_.as<float>() + row * stride,
                 static_cast<std::size_t>(vocab_size) * sizeof(float), stream_);
  }
  wait();
}

}  // namespace

std::unique_ptr<Engine> make_device_engine(const EngineOptions& options) {
  const DeviceFacts device = use_device(options.device_number);
  check(options, device);
  try {
    return std::make_unique<DeviceEngine>(options, device);
  } catch (const std::bad_alloc&) {
    base::fail_input("rollout.device: cuda", "memory for the rows of a tick",
                     std::to_string(free_bytes() >> 20) + " MiB free on " + device.name,
                     "lower rollout.max_num_batched_tokens, or end what else uses the device");
  }
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
