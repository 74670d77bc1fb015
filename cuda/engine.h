// Owns the door to a decoder on an NVIDIA GPU: plain structs in, drawn tokens out. Knows nothing of sequences,
// snapshots or recipes. no_cuda.cpp stands in for all of it in a program without CUDA, so that callers need no #ifdef.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "quant/format.h"
#include "quant/kv_format.h"

namespace qrl::cuda {

/// "13.0 sm_80 sm_89 sm_90a", what this program's kernels were compiled for; "off" without CUDA.
std::string version();

/// Sizes of the transformer, as model/config.h has them.
struct ModelShape {
  std::int64_t vocab_size = 0, width = 0, num_layers = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0, ffn = 0;
  float rms_norm_eps = 0;
};

struct EngineOptions {
  ModelShape shape;
  /// Of the devices that CUDA_VISIBLE_DEVICES leaves, counted round and round: N processes on M devices are shared out.
  int device_number = 0;
  std::int64_t max_rows = 0;       ///< of one tick
  std::int64_t max_sequences = 0;  ///< whose rows they are
  std::int64_t max_positions = 0;  ///< of a sequence
  std::int64_t num_pages = 0;
  /// 0: num_pages or an error. Else as many of them as fit while the device's memory in use, by whomever, is at most
  /// this share of it.
  double memory_utilization = 0;
  std::int64_t page_size = 0;  ///< tokens
  quant::KvFormat kv_format = quant::KvFormat::bf16;
  /// Products are rounded to bf16, as is usual on GPUs. Or stay fp32, as on the CPU: slower, for comparisons with it.
  bool f32_products = false;
  /// A row's bits do not depend on the tick's other rows, nor on their number: no library's fp32 sums
  /// (product_plan.h's choose_product). Slower where those are made for many rows at once.
  bool row_only_sums = false;
  /// Ticks that draw for every row are launched as CUDA graphs, from the second of their kind on. Changes no bit.
  bool graphs = true;
};

/// A linear layer in CPU memory, as ops/linear.h packs it: panels of 64 columns, scales with `scale_stride` columns.
struct HostMatrix {
  quant::Format format = quant::Format::bf16;
  std::int64_t out = 0, in = 0;
  const void* panels = nullptr;   ///< null: memory alone, which Engine::rewrite then fills
  const void* scales = nullptr;   ///< fp32, int4's bf16; null: none
  std::int64_t scale_stride = 0;  ///< from one run of inputs to the next
};

/// Weights in CPU memory; read during Engine::upload only. Gains, biases and the table of positions are fp32.
struct HostLayer {
  const float *input_norm_D = nullptr, *post_norm_D = nullptr;
  const float *q_norm_E = nullptr, *k_norm_E = nullptr;  ///< null: none
  const float *qkv_bias = nullptr, *o_bias = nullptr;    ///< null: none
  HostMatrix qkv, o, gate_up, down;
};
struct HostWeights {
  const std::uint16_t* embedding_VD = nullptr;  ///< bf16; null: as HostMatrix::panels
  const float* final_norm_D = nullptr;
  const float* rope_table = nullptr;  ///< [max_positions, E]: cosines, then sines
  std::vector<HostLayer> layers;
  HostMatrix lm_head;  ///< bf16
};

/// Which of the engine's weights; of a block all from input_norm on.
enum class WeightPlace : std::uint8_t {
  embedding,
  final_norm,
  lm_head,
  input_norm,
  post_norm,
  q_norm,
  k_norm,
  qkv_bias,
  o_bias,
  qkv,
  o,
  gate_up,
  down,
};

/// A tensor of the model as training keeps it, fp32, row-major, in the memory of the engine's device, and what it is to
/// the engine: some rows of a matrix, some elements of a vector.
struct Master {
  const float* values = nullptr;
  WeightPlace place = WeightPlace::embedding;
  std::int64_t layer = 0;
  std::int64_t first = 0, count = 0;  ///< rows, or elements
  // In CPU memory, null for none: what encodes instead of the weights' own figures (ops/linear.h, FixedScales).
  const float* factors = nullptr;     ///< of a matrix's inputs, met by every weight first; of a norm: its divisors
  const float* row_scales = nullptr;  ///< [count], of an int8 matrix
};

/// One of the engine's matrices, as the model has it: [out, in], a block's fused matrices whole.
struct MatrixId {
  WeightPlace place = WeightPlace::embedding;
  std::int64_t layer = 0;
};

/// A matrix of the engine, the embedding among them, written out as numbers: dense, row-major, in the memory of the
/// engine's device.
struct DecodedMatrix {
  MatrixId matrix;
  void* to = nullptr;   ///< room for all of it
  bool to_f32 = false;  ///< else rounded to bf16
};

/// The bf16 embedding or lm_head where it lies, in the memory of the engine's device, which stays there: [V, D], a row
/// every `stride` numbers.
struct Table {
  const std::uint16_t* values = nullptr;
  std::int64_t stride = 0;
};

/// A caller's order of work on the engine's device, which outlives the engine: a cudaStream_t; null: CUDA's default.
struct CallersStream {
  void* handle = nullptr;
};

/// What the caller of a product has to bring for some rows of x: memory on the engine's device.
struct ProductRoom {
  std::int64_t code_bytes = 0;  ///< for x as codes and scales, 256-byte aligned
  std::int64_t y_columns = 0;   ///< in memory, of a row of y: outputs, padded
  bool y_is_f32 = false;        ///< else bf16
};

/// Rows of x as a matrix of a block (not lm_head, not the embedding) reads them.
struct ProductInput {
  MatrixId matrix;
  std::int64_t num_rows = 0;
  void* codes = nullptr;  ///< product_room's
};

/// The first num_slots slots of page `from` go to page `to`, in every layer.
struct SlotCopy {
  std::int32_t from = 0, to = 0, num_slots = 0;
};

/// The token of a tick that stands for the draw_idx-th draw of the tick started before, which may be under way.
constexpr std::int32_t drawn_before(std::int32_t draw_idx) { return -1 - draw_idx; }

/// One tick's rows, end to end. A row sees positions 0 … its own, in the pages page_ids[first_page_N[row]] …. A token
/// is an id or drawn_before.
struct Tick {
  std::span<const std::int32_t> tokens_N, positions_N, first_page_N;
  std::span<const std::int32_t> page_ids;
  std::span<const SlotCopy> copies;  ///< before any row's forward; targets distinct
};

/// The draws of one tick, by the rule of ops/sample.h without top-k and top-p: inverse CDF.
struct Draws {
  std::span<const std::int32_t> rows;  ///< of the tick, ascending
  std::span<const double> uniforms;    ///< in [0, 1), one a row
  float temperature = 1;               ///< 0: greedy
};
struct DrawnToken {
  std::int32_t token = 0;  ///< −1: the row's logits are not finite, or all −inf
  float logprob = 0;
};

/// Tokens whose log-probs are asked: one a row of hidden states.
struct Targets {
  std::span<const std::int32_t> rows, tokens;
  float temperature = 1;  ///< above 0
};
/// NaN where nothing could be drawn.
struct TokenScore {
  float logprob = 0, entropy = 0;
};

/// What an engine has done since it was made.
struct EngineStats {
  std::int64_t num_graphs = 0, graph_ticks = 0;  ///< recorded, launched
  double waited_s = 0;                           ///< its caller's time in waiting for the device
};

/// A decoder's device memory and kernels. One thread calls it. Every CUDA call's result is checked: a failure is an
/// internal error that names the call. Inputs are checked before anything is launched.
class Engine {
 public:
  Engine() = default;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  virtual ~Engine() = default;

