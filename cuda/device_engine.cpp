#include "device_engine.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <new>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "blocks.h"
#include "kernels.h"
#include "kv_memory.h"
#include "products.h"
#include "tick_memory.h"
#include "vocabulary_head.h"
#include "weight_codes.h"
#include "weights.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using quant::Code;
using quant::KvFormat;

constexpr std::int64_t kMaxHeadDim = 256;

std::string range_text(std::int64_t count) { return "[0, " + std::to_string(count) + ")"; }

/// Of encoded rows in one stretch of a caller's memory, as many bytes as they need: codes, then scales.
std::int64_t code_bytes_of(const DeviceMatrix& w, std::int64_t num_rows) {
  return num_rows * round_up(w.at.in, kInputRun) * (quant::spec(w.format).activations == Code::bf16 ? 2 : 1);
}
EncodedRows rows_in(void* memory, const DeviceMatrix& w, std::int64_t num_rows) {
  auto* scales = static_cast<std::uint8_t*>(memory) + code_bytes_of(w, num_rows);
  return rows_for(w.format, w.at.in, memory, reinterpret_cast<float*>(scales));
}

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
  void forward(std::span<const Tick> ticks, std::int64_t num_pages, std::span<float* const> after_layer,
               CallersStream stream) override;
  void score(const float* x, const Targets& targets, std::span<TokenScore> scores, CallersStream stream) override;
  void set_kv_scales(std::span<const float> keys_LK, std::span<const float> values_LK) override {
    kv_.set_scales(keys_LK, values_LK, stream_);
  }
  void kv_percentiles(const Tick& tick, std::int64_t num_above, std::span<float> keys_LK,
                      std::span<float> values_LK) override;
  std::int64_t allocate_kv() override {
    if (in_flight_) wait();
    num_finished_ = num_started_;
    return kv_.allocate();
  }
  void release_kv() override;
  void start(const Tick& tick, const Draws& draws) override;
  void finish(std::span<DrawnToken> drawn) override;
  void logits(std::span<const std::int32_t> rows, std::span<float> logits_RV) override;
  std::int64_t max_logit_rows() const override { return kWholeRows; }
  const EngineStats& stats() const override { return stats_; }

 private:
  /// A tick that was started, and where what it has drawn comes.
  struct Turn {
    std::int64_t num_draws = 0;       // the caller's
    std::int64_t num_rows_drawn = 0;  // those that fill up included
    Event done;
  };

  void check(const Tick& tick, std::int64_t num_pages, std::int64_t num_drawn_before = 0) const;
  void check_rows(std::span<const std::int32_t> rows) const;
  void wait();
  template <class Work>
  void lend(CallersStream stream, const Work& work);
  void take_back();
  void settle();
  void run_all(const TickArrays& arrays);
  void launch_graph(const TickArrays& arrays);
  EngineOptions options_;
  DeviceFacts device_;
  Stream stream_;
  std::unique_ptr<Products> products_;
  Weights weights_;
  KvMemory kv_;
  TickMemory tick_;
  std::deque<TickMemory> forward_ticks_;  // of `forward`, which has all of them on the device at once
  Blocks blocks_;
  VocabularyHead head_;
  std::map<TickShape, Graph> graphs_;  // empty: a tick of this shape was launched
  Turn turns_[2];
  std::int64_t num_started_ = 0, num_finished_ = 0;  // ticks; each takes the turn of its number
  std::int64_t num_rows_ = 0;                        // of the last tick
  bool in_flight_ = false;                           // the device may not be done
  std::optional<CallersStream> lent_;                // has work that may not be done
  EngineStats stats_;
};

DeviceEngine::DeviceEngine(const EngineOptions& options, const DeviceFacts& device)
    : options_(options),
      device_(device),
      products_(make_products(device, options.row_only_sums)),
      weights_(options),
      kv_(options, device),
      tick_(options),
      blocks_(options, tick_, weights_, *products_),
      head_(options, tick_.max_rows(), weights_, *products_) {}

std::string DeviceEngine::describe() const {
  return device_.name + ", device " + std::to_string(device_.number) + " of " + std::to_string(device_.count) +
         " (sm_" + std::to_string(device_.major) + std::to_string(device_.minor) + ", " +
         std::to_string(device_.total_bytes >> 30) + " GiB); products: " + products_->describe();
}

void DeviceEngine::release_kv() {
  wait();
  graphs_.clear();  // they name its addresses
  kv_.release();
}

