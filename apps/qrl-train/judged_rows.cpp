#include "judged_rows.h"

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/threads.h"
#include "data/jsonl.h"
#include "data/row.h"
#include "train/policy/policy.h"
#include "train/prompts/encoder.h"
#include "train/prompts/prompts.h"

namespace qrl::app {

namespace {

std::string any_of(const std::vector<std::string>& names) {
  std::vector<std::string> all;
  for (const std::string& name : names) all.push_back(base::quoted(name));
  return base::joined(all, " or ");
}

/// Returns a field's text; a name "a.b" means a nested field. Returns "" for null and for a number that lost digits.
/// Booleans, arrays and objects give JSON.
std::string field(const nlohmann::json& row, const std::string& name, const std::string& where) {
  const nlohmann::json* value = data::find_field(row, name);
  QRL_REQUIRE(value != nullptr, where, "a field " + base::quoted(name), data::names_of_fields(row));
  if (value->is_null()) return "";
  if (value->is_string()) return value->get<std::string>();
  if (!value->is_number()) return value->dump();
  try {
    return data::gold_text(*value, name, where);
  } catch (const base::Error&) {
    return "";
  }
}

std::string text_of(const nlohmann::json& row, const char* name) {
  const auto found = row.find(name);
  return found == row.end() || !found->is_string() ? "" : found->get<std::string>();
}

}  // namespace

JudgedRow read_judged_row(const nlohmann::json& row, const RowForm& form, const std::string& where) {
  QRL_REQUIRE(row.is_object(), where, "a JSON object", row.type_name());
  JudgedRow out;
  out.response = field(row, "response", where);
  if (form.whole) {
    out.prompt = text_of(row, "prompt");
    out.data_source = text_of(row, "data_source");
    out.json = row.dump();
  }
  const bool has_own = form.verifier != nullptr && !form.verifier->ground_truth_fields.empty();
  const auto [gold, gold_name] = data::find_at_most_one(row, form.gold_names, where, "data.ground_truth_key");
  if (gold == nullptr && form.may_lack_gold) {
    out.ground_truth_json = "null";
    return out;
  }
  if (!has_own || gold != nullptr) {
    QRL_REQUIRE(gold != nullptr, where, "a field " + any_of(form.gold_names), data::names_of_fields(row),
                form.whole ? "name the field with --set data.ground_truth_key=NAME"
                           : "name the field with --ground-truth-key NAME");
    out.ground_truth = field(row, gold_name, where);
    if (form.whole || gold->is_array()) out.ground_truth_json = gold->dump();
    return out;
  }
  nlohmann::json parts;
  for (const tasks::GroundTruthField& part : form.verifier->ground_truth_fields) {
    const std::string name(part.name);
    if (part.is_optional && (!row.contains(name) || row[name].is_null())) continue;
    const std::string text = field(row, name, where);
    if (part.is_text) parts[name] = text;
    else parts[name] = row[name];
  }
  out.ground_truth = parts.dump();
  return out;
}

std::vector<types::TokenId> response_tokens(const data::Tokenizer& tokenizer, const std::string& response) {
  std::vector<types::TokenId> tokens = tokenizer.encode(response);
  if (tokenizer.eos() >= 0) tokens.push_back(tokenizer.eos());
  return tokens;
}

void add_tokens(std::vector<JudgedRow>& rows, const train::Recipe& recipe) try {
  const data::Tokenizer tokenizer = train::make_tokenizer(recipe, train::model_config(recipe));
  const train::PromptEncoder encoder(recipe.data, tokenizer);
  for (JudgedRow& row : rows) {
    row.tokens = response_tokens(tokenizer, row.response);
    if (!row.prompt.empty()) row.prompt_tokens = encoder.encode(row.prompt);
    if (!row.prompt.empty() || row.json.empty()) continue;
    const auto whole = nlohmann::ordered_json::parse(row.json);
    if (const auto prompt = whole.find("prompt"); prompt != whole.end() && prompt->is_array())
      row.prompt_tokens = encoder.encode(
          data::read_conversation(*prompt, whole.value("tools", nlohmann::ordered_json()), "prompt", "a row"), "a row");
  }
} catch (const base::Error& error) {
  base::log_once("judge tokens", std::string("the reward program gets no ids of tokens: ") + error.what());
}

std::vector<reward::Verdict> judge_rows(std::vector<JudgedRow>& rows, const tasks::Verifier& verifier,
                                        const train::Recipe& recipe) {
  std::vector<std::shared_ptr<const types::Gold>> golds(rows.size());
  std::vector<tasks::Sample> samples(rows.size());
  if (!rows.empty())
    golds.front() = verifier.prepare(rows.front().question());  // before the parallel loop: it may start a program
  if (verifier.wants_tokens()) add_tokens(rows, recipe);
  base::parallel_for(std::ssize(rows), 16, [&](base::Range range) {
    for (auto k = static_cast<std::size_t>(range.begin); k < static_cast<std::size_t>(range.end); ++k) {
      golds[k] = verifier.prepare(rows[k].question());
      const auto number = static_cast<std::int64_t>(k);
      samples[k] = {.response = rows[k].response,
                    .gold = golds[k].get(),
                    .group = number,
                    .tokens = rows[k].tokens,
                    .prompt_tokens = rows[k].prompt_tokens,
                    .index = number};
    }
  });
  return verifier.judge(samples);
}

}  // namespace qrl::app
