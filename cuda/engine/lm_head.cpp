#include "cuda/engine/lm_head.h"

#include <algorithm>

#include "base/error.h"
#include "cuda/quantize/rows.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

/// Maximum numbers of rows and of logits computed at a time. The logits' 16 MiB stay in L2.
constexpr std::int64_t kSampleRows = 512;
constexpr std::int64_t kTileLogits = std::int64_t{4} << 20;
/// Vocabulary tokens per tile with row_only_sums. The number is fixed: a GEMM's number of outputs determines its
/// splits, and splits determine a row's bits.
constexpr std::int64_t kTileTokens = 8192;
static_assert(kTileTokens % kSegmentTokens == 0 && kTileTokens % kSampleBlock == 0 && kSampleBlock % kOutputTile == 0 &&
              kSampleRows * kTileTokens <= kTileLogits);

constexpr std::size_t sampled_bytes(std::int64_t num_rows) {
  return static_cast<std::size_t>(num_rows) * (sizeof(std::int32_t) + sizeof(float));
}
constexpr std::size_t kept_bytes(std::int64_t num_rows) {
  return static_cast<std::size_t>(num_rows * (1 + kMostKept)) * sizeof(std::int32_t);
}

/// Kept tokens of targets in rows of one width, for copies.
struct KeptRows {
  explicit KeptRows(std::span<const std::span<const std::int32_t>> kept)
      : counts(kept.size()), tokens(kept.size() * kMostKept) {
    for (std::size_t i = 0; i < kept.size(); ++i) {
      counts[i] = static_cast<std::int32_t>(kept[i].size());
      std::ranges::copy(kept[i], tokens.begin() + static_cast<std::int64_t>(i) * kMostKept);
    }
  }
  std::vector<std::int32_t> counts, tokens;
};

}  // namespace

LmHead::LmHead(const EngineOptions& options, std::int64_t max_rows, const Weights& weights, Gemms& gemms)
    : config_(options.model),
      weights_(weights),
      gemms_(gemms),
      row_only_sums_(options.row_only_sums),
      num_blocks_(ceil_div(config_.vocab_size, kSampleBlock)),
      max_step_(std::min(max_rows, kSampleRows)),
      normed_(std::max(max_step_, kWholeRows), config_.hidden_size),
      tile_(floats(std::min(kTileLogits, max_step_ * round_up(config_.vocab_size, kOutputTile)))),
      block_max_(floats(max_step_ * num_blocks_)),
      block_sum_(floats(max_step_ * num_blocks_)),
      part_sum_(floats(max_step_ * num_blocks_ * kSampleParts)),
      whole_rows_(kWholeRows * sizeof(std::int32_t)),
      sampled_host_{Memory(sampled_bytes(max_rows), Memory::Place::host),
                    Memory(sampled_bytes(max_rows), Memory::Place::host)},
      sampled_(sampled_bytes(max_rows)) {}

void LmHead::final_norm(const ResidualRows& rows, const std::int32_t* row_ids, std::int64_t num_rows,
                        const Stream& stream) {
  norm_quantize({rows.x, rows.branch, nullptr, weights_.final_norm_D(), row_ids, config_.rms_norm_eps,
                 normed_.for_layer(weights_.lm_head())},
                num_rows, stream);
}

std::int64_t LmHead::tile_tokens(std::int64_t num_rows, std::int64_t multiple) const {
  const std::int64_t fit = row_only_sums_ ? kTileTokens : kTileLogits / num_rows / multiple * multiple;
  return std::min(round_up(config_.vocab_size, kOutputTile), fit);
}

void LmHead::logit_tile(std::int64_t first_token, std::int64_t num_rows, float* y, std::int64_t y_stride,
                        std::int64_t num_tokens, const Stream& stream) {
  DeviceMatrix part = weights_.lm_head();
  part.quantized += first_token * part.at.row_bytes;
  if (part.scales != nullptr) part.scales += first_token;
  part.at.rows = round_up(num_tokens, kOutputTile);
  part.at.out = num_tokens;
  gemms_.multiply({normed_.for_layer(part), num_rows, part, y, y_stride, true}, stream);
}

