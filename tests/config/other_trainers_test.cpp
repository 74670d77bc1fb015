// Tests that advice about other trainers' names refers to existing keys.
#include "config/keys/other_trainers.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <vector>

#include "config/words.h"
#include "support.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

using namespace qrl;
using namespace qrl::test;

namespace {

/// Returns dotted words of lower-case letters, digits and underscores.
std::vector<std::string> dotted_words(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(text) + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.') {
      word += c;
      continue;
    }
    while (word.ends_with('.')) word.pop_back();
    const bool is_lower = std::ranges::none_of(word, [](unsigned char one) { return std::isupper(one) != 0; });
    const bool is_key = is_lower && !word.empty() && std::islower(static_cast<unsigned char>(word.front())) != 0;
    if (is_key && word.find('.') != std::string::npos) words.push_back(word);
    word.clear();
  }
  return words;
}

}  // namespace

TEST_CASE("other trainers' keys: each advised key exists") {
  for (const config::Alias& alias : config::aliases(train::keys())) {
    INFO(alias.name);
    const auto ours = dotted_words(alias.key);
    CHECK(ours.empty() == alias.key.empty());
    for (const std::string& word : ours) {
      INFO(word);
      CHECK(train::keys().find(word) != nullptr);
    }
    for (const std::string& word : dotted_words(alias.note)) {
      INFO(word);
      // "FILE.yaml" and "Qwen3.5" name no key.
      const std::string end = word.substr(word.rfind('.') + 1);
      if (word.starts_with('.') || end.find_first_not_of("0123456789") == std::string::npos) continue;
      const bool is_file = word == "metrics.jsonl" || std::filesystem::exists(QRL_SOURCE_DIR "/apps/python/" + word);
      CHECK((is_file || train::keys().find(word) != nullptr || train::keys().is_section(word)));
    }
    // "model.dtype: bfloat16" must be a setting that the reader accepts.
    const std::size_t colon = alias.key.find(": ");
    if (colon == std::string_view::npos) continue;
    const std::string setting =
        std::string(alias.key.substr(0, colon)) + "=" + std::string(alias.key.substr(colon + 2));
    INFO(setting);
    CHECK(faults("trainer: {seed: 1}", {setting}).empty());
  }
}

TEST_CASE("other trainers' keys: a name that is also ours has a counterpart") {
  std::set<std::string> names;
  for (const std::string& key : train::keys().names()) names.insert(key.substr(key.rfind('.') + 1));
  for (const config::Alias& alias : config::aliases(train::keys())) {
    INFO(alias.name);
    const bool is_dotted = alias.name.find('.') != std::string_view::npos;  // refers to that section only
    CHECK((is_dotted || !alias.key.empty() || !names.contains(std::string(alias.name))));
  }
}

TEST_CASE("other trainers' keys: the advised key has the same meaning") {
  const std::pair<const char*, const char*> cases[] = {
      {"sft.demonstrations.files", "here it is sft.train_files"},
      {"custom_reward_function.path", "here it is reward.command ([python3, -m, qrl_reward, \"verl:FILE:NAME\"]"},
      {"reward.custom_reward_function.name", "here it is reward.command"},
      {"reward_model.reward_manager", "here it is reward.verifier (command"},
      {"reward_model.enable", "a program can query a reward model"},
      {"reward_model.model.path", "a program can query a reward model"},
      {"reward_weights", "here it is reward.weights"},
      {"remote_rm_url", "openrlhf:FILE"},
      {"critic.optim.lr", "there is no critic"},
      {"actor_rollout_ref.rollout.name", "the decoder is built in"},
      {"stop_strings", "here it is rollout.stop"},
      {"importance_sampling_level", "algorithm.name (gspo for sequence"},
      {"critic_warmup", "there is no critic"},
      {"push_to_hub", "qrl-train export"},
      {"ddp_timeout", "trainer.collective_timeout_s (seconds)"},
  };
  for (const auto& [name, expected] : cases) {
    const std::string advice = qrl::config::advice_for_unknown_key(train::keys(), name);
    INFO(name << ": " << advice);
    CHECK(advice.find(expected) != std::string::npos);
  }
}

TEST_CASE("other trainers' values: each row belongs to a name, and a recipe accepts the advised value") {
  std::set<std::string> names;
  for (const config::Alias& alias : config::aliases(train::keys())) names.insert(alias.name);
  for (const config::ForeignValue& row : config::foreign_values()) {
    INFO(row.name << ": " << row.value);
    const bool is_key = train::keys().find(row.name) != nullptr;
    CHECK((is_key || names.contains(row.name)));
    CHECK((row.has_counterpart || !row.note.empty()));
    if (row.settings.empty()) continue;
    for (const std::string_view part : config::split(row.settings, " and ")) {
      const std::size_t colon = part.find(": ");
      if (colon == std::string_view::npos && !is_key) continue;  // a value of the name's own key, which port checks
      const std::string key(colon == std::string_view::npos ? std::string_view(row.name) : part.substr(0, colon));
      const std::string value(colon == std::string_view::npos ? part : part.substr(colon + 2));
      INFO(key << " = " << value);
      REQUIRE(train::keys().find(key) != nullptr);
      CHECK(train::value_fault(train::keys(), key, value).empty());
    }
  }
}

TEST_CASE("words of earlier versions: read as their new words") {
  const train::Recipe recipe = read("algorithm: {adv_estimator: reinforce_pp}");
  CHECK(recipe.algorithm.adv_estimator.word() == "reinforce_plus_plus_baseline");
  CHECK(read("algorithm: {adv_estimator: reinforce_plus_plus_baseline}") == recipe);
}

TEST_CASE("other trainers' loggers: advice names our logging") {
  for (const char* name : {"report_to", "logger"}) {
    const std::string told = fault("trainer: {" + std::string(name) + ": wandb}");
    CHECK(holds(told, "here it is trainer.wandb"));
    CHECK(holds(told, "mlflow: python3 apps/python/qrl_log.py mlflow RUN"));
  }
}
