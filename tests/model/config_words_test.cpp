// Tests the messages about config.json values that are read differently from their text.
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "model/config.h"
#include "support/catch.h"

using namespace qrl;

namespace {

std::string config_text(const std::string& key, const std::string& dtype) {
  nlohmann::json config = {{"model_type", "qwen3"},    {"vocab_size", 512},      {"hidden_size", 64},
                           {"intermediate_size", 128}, {"num_hidden_layers", 2}, {"num_attention_heads", 4},
                           {"num_key_value_heads", 2}, {"head_dim", 16},         {"max_position_embeddings", 512},
                           {"rms_norm_eps", 1e-6},     {"rope_theta", 1e6},      {"tie_word_embeddings", true}};
  config[key] = dtype;
  return config.dump();
}

std::string text_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("half precision: summary and log say how it is converted") {
  const test::TempDir dir;
  for (const std::string key : {"dtype", "torch_dtype"}) {
    const auto file = dir / (key + ".json"), log = dir / (key + ".log");
    std::ofstream(file) << config_text(key, "float16");
    CHECK(model::describe_config(file).ends_with(
        "F16; float16 weights are read exactly, but exported as bfloat16 (export --dtype float32 keeps every bit)"));
    base::set_log_file(log);
    model::read_config(file);
    model::read_config(file);
    base::set_log_file({});
    const std::string written = text_of(log);  // one line, after the time
    CHECK(written.ends_with(
        " warning: " + file.string() +
        ": float16 weights are read exactly, but exported as bfloat16 (export --dtype float32 keeps every bit)\n"));
    CHECK(std::ranges::count(written, '\n') == 1);
  }
  std::ofstream(dir / "bf16.json") << config_text("dtype", "bfloat16");
  CHECK(model::describe_config(dir / "bf16.json").ends_with("tied embeddings, BF16"));
}