template <class EachTile>
SummarizedRows LmHead::summarize(const ResidualRows& rows, const std::int32_t* row_ids, std::int64_t num_rows,
                                 const SummarizedHow& how, const Stream& stream, const EachTile& each_tile) {
  final_norm(rows, row_ids, num_rows, stream);
  const std::int64_t stride = tile_tokens(num_rows, how.multiple);
  for (std::int64_t begin = 0; begin < config_.vocab_size; begin += stride) {
    const std::int64_t num_tokens = std::min(stride, config_.vocab_size - begin);
    logit_tile(begin, num_rows, tile_.as<float>(), stride, num_tokens, stream);
    summarize_logits({tile_.as<float>(), stride, begin, num_tokens, how.settings, num_blocks_, block_max_.as<float>(),
                      block_sum_.as<float>(), part_sum_.as<float>(), how.block_weighted},
                     num_rows, stream);
    each_tile(Tile{tile_.as<float>(), stride, begin, num_tokens});
  }
  // Only the vocabulary size decides whether later kernels recompute logits. Scores thus equal sampled log-probs
  // bitwise.
  const bool all_there = config_.vocab_size <= kTileTokens;
  const DeviceMatrix& head = weights_.lm_head();
  return {block_max_.as<float>(),
          block_sum_.as<float>(),
          part_sum_.as<float>(),
          num_blocks_,
          config_.vocab_size,
          how.settings,
          all_there ? tile_.as<float>() : nullptr,
          stride,
          normed_.for_layer(head),
          head};
}

void LmHead::reserve_cuts(std::int64_t max_rows) {
  if (cutting_) return;
  const auto bytes = [](std::int64_t count, std::size_t each) { return static_cast<std::size_t>(count) * each; };
  Cutting made{Memory(bytes(max_step_ * num_blocks_, sizeof(double))),
               Memory(bytes(max_step_ * num_segments() * kMostKept, sizeof(Candidate))),
               Memory(kept_bytes(max_rows)),
               {Memory(kept_bytes(max_rows), Memory::Place::host), Memory(kept_bytes(max_rows), Memory::Place::host)}};
  cutting_ = std::move(made);
}

void LmHead::sample(const ResidualRows& rows, const TickArrays& arrays, const Stream& stream) {
  const std::int64_t num_rows = arrays.shape.samples;
  const bool cuts = arrays.shape.cuts;
  for (std::int64_t first = 0; first < num_rows; first += max_step_) {
    const std::int64_t count = std::min(max_step_, num_rows - first);
    const SampleSettings* settings = arrays.sample_settings + first;
    const RowCuts* of_rows = cuts ? arrays.cuts + first : nullptr;
    const SummarizedRows summarized = summarize(
        rows, arrays.sample_rows + first, count, {settings, nullptr, cuts ? kSegmentTokens : kSampleBlock}, stream,
        [&](const Tile& tile) {
          if (!cuts) return;
          find_candidates({tile.logits, tile.stride, tile.first_token, tile.num_tokens, settings, of_rows, num_blocks_,
                           num_segments(), cutting_->block_sum.as<double>(), cutting_->candidates.as<Candidate>()},
                          count, stream);
        });
    auto* const tokens = sampled_.as<std::int32_t>() + first;
    float* const logprobs = sampled_.as<float>() + num_rows + first;
    sample_tokens({summarized, arrays.uniforms + first, tokens, logprobs, of_rows}, count, stream);
    if (!cuts) continue;
    auto* const kept = cutting_->kept.as<std::int32_t>();
    sample_candidates({block_max_.as<float>(), cutting_->block_sum.as<double>(), cutting_->candidates.as<Candidate>(),
                       num_blocks_, num_segments(), config_.vocab_size, settings, of_rows, arrays.uniforms + first,
                       tokens, logprobs, kept + first, kept + num_rows + first * kMostKept},
                      count, stream);
  }
}

void LmHead::send_kept(std::int64_t num_rows, std::size_t turn, const Stream& stream) {
  copy_to_host(cutting_->kept_host[turn].data(), cutting_->kept.data(), kept_bytes(num_rows), stream);
}

void LmHead::read_kept(std::int64_t num_rows, std::size_t turn, std::span<SampledToken> sampled) const {
  const auto* counts = cutting_->kept_host[turn].as<std::int32_t>();
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    sampled[i].limited = counts[i] < 0;
    const std::int32_t count = sampled[i].limited ? -1 - counts[i] : counts[i];
    sampled[i].kept = {counts + num_rows + static_cast<std::int64_t>(i) * kMostKept, static_cast<std::size_t>(count)};
  }
}

void LmHead::send_sampled(std::int64_t num_rows, std::size_t turn, const Stream& stream) {
  copy_to_host(sampled_host_[turn].data(), sampled_.data(), sampled_bytes(num_rows), stream);
}

void LmHead::read(std::int64_t num_rows, std::size_t turn, std::span<SampledToken> sampled) const {
  const auto* tokens = sampled_host_[turn].as<std::int32_t>();
  const auto* logprobs = sampled_host_[turn].as<float>() + num_rows;
  for (std::size_t i = 0; i < sampled.size(); ++i) sampled[i] = {tokens[i], logprobs[i]};
}

