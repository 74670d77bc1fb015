// Tests dump: a file with every layer's output.
#include "state/safetensors.h"
#include "support/catch.h"
#include "train/support.h"

using namespace qrl;

TEST_CASE("dump: tokens, embedding, layers and logits of a prompt, and an existing other file is refused") {
  const test::TempDir dir;
  const auto file = dir / "dump.safetensors";
  const std::string command = std::string(QRL_BINARY_DIR "/qrl-train dump " QRL_SOURCE_DIR "/tests/train/tiny.yaml") +
                              " --prompt '1 2 3 = 6\n' --out " + file.string();
  const test::Outcome first = test::run_command("( " + command + " )");
  INFO(first.output);
  REQUIRE(first.exit_code == 0);
  const state::SafetensorsFile dump(file);
  const std::int64_t num_tokens = dump.entry("tokens").shape.numel();
  CHECK(num_tokens > 1);
  const base::Shape& embedding = dump.entry("embedding").shape;
  CHECK(embedding[0] == num_tokens);
  std::size_t num_layers = 0;
  while (dump.tensors().contains("layers." + std::to_string(num_layers))) ++num_layers;
  REQUIRE(num_layers > 0);
  CHECK(dump.entry("layers.0").shape == embedding);
  CHECK(dump.entry("logits").shape[0] == num_tokens);
  CHECK(dump.tensors().size() == num_layers + 3);

  const test::Outcome second = test::run_command("( " + command + " )");
  CHECK(second.exit_code == 2);
  CHECK(second.output.find("--out") != std::string::npos);
}
