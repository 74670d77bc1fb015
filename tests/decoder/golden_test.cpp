// Tests the forward pass against transformers (scripts/golden/hf_models.py).
#include <algorithm>
#include <string>

#include "decoder/fixtures.h"
#include "model/peft.h"
#include "model/weights.h"
#include "state/safetensors.h"
#include "support/catch.h"
#include "support/weights.h"

namespace {

using namespace qrl;
using namespace qrl::decoder;
using namespace qrl::decoder::test;
using types::TokenId;

std::vector<TokenId> tokens_of(const state::SafetensorsFile& file, const std::string& name) {
  const base::Buffer ids = file.read(name);
  const auto* values = ids.as<std::int64_t>();
  return {values, values + ids.shape().numel()};
}

const char* const kModels[] = {
    "hf_qwen3",          "hf_qwen3_untied", "hf_qwen2",         "hf_llama",        "hf_llama_scaled", "hf_qwen3_yarn",
    "hf_llama_bias",     "hf_qwen3_bias",   "hf_mistral",       "hf_llama_linear", "hf_granite",      "hf_granite_bias",
    "hf_smollm3",        "hf_smollm3_bias", "hf_olmo2",         "hf_olmo2_tied",   "hf_phi3",         "hf_phi3_plain",
    "hf_mistral_window", "hf_qwen2_window", "hf_phi3_window",   "hf_gemma3",       "hf_gemma3_bf16",  "hf_olmo3",
    "hf_olmo3_plain",    "hf_qwen3_5",      "hf_qwen3_5_groups"};

/// fp32 sums in a different order from transformers; rounding alone gives 1.1e-5 (the goldens' manifest).
constexpr double kLogitBound = 2e-5;

}  // namespace

TEST_CASE("teacher-forced fp32 logits: equal transformers', on every instruction set") {
  for (const std::string name : kModels) {
    const auto dir = qrl::test::shipped_data() / "golden" / name;
    const qrl::test::LoadedModel hf = qrl::test::load_hf(dir);
    const auto snapshot = publish(hf.config, hf.weights, quant::Format::f32);
    const state::SafetensorsFile golden(dir / "golden.safetensors");
    on_every_path([&](const std::string& path) {
      for (int i = 0; golden.tensors().contains("logits." + std::to_string(i)); ++i) {
        CAPTURE(name, path, i);
        const std::vector<TokenId> tokens = tokens_of(golden, "input_ids." + std::to_string(i));
        const base::Buffer want = golden.read_f32("logits." + std::to_string(i));
        const std::vector<float> got = forced_logits(*snapshot, tokens, {.page_size = 4, .num_threads = 2});
        REQUIRE(static_cast<std::int64_t>(got.size()) == want.shape().numel());
        std::size_t first_bad = got.size();
        for (std::size_t at = got.size(); at-- > 0;) {
          if (!qrl::test::close(got[at], want.as<float>()[at], kLogitBound, 0)) first_bad = at;
        }
        INFO("first bad at row " << first_bad / static_cast<std::size_t>(hf.config.vocab_size));
        CHECK(first_bad == got.size());
      }
    });
  }
}

TEST_CASE("logits with adapters: equal PEFT's, on every instruction set") {
  constexpr double kBound = 2e-5;  // fp32 sums in another order
  const std::pair<const char*, const char*> goldens[] = {{"peft_qwen2_r4", "hf_qwen2"},
                                                         {"peft_qwen3_r16_rslora", "hf_qwen3"},
                                                         {"peft_llama_r1", "hf_llama"},
                                                         {"peft_qwen3_norms", "hf_qwen3"},
                                                         {"peft_gemma3_norms", "hf_gemma3"}};
  for (const auto& [name, base_name] : goldens) {
    const auto dir = qrl::test::shipped_data() / "golden" / name;
    const model::HfModel base = model::open_hf(qrl::test::shipped_data() / "golden" / base_name);
    const model::PeftAdapter adapter = model::open_peft(dir, base.config);
    model::SnapshotFormats formats(quant::Format::f32);
    formats.lora = adapter.lora;
    model::Snapshot snapshot(base.config, formats);
    snapshot.publish(base.weights, 0);
    snapshot.publish_adapters(model::views(model::read_adapters(base.config, adapter.lora, adapter.adapters)), 1);
    const state::SafetensorsFile golden(dir / "golden.safetensors");
    on_every_path([&](const std::string& path) {
      for (const char* sequence : {"0", "1"}) {
        CAPTURE(name, path, sequence);
        const base::Buffer want = golden.read_f32(std::string("logits.") + sequence);
        const std::vector<float> got =
            forced_logits(snapshot, tokens_of(golden, std::string("input_ids.") + sequence), {.num_threads = 2});
        REQUIRE(static_cast<std::int64_t>(got.size()) == want.shape().numel());
        double worst = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double difference = std::abs(static_cast<double>(got[i]) - want.as<float>()[i]);
          if (!(difference <= worst)) worst = difference;
        }
        CHECK(worst <= kBound);
      }
    });
  }
}

TEST_CASE("64 greedy tokens of the whole decoder: equal transformers', on every instruction set") {
  for (const std::string name : kModels) {
    const auto dir = qrl::test::shipped_data() / "golden" / name;
    const qrl::test::LoadedModel hf = qrl::test::load_hf(dir);
    const auto snapshot = publish(hf.config, hf.weights, quant::Format::f32);
    const state::SafetensorsFile golden(dir / "golden.safetensors");
    const std::vector<TokenId> prompt = tokens_of(golden, "greedy.prompt");
    on_every_path([&](const std::string& path) {
      CAPTURE(name, path);
      Decoder decoder(hf.config, {.max_num_batched_tokens = 4,
                                  .page_size = 4,
                                  .kv_pages = 20,
                                  .max_model_len = 73,
                                  .kv_format = quant::KvFormat::f32});
      decoder.load(*snapshot);
      const types::SampleRequest request{1, prompt, 0, 1};
      const auto completions = decoder.complete({&request, 1}, {.temperature = 0, .max_new_tokens = 64}, {});
      REQUIRE(completions.size() == 1);
      CHECK(completions[0].tokens == tokens_of(golden, "greedy.tokens"));
      CHECK(completions[0].stop == types::StopReason::length);
      CHECK(std::ranges::all_of(completions[0].sampler_logprobs, [](float logprob) { return logprob == 0; }));
    });
  }
}
