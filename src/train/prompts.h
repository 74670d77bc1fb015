// Owns the prompts of a run: from files and generators, through the template, to tokens, and the order in which
// training draws them. Knows nothing of sampling.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"
#include "data/chat_template.h"
#include "data/tokenizer.h"
#include "reward/verifier.h"
#include "types/prompt.h"

namespace qrl::train {

/// Prompts that are reported together.
struct PromptSet {
  std::string data_source;
  std::vector<types::Prompt> prompts;
};

/// data.train_files or data.train_generator, in their own order; ids are positions.
PromptSet load_train_prompts(const config::Recipe& recipe, const data::Tokenizer& tokenizer,
                             const reward::Verifier& verifier);

/// data.val_generator, then data.val_files, one set per data source in order of appearance. Ids differ from every
/// training prompt's.
std::vector<PromptSet> load_held_out_prompts(const config::Recipe& recipe, const data::Tokenizer& tokenizer,
                                             const reward::Verifier& verifier);

/// Turns the text of a prompt into the tokens that the model sees: data.prompt_template around it, the chat template
/// around both. The templates' own words may hold added tokens; the text becomes one only with
/// data.parse_special_tokens.
class PromptEncoder {
 public:
  PromptEncoder(const config::DataRecipe& recipe, const data::Tokenizer& tokenizer);
  std::vector<types::TokenId> encode(std::string_view text) const;
  const data::ChatTemplate& chat() const { return chat_; }

 private:
  const config::DataRecipe& recipe_;
  data::Tokenizer tokenizer_;
  data::ChatTemplate chat_;
  std::string before_, after_;  ///< the two halves of data.prompt_template
};

/// The order of training prompts: epoch after epoch, each a permutation keyed by (seed, epoch). Its only state is the
/// number of prompts drawn.
class PromptOrder {
 public:
  PromptOrder(std::int64_t num_prompts, bool shuffle, std::uint64_t seed);
  /// Indices of the next `count` prompts.
  std::vector<std::size_t> next(std::int64_t count);
  std::int64_t num_drawn() const { return num_drawn_; }
  void restore(std::int64_t num_drawn) { num_drawn_ = num_drawn; }

 private:
  void shuffle_for(std::int64_t epoch);
  std::int64_t num_prompts_;
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t num_drawn_ = 0;
  std::int64_t epoch_ = -1;
  std::vector<std::size_t> order_;
};

}  // namespace qrl::train
