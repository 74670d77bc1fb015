// Tests the words of enums, which are listed in the order of the values.
#include "config/words.h"

#include "support/catch.h"
#include "train/recipe/recipe.h"

using namespace qrl;
using config::split;

namespace {

/// Returns whether the list of words ends with `word`, which belongs to the enum's last value.
template <class Enum>
bool ends_with(Enum last, std::string_view word) {
  const auto words = split(words_of(last), " | ");
  return words.size() == static_cast<std::size_t>(last) + 1 && words.back() == word;
}

}  // namespace

TEST_CASE("enums: every value has a word") {
  CHECK(ends_with(learner::ComputeDType::f32, "float32"));
  CHECK(ends_with(train::WeightFormat::int4, "int4"));
  CHECK(ends_with(train::ActivationFormat::fp8_e4m3, "fp8_e4m3"));
  CHECK(ends_with(train::Granularity::block128, "block128"));
  CHECK(ends_with(train::GapAction::warn, "warn"));
  CHECK(ends_with(train::HeadFormat::int8, "int8"));
  CHECK(ends_with(train::RotationKind::hadamard, "hadamard"));
  CHECK(ends_with(learner::LearnerForward::low_bit, "low_bit"));
  CHECK(ends_with(learner::LearnerBackward::fp8_e4m3, "fp8_e4m3"));
  CHECK(ends_with(train::KvCache::fp8_e4m3, "fp8_e4m3"));
  CHECK(ends_with(train::CalibrateKv::once, "once"));
  CHECK(ends_with(train::OverlongPrompt::truncate, "truncate"));
  CHECK(ends_with(train::LossOn::all, "all"));
  CHECK(ends_with(learner::LossAggMode::seq_mean_token_sum_norm, "seq-mean-token-sum-norm"));
  CHECK(ends_with(train::QueryFormat::fp8_e4m3, "fp8_e4m3"));
  CHECK(ends_with(train::LoraSft::adapters, "adapters"));
  CHECK(ends_with(train::LoraPublish::merge, "merge"));
  CHECK(ends_with(train::OnExhausted::train_partial, "train_partial"));
  CHECK(ends_with(learner::RsLevel::seq_max, "seq_max"));
  CHECK(ends_with(learner::RsStat::k3, "k3"));
  CHECK(ends_with(tasks::RewardRows::group, "group"));
  CHECK(ends_with(train::RewardAggregation::normalize_then_sum, "normalize_then_sum"));
  CHECK(ends_with(tasks::OnVerifierError::wrong, "wrong"));
  CHECK(ends_with(learner::OptimName::muon, "muon"));
  CHECK(ends_with(learner::LrScheduler::cosine, "cosine"));
  CHECK(ends_with(train::TrainDevice::cuda, "cuda"));
  CHECK(ends_with(train::RolloutDevice::cuda, "cuda"));
}

TEST_CASE("split: cuts at each separator, also into empty parts") {
  CHECK(split("a.b", ".") == std::vector<std::string_view>{"a", "b"});
  CHECK(split("", ".") == std::vector<std::string_view>{""});
  CHECK(split("x | y | ", " | ") == std::vector<std::string_view>{"x", "y", ""});
}