  /// Device and chosen matrix products, for the log.
  virtual std::string describe() const = 0;

  /// Replaces the weights, in place after the first time; blocks until they are on the device. Formats must stay.
  virtual void upload(const HostWeights& weights) = 0;
  /// Rewrites some of the weights in place from masters whose values are all written: the bits that an upload of the
  /// same, encoded on the CPU, would leave. Blocks until it is done. Index of a master that has a NaN or an infinity,
  /// −1 without. After an upload only.
  virtual std::int64_t rewrite(std::span<const Master> masters) = 0;

  // For a learner on the same device; after an upload only. Each returns at once, with its work at the end of the
  // caller's stream: the engine's own is done by then, and waits for the caller's before it goes on. From any thread,
  // one at a time.

  /// Decodes matrices: code · scale in fp32.
  virtual void decode(std::span<const DecodedMatrix> wanted, CallersStream stream) = 0;
  virtual Table table(WeightPlace place) const = 0;  ///< embedding or lm_head
  virtual ProductRoom product_room(const MatrixId& matrix, std::int64_t num_rows) const = 0;
  /// What a tick computes of so many rows, by the same kernels: input.codes = encode(x), x fp32 [num_rows, in] dense;
  /// y = x̂ · Ŵᵀ, without a bias, of the precision that a tick rounds it to.
  virtual void multiply(const float* x, const ProductInput& input, void* y, CallersStream stream) = 0;
  /// What those codes stand for, code · scale in fp32, rounded to bf16 unless to_f32: dense [num_rows, in].
  virtual void decode(const ProductInput& input, void* to, bool to_f32, CallersStream stream) = 0;

