// FlashInfer's prefill: its scheduler, and the joining of its levels.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstring>
#include <flashinfer/attention/cascade.cuh>
#include <flashinfer/attention/scheduler.cuh>
#include <string>
#include <vector>

#include "cuda/bench/bench_operands.h"
#include "cuda/bench/flashinfer/flashinfer.h"
#include "cuda/bench/flashinfer/flashinfer_level.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

/// Sequences of one level, on the host.
struct Sequences {
  std::vector<std::int32_t> first_row_S, first_page_S, last_page_positions_S, page_ids;
  bool is_causal;
  std::uint32_t count() const { return static_cast<std::uint32_t>(last_page_positions_S.size()); }
};

/// Positions behind the shared ones, which are each sequence's own.
Sequences own(const FlashinferRows& rows) {
  Sequences all{{rows.first_row_S.begin(), rows.first_row_S.end()}, {0}, {}, {}, true};
  const std::int32_t* page = rows.page_ids.data();
  for (const std::int32_t num_positions : rows.num_positions_S) {
    const std::int64_t num_pages = ceil_div(num_positions, rows.page_size);
    all.page_ids.insert(all.page_ids.end(), page + rows.num_shared_pages, page + num_pages);
    all.first_page_S.push_back(static_cast<std::int32_t>(all.page_ids.size()));
    all.last_page_positions_S.push_back(static_cast<std::int32_t>(num_positions - (num_pages - 1) * rows.page_size));
    page += num_pages;
  }
  return all;
}

/// The shared positions: one sequence that has all the rows.
Sequences shared(const FlashinferRows& rows) {
  return {{0, rows.first_row_S.back()},
          {0, static_cast<std::int32_t>(rows.num_shared_pages)},
          {static_cast<std::int32_t>(rows.page_size)},
          {rows.page_ids.begin(), rows.page_ids.begin() + rows.num_shared_pages},
          false};
}

// Where it divides positions it has at most two blocks a multiprocessor, over the kv heads.
constexpr std::int64_t kMaxBlocks = 2 * 160;

/// What a level leaves, and its divided positions: the same memory for all plans.
struct Workspace {
  Workspace(const AttentionShape& shape, std::int64_t max_rows)
      : context(static_cast<std::size_t>(max_rows * shape.num_heads * shape.head_dim) * sizeof(std::uint16_t)),
        log2_sums{Memory(sums_bytes(shape, max_rows)), Memory(sums_bytes(shape, max_rows))},
        partials(partial_bytes(shape)) {}
  static std::size_t sums_bytes(const AttentionShape& shape, std::int64_t max_rows) {
    return static_cast<std::size_t>(max_rows * shape.num_heads) * sizeof(float);
  }
  /// As the scheduler allots: of a block up to 128 queries, for all the heads, in fp32.
  static std::size_t partial_bytes(const AttentionShape& shape) {
    constexpr std::int64_t kMostQueries = 128;
    return static_cast<std::size_t>(shape.num_heads * (kMaxBlocks / shape.num_kv_heads + 1) * kMostQueries *
                                    (shape.head_dim + 1)) *
           sizeof(float);
  }
  Memory context, log2_sums[2], partials;
};

/// Sequences and their plan on the device.
class Level {
 public:
  Level(const AttentionShape& shape, std::int64_t page_size, Sequences sequences, const Workspace& workspace,
        const Stream& stream)
      : shape_(shape), num_sequences_(sequences.count()), is_causal_(sequences.is_causal) {
    const auto num_rows = static_cast<std::uint32_t>(sequences.first_row_S.back());
    // Three lists of blocks, their mask, three of rows or sequences; each aligned.
    const std::int64_t max_blocks = kMaxBlocks + num_sequences_ + num_rows * shape.heads_of_kv() / 16;
    const auto ints_bytes = static_cast<std::size_t>(4 * max_blocks + 2 * num_rows + num_sequences_ + 64) * 4;
    ints_ = Memory(ints_bytes);
    const Memory on_host(ints_bytes, Memory::Place::host);
    flashinfer::PrefillPlanInfo plan;
    QRL_CUDA_CHECK((flashinfer::PrefillPlan<std::int32_t>(
        workspace.partials.data(), workspace.partials.num_bytes(), ints_.data(), on_host.data(), ints_bytes, plan,
        sequences.first_row_S.data(), sequences.first_page_S.data(), num_rows, num_sequences_,
        static_cast<std::uint32_t>(shape.num_heads), static_cast<std::uint32_t>(shape.num_kv_heads), kFlashinferHeadDim,
        kFlashinferHeadDim, static_cast<std::uint32_t>(page_size), false, sizeof(std::uint16_t), -1, -1, false, 0,
        static_cast<cudaStream_t>(stream.handle()))));
    stream.wait();  // on_host is read until then
    const auto ints = [&](std::int64_t offset) {
      return reinterpret_cast<std::int32_t*>(ints_.as<std::byte>() + offset);
    };
    work_ = {ints(plan.request_indices_offset),
             ints(plan.qo_tile_indices_offset),
             ints(plan.kv_tile_indices_offset),
             ints(plan.o_indptr_offset),
             plan.split_kv ? ints(plan.merge_indptr_offset) : nullptr,
             ints(plan.kv_chunk_size_ptr_offset),
             nullptr,
             nullptr,
             static_cast<std::uint32_t>(plan.padded_batch_size),
             num_rows,
             plan.cta_tile_q};
    if (plan.split_kv) {
      auto* const partials = workspace.partials.as<std::byte>();
      work_.partial_contexts = reinterpret_cast<std::uint16_t*>(partials + plan.v_offset);
      work_.partial_log2_sums = reinterpret_cast<float*>(partials + plan.s_offset);
    }
    for (const auto* values :
         {&sequences.first_row_S, &sequences.first_page_S, &sequences.last_page_positions_S, &sequences.page_ids})
      lists_.push_back(sent(*values, stream));
  }

