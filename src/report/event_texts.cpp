#include "report/event_texts.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "report/recipe_lines.h"
#include "report/rows.h"
#include "report/samples.h"
#include "state/file.h"

namespace qrl::report {

namespace {

constexpr std::int64_t kTextEvery = 20;  // apps/python/qrl_log.py has the same steps
constexpr std::size_t kTextPrompts = 4, kTextResponses = 2, kMaxTextChars = 2000;

/// Returns Markdown's form of a block that is shown as it is. Any other character could be markup.
std::string code_block(std::string text) {
  if (text.size() > kMaxTextChars) {
    std::size_t end = kMaxTextChars;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end) + "…";
  }
  std::string block = "\n\n    ";
  for (const char c : base::printable(text)) block += c == '\n' ? "\n    " : std::string(1, c);
  return block + "\n\n";
}

std::string table_cell(std::string_view text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? "\\|" : c == '`' ? "'" : std::string(1, c);
  return "`" + cell + "`";
}

std::string groups_markdown(const std::filesystem::path& file) {
  std::string text;
  for (const auto& group : read_groups(file, kTextPrompts)) {
    text += "**prompt**" + code_block(group["prompt"].get<std::string>());
    for (std::size_t i = 0; i < std::min(kTextResponses, group["samples"].size()); ++i) {
      const auto& sample = group["samples"][i];
      text += "**score " + sample["score"].dump() + "**";
      if (sample["response_tokens"].is_number()) text += ", " + sample["response_tokens"].dump() + " tokens";
      text += code_block(sample["response"].get<std::string>());
    }
  }
  return text;
}

}  // namespace

std::string recipe_markdown(std::string_view yaml) {
  std::string set, by_default;
  for (const RecipeLine& line : read_recipe_lines(yaml)) {
    (line.origin == "default" ? by_default : set) +=
        "| " + line.key + " | " + table_cell(line.value) + " | " + table_cell(line.origin) + " |\n";
  }
  const std::string head = "| key | value | origin |\n|---|---|---|\n";
  return set.empty() && by_default.empty() ? "" : head + set + by_default;
}

std::vector<EventText> step_texts(const std::filesystem::path& run_dir, std::int64_t step, bool is_first_row) {
  constexpr std::uint64_t kMaxRecipeBytes = 4 << 20;
  std::vector<EventText> texts;
  const auto add = [&](const char* tag, std::string markdown) {
    if (!markdown.empty()) texts.push_back({tag, std::move(markdown)});
  };
  std::error_code none;
  if (is_first_row && std::filesystem::is_regular_file(run_dir / "config.yaml", none))
    add("recipe", recipe_markdown(valid_utf8(state::read_text(run_dir / "config.yaml", kMaxRecipeBytes))));
  const std::string name = "step_" + std::to_string(step) + ".jsonl";
  const std::filesystem::path held_out = run_dir / "validation" / name;
  const bool is_evaluated = std::filesystem::is_regular_file(held_out, none);
  if (is_evaluated) add("samples/held_out", groups_markdown(held_out));
  if (const auto rollouts = run_dir / "rollouts" / name;
      (is_evaluated || step == 1 || step % kTextEvery == 0) && std::filesystem::is_regular_file(rollouts, none))
    add("samples/rollouts", groups_markdown(rollouts));
  return texts;
}

}  // namespace qrl::report
