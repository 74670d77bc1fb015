#include "train/prompts/prompts.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "data/dataset_folder.h"
#include "data/jsonl.h"
#include "state/json.h"
#include "tasks/environment/environment.h"
#include "tasks/generator.h"
#include "train/prompts/conversations.h"
#include "train/prompts/encoder.h"
#include "train/prompts/text_options.h"
#include "train/recipe/catalog.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

/// First id of held-out prompts; training ids are smaller.
constexpr std::uint64_t kHeldOutIds = std::uint64_t{1} << 40;

tasks::VerifierOptions verifier_options_without_environment(Recipe recipe) {
  recipe.environment.argv.clear();
  return verifier_options(recipe);
}

/// Applies data.overlong_prompt to one source's prompts, and reports how many it omitted or truncated.
class PromptReader {
 public:
  PromptReader(const Recipe& recipe, const data::Tokenizer& tokenizer, const tasks::Verifier& verifier)
      : recipe_(recipe),
        tokenizer_(tokenizer),
        encoder_(recipe.data, tokenizer),
        verifier_(verifier),
        verifier_options_(verifier_options_without_environment(recipe)) {}

  void add(PromptSet& set, std::uint64_t id, std::string text, std::string ground_truth, const std::string& where) {
    data::PromptRow row{std::move(text), {}, std::move(ground_truth), set.data_source};
    add_row(set, id, std::move(row), where);
  }
  void add(PromptSet& set, std::uint64_t id, data::PromptRow row, const std::string& file) {
    const std::string where = file + ":" + std::to_string(row.line);
    add_row(set, id, std::move(row), where);
  }
  /// Returns the environment, started; null: none.
  tasks::Environment* environment() {
    show_environment(nullptr);
    return environment_;
  }
  void report(const std::string& source) {
    tokenizer_.warn_of_unencodable(source, std::exchange(unencodable_bytes_, 0));
    if (num_overlong_ == 0) return;
    const bool cut = recipe_.data.overlong_prompt == OverlongPrompt::truncate;
    base::log_warning(source + ": " + std::to_string(num_overlong_) +
                      (num_overlong_ == 1 ? " prompt longer than " : " prompts longer than ") +
                      std::to_string(recipe_.data.max_prompt_length) + " tokens " +
                      (num_overlong_ == 1 ? "was " : "were ") + (cut ? "cut from the left" : "left out") +
                      " (data.overlong_prompt)");
    num_overlong_ = 0;
  }

 private:
  /// Starts the environment at the first call, and adds what it shows to all prompts.
  void show_environment(const tasks::Question* first) {
    if (environment_ == nullptr || is_shown_) return;
    show_in_prompts(environment_->start(first), encoder_);
    is_shown_ = true;
  }
  void add_row(PromptSet& set, std::uint64_t id, data::PromptRow row, const std::string& where) {
    const tasks::Question question{row.ground_truth, row.prompt, set.data_source, row.ground_truth_json, row.row_json};
    show_environment(&question);
    tasks::check_gold(verifier_, verifier_options_, question, where);
    if (!row.conversation) encoder_.require_system_fits(row.system, where);
    types::Prompt prompt{id, row.prompt, {}, row.ground_truth, set.data_source, verifier_.prepare(question)};
    prompt.tokens = encode_row(encoder_, row, where);
    if (environment_ != nullptr) prompt.start = conversation_start(question, row);
    const auto limit = static_cast<std::size_t>(recipe_.data.max_prompt_length);
    if (prompt.tokens.size() > limit) {
      QRL_REQUIRE(recipe_.data.overlong_prompt != OverlongPrompt::error, where,
                  "a prompt of at most data.max_prompt_length = " + std::to_string(limit) + " tokens",
                  std::to_string(prompt.tokens.size()), "raise it, or set data.overlong_prompt: filter or truncate");
      ++num_overlong_;
      if (recipe_.data.overlong_prompt == OverlongPrompt::filter) return;
      prompt.tokens.erase(prompt.tokens.begin(), prompt.tokens.end() - static_cast<std::ptrdiff_t>(limit));
    }
    if (tokenizer_.lacks_bytes()) {
      prompt.unencodable_bytes = bytes_without_token(row);
      unencodable_bytes_ += prompt.unencodable_bytes;
    }
    set.prompts.push_back(std::move(prompt));
  }
  std::int64_t bytes_without_token(const data::PromptRow& row) const {
    if (!row.conversation) return tokenizer_.unencodable_bytes(row.system) + tokenizer_.unencodable_bytes(row.prompt);
    std::int64_t num_bytes = 0;
    for (const data::Message& message : row.conversation->messages)
      num_bytes += tokenizer_.unencodable_bytes(message.content);
    return num_bytes;
  }