  void run(const std::uint16_t* q, const KvPages& pages, std::uint16_t* context, float* log2_sums,
           const Stream& stream) const {
    const FlashinferLevel level{q,
                                static_cast<std::uint32_t>(shape_.num_heads),
                                num_sequences_,
                                pages,
                                lists_[0].as<std::int32_t>(),
                                lists_[1].as<std::int32_t>(),
                                lists_[2].as<std::int32_t>(),
                                lists_[3].as<std::int32_t>(),
                                is_causal_,
                                work_,
                                context,
                                log2_sums,
                                stream.handle()};
    if (pages.format == quant::KvFormat::bf16) flashinfer_bf16(level);
    else flashinfer_fp8(level);
  }
  std::uint32_t num_rows() const { return work_.num_rows; }

 private:
  AttentionShape shape_;
  std::uint32_t num_sequences_;
  bool is_causal_;
  Memory ints_;
  FlashinferWork work_{};
  std::vector<Memory> lists_;
};

class PlannedFlashinfer final : public Flashinfer {
 public:
  PlannedFlashinfer(const AttentionShape& shape, std::int64_t max_rows) : shape_(shape), workspace_(shape, max_rows) {}
  std::size_t plan(const FlashinferRows& rows, const Stream& stream) override {
    std::vector<Level>& levels = plans_.emplace_back();
    levels.emplace_back(shape_, rows.page_size, own(rows), workspace_, stream);
    if (rows.num_shared_pages > 0) levels.emplace_back(shape_, rows.page_size, shared(rows), workspace_, stream);
    return plans_.size() - 1;
  }
  void run(std::size_t plan_idx, const std::uint16_t* q, const KvPages& pages, std::uint16_t* context,
           const Stream& stream) const override {
    const std::vector<Level>& levels = plans_.at(plan_idx);
    if (levels.size() == 1) return levels[0].run(q, pages, context, nullptr, stream);
    auto* const sums = workspace_.log2_sums[0].as<float>();
    auto* const shared_sums = workspace_.log2_sums[1].as<float>();
    auto* const shared_context = workspace_.context.as<std::uint16_t>();
    levels[0].run(q, pages, context, sums, stream);
    levels[1].run(q, pages, shared_context, shared_sums, stream);
    QRL_CUDA_CHECK(flashinfer::MergeStateInPlace(
        reinterpret_cast<nv_bfloat16*>(context), sums, reinterpret_cast<nv_bfloat16*>(shared_context), shared_sums,
        levels[0].num_rows(), static_cast<std::uint32_t>(shape_.num_heads), kFlashinferHeadDim, nullptr,
        static_cast<cudaStream_t>(stream.handle())));
  }

 private:
  AttentionShape shape_;
  Workspace workspace_;
  std::vector<std::vector<Level>> plans_;
};

}  // namespace

bool has_flashinfer(FlashinferKernel kernel, const AttentionShape& shape, quant::KvFormat format,
                    const DeviceFacts& device) {
  const bool of_pages = format == quant::KvFormat::bf16 || format == quant::KvFormat::fp8_e4m3;
  const std::int64_t group = shape.heads_of_kv();
  if (kernel == FlashinferKernel::decode && group != 8 && group > 4) return false;
  // Its joining of levels has a block of 16 threads a head.
  return runs_hopper_code(device) && of_pages && shape.head_dim == kFlashinferHeadDim && shape.num_heads <= 64;
}

std::unique_ptr<Flashinfer> make_flashinfer(FlashinferKernel kernel, const AttentionShape& shape,
                                            quant::KvFormat format, std::int64_t max_rows) {
  if (kernel == FlashinferKernel::decode) return make_flashinfer_decode(shape, format);
  return std::make_unique<PlannedFlashinfer>(shape, max_rows);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
