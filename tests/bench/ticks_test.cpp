// Tests `qrl-bench ticks --estimate` against ticks measured on an H100, and the table of both in docs/gpu.md.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "support/catch.h"
#include "train/support.h"

using namespace qrl;

namespace {

constexpr int kBatches[] = {1, 16, 64, 256, 512};

/// Ticks of 8B at 512 positions, in us: an NVIDIA H100 80GB, 2026-11-27, commit b68999b2.
struct MeasuredTicks {
  std::string weights, kv;
  double us[std::size(kBatches)];
};
const MeasuredTicks kMeasured[] = {
    {"bf16", "bf16", {6533, 6965, 8780, 15357, 26034}},
    {"int8", "int8", {4329, 4800, 6064, 10772, 19047}},
    {"fp8_e4m3 channel_token", "fp8_e4m3", {4379, 5041, 6238, 10225, 17349}},
    {"fp8_e4m3 block128", "fp8_e4m3", {4587, 5074, 6666, 10506, 17661}},
    {"int4", "bf16", {4424, 5830, 11941, 21484, 31733}},
    {"int4 int8", "int8", {3710, 4649, 8335, 20243, 36510}},
};

/// Estimated ticks in us, one a batch.
std::vector<double> estimated_ticks(const MeasuredTicks& ticks, const std::string& more = "") {
  const test::Outcome outcome = test::run_command(
      QRL_BINARY_DIR "/qrl-bench ticks --estimate --json --shape 8b --context 512 --batch 1,16,64,256,512 --format '" +
      ticks.weights + "' --kv " + ticks.kv + more);
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  const nlohmann::json said = nlohmann::json::parse(outcome.output);
  std::vector<double> us;
  for (const int batch : kBatches)
    us.push_back(said.at("context512_batch" + std::to_string(batch) + "_estimated_us").get<double>());
  return us;
}

std::string milliseconds(double us) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.1f", us * 1e-3);
  return text;
}

}  // namespace

TEST_CASE("estimated ticks are within 10 % of an H100's, in six formats and five batches") {
  for (const MeasuredTicks& ticks : kMeasured) {
    const std::vector<double> estimated = estimated_ticks(ticks);
    for (std::size_t i = 0; i < std::size(kBatches); ++i) {
      INFO(ticks.weights << ", batch " << kBatches[i] << ": " << estimated[i] << " us, measured " << ticks.us[i]);
      CHECK(std::fabs(estimated[i] / ticks.us[i] - 1) <= 0.1);
    }
  }
}

TEST_CASE("docs/gpu.md has the measured ticks, and the estimated ones with a bf16 and an int8 lm_head") {
  std::ifstream page(QRL_SOURCE_DIR "/docs/gpu.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  for (const MeasuredTicks& ticks : kMeasured) {
    const std::vector<double> estimated = estimated_ticks(ticks), with_int8 = estimated_ticks(ticks, " --lm-head int8");
    std::string row = "| " + ticks.weights + " |";
    for (std::size_t i = 0; i < std::size(kBatches); ++i) {
      CHECK(with_int8[i] < estimated[i]);
      row += " " + milliseconds(ticks.us[i]) + " · " + milliseconds(estimated[i]) + " · " + milliseconds(with_int8[i]) +
             " |";
    }
    INFO(row);
    CHECK(text.find(row) != std::string::npos);
  }
}
