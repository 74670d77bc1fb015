// Tests models in GGUF files against the Hugging Face folders that they were made from.
#include "model/gguf_model.h"

#include "base/bf16.h"
#include "base/error.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/weights.h"

using namespace qrl;
using namespace qrl::model;

namespace {

const std::filesystem::path kFolders = qrl::test::shipped_data() / "golden";

}  // namespace

TEST_CASE("gguf: a model has the config of its folder, and the folder's values in bf16 under their names") {
  for (const std::string name : {"llama", "qwen2", "qwen3"}) {
    INFO(name);
    const auto file = std::make_shared<const state::GgufFile>(kFolders / "gguf" / (name + ".gguf"));
    const GgufModel gguf = open_gguf(file);
    const qrl::test::LoadedModel want = qrl::test::load_hf(kFolders / ("hf_" + name));
    ModelConfig config = want.config;
    config.dtype = base::DType::bf16;
    config.generation_config = gguf.config.generation_config;
    config.initializer_range = gguf.config.initializer_range;
    CHECK(config_json(gguf.config) == config_json(config));
    CHECK(gguf.config == config);
    const Weights weights = read_weights(gguf.config, gguf.weights);
    for (const auto& [tensor, buffer] : want.weights) {
      INFO(tensor);
      std::int64_t differ = 0;
      for (std::int64_t i = 0; i < buffer.shape().numel(); ++i)
        differ += weights.at(tensor).as<float>()[i] == base::to_float(base::to_bf16(buffer.as<float>()[i])) ? 0 : 1;
      CHECK(differ == 0);
    }
    CHECK(gguf.types == std::map<std::string, std::int64_t>{{"F32", std::ssize(file->tensors())}});
  }
}
