#include "train/policy/inputs.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/int8_profile.h"
#include "state/hash.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

namespace qrl::train {

namespace {

void add_number(state::Hash& hash, std::uint64_t number) { hash.add(&number, sizeof number); }

/// Hashes the length first, so that different lists of texts never hash the same bytes.
void add_text(state::Hash& hash, std::string_view text) {
  add_number(hash, text.size());
  hash.add(text);
}

std::string hash_of(std::span<const PromptSet> sets) {
  state::Hash hash;
  for (const PromptSet& set : sets) {
    add_number(hash, set.prompts.size());
    for (const std::int64_t size : set.source_sizes) add_number(hash, static_cast<std::uint64_t>(size));
    for (const types::Prompt& prompt : set.prompts) {
      add_number(hash, prompt.id);
      add_number(hash, prompt.tokens.size());
      hash.add(prompt.tokens.data(), prompt.tokens.size() * sizeof(types::TokenId));
      add_text(hash, prompt.ground_truth);
      add_text(hash, prompt.data_source);
    }
  }
  return hash.hex();
}

std::string hash_of(const std::vector<SftRow>& rows) {
  if (rows.empty()) return {};
  state::Hash hash;
  for (const SftRow& row : rows) {
    for (const auto* tokens : {&row.context, &row.rest}) {
      add_number(hash, tokens->size());
      hash.add(tokens->data(), tokens->size() * sizeof(types::TokenId));
    }
    hash.add(row.learned.data(), row.learned.size());
  }
  return hash.hex();
}

std::string hash_of(const Policy& policy, const std::string& weights) {
  state::Hash hash;
  add_text(hash, model::config_json(policy.config));
  if (!weights.empty()) add_text(hash, weights);
  return hash.hex();
}

std::string different_keys(const std::string& a, const std::string& b) {
  const auto first = nlohmann::json::parse(a), second = nlohmann::json::parse(b);
  std::string keys;
  for (const auto& [key, value] : first.items()) {
    if (second.at(key) != value) keys += (keys.empty() ? "" : ", ") + key;
  }
  return keys;
}

std::string values_of(const Recipe& recipe) {
  nlohmann::json values;
  for (const config::Key& key : recipe.keys->all()) {
    // Hosts may differ in these keys (folders, processors).
    const bool is_local = key.name == "trainer.default_local_dir" || key.name == "trainer.threads" || key.anchor;
    if (!is_local) values[key.name] = key.print(recipe);
  }
  return values.dump();
}

void require_same_inputs(const Inputs& before, const Inputs& now, const std::string& where, const std::string& expected,
                         const std::string& what_to_do) {
  std::string other;
  const auto compare = [&](const std::string& a, const std::string& b, const char* name) {
    if (a != b) other += (other.empty() ? "" : "; ") + std::string(name);
  };
  compare(before.model, now.model, "a different model (model.path, model.init)");
  compare(before.train_prompts, now.train_prompts, "different training prompts (data.train_files, the tokenizer)");
  compare(before.sft_rows, now.sft_rows, "different cold-start rows (sft.train_files, the tokenizer)");
  compare(before.held_out_prompts, now.held_out_prompts, "different held-out prompts (data.val_files, the tokenizer)");
  QRL_REQUIRE(other.empty(), where, expected, other, what_to_do);
}

void require_agreement(const Recipe& recipe, const Inputs& mine, dist::Collectives& world) {
  const auto recipes = world.all_gather(values_of(recipe));
  const auto model = world.all_gather(mine.model), train = world.all_gather(mine.train_prompts),
             val = world.all_gather(mine.held_out_prompts), sft = world.all_gather(mine.sft_rows);
  for (std::size_t rank = 1; rank < model.size(); ++rank) {
    const std::string where = "rank " + std::to_string(rank);
    QRL_REQUIRE(recipes[rank] == recipes[0], where, "the recipe of rank 0",
                "different values of " + different_keys(recipes[0], recipes[rank]),
                "start every rank with the same recipe");
    require_same_inputs({model[0], train[0], val[0], sft[0]}, {model[rank], train[rank], val[rank], sft[rank]}, where,
                        "the inputs of rank 0", "give every host the same files");
  }
}

}  // namespace

Inputs fingerprint(const Recipe& recipe, const Policy& policy, const PromptSet& prompts,
                   const std::vector<PromptSet>& held_out, const SftRows& sft_rows, dist::Collectives& world) {
  const bool are_base = trains_adapters(recipe) && cold_start_trains_adapters(recipe);
  const bool are_read = trains_adapters(recipe) || recipe.algorithm.kl_loss_coef != 0;
  const bool weights_count = are_base || (are_read && !has_cold_start(recipe.sft));
  const std::string weights = weights_count ? model::weights_hash(policy.config, policy.weights) : std::string();
  Inputs mine{hash_of(policy, weights), hash_of(std::span(&prompts, 1)), hash_of(held_out), hash_of(sft_rows.train),
              weights};
  if (world.size() > 1) {
    Inputs whole = mine;
    if (!weights_count) whole.model = hash_of(policy, model::weights_hash(policy.config, policy.weights));
    require_agreement(recipe, whole, world);
  }
  return mine;
}

}  // namespace qrl::train