  const Recipe& recipe_;
  const data::Tokenizer& tokenizer_;
  PromptEncoder encoder_;
  const tasks::Verifier& verifier_;
  tasks::VerifierOptions verifier_options_;
  tasks::Environment* environment_ = verifier_.environment();
  bool is_shown_ = false;
  std::int64_t num_overlong_ = 0;
  std::int64_t unencodable_bytes_ = 0;
};

std::vector<data::PromptRow> read_file(const fs::path& path, const std::string& source, const data::RowReader& reader) {
  const std::string file = path.string();
  std::int64_t num_read = 0;
  auto rows = data::read_prompt_file(path, reader, &num_read, source);
  if (reader.has_filter()) {
    base::log_info(file + ": " + reader.filter_key() + " keeps " + std::to_string(rows.size()) + " of " +
                   std::to_string(num_read) + " rows");
  }
  return rows;
}

constexpr const char* kEnvironmentRows = "the environment's rows";

bool wants_rows(const tasks::Verifier& verifier) { return verifier.wants_rows() || verifier.environment() != nullptr; }

/// Reads the rows of a set that the environment owns.
std::vector<data::PromptRow> environment_rows(tasks::Environment* environment, std::string_view set,
                                              const data::RowReader& reader) {
  std::vector<data::PromptRow> rows;
  if (environment == nullptr) return rows;
  const tasks::EnvironmentReady& ready = environment->start();
  const std::int64_t count = set == "train" ? ready.num_train_rows : ready.num_val_rows;
  QRL_REQUIRE(ready.owns_rows || set != "train", "data.train_files", "training data",
              "none, and an environment without rows of its own", "set data.train_files or data.train_generator");
  std::int64_t line = 0;
  for (const std::string& text : environment->rows(set, count)) {
    const std::string where = std::string(kEnvironmentRows) + ":" + std::to_string(++line);
    auto row = reader.read(state::parse_json(text, where, data::kMaxRowDepth), where, "environment", text);
    if (row) row->line = line;
    if (row) rows.push_back(*std::move(row));
  }
  return rows;
}

void keep_first(std::optional<std::int64_t> count, std::vector<types::Prompt>& prompts) {
  if (count && std::cmp_less(*count, prompts.size())) prompts.resize(static_cast<std::size_t>(*count));
}

}  // namespace

