#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "tasks/verifier.h"
#include "train/recipe/recipe.h"
#include "types/prompt.h"

namespace qrl::train {

/// Holds prompts whose metrics are reported together.
struct PromptSet {
  std::string data_source;
  std::vector<types::Prompt> prompts;
  std::vector<std::int64_t> source_sizes;  ///< prompt count of each train_files entry; empty without data.train_weights
};

/// Loads data.train_files or data.train_generator in order. A prompt's id is its position.
PromptSet load_train_prompts(const Recipe& recipe, const data::Tokenizer& tokenizer, const tasks::Verifier& verifier);

/// Loads data.val_generator, then data.val_files, as one set per data source in order of appearance. No id equals a
/// training prompt's.
std::vector<PromptSet> load_held_out_prompts(const Recipe& recipe, const data::Tokenizer& tokenizer,
                                             const tasks::Verifier& verifier);

/// Returns a held-out prompt's id minus the first held-out id.
std::uint64_t held_out_number(const types::Prompt& prompt);

void warn_of_shared_prompts(const PromptSet& train, std::span<const PromptSet> held_out);

/// Orders training prompts by epochs. Each epoch is a permutation determined by seed and epoch number. With weights,
/// takes the next prompt from the source furthest below its share; each source then has its own epochs. The only state
/// is the number of prompts drawn.
class PromptOrder {
 public:
  PromptOrder(std::int64_t num_prompts, bool shuffle, std::uint64_t seed);
  /// `sizes`: number of prompts of each consecutive source. `weights`: each source's share, above 0.
  PromptOrder(const std::vector<std::int64_t>& sizes, std::vector<double> weights, bool shuffle, std::uint64_t seed);
  std::vector<std::size_t> next(std::int64_t count);
  std::int64_t num_taken() const { return num_taken_; }
  void restore(std::int64_t num_taken);

 private:
  struct Source {
    std::int64_t first = 0;
    std::int64_t size = 0;
    std::int64_t num_taken = 0;
    std::int64_t epoch = -1;         ///< epoch of `order`; −1: none
    std::vector<std::size_t> order;  ///< prompt indices, permuted
  };
  void shuffle_for(std::size_t source_idx, std::int64_t epoch);
  std::size_t next_source() const;

  std::vector<double> weights_;  ///< shares of the sources; they sum to 1
  bool shuffle_;
  std::uint64_t seed_;
  std::int64_t num_taken_ = 0;
  std::vector<Source> sources_;
};

/// Returns calibration prompts, selected by the seed and the number of prompts drawn so far.
std::vector<std::vector<types::TokenId>> calibration_prompts(const PromptSet& set, std::uint64_t seed,
                                                             std::uint64_t num_taken);

PromptOrder make_order(const Recipe& recipe, const PromptSet& prompts);

}  // namespace qrl::train
