// Tests the words of enums, which are listed in the order of the values.
#include "config/words.h"

#include "support/catch.h"

using namespace qrl::config;

namespace {

/// Returns whether the list of words ends with `word`, which belongs to the enum's last value.
template <class Enum>
bool ends_with(Enum last, std::string_view word) {
  const auto words = split(words_of(last), " | ");
  return words.size() == static_cast<std::size_t>(last) + 1 && words.back() == word;
}

}  // namespace

TEST_CASE("enums: every value has a word") {
  CHECK(ends_with(ComputeDType::f32, "float32"));
  CHECK(ends_with(WeightFormat::int4, "int4"));
  CHECK(ends_with(ActivationFormat::fp8_e4m3, "fp8_e4m3"));
  CHECK(ends_with(Granularity::block128, "block128"));
  CHECK(ends_with(GapAction::warn, "warn"));
  CHECK(ends_with(HeadFormat::int8, "int8"));
  CHECK(ends_with(RotationKind::hadamard, "hadamard"));
  CHECK(ends_with(LearnerForward::low_bit, "low_bit"));
  CHECK(ends_with(LearnerBackward::fp8_e4m3, "fp8_e4m3"));
  CHECK(ends_with(KvCache::fp8_e4m3, "fp8_e4m3"));
  CHECK(ends_with(CalibrateKv::once, "once"));
  CHECK(ends_with(OverlongPrompt::truncate, "truncate"));
  CHECK(ends_with(LossOn::all, "all"));
  CHECK(ends_with(LossAggMode::seq_mean_token_sum_norm, "seq-mean-token-sum-norm"));
  CHECK(ends_with(QueryFormat::fp8_e4m3, "fp8_e4m3"));
  CHECK(ends_with(LoraSft::adapters, "adapters"));
  CHECK(ends_with(LoraPublish::merge, "merge"));
  CHECK(ends_with(OnExhausted::train_partial, "train_partial"));
  CHECK(ends_with(RsLevel::seq_max, "seq_max"));
  CHECK(ends_with(RsStat::k3, "k3"));
  CHECK(ends_with(RewardRows::group, "group"));
  CHECK(ends_with(RewardAggregation::normalize_then_sum, "normalize_then_sum"));
  CHECK(ends_with(OnVerifierError::wrong, "wrong"));
  CHECK(ends_with(OptimName::muon, "muon"));
  CHECK(ends_with(LrScheduler::cosine, "cosine"));
  CHECK(ends_with(TrainDevice::cuda, "cuda"));
  CHECK(ends_with(RolloutDevice::cuda, "cuda"));
}

TEST_CASE("split: cuts at each separator, also into empty parts") {
  CHECK(split("a.b", ".") == std::vector<std::string_view>{"a", "b"});
  CHECK(split("", ".") == std::vector<std::string_view>{""});
  CHECK(split("x | y | ", " | ") == std::vector<std::string_view>{"x", "y", ""});
}