/// Of the tick before, whose tokens this one's may be, num_drawn_before were drawn.
void DeviceEngine::check(const Tick& tick, std::int64_t num_pages, std::int64_t num_drawn_before) const {
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
    QRL_INVARIANT(-num_drawn_before <= token && token < options_.shape.vocab_size, "tick, row " + std::to_string(row),
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

void DeviceEngine::start(const Tick& tick, const Draws& draws) {
  QRL_INVARIANT(weights_.uploaded() && kv_.has_pages(), "tick", "weights and KV memory", "none");
  QRL_INVARIANT(kv_.has_scales(), "tick", "calibrated KV scales", "none");
  QRL_INVARIANT(num_started_ - num_finished_ < 2, "tick", "one under way at most", "two");
  const bool follows = num_rows_ > 0;  // what the tick before has drawn is there
  check(tick, kv_.num_pages(), follows ? turns_[(num_started_ + 1) % 2].num_draws : 0);
  num_rows_ = static_cast<std::int64_t>(tick.tokens_N.size());
  check_rows(draws.rows);
  QRL_INVARIANT(draws.rows.size() == draws.uniforms.size() && draws.temperature >= 0, "draw", "a uniform a row",
                std::to_string(draws.uniforms.size()));
  take_back();
  Turn& turn = turns_[num_started_ % 2];
  turn.done.wait();  // of the tick before the last, which nobody waited for if it had no draws
  in_flight_ = true;
  const TickArrays arrays = tick_.send(tick, draws, stream_);
  if (!tick.copies.empty()) {
    for (std::size_t i = 0; i < weights_.num_layers(); ++i)
      copy_slots({arrays.copies, kv_.pages(i)}, static_cast<std::int64_t>(tick.copies.size()), stream_);
  }
  if (options_.graphs && draws.rows.size() == tick.tokens_N.size()) {
    launch_graph(arrays);
  } else {
    run_all(arrays);
    head_.draw(blocks_.rows(), arrays, stream_);
  }
  turn.num_draws = static_cast<std::int64_t>(draws.rows.size());
  turn.num_rows_drawn = arrays.shape.draws;
  head_.send_drawn(turn.num_rows_drawn, static_cast<std::size_t>(num_started_ % 2), stream_);
  turn.done.record(stream_);
  ++num_started_;
}

void DeviceEngine::finish(std::span<DrawnToken> drawn) {
  QRL_INVARIANT(num_finished_ < num_started_, "tick", "one that was started", "none");
  const auto turn_idx = static_cast<std::size_t>(num_finished_ % 2);
  const Turn& turn = turns_[turn_idx];
  QRL_INVARIANT(turn.num_draws == static_cast<std::int64_t>(drawn.size()), "draw",
                "room for " + std::to_string(turn.num_draws), std::to_string(drawn.size()));
  ++num_finished_;
  if (drawn.empty()) return;
  const double start_s = base::now_s();
  turn.done.wait();
  stats_.waited_s += base::now_s() - start_s;
  if (num_finished_ == num_started_) in_flight_ = false;
  head_.read(turn.num_rows_drawn, turn_idx, drawn);
}

void DeviceEngine::run_all(const TickArrays& arrays) {
  blocks_.embed(arrays, head_.drawn_tokens(), stream_);
  for (std::size_t i = 0; i < weights_.num_layers(); ++i) {
    blocks_.store(i, arrays, kv_.pages(i), stream_);
    blocks_.attend(i, arrays, kv_.pages(i), stream_);
  }
}

/// The first tick of a shape is launched one by one: that loads kernels and makes cuBLASLt's plans, which recording
/// must not. From the second on it is a graph.
void DeviceEngine::launch_graph(const TickArrays& arrays) {
  const auto launch = [&] {
    run_all(arrays);
    head_.draw(blocks_.rows(), arrays, stream_);
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
  const KvLayout at = kv_.layout(KvFormat::bf16);
  const LayerKv memory(KvFormat::bf16, at, num_pages);  // zero where nothing is stored
  const Memory found(2 * wanted * sizeof(float));
  KvPages pages{KvFormat::bf16, at, options_.shape.head_dim};
  pages.keys = memory.keys.as<std::uint8_t>();
  pages.values = memory.values.as<std::uint8_t>();
  settle();
  const TickArrays arrays = tick_.send(tick, {}, stream_);
  blocks_.embed(arrays, head_.drawn_tokens(), stream_);
  for (std::size_t i = 0; i < weights_.num_layers(); ++i) {
    float* keys_K = found.as<float>() + static_cast<std::int64_t>(i) * options_.shape.num_kv_heads;
    blocks_.store(i, arrays, pages, stream_);
    QRL_CUDA_TARGET::kv_percentiles(
        {pages.keys, pages.values, at, num_pages, static_cast<std::uint32_t>(num_above), keys_K, keys_K + wanted},
        stream_);
    blocks_.attend(i, arrays, pages, stream_);
  }
  copy_to_host(keys_LK.data(), found.data(), keys_LK.size_bytes(), stream_);
  copy_to_host(values_LK.data(), found.as<float>() + wanted, values_LK.size_bytes(), stream_);
  wait();
}

/// A learner's pass over whole sequences. Layer by layer, so that one layer's keys and values are all that is there;
/// within a layer tick by tick, so that the rows of a tick are all that is between its kernels.
void DeviceEngine::forward(std::span<const Tick> ticks, std::int64_t num_pages, std::span<float* const> after_layer,
                           CallersStream stream) {
  QRL_INVARIANT(after_layer.size() == weights_.num_layers() && kv_.has_scales(), "forward pass",
                "memory after each of " + std::to_string(weights_.num_layers()) + " layers, and calibrated KV scales",
                std::to_string(after_layer.size()));
  for (const Tick& tick : ticks) check(tick, num_pages);
  enter_device(device_);
  settle();
  Stream(stream.handle).wait();  // its work may still use the memory that this writes
  try {
    (void)kv_.shared_pages(num_pages, 0);
    while (forward_ticks_.size() < ticks.size()) forward_ticks_.emplace_back(options_);
  } catch (const std::bad_alloc&) {
    base::fail_input("rollout.bitwise", "memory for a layer's keys and values of a micro-batch",
                     std::to_string(free_bytes() >> 20) + " MiB free on " + device_.name,
                     "lower rollout.gpu_memory_utilization or actor.max_tokens_per_micro_batch");
  }
  std::vector<TickArrays> arrays;
  for (std::size_t t = 0; t < ticks.size(); ++t) arrays.push_back(forward_ticks_[t].send(ticks[t], {}, stream_));
  for (std::size_t i = 0; i < after_layer.size(); ++i) {
    const KvPages pages = kv_.shared_pages(num_pages, i);
    std::int64_t first = 0;  // number in its row
    for (std::size_t t = 0; t < ticks.size(); ++t) {
      const std::int64_t num_rows = arrays[t].shape.rows;
      if (i == 0) blocks_.embed(arrays[t], head_.drawn_tokens(), stream_);
      else blocks_.resume(after_layer[i - 1] + first, num_rows, stream_);
      blocks_.store(i, arrays[t], pages, stream_);
      const auto num_copies = static_cast<std::int64_t>(ticks[t].copies.size());
      if (num_copies > 0) copy_slots({arrays[t].copies, pages}, num_copies, stream_);
      blocks_.attend(i, arrays[t], pages, stream_);
      const ResidualRows rows = blocks_.rows();
      add_rows({rows.x, rows.branch, options_.shape.width, after_layer[i] + first}, num_rows, stream_);
      first += num_rows * options_.shape.width;
    }
  }
  wait();
}

void DeviceEngine::score(const float* x, const Targets& targets, std::span<TokenScore> scores, CallersStream stream) {
  const auto in_vocabulary = [&](std::int32_t token) { return 0 <= token && token < options_.shape.vocab_size; };
  QRL_INVARIANT(targets.rows.size() == targets.tokens.size() && scores.size() == targets.rows.size() &&
                    targets.temperature > 0 && std::ranges::all_of(targets.tokens, in_vocabulary),
                "scores", "a token in " + range_text(options_.shape.vocab_size) + " and a place a row",
                std::to_string(targets.tokens.size()) + " tokens");
  enter_device(device_);
  settle();
  Stream(stream.handle).wait();
  head_.score({const_cast<float*>(x), {}}, targets, scores, stream_);  // chosen rows stay as they are
}

/// For work of its own that is no tick: nothing is under way, and nothing of the last tick stays for `logits`.
void DeviceEngine::settle() {
  take_back();
  if (in_flight_) wait();
  num_rows_ = 0;
}

void DeviceEngine::check_rows(std::span<const std::int32_t> rows) const {
  QRL_INVARIANT(std::ranges::all_of(rows, [&](std::int64_t row) { return 0 <= row && row < num_rows_; }) &&
                    std::ranges::adjacent_find(rows, std::greater_equal<>()) == rows.end(),
                "draw", "rows in " + range_text(num_rows_) + ", ascending", "others");
}

void DeviceEngine::logits(std::span<const std::int32_t> rows, std::span<float> logits_RV) {
  const std::int64_t vocab_size = options_.shape.vocab_size;
  QRL_INVARIANT(static_cast<std::int64_t>(rows.size()) <= kWholeRows &&
                    static_cast<std::int64_t>(logits_RV.size()) == static_cast<std::int64_t>(rows.size()) * vocab_size,
                "logits", "at most " + std::to_string(kWholeRows) + " rows and room for them",
                std::to_string(rows.size()));
  check_rows(rows);
  if (rows.empty()) return;
  take_back();
  head_.logits(blocks_.rows(), rows, logits_RV, stream_);
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
