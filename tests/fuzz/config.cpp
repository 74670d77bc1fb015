// Fuzzes config.json: an accepted config has parameters, and reads back equal after it is written.
#include "model/config.h"

#include "target.h"

using namespace qrl;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  const std::string_view text = fuzz::text_of(data, num_bytes);
  fuzz::accepts([&] {
    const model::ModelConfig config = model::parse_config(text, "config.json");
    (void)model::unknown_config_keys(text, "config.json");
    fuzz::require(model::num_parameters(config) > 0, "a model has parameters");
    fuzz::require(model::parse_config(model::config_json(config), "x") == config, "a config reads back as it was");
  });
  return 0;
}
