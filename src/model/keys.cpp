#include "model/keys.h"

namespace qrl::model {

namespace {

using namespace config;
using enum config::OnResume;

constexpr std::int64_t kMaxRank = 1024;

/// Accepts all-linear, stored as an empty list, or a list of modules.
Type<std::vector<std::string>> modules() {
  Type<std::vector<std::string>> some = list_of(text());
  some.read = [read = some.read](const YamlNode& node) {
    std::vector<std::string> list = read(node);
    if (list.empty())
      throw ParseError{"[]", "name modules: [q_proj, v_proj]; to train without adapters set lora.rank: 0"};
    return list;
  };
  return word_or("all-linear", std::vector<std::string>(), some);
}

}  // namespace

void add_adapter_keys(config::Section<LoraConfig> lora) {
  using L = LoraConfig;
  lora.add(fixed, "rank", &L::rank, integer(0, kMaxRank), "rank of the LoRA adapters; 0: train all weights");
  lora.only_with("lora.rank", "above 0");
  lora.add(fixed, "alpha", &L::alpha, real(kPositive), "adapters are scaled by alpha / rank");
  lora.add(fixed, "rslora", &L::rslora, "scale by alpha / sqrt(rank) instead");
  lora.add(fixed, "target_modules", &L::target_modules, modules(),
           "layers with adapters, by name or its end (q_proj); all-linear: all except lm_head");
  lora.add(fixed, "train_norms", &L::train_norms, "also train the gains of all norms");
}

}  // namespace qrl::model
