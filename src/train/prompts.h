// Owns the prompts of a run: from files and generators, through the template, to tokens, and the order in which
// training takes them. Knows nothing of sampling.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/recipe.h"
#include "data/chat_template.h"
#include "data/conversation.h"
#include "data/tokenizer.h"
#include "tasks/verifier.h"
#include "types/prompt.h"

namespace qrl::train {

/// Prompts that are reported together.
struct PromptSet {
  std::string data_source;
  std::vector<types::Prompt> prompts;
  std::vector<std::int64_t> source_sizes;  ///< with data.train_weights: how many of them each file gave, in order
};

/// Loads data.train_files or data.train_generator, in their own order; ids are positions.
PromptSet load_train_prompts(const config::Recipe& recipe, const data::Tokenizer& tokenizer,
                             const tasks::Verifier& verifier);

/// Loads data.val_generator, then data.val_files, one set per data source in order of appearance. Ids differ from every
/// training prompt's.
std::vector<PromptSet> load_held_out_prompts(const config::Recipe& recipe, const data::Tokenizer& tokenizer,
                                             const tasks::Verifier& verifier);

/// Returns the number of a held-out prompt among all of them, from 0: its id less the first held-out id.
std::uint64_t held_out_number(const types::Prompt& prompt);

/// Warns if held-out prompts are also training prompts, whose score says less about other prompts.
void warn_of_shared_prompts(const PromptSet& train, std::span<const PromptSet> held_out);

/// Turns the text of a prompt into the tokens that the model sees: data.prompt_template around it, the chat template
/// around both. The templates' own words may hold added tokens; the text becomes one only with
/// data.parse_special_tokens.
class PromptEncoder {
 public:
  PromptEncoder(const config::DataRecipe& recipe, const data::Tokenizer& tokenizer);
  /// `system`: the row's own system message, before data.system_prompt; "": none. Input errors name `where`.
  std::vector<types::TokenId> encode(std::string_view text, std::string_view system = {},
                                     const std::string& where = "a prompt") const;
  /// Encodes a conversation for the model to continue, with data.system_prompt first if it has no system message. A
  /// single question, perhaps with a system message, is encoded as above. Input errors name `where`.
  std::vector<types::TokenId> encode(data::Conversation conversation, const std::string& where) const;
  const data::ChatTemplate& chat() const { return chat_; }
  /// Throws an input error that names `where` for a system message that the template has no place for.
  void require_system_fits(std::string_view system, const std::string& where) const;

 private:
  std::vector<types::TokenId> rendered(const data::Conversation& conversation, const std::string& where) const;

  const config::DataRecipe& recipe_;
  data::Tokenizer tokenizer_;
  data::ChatTemplate chat_;
  std::string before_, after_;  ///< the two halves of data.prompt_template
};

/// Orders training prompts epoch after epoch, each a permutation keyed by (seed, epoch). With weights, the next prompt
/// is always of the source furthest behind its share, each with epochs of its own. Its only state is the number of
/// prompts drawn.
class PromptOrder {
 public:
  PromptOrder(std::int64_t num_prompts, bool shuffle, std::uint64_t seed);
  /// `sizes`: prompts of each source, which follow each other; `weights`: its share, above 0.
  PromptOrder(const std::vector<std::int64_t>& sizes, std::vector<double> weights, bool shuffle, std::uint64_t seed);
  /// Indices of the next `count` prompts.
  std::vector<std::size_t> next(std::int64_t count);
  std::int64_t num_taken() const { return num_taken_; }
  void restore(std::int64_t num_taken);

 private:
  struct Source {
    std::int64_t first = 0;  ///< index of its first prompt
    std::int64_t size = 0;
    std::int64_t num_taken = 0;
    std::int64_t epoch = -1;         ///< that `order` is of
    std::vector<std::size_t> order;  ///< indices of its prompts
  };
  void shuffle_for(std::size_t source_idx, std::int64_t epoch);
  std::size_t next_source() const;

  std::vector<double> weights_;  ///< they sum to 1
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t num_taken_ = 0;
  std::vector<Source> sources_;
};

/// Returns the order that a recipe selects.
PromptOrder make_order(const config::Recipe& recipe, const PromptSet& prompts);

}  // namespace qrl::train
