#include "decoder/cpu_backend.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "decoder/kv_cache.h"
#include "decoder/transformer.h"

namespace qrl::decoder {

namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const model::ModelConfig& config, const DecoderOptions& options)
      : vocab_size_(config.vocab_size),
        logit_tile_tokens_(options.logit_tile_tokens),
        max_rows_(options.max_num_batched_tokens),
        max_positions_(options.max_model_len),
        num_pages_(options.kv_pages),
        kv_(config, options.kv_pages, options.page_size, options.kv_format) {}

  void load(const model::Snapshot& snapshot) override {
    workspaces_.clear();
    transformer_.emplace(snapshot, max_rows_, max_positions_);
  }
  void set_kv_scales(KvScales scales) override { kv_.set_scales(std::move(scales)); }
  void calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options) override {
    set_kv_scales(decoder::calibrate_kv(transformer_->snapshot(), sequences, options));
  }
  const KvScales& kv_scales() const override { return kv_.scales(); }
  std::int64_t begin(const ops::SampleParams& params) override;
  void start(const Plan& plan, const SamplingKey& key, std::span<ops::SampledToken> draws) override;
  void finish() override {}  // nothing is left to do
  void release_kv() override { kv_.release(); }

 private:
  void sample(base::Team& team, const Plan& plan, const PlanPart& part, Transformer::Workspace& scratch,
              const SamplingKey& key, std::span<ops::SampledToken> draws) const;

  std::int64_t vocab_size_, logit_tile_tokens_, max_rows_, max_positions_, num_pages_;
  KvCache kv_;
  std::optional<Transformer> transformer_;
  std::vector<Transformer::Workspace> workspaces_;  // one a thread; a team of all uses the first
};

std::int64_t CpuBackend::begin(const ops::SampleParams& params) {
  kv_.allocate();
  const auto num_threads = static_cast<std::size_t>(base::num_threads());
  while (workspaces_.size() < num_threads) workspaces_.emplace_back(transformer_->snapshot());
  const std::int64_t columns = params.cuts() ? vocab_size_ : std::min(vocab_size_, logit_tile_tokens_);
  for (Transformer::Workspace& workspace : workspaces_) workspace.make_room_for_logits(columns);
  return num_pages_;
}

/// One parallel region a tick: nothing but barriers inside a part, and not even those when each thread has its own.
void CpuBackend::start(const Plan& plan, const SamplingKey& key, std::span<ops::SampledToken> draws) {
  base::parallel(0, [&](base::Team& all) {
    plan.share_out(all, [&](base::Team& team, const PlanPart& part, std::size_t part_idx) {
      transformer_->forward(team, plan, part, kv_, workspaces_[part_idx]);
      sample(team, plan, part, workspaces_[part_idx], key, draws);
    });
  });
}

void CpuBackend::sample(base::Team& team, const Plan& plan, const PlanPart& part, Transformer::Workspace& scratch,
                        const SamplingKey& key, std::span<ops::SampledToken> draws) const {
  const ops::SampleParams& params = key.params;
  std::exception_ptr error;  // of a sample; kept until no other member waits at a barrier for this one
  const auto try_row = [&](const auto& body) {
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  };
  const std::int64_t tile = params.cuts() ? vocab_size_ : std::min(vocab_size_, logit_tile_tokens_);
  for (std::int64_t first = part.draws.begin; first < part.draws.end; first += Transformer::kLogitRows) {
    const std::int64_t count = std::min(Transformer::kLogitRows, part.draws.end - first);
    transformer_->choose_rows(
        team, std::span(plan.sample_rows).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)),
        scratch);
    const base::Range share = team.slice(count);
    const auto draw_of = [&](std::int64_t i) -> ops::SampledToken& {
      return draws[static_cast<std::size_t>(first + i)];
    };
    const auto uniform_of = [&](std::int64_t i) {
      return sampling_uniform(key, *plan.sampled_sequences[static_cast<std::size_t>(first + i)]);
    };
    if (params.cuts()) {  // top-k and top-p look at a row as a whole
      const float* logits = transformer_->logits(team, count, {0, tile}, scratch);
      for (std::int64_t i = share.begin; i < share.end; ++i) {
        try_row([&] { draw_of(i) = ops::sample(logits + i * tile, tile, params, uniform_of(i)); });
      }
      continue;
    }
    std::vector<ops::RowSummary>& rows = scratch.summaries;
    for (std::int64_t i = share.begin; i < share.end; ++i) rows[static_cast<std::size_t>(i)].begin(params.temperature);
    const float* logits = nullptr;
    std::int64_t begin = 0;
    for (; begin < vocab_size_; begin += tile) {
      const std::int64_t size = std::min(tile, vocab_size_ - begin);
      logits = transformer_->logits(team, count, {begin, begin + size}, scratch);
      for (std::int64_t i = share.begin; i < share.end; ++i) {
        rows[static_cast<std::size_t>(i)].take(logits + i * size, size);
      }
    }
    const bool all_there = tile == vocab_size_;  // else the sampled token's block is made again
    for (std::int64_t i = share.begin; i < share.end; ++i) {
      try_row([&] {
        ops::RowSummary& row = rows[static_cast<std::size_t>(i)];
        row.end();
        const ops::RowSummary::Place place = row.place(uniform_of(i));
        float again[ops::kSampleBlock];
        const float* block = logits + i * tile + place.begin;
        if (!all_there) {
          transformer_->logits_of_row(i, {place.begin, place.begin + place.count}, scratch, again);
          block = again;
        }
        draw_of(i) = row.sample(place, block);
      });
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace

double sampling_uniform(const SamplingKey& key, const Sequence& sequence) {
  const std::uint64_t prompt_id = sequence.group->prompt_id;
  const auto high = static_cast<std::uint32_t>(prompt_id >> 32);
  const auto low = static_cast<std::uint32_t>(prompt_id);
  return key.field.uniform({static_cast<std::uint32_t>(sequence.num_sampled()),
                            static_cast<std::uint32_t>(sequence.sample_idx), low ^ (high * 0x9E3779B9U), key.step});
}

std::unique_ptr<Backend> make_cpu_backend(const model::ModelConfig& config, const DecoderOptions& options) {
  return std::make_unique<CpuBackend>(config, options);
}

}  // namespace qrl::decoder