PromptSet load_train_prompts(const Recipe& recipe, const data::Tokenizer& tokenizer, const tasks::Verifier& verifier) {
  PromptReader reader(recipe, tokenizer, verifier);
  PromptSet set;
  const GeneratorRecipe& generator = recipe.data.train_generator;
  if (!generator.task.empty()) {
    set.data_source = generator.task.word();
    const std::uint64_t seed = generator.seed.value_or(recipe.trainer.seed);
    const tasks::Generator& kind = *generator.task;
    for (std::int64_t i = 0; i < generator.size; ++i) {
      auto task = kind.generate(generator.own, seed, tasks::Split::train, static_cast<std::uint64_t>(i));
      reader.add(set, static_cast<std::uint64_t>(i), std::move(task.prompt), std::move(task.ground_truth),
                 "data.train_generator");
    }
    reader.report("data.train_generator");
  }
  std::uint64_t id = set.prompts.size();
  data::RowReader rows(row_options(recipe.data));
  rows.keep_rows(wants_rows(verifier)).allow_no_ground_truth(!verifier.needs_ground_truths());
  if (generator.task.empty() && recipe.data.train_files.empty()) {
    for (data::PromptRow& row : environment_rows(reader.environment(), "train", rows)) {
      set.data_source = row.data_source;
      reader.add(set, id++, std::move(row), kEnvironmentRows);
    }
    reader.report(kEnvironmentRows);
  }
  for (const std::string& name : recipe.data.train_files) {
    const std::size_t first = set.prompts.size();
    const data::DataFiles files = data::find_data_files(name);
    for (const fs::path& file : files.files) {
      for (data::PromptRow& row : read_file(file, files.source, rows)) {
        set.data_source = row.data_source;
        reader.add(set, id++, std::move(row), file.string());
      }
      reader.report(file.string());
    }
    if (recipe.data.train_weights.empty()) continue;
    QRL_REQUIRE(set.prompts.size() > first, name, "one prompt or more, since data.train_weights gives it a share",
                "no prompts");
    set.source_sizes.push_back(static_cast<std::int64_t>(set.prompts.size() - first));
  }
  const bool has_files = !recipe.data.train_files.empty();
  QRL_REQUIRE(verifier.environment() == nullptr || (generator.task.empty() && !has_files) ||
                  !verifier.environment()->start().owns_rows,
              has_files ? "data.train_files" : "data.train_generator.task",
              "no training data with an environment that owns its rows",
              has_files ? recipe.data.train_files.front() : generator.task.word(),
              "delete it, or choose an environment without rows");
  keep_first(recipe.data.train_max_samples, set.prompts);
  verifier.finish_checks();
  QRL_REQUIRE(!set.prompts.empty(), "training data", "one prompt or more", "no prompts",
              "set data.train_files or data.train_generator, or raise data.max_prompt_length");
  return set;
}

std::vector<PromptSet> load_held_out_prompts(const Recipe& recipe, const data::Tokenizer& tokenizer,
                                             const tasks::Verifier& verifier) {
  PromptReader reader(recipe, tokenizer, verifier);
  std::vector<PromptSet> sets;
  std::uint64_t id = kHeldOutIds;
  const GeneratorRecipe& generator = recipe.data.val_generator;
  if (!generator.task.empty()) {
    PromptSet& set = sets.emplace_back(PromptSet{generator.task.word(), {}});
    const std::uint64_t seed = generator.seed.value_or(kHeldOutSeed);
    const tasks::Generator& kind = *generator.task;
    for (auto& task : tasks::held_out_tasks(kind, generator.own, seed, generator.size)) {
      reader.add(set, id++, std::move(task.prompt), std::move(task.ground_truth), "data.val_generator");
    }
    reader.report("data.val_generator");
  }
  data::RowReader rows(row_options(recipe.data, tasks::Split::held_out));
  rows.keep_rows(wants_rows(verifier)).allow_no_ground_truth(!verifier.needs_ground_truths());
  const auto add = [&](std::vector<data::PromptRow> read, const std::string& file) {
    for (data::PromptRow& row : read) {
      auto set = std::ranges::find_if(sets, [&](const PromptSet& s) { return s.data_source == row.data_source; });
      QRL_REQUIRE(set == sets.end() || set != sets.begin() || generator.task.empty(),
                  file + ":" + std::to_string(row.line), "a data source other than data.val_generator's",
                  base::quoted(row.data_source), "use another name, so that each has its own score");
      if (set == sets.end()) set = sets.insert(sets.end(), PromptSet{row.data_source, {}});
      reader.add(*set, id++, std::move(row), file);
    }
    reader.report(file);
  };
  for (const std::string& name : recipe.data.val_files) {
    const data::DataFiles files = data::find_data_files(name);
    for (const fs::path& file : files.files) add(read_file(file, files.source, rows), file.string());
  }
  if (recipe.data.train_files.empty() && recipe.data.train_generator.task.empty())
    add(environment_rows(reader.environment(), "val", rows), kEnvironmentRows);
  for (PromptSet& set : sets) keep_first(recipe.data.val_max_samples, set.prompts);
  verifier.finish_checks();
  for (const PromptSet& set : sets) {
    QRL_REQUIRE(!set.prompts.empty(), "held-out data of " + base::quoted(set.data_source), "one prompt or more",
                "no prompts: all are longer than data.max_prompt_length",
                "raise it, or set data.overlong_prompt: truncate");
  }
  return sets;
}

std::uint64_t held_out_number(const types::Prompt& prompt) { return prompt.id - kHeldOutIds; }

