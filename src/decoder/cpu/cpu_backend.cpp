#include <algorithm>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "base/threads.h"
#include "decoder/backend.h"
#include "decoder/cpu/teacher_forcing.h"
#include "decoder/cpu/transformer.h"
#include "decoder/kv/kv_cache.h"

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
        kv_(config, options.kv_pages, options.page_size, options.kv_format, state_slots_of(options)) {}

  void load(const model::Snapshot& snapshot) override {
    workspaces_.clear();
    transformer_.emplace(snapshot, max_rows_, max_positions_);
  }
  void set_kv_scales(KvScales scales) override { kv_.set_scales(std::move(scales)); }
  void calibrate_kv(std::span<const std::vector<types::TokenId>> sequences, const KvCalibration& options) override {
    set_kv_scales(decoder::calibrate_kv(transformer_->snapshot(), sequences, options));
  }
  const KvScales& kv_scales() const override { return kv_.scales(); }
  std::int64_t begin() override;
  void start(const Plan& plan, std::span<ops::SampledToken> samples) override;
  void finish() override {}  // `start` has computed everything
  void release_kv() override { kv_.release(); }
  types::Routes routes(std::span<const PageId> pages, std::int64_t num_tokens) const override {
    return kv_.routes().read(pages, num_tokens);
  }
  std::int64_t num_experts_read() const override;

 private:
  /// Returns how many of a row's logits are computed at once, if no row has top-k or top-p.
  std::int64_t tile_tokens() const { return std::min(vocab_size_, logit_tile_tokens_); }
  void sample(base::Team& team, const Plan& plan, const PlanPart& part, Transformer::Workspace& scratch,
              std::span<ops::SampledToken> samples) const;

  std::int64_t vocab_size_, logit_tile_tokens_, max_rows_, max_positions_, num_pages_;
  KvCache kv_;
  std::optional<Transformer> transformer_;
  std::vector<Transformer::Workspace> workspaces_;  // one per thread; if all threads form one team, it uses the first
};

std::int64_t CpuBackend::num_experts_read() const {
  std::int64_t total = 0;
  for (const Transformer::Workspace& workspace : workspaces_)
    total += workspace.experts == nullptr ? 0 : workspace.experts->num_read;
  return total;
}

bool cuts(const Sequence* sequence) { return sequence->group->sample_params.cuts(); }

std::int64_t CpuBackend::begin() {
  kv_.allocate();
  const auto num_threads = static_cast<std::size_t>(base::num_threads());
  while (workspaces_.size() < num_threads) workspaces_.emplace_back(transformer_->snapshot(), max_rows_);
  for (Transformer::Workspace& workspace : workspaces_) workspace.make_room_for_logits(tile_tokens());
  return num_pages_;
}

void CpuBackend::start(const Plan& plan, std::span<ops::SampledToken> samples) {
  if (std::ranges::any_of(plan.sampled_sequences, cuts)) {
    for (Transformer::Workspace& workspace : workspaces_) workspace.make_room_for_logits(vocab_size_);
  }
  base::parallel(0, [&](base::Team& all) {
    plan.share_out(all, [&](base::Team& team, const PlanPart& part, std::size_t part_idx) {
      transformer_->forward(team, plan, part, kv_, workspaces_[part_idx]);
      sample(team, plan, part, workspaces_[part_idx], samples);
    });
  });
}

void CpuBackend::sample(base::Team& team, const Plan& plan, const PlanPart& part, Transformer::Workspace& scratch,
                        std::span<ops::SampledToken> samples) const {
  std::exception_ptr error;  // rethrown after the last barrier, which all members must reach
  const auto try_row = [&](const auto& body) {
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  };
  for (std::int64_t first = part.samples.begin; first < part.samples.end; first += Transformer::kLogitRows) {
    const std::int64_t count = std::min(Transformer::kLogitRows, part.samples.end - first);
    const auto of_block = [&](const auto& values) {
      return std::span(values).subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
    };
    const std::span<Sequence* const> sequences = of_block(plan.sampled_sequences);
    const auto params_of = [&](std::int64_t i) -> const ops::SampleParams& {
      return sequences[static_cast<std::size_t>(i)]->group->sample_params;
    };
    const auto uniform_of = [&](std::int64_t i) { return sampling_uniform(*sequences[static_cast<std::size_t>(i)]); };
    transformer_->choose_rows(team, of_block(plan.sample_rows), scratch);
    const base::Range share = team.slice(count);

    const std::int64_t tile = std::ranges::any_of(sequences, cuts) ? vocab_size_ : tile_tokens();
    std::vector<ops::RowSummary>& rows = scratch.summaries;
    for (std::int64_t i = share.begin; i < share.end; ++i)
      rows[static_cast<std::size_t>(i)].begin(params_of(i).temperature);
    const float* logits = nullptr;
    for (std::int64_t begin = 0; begin < vocab_size_; begin += tile) {
      const std::int64_t size = std::min(tile, vocab_size_ - begin);
      logits = transformer_->logits(team, count, {begin, begin + size}, scratch);
      for (std::int64_t i = share.begin; i < share.end; ++i) {
        if (!params_of(i).cuts()) rows[static_cast<std::size_t>(i)].take(logits + i * size, size);
      }
    }
    // If false, `logits` holds only the last tile, so the block with the sampled token is recomputed.
    const bool all_there = tile == vocab_size_;
    for (std::int64_t i = share.begin; i < share.end; ++i) {
      ops::SampledToken& sampled = samples[static_cast<std::size_t>(first + i)];
      try_row([&] {
        if (params_of(i).cuts()) {
          sampled = ops::sample(logits + i * tile, tile, params_of(i), uniform_of(i));
          return;
        }
        ops::RowSummary& row = rows[static_cast<std::size_t>(i)];
        row.end();
        const ops::RowSummary::Place place = row.place(uniform_of(i));
        float recomputed[ops::kSampleBlock];
        const float* block = logits + i * tile + place.begin;
        if (!all_there) {
          transformer_->logits_of_row(i, {place.begin, place.begin + place.count}, scratch, recomputed);
          block = recomputed;
        }
        sampled = row.sample(place, block);
      });
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const model::ModelConfig& config, const DecoderOptions& options) {
  return std::make_unique<CpuBackend>(config, options);
}

}  // namespace qrl::decoder
