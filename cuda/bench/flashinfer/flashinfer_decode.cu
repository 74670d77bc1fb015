// FlashInfer's decode kernel (BatchDecodeWithPagedKVCache), planned by its own scheduler.
#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cmath>
#include <flashinfer/attention/decode.cuh>
#include <flashinfer/attention/default_decode_params.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <string>
#include <vector>

#include "base/error.h"
#include "cuda/bench/bench_operands.h"
#include "cuda/bench/flashinfer/flashinfer_level.h"
#include "cuda/bench/flashinfer/flashinfer_variants.cuh"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

using flashinfer::PosEncodingMode;

template <class KvValue>
struct DecodeParams : flashinfer::BatchDecodeParams<nv_bfloat16, KvValue, nv_bfloat16, std::int32_t> {
  flashinfer::uint_fastdiv group_size;
  const float *key_head_scales_K = nullptr, *value_head_scales_K = nullptr;
};

/// The most blocks of 128 threads that a device's multiprocessors hold: where it divides positions there are no more.
constexpr std::int64_t kMaxBlocks = std::int64_t{16} * 160;

/// Sequences on the device, and their plan.
struct DecodePlan {
  std::uint32_t num_sequences = 0;
  Memory first_page_S, last_page_positions_S, page_ids, ints;
  flashinfer::DecodePlanInfo info;
};

/// How FlashInfer divides positions over blocks: by how many blocks of the very kernel a multiprocessor holds.
template <class Params, class Variant>
struct WorkEstimate {
  std::uint32_t group_size;
  template <class... Arguments>
  cudaError_t operator()(Arguments&&... arguments) const {
    DISPATCH_GQA_GROUP_SIZE(group_size, kGroupSize, {
      return flashinfer::BatchDecodeWithPagedKVCacheWorkEstimationDispatched<kGroupSize, kFlashinferHeadDim,
                                                                             PosEncodingMode::kNone, Variant, Params>(
          arguments...);
    });
    return cudaErrorNotSupported;
  }
};

template <class KvValue, class Variant>
class PlannedDecode final : public Flashinfer {
 public:
  explicit PlannedDecode(const AttentionShape& shape)
      : shape_(shape),
        partials_(static_cast<std::size_t>(shape.heads_of_kv() * (kMaxBlocks + 1) * (shape.head_dim + 1)) *
                  sizeof(float)) {}

  std::size_t plan(const FlashinferRows& rows, const Stream& stream) override {
    std::vector<std::int32_t> first_page_S = {0}, last_page_positions_S;
    for (const std::int32_t num_positions : rows.num_positions_S) {
      const std::int64_t num_pages = ceil_div(num_positions, rows.page_size);
      first_page_S.push_back(first_page_S.back() + static_cast<std::int32_t>(num_pages));
      last_page_positions_S.push_back(static_cast<std::int32_t>(num_positions - (num_pages - 1) * rows.page_size));
    }
    DecodePlan& plan = plans_.emplace_back();
    plan.num_sequences = static_cast<std::uint32_t>(last_page_positions_S.size());
    QRL_INVARIANT(rows.first_row_S.back() == static_cast<std::int32_t>(plan.num_sequences), "FlashInfer's decode",
                  "one row a sequence", std::to_string(rows.first_row_S.back()) + " rows");
    // Three lists of blocks and a mask, each aligned.
    const auto ints_bytes = static_cast<std::size_t>(4 * (kMaxBlocks + plan.num_sequences) + 64) * 4;
    plan.ints = Memory(ints_bytes);
    const Memory on_host(ints_bytes, Memory::Place::host);
    QRL_CUDA_CHECK((flashinfer::DecodePlan<kFlashinferHeadDim, PosEncodingMode::kNone, Variant, Params>(
        partials_.data(), partials_.num_bytes(), plan.ints.data(), on_host.data(), ints_bytes, plan.info,
        first_page_S.data(), plan.num_sequences, static_cast<std::uint32_t>(shape_.num_heads),
        static_cast<std::uint32_t>(rows.page_size), false, static_cast<cudaStream_t>(stream.handle()),
        WorkEstimate<Params, Variant>{group_size()})));
    stream.wait();  // on_host is read until then
    plan.first_page_S = sent(first_page_S, stream);
    plan.last_page_positions_S = sent(last_page_positions_S, stream);
    plan.page_ids = sent(std::vector<std::int32_t>(rows.page_ids.begin(), rows.page_ids.end()), stream);
    return plans_.size() - 1;
  }

