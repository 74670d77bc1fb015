#include "config/keys/sft_keys.h"

#include "config/keys/choice_keys.h"
#include "config/keys/key_types.h"

namespace qrl::config {

void add_sft_files(std::vector<Key>& list) {
  using S = SftRecipe;
  Section sft(list, "sft", &Recipe::sft);
  const auto of_files = [](Key& key) {
    only_with(key, "sft.train_files", "set", [](const Recipe& recipe) { return !recipe.sft.train_files.empty(); });
  };
  sft.add(
      "train_files", &S::train_files, list_of(input_path()),
      "files of conversations to learn from, in place of sft.demonstrations: `messages`, or `prompt` with `response`");
  of_files(sft.add("val_files", &S::val_files, list_of(input_path()),
                   "files of conversations for val/loss: after each epoch, at each checkpoint and at the end"));
  of_files(sft.add("epochs", &S::epochs, integer(0), "passes over train_files, in place of sft.steps; 0: by steps"));
  of_files(sft.add("max_length", &S::max_length, integer(2), "tokens of a row",
                   {"actor.max_tokens_per_micro_batch", [](const Recipe& recipe) {
                      const bool has_files = !recipe.sft.train_files.empty();
                      return has_files ? std::optional(recipe.actor.max_tokens_per_micro_batch) : std::nullopt;
                    }}));
  of_files(sft.add("overlong", &S::overlong,
                   choice<OverlongPrompt>({{"error", OverlongPrompt::error},
                                           {"filter", OverlongPrompt::filter},
                                           {"truncate", OverlongPrompt::truncate}}),
                   "what happens to a row above max_length; truncate: its end is cut"));
  of_files(sft.add("shuffle", &S::shuffle, boolean(), "a new order of the rows in each epoch"));
  of_files(sft.add("loss_on", &S::loss_on,
                   choice<LossOn>({{"assistant", LossOn::assistant}, {"last", LossOn::last}, {"all", LossOn::all}}),
                   "what is learned: every turn of the assistant, its last one, or all tokens"));
}

}  // namespace qrl::config
