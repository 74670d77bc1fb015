#include "given_prompts.h"

#include <algorithm>
#include <istream>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "command.h"
#include "data/jsonl.h"
#include "tasks/generator.h"
#include "train/prompts/encoder.h"
#include "train/prompts/prompts.h"
#include "train/prompts/text_options.h"
#include "train/recipe/catalog.h"

namespace qrl::app {

void check_prompts(const PromptArguments& arguments, const std::string& model) {
  QRL_REQUIRE(arguments.input.empty() || arguments.input == "-", "qrl-train generate",
              "- (standard input) after the model", base::quoted(arguments.input), "give a prompt with --prompt TEXT");
  const int num_ways =
      (arguments.texts.empty() ? 0 : 1) + (arguments.file.empty() ? 0 : 1) + (arguments.input.empty() ? 0 : 1);
  QRL_REQUIRE(num_ways == 1, "qrl-train generate", "one of --prompt TEXT, --file FILE and - (standard input)",
              num_ways == 0 ? "none" : std::to_string(num_ways));
  const auto hyphen = std::ranges::find(arguments.texts, "-");
  QRL_REQUIRE(hyphen == arguments.texts.end(), "--prompt", "prompt text", "-",
              "for standard input, omit --prompt: qrl-train generate " + base::shell_word(model) + " -");
}

std::vector<GivenPrompt> read_prompts(const PromptArguments& arguments, const train::DataRecipe& recipe) {
  std::vector<GivenPrompt> prompts;
  for (const std::string& text : arguments.texts) {
    const std::string number = arguments.texts.size() > 1 ? " " + std::to_string(prompts.size() + 1) : "";
    prompts.push_back({text, {}, "--prompt" + number, {}});
  }
  if (!arguments.input.empty())
    prompts.push_back({{std::istreambuf_iterator<char>(standard_input()), {}}, {}, "standard input", {}});
  if (!arguments.file.empty()) {
    for (data::PromptRow& row :
         data::read_prompt_file(arguments.file, data::RowReader::prompts_only(train::row_options(recipe)))) {
      prompts.push_back({std::move(row.prompt),
                         std::move(row.system),
                         arguments.file + ":" + std::to_string(row.line),
                         {},
                         std::move(row.conversation)});
    }
  }
  for (const GivenPrompt& prompt : prompts) {
    QRL_REQUIRE(!prompt.text.empty(), prompt.where, "a non-empty prompt", "an empty string");
    QRL_REQUIRE(base::is_utf8(prompt.text), prompt.where, "UTF-8 text", base::quoted(prompt.text),
                "convert it first (iconv -t UTF-8)");
  }
  return prompts;
}

void encode(std::vector<GivenPrompt>& prompts, const train::DataRecipe& recipe, const train::Policy& policy) {
  const train::PromptEncoder encoder(recipe, policy.tokenizer);
  const std::int64_t positions = policy.config.max_position_embeddings;
  const std::int64_t max_new = recipe.max_response_length;
  for (GivenPrompt& prompt : prompts) {
    if (!prompt.conversation) encoder.require_system_fits(prompt.system, prompt.where);
    prompt.tokens = prompt.conversation ? encoder.encode(*prompt.conversation, prompt.where)
                                        : encoder.encode(prompt.text, prompt.system, prompt.where);
    policy.tokenizer.warn_of_unencodable(prompt.where, policy.tokenizer.unencodable_bytes(prompt.text));
    const auto length = static_cast<std::int64_t>(prompt.tokens.size());
    QRL_REQUIRE(length + max_new <= positions, prompt.where,
                "prompt and response within the model's max_position_embeddings = " + std::to_string(positions),
                std::to_string(length) + " prompt tokens (template included) and up to " + std::to_string(max_new) +
                    " response tokens",
                length < positions
                    ? "shorten the prompt, or lower --max-tokens to " + std::to_string(positions - length)
                    : "shorten the prompt");
  }
}

std::int64_t longest_of(const std::vector<GivenPrompt>& prompts) {
  std::size_t longest = 0;
  for (const GivenPrompt& prompt : prompts) longest = std::max(longest, prompt.tokens.size());
  return static_cast<std::int64_t>(longest);
}

void hint_at_line_break(const std::vector<GivenPrompt>& prompts, const train::Recipe& recipe) {
  const auto without =
      std::ranges::find_if(prompts, [](const GivenPrompt& prompt) { return !prompt.text.ends_with('\n'); });
  if (without == prompts.end()) return;
  for (const train::GeneratorRecipe* generator : {&recipe.data.train_generator, &recipe.data.val_generator}) {
    if (generator->task.empty()) continue;
    const tasks::Generator& kind = *generator->task;
    if (!kind.generate(generator->own, 0, tasks::Split::train, 0).prompt.ends_with('\n')) return;
    const bool typed = without->where.starts_with("--prompt");
    return base::log_info("hint: prompts of the recipe's task " + generator->task.word() + " end with a newline, but " +
                          without->where + " does not" + (typed ? " (bash: --prompt $'…\\n')" : ""));
  }
}

}  // namespace qrl::app
