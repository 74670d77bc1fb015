#include "train/prompts.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "data/countdown.h"
#include "data/jsonl.h"

namespace qrl::train {

namespace {

constexpr std::string_view kPlaceholder = "{prompt}";
/// Held-out ids start here: no training set is this long, and the decoder keys its draws by all 64 bits.
constexpr std::uint64_t kHeldOutIds = std::uint64_t{1} << 40;

/// Applies data.overlong_prompt to prompts of one source; reports what was left out or cut.
class PromptReader {
 public:
  PromptReader(const config::Recipe& recipe, const data::Tokenizer& tokenizer, const reward::Verifier& verifier)
      : recipe_(recipe), encoder_(recipe.data, tokenizer), verifier_(verifier) {}

  void add(PromptSet& set, std::uint64_t id, std::string text, std::string ground_truth, const std::string& where) {
    verifier_.check_ground_truth(ground_truth, where);
    types::Prompt prompt{id, std::move(text), {}, std::move(ground_truth), set.data_source};
    prompt.tokens = encoder_.encode(prompt.text);
    const auto limit = static_cast<std::size_t>(recipe_.data.max_prompt_length);
    if (prompt.tokens.size() > limit) {
      QRL_REQUIRE(recipe_.data.overlong_prompt != config::OverlongPrompt::error, where,
                  "a prompt of at most data.max_prompt_length = " + std::to_string(limit) + " tokens",
                  std::to_string(prompt.tokens.size()), "raise it, or set data.overlong_prompt: filter or truncate");
      ++num_overlong_;
      if (recipe_.data.overlong_prompt == config::OverlongPrompt::filter) return;
      prompt.tokens.erase(prompt.tokens.begin(), prompt.tokens.end() - static_cast<std::ptrdiff_t>(limit));
    }
    set.prompts.push_back(std::move(prompt));
  }

  void report(const std::string& source) {
    if (num_overlong_ == 0) return;
    const bool cut = recipe_.data.overlong_prompt == config::OverlongPrompt::truncate;
    base::log_warning(source + ": " + std::to_string(num_overlong_) + " prompts longer than " +
                      std::to_string(recipe_.data.max_prompt_length) + " tokens were " +
                      (cut ? "cut from the left" : "left out") + " (data.overlong_prompt)");
    num_overlong_ = 0;
  }

 private:
  const config::Recipe& recipe_;
  PromptEncoder encoder_;
  const reward::Verifier& verifier_;
  std::int64_t num_overlong_ = 0;
};

}  // namespace

PromptEncoder::PromptEncoder(const config::DataRecipe& recipe, const data::Tokenizer& tokenizer)
    : recipe_(recipe), tokenizer_(tokenizer), chat_(data::choose_template(recipe, tokenizer)) {
  const std::size_t at = recipe.prompt_template.find(kPlaceholder);
  QRL_REQUIRE(at != std::string::npos, "data.prompt_template", "{prompt} in it", base::quoted(recipe.prompt_template));
  before_ = recipe.prompt_template.substr(0, at);
  after_ = recipe.prompt_template.substr(at + kPlaceholder.size());
}

std::vector<types::TokenId> PromptEncoder::encode(std::string_view text) const {
  return data::encode_chat(chat_, tokenizer_,
                           {recipe_.system_prompt, before_, text, after_, recipe_.parse_special_tokens},
                           recipe_.enable_thinking.value_or(true));
}

PromptSet load_train_prompts(const config::Recipe& recipe, const data::Tokenizer& tokenizer,
                             const reward::Verifier& verifier) {
  PromptReader reader(recipe, tokenizer, verifier);
  PromptSet set;
  const config::GeneratorRecipe& generator = recipe.data.train_generator;
  if (!generator.task.empty()) {
    set.data_source = generator.task;
    const std::uint64_t seed = generator.seed.value_or(recipe.trainer.seed);
    for (std::int64_t i = 0; i < generator.size; ++i) {
      const auto task = data::generate_countdown(generator, seed, data::Split::train, static_cast<std::uint64_t>(i));
      reader.add(set, static_cast<std::uint64_t>(i), data::countdown_prompt(task), data::countdown_ground_truth(task),
                 "data.train_generator");
    }
    reader.report("data.train_generator");
  }
  std::uint64_t id = set.prompts.size();
  for (const std::string& file : recipe.data.train_files) {
    for (data::PromptRow& row : data::read_jsonl(file)) {
      set.data_source = row.data_source;
      reader.add(set, id++, std::move(row.prompt), std::move(row.ground_truth), file + ":" + std::to_string(row.line));
    }
    reader.report(file);
  }
  QRL_REQUIRE(!set.prompts.empty(), "training data", "one prompt or more", "none",
              "set data.train_files or data.train_generator, or raise data.max_prompt_length");
  return set;
}

std::vector<PromptSet> load_held_out_prompts(const config::Recipe& recipe, const data::Tokenizer& tokenizer,
                                             const reward::Verifier& verifier) {
  PromptReader reader(recipe, tokenizer, verifier);
  std::vector<PromptSet> sets;
  std::uint64_t id = kHeldOutIds;
  const config::GeneratorRecipe& generator = recipe.data.val_generator;
  if (!generator.task.empty()) {
    PromptSet& set = sets.emplace_back(PromptSet{generator.task, {}});
    for (const auto& task :
         data::held_out_countdown(generator, generator.seed.value_or(config::kHeldOutSeed), generator.size)) {
      reader.add(set, id++, data::countdown_prompt(task), data::countdown_ground_truth(task), "data.val_generator");
    }
    reader.report("data.val_generator");
  }
  for (const std::string& file : recipe.data.val_files) {
    for (data::PromptRow& row : data::read_jsonl(file)) {
      auto set =
          std::find_if(sets.begin(), sets.end(), [&](const PromptSet& s) { return s.data_source == row.data_source; });
      if (set == sets.end()) set = sets.insert(sets.end(), PromptSet{row.data_source, {}});
      reader.add(*set, id++, std::move(row.prompt), std::move(row.ground_truth), file + ":" + std::to_string(row.line));
    }
    reader.report(file);
  }
  for (const PromptSet& set : sets) {
    QRL_REQUIRE(!set.prompts.empty(), "held-out data of " + base::quoted(set.data_source), "one prompt or more",
                "none: all are longer than data.max_prompt_length", "raise it, or set data.overlong_prompt: truncate");
  }
  return sets;
}

PromptOrder::PromptOrder(std::int64_t num_prompts, bool shuffle, std::uint64_t seed)
    : num_prompts_(num_prompts), shuffle_(shuffle), seed_(seed), order_(static_cast<std::size_t>(num_prompts)) {}

void PromptOrder::shuffle_for(std::int64_t epoch) {
  if (epoch == epoch_) return;
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  if (shuffle_) {
    base::RandomStream random(seed_, base::RandomPurpose::data_shuffle, static_cast<std::uint64_t>(epoch));
    random.shuffle(std::span(order_));
  }
  epoch_ = epoch;
}

std::vector<std::size_t> PromptOrder::next(std::int64_t count) {
  std::vector<std::size_t> indices;
  for (; count > 0; --count, ++num_drawn_) {
    shuffle_for(num_drawn_ / num_prompts_);
    indices.push_back(order_[static_cast<std::size_t>(num_drawn_ % num_prompts_)]);
  }
  return indices;
}

}  // namespace qrl::train