  // A learner's forward pass, of the kernels that a tick has: with row_only_sums its bits are those of the ticks that
  // drew. After an upload only. Each blocks until it is done, and begins when the caller's stream has done what it was
  // given. From any thread, one at a time.

  /// Runs all positions of some sequences through all layers, in pages [0, num_pages) of its own: one layer's memory,
  /// which stays for the next call. `ticks`, each within a tick's limits, are the sequences' rows in order; a tick's
  /// copies are made when its own keys and values are stored. after_layer[i]: the residual stream after layer i, fp32
  /// [rows of all ticks, width] on the engine's device; all may be one, which then holds that after the last.
  virtual void forward(std::span<const Tick> ticks, std::int64_t num_pages, std::span<float* const> after_layer,
                       CallersStream stream) = 0;
  /// Log-probs of tokens at x, fp32 [*, width], the residual stream after the last layer (final norm, lm_head and the
  /// draws' own sums), and entropies: log-probs are the bits that a draw gives them, entropies over blocks in fp64.
  virtual void score(const float* x, const Targets& targets, std::span<TokenScore> scores, CallersStream stream) = 0;

  /// fp8_e4m3 keys and values: fp32 [layers, kv heads] each.
  virtual void set_kv_scales(std::span<const float> keys_LK, std::span<const float> values_LK) = 0;

  /// Runs a tick whose positions are all that its sequences have, nothing copied, in bf16 pages of its own, which lie
  /// beside what allocate_kv made and are gone after. Gives of each layer's kv heads |keys| and |values| (rounded to
  /// bf16) the least that at most num_above of them are larger than, fp32 [layers, kv heads] each; NaN where one is not
  /// finite. Blocks until it is done. After an upload only.
  virtual void kv_percentiles(const Tick& tick, std::int64_t num_above, std::span<float> keys_LK,
                              std::span<float> values_LK) = 0;

  /// Memory of the pages, unless it is there; how many they are. An input error when the device has not enough, for
  /// one sequence of max_positions at least. Ticks that are not finished are forgotten.
  virtual std::int64_t allocate_kv() = 0;
  virtual void release_kv() = 0;

  /// Starts to run the rows through all layers, keys and values stored, and to draw. Everything given was read when it
  /// returns. Two ticks may be started and not finished: the device goes on to the second without its host.
  virtual void start(const Tick& tick, const Draws& draws) = 0;
  /// Blocks until the tick that was started first of those has drawn: `drawn` has the number of its draws. Returns at
  /// once when there are none.
  virtual void finish(std::span<DrawnToken> drawn) = 0;
  /// Both, when no other tick is under way. Hidden states stay for `logits`.
  void run(const Tick& tick, const Draws& draws, std::span<DrawnToken> drawn) {
    start(tick, draws);
    finish(drawn);
  }
  /// Logits of up to max_logit_rows() rows of the last tick, fp32 [rows, V]. Blocks until done.
  virtual void logits(std::span<const std::int32_t> rows, std::span<float> logits_RV) = 0;
  virtual std::int64_t max_logit_rows() const = 0;
  virtual const EngineStats& stats() const = 0;
};

/// Input errors: a program without CUDA, no driver, no GPU of compute capability 8.0 to 8.9 or 9.0, no cuBLASLt, sizes
/// or formats that the kernels do not take.
std::unique_ptr<Engine> make_engine(const EngineOptions& options);

}  // namespace qrl::cuda