void LmHead::score(const ResidualRows& rows, const Targets& targets, std::span<TokenScore> scores,
                   const Stream& stream) {
  if (!scoring_) {
    const auto ints = [&](std::int64_t count) {
      return Memory(static_cast<std::size_t>(count) * sizeof(std::int32_t));
    };
    const auto settings_bytes = static_cast<std::size_t>(max_step_) * sizeof(SampleSettings);
    scoring_ = {ints(max_step_),   ints(max_step_),  Memory(settings_bytes), floats(max_step_ * num_blocks_),
                floats(max_step_), floats(max_step_)};
  }
  const bool cuts = !targets.kept.empty();
  if (cuts && scoring_->kept.empty()) {
    scoring_->num_kept = floats(max_step_);
    scoring_->kept = floats(max_step_ * kMostKept);
    scoring_->kept_logits = floats(max_step_ * kMostKept);
  }
  const KeptRows kept(targets.kept);
  const std::vector<SampleSettings> settings(static_cast<std::size_t>(max_step_), settings_of(targets.temperature));
  copy_to_device(scoring_->settings.data(), settings.data(), settings.size() * sizeof(SampleSettings), stream);
  std::vector<float> logprobs(scores.size()), entropies(scores.size());
  const auto step = static_cast<std::size_t>(max_step_);
  for (std::size_t first = 0; first < scores.size(); first += step) {
    const std::size_t count = std::min(step, scores.size() - first), num_bytes = count * sizeof(float);
    copy_to_device(scoring_->rows.data(), targets.rows.data() + first, num_bytes, stream);
    copy_to_device(scoring_->targets.data(), targets.tokens.data() + first, num_bytes, stream);
    const auto num_rows = static_cast<std::int64_t>(count);
    if (cuts) {
      copy_to_device(scoring_->num_kept.data(), kept.counts.data() + first, num_bytes, stream);
      copy_to_device(scoring_->kept.data(), kept.tokens.data() + first * kMostKept, num_bytes * kMostKept, stream);
    }
    const auto* num_kept = scoring_->num_kept.as<std::int32_t>();
    const auto* kept_tokens = scoring_->kept.as<std::int32_t>();
    const auto* settings_there = scoring_->settings.as<SampleSettings>();
    const SummarizedRows summarized =
        summarize(rows, scoring_->rows.as<std::int32_t>(), num_rows,
                  {settings_there, scoring_->block_weighted.as<float>()}, stream, [&](const Tile& tile) {
                    if (!cuts) return;
                    gather_kept_logits({tile.logits, tile.stride, tile.first_token, tile.num_tokens, num_kept,
                                        kept_tokens, scoring_->kept_logits.as<float>()},
                                       num_rows, stream);
                  });
    if (cuts) {
      score_kept({block_max_.as<float>(), block_sum_.as<float>(), num_blocks_, settings_there, num_kept, kept_tokens,
                  scoring_->targets.as<std::int32_t>(), scoring_->kept_logits.as<float>(),
                  scoring_->logprobs.as<float>(), scoring_->entropies.as<float>()},
                 num_rows, stream);
    } else {
      score_tokens({summarized, scoring_->block_weighted.as<float>(), scoring_->targets.as<std::int32_t>(),
                    scoring_->logprobs.as<float>(), scoring_->entropies.as<float>()},
                   num_rows, stream);
    }
    copy_to_host(logprobs.data() + first, scoring_->logprobs.data(), num_bytes, stream);
    copy_to_host(entropies.data() + first, scoring_->entropies.data(), num_bytes, stream);
  }
  stream.wait();
  for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = {logprobs[i], entropies[i]};
}

void LmHead::logits(const ResidualRows& rows, std::span<const std::int32_t> row_ids, std::span<float> logits_RV,
                    const Stream& stream) {
  const std::int64_t vocab_size = config_.vocab_size, stride = round_up(vocab_size, kOutputTile);
  if (whole_.empty()) whole_ = floats(kWholeRows * stride);
  copy_to_device(whole_rows_.data(), row_ids.data(), row_ids.size_bytes(), stream);
  const auto num_rows = static_cast<std::int64_t>(row_ids.size());
  final_norm(rows, whole_rows_.as<std::int32_t>(), num_rows, stream);
  logit_tile(0, num_rows, whole_.as<float>(), stride, vocab_size, stream);
  for (std::int64_t row = 0; row < num_rows; ++row) {
    copy_to_host(logits_RV.data() + row * vocab_size, whole_.as<float>() + row * stride,
                 static_cast<std::size_t>(vocab_size) * sizeof(float), stream);
  }
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
