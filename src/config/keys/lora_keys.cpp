#include "config/keys/lora_keys.h"

#include <string>

#include "config/keys/choice_keys.h"
#include "config/keys/key_types.h"

namespace qrl::config {

namespace {

constexpr std::int64_t kMaxRank = 1024;
constexpr const char* kAll = "all-linear";

/// Accepts all-linear, stored as an empty list, or modules.
Type<std::vector<std::string>> modules() {
  Type<std::vector<std::string>> type = list_of(text());
  const auto read_list = type.read;
  const auto print_list = type.print;
  type.text = std::string(kAll) + " | " + type.text;
  type.read = [read_list](const YamlNode& node) -> Reading<std::vector<std::string>> {
    if (node.kind == YamlNode::Kind::scalar && node.text == kAll) return std::vector<std::string>();
    Reading<std::vector<std::string>> reading = read_list(node);
    if (const auto* list = std::get_if<std::vector<std::string>>(&reading); list != nullptr && list->empty())
      return Refusal{"[]", "name modules: [q_proj, v_proj]; lora.rank 0 is without adapters"};
    return reading;
  };
  type.print = [print_list](const std::vector<std::string>& list) { return list.empty() ? kAll : print_list(list); };
  return type;
}

}  // namespace

void add_lora(std::vector<Key>& list) {
  using L = LoraRecipe;
  Section lora(list, "lora", &Recipe::lora);
  lora.add("rank", &L::rank, integer(0, kMaxRank),
           "rank of the adapters that are trained while the model's own weights stay as they are; 0: all weights are "
           "trained");
  const auto with_rank = [](Key& key) { only_with(key, "lora.rank", "above 0", trains_adapters); };
  with_rank(lora.add("alpha", &L::alpha, real(positive()), "adapters are scaled by alpha / rank"));
  with_rank(lora.add("rslora", &L::rslora, boolean(), "scale by alpha / sqrt(rank) instead"));
  with_rank(lora.add("target_modules", &L::target_modules, modules(),
                     "linear layers with an adapter: names or ends of names, as q_proj; all-linear: all but lm_head"));
  with_rank(lora.add("train_norms", &L::train_norms, boolean(), "train the gains of all norms as well"));
  with_rank(lora.add("path", &L::path, unset_when_empty(input_path()),
                     "PEFT folder to begin with, of the same rank, alpha and modules", {"new adapters"}));
  with_rank(lora.add(
      "sft", &L::sft,
      choice<LoraSft>({{"auto", LoraSft::automatic}, {"full", LoraSft::full}, {"adapters", LoraSft::adapters}}),
      "what the cold start trains: all weights, which are the base then, or the adapters; auto: full for a new model"));
  with_rank(lora.add("publish", &L::publish,
                     choice<LoraPublish>({{"adapter", LoraPublish::adapter}, {"merge", LoraPublish::merge}}),
                     "what the sampler gets: A and B beside the base; or for comparison, merged weights, quantized "
                     "again"));
}

void check_lora(const Recipe& recipe, RuleBook& rules) {
  if (!trains_adapters(recipe)) return;
  const auto require = [&](const std::string& key, bool holds, const std::string& expected, const std::string& advice) {
    rules.require({key, "lora.rank"}, holds, expected + " with lora.rank above 0", kTheirValues, advice);
  };
  require("trainer.zero_stage", recipe.trainer.zero_stage == 0, "trainer.zero_stage 0",
          "adapters are small: every rank keeps all of them");
  require("optim.name", recipe.optim.name == OptimName::adamw, "optim.name adamw",
          "Muon's updates are for whole matrices: set optim.name: adamw");
  require("quant.uaq_scale", recipe.quant.uaq_scale == 1, "quant.uaq_scale 1",
          "the quantized values never change: set quant.uaq_scale: 1");
  require("quant.rollout.profile", recipe.quant.profile.empty(), "no quant.rollout.profile",
          "the base is quantized once as it is: set quant.rollout.profile: null");
  rules.require({"lora.publish", "quant.learner.forward"},
                recipe.lora.publish == LoraPublish::adapter || recipe.quant.learner_forward == LearnerForward::bf16,
                "quant.learner.forward bf16 with lora.publish merge", kTheirValues,
                "merged weights are the sampler's alone: the learner multiplies base and adapters");
  const bool by_adapters = cold_start_trains_adapters(recipe);
  rules.require({"lora.sft", "sft.steps"}, recipe.lora.sft == LoraSft::automatic || has_cold_start(recipe.sft),
                "sft.steps above 0 beside lora.sft", "0", "there is no cold start: delete lora.sft");
  rules.require({"lora.sft", "lora.rank", "model.init.config"}, recipe.model.init_config.empty() || !by_adapters,
                "model.path beside lora.sft adapters", "a new model",
                "its random weights are no base: set lora.sft: full");
  rules.require({"lora.rank", "sft.steps", "model.init.config"},
                recipe.model.init_config.empty() || has_cold_start(recipe.sft),
                "model.path, or a cold start (sft.steps above 0), with lora.rank above 0", "a new model without one",
                "random weights are no base for adapters");
  rules.require(
      {"lora.path", "lora.sft", "model.init.config"},
      recipe.lora.path.empty() || (recipe.model.init_config.empty() && (!has_cold_start(recipe.sft) || by_adapters)),
      "lora.path beside model.path, and no cold start that trains all weights", kTheirValues,
      "an adapter belongs to the weights that it was trained on");
}

}  // namespace qrl::config