void warn_of_shared_prompts(const PromptSet& train, std::span<const PromptSet> held_out) {
  const auto bytes = [](const types::Prompt& prompt) {
    return std::string_view(reinterpret_cast<const char*>(prompt.tokens.data()),
                            prompt.tokens.size() * sizeof(types::TokenId));
  };
  std::unordered_set<std::string_view> known;
  for (const types::Prompt& prompt : train.prompts) known.insert(bytes(prompt));
  for (const PromptSet& set : held_out) {
    const auto num_shared =
        std::ranges::count_if(set.prompts, [&](const types::Prompt& prompt) { return known.contains(bytes(prompt)); });
    if (num_shared == 0) continue;
    base::log_warning(std::to_string(num_shared) + " of the " + std::to_string(set.prompts.size()) +
                      " held-out prompts of " + base::quoted(set.data_source) + " are also training prompts");
  }
}

PromptOrder::PromptOrder(std::int64_t num_prompts, bool shuffle, std::uint64_t seed)
    : PromptOrder({num_prompts}, {1}, shuffle, seed) {}

PromptOrder::PromptOrder(const std::vector<std::int64_t>& sizes, std::vector<double> weights, bool shuffle,
                         std::uint64_t seed)
    : weights_(std::move(weights)), shuffle_(shuffle), seed_(seed) {
  std::int64_t first = 0;
  for (const std::int64_t size : sizes) {
    sources_.push_back({first, size, 0, -1, std::vector<std::size_t>(static_cast<std::size_t>(size))});
    first += size;
  }
  const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  for (double& weight : weights_) weight /= total;
}

PromptOrder make_order(const Recipe& recipe, const PromptSet& prompts) {
  const std::uint64_t seed = recipe.data.seed.value_or(recipe.trainer.seed);
  if (recipe.data.train_weights.empty())
    return {static_cast<std::int64_t>(prompts.prompts.size()), recipe.data.shuffle, seed};
  return {prompts.source_sizes, recipe.data.train_weights, recipe.data.shuffle, seed};
}

void PromptOrder::shuffle_for(std::size_t source_idx, std::int64_t epoch) {
  Source& source = sources_[source_idx];
  if (epoch == source.epoch) return;
  std::iota(source.order.begin(), source.order.end(), static_cast<std::size_t>(source.first));
  if (shuffle_) {
    const auto stream = static_cast<std::uint64_t>(epoch) | (static_cast<std::uint64_t>(source_idx) << 40);
    base::RandomStream random(seed_, base::RandomPurpose::data_shuffle, stream);
    random.shuffle(std::span(source.order));
  }
  source.epoch = epoch;
}

std::size_t PromptOrder::next_source() const {
  std::size_t best = 0;
  double most_owed = -1;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const double owed = weights_[i] * static_cast<double>(num_taken_ + 1) - static_cast<double>(sources_[i].num_taken);
    if (owed <= most_owed) continue;
    most_owed = owed;
    best = i;
  }
  return best;
}

void PromptOrder::restore(std::int64_t num_taken) {
  num_taken_ = 0;
  for (Source& source : sources_) source.num_taken = 0;
  for (; num_taken_ < num_taken; ++num_taken_) ++sources_[next_source()].num_taken;
}

std::vector<std::size_t> PromptOrder::next(std::int64_t count) {
  std::vector<std::size_t> indices;
  for (; count > 0; --count, ++num_taken_) {
    const std::size_t source_idx = next_source();
    Source& source = sources_[source_idx];
    shuffle_for(source_idx, source.num_taken / source.size);
    indices.push_back(source.order[static_cast<std::size_t>(source.num_taken++ % source.size)]);
  }
  return indices;
}

std::vector<std::vector<types::TokenId>> calibration_prompts(const PromptSet& set, std::uint64_t seed,
                                                             std::uint64_t num_taken) {
  constexpr int kPrompts = 16;  // number chosen by this project; fp8 scales need only the first few prompts
  base::RandomStream random(seed, base::RandomPurpose::calibration, num_taken);
  std::vector<std::vector<types::TokenId>> prompts;
  prompts.reserve(kPrompts);
  for (int i = 0; i < kPrompts; ++i) prompts.push_back(set.prompts[random.below(set.prompts.size())].tokens);
  return prompts;
}

}  // namespace qrl::train