  void run(std::size_t plan_idx, const std::uint16_t* q, const KvPages& pages, std::uint16_t* context,
           const Stream& stream) const override {
    const DecodePlan& plan = plans_.at(plan_idx);
    const auto num_heads = static_cast<std::uint32_t>(shape_.num_heads);
    const auto ints = [&](std::int64_t offset) {
      return reinterpret_cast<std::int32_t*>(plan.ints.as<std::byte>() + offset);
    };
    Params params;
    // Its arguments are not const; it writes none of these.
    params.q = reinterpret_cast<nv_bfloat16*>(const_cast<std::uint16_t*>(q));
    params.paged_kv = flashinfer::paged_kv_t<KvValue, std::int32_t>(
        static_cast<std::uint32_t>(shape_.num_kv_heads), static_cast<std::uint32_t>(pages.at.page_size),
        kFlashinferHeadDim, plan.num_sequences, flashinfer::QKVLayout::kHND, reinterpret_cast<KvValue*>(pages.keys),
        reinterpret_cast<KvValue*>(pages.values), plan.page_ids.as<std::int32_t>(),
        plan.first_page_S.as<std::int32_t>(), plan.last_page_positions_S.as<std::int32_t>());
    params.o = reinterpret_cast<nv_bfloat16*>(context);
    params.num_qo_heads = num_heads;
    params.q_stride_n = static_cast<std::int32_t>(num_heads * kFlashinferHeadDim);
    params.q_stride_h = kFlashinferHeadDim;
    params.window_left = -1;
    params.sm_scale = 1.0F / std::sqrt(static_cast<float>(kFlashinferHeadDim));
    params.request_indices = ints(plan.info.request_indices_offset);
    params.kv_tile_indices = ints(plan.info.kv_tile_indices_offset);
    params.o_indptr = ints(plan.info.o_indptr_offset);
    params.kv_chunk_size_ptr = ints(plan.info.kv_chunk_size_ptr_offset);
    params.padded_batch_size = static_cast<std::uint32_t>(plan.info.padded_batch_size);
    params.group_size = flashinfer::uint_fastdiv(group_size());
    params.key_head_scales_K = pages.key_head_scales_K;
    params.value_head_scales_K = pages.value_head_scales_K;
    auto* const partials = partials_.as<std::byte>();
    const bool is_split = plan.info.split_kv;
    QRL_CUDA_CHECK(
        (flashinfer::BatchDecodeWithPagedKVCacheDispatched<kFlashinferHeadDim, PosEncodingMode::kNone, Variant, Params>(
            params, is_split ? reinterpret_cast<nv_bfloat16*>(partials + plan.info.v_offset) : nullptr,
            is_split ? reinterpret_cast<float*>(partials + plan.info.s_offset) : nullptr, true,
            static_cast<cudaStream_t>(stream.handle()))));
  }

 private:
  using Params = DecodeParams<KvValue>;
  std::uint32_t group_size() const { return static_cast<std::uint32_t>(shape_.heads_of_kv()); }

  AttentionShape shape_;
  Memory partials_;
  std::vector<DecodePlan> plans_;
};

}  // namespace

std::unique_ptr<Flashinfer> make_flashinfer_decode(const AttentionShape& shape, quant::KvFormat format) {
  if (format == quant::KvFormat::bf16) return std::make_unique<PlannedDecode<nv_bfloat16, PlainHeads>>(shape);
  return std::make_unique<PlannedDecode<__nv_fp8_e4m3, ScaledHeads>>(shape);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
