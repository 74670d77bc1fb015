#include "train/prompts/sft_rows.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "data/dataset_folder.h"
#include "rollout/rollout.h"
#include "train/prompts/encoder.h"

namespace qrl::train {

namespace {

using Json = nlohmann::ordered_json;

/// Holds a row's tokens. Each token has the index of its message, or −1 if it is not learned.
using Labeled = data::LabeledTokens;

std::string one_of(const Json& row, std::initializer_list<std::string> names, const std::string& where,
                   const std::string& beside) {
  std::string found, all;
  for (const std::string& name : names) {
    all += (all.empty() ? "`" : ", `") + name + "`";
    if (!row.contains(name) || row[name].is_null()) continue;
    QRL_REQUIRE(found.empty(), where, "one of " + all, "both `" + found + "` and `" + name + "`", "delete one of them");
    found = name;
  }
  QRL_REQUIRE(!found.empty(), where, "one of " + all + beside, "no such key");
  return found;
}

const Json& member(const Json& row, const char* name) {
  static const Json none;
  const auto found = row.find(name);
  return found == row.end() ? none : *found;
}

class SftReader {
 public:
  SftReader(const Recipe& recipe, const data::Tokenizer& tokenizer)
      : recipe_(recipe), tokenizer_(tokenizer), encoder_(recipe.data, tokenizer) {}

  Labeled read(const Json& row, const std::string& where) {
    QRL_REQUIRE(row.is_object(), where, "a JSON object", row.type_name());
    if (row.contains("messages") && !row["messages"].is_null()) {
      QRL_REQUIRE(!row.contains("prompt"), where, "`messages`, or `prompt` with its response", "both",
                  "delete one of them");
      return of_messages(data::read_conversation(row["messages"], member(row, "tools"), "messages", where), 0, where);
    }
    const std::string& key = recipe_.data.prompt_key;
    const std::string prompt_name = key.empty() ? one_of(row, {"prompt", "question"}, where, ", or `messages`")
                                                : one_of(row, {key}, where, " (data.prompt_key), or `messages`");
    const std::string answer_name =
        one_of(row, {"response", "completion", "answer"}, where, " in addition to the prompt");
    const Json &prompt = row[prompt_name], &answer = row[answer_name];
    if (!answer.is_array()) {
      QRL_REQUIRE(answer.is_string(), where, "`" + answer_name + "` with text or messages", answer.type_name());
      return answered(prompt_tokens(prompt, prompt_name, member(row, "tools"), where), answer.get<std::string>());
    }
    data::Conversation whole = conversation_of(prompt, prompt_name, member(row, "tools"), where);
    const auto first = static_cast<std::int64_t>(whole.messages.size());
    for (auto& message : data::read_conversation(answer, {}, answer_name, where).messages)
      whole.messages.push_back(std::move(message));
    return of_messages(std::move(whole), first, where);
  }

  std::int64_t take_cut_answers() { return std::exchange(num_cut_answers_, 0); }

 private:
  data::Conversation conversation_of(const Json& prompt, const std::string& name, const Json& tools,
                                     const std::string& where) const {
    if (prompt.is_array()) return data::read_conversation(prompt, tools, name, where);
    return data::read_conversation(Json::array({{{"role", "user"}, {"content", prompt}}}), tools, name, where);
  }

  std::vector<types::TokenId> prompt_tokens(const Json& prompt, const std::string& name, const Json& tools,
                                            const std::string& where) const {
    if (prompt.is_string()) return encoder_.encode(data::prompt_text(prompt, name, where), {}, where);
    return encoder_.encode(data::read_conversation(prompt, tools, name, where), where);
  }

  /// Returns a row of prompt, response and end token; the last two are learned.
  Labeled answered(std::vector<types::TokenId> prompt, const std::string& response) const {
    Labeled row{std::move(prompt), {}};
    row.messages.assign(row.tokens.size(), -1);
    const auto tokens = tokenizer_.encode_trusted(response);
    row.tokens.insert(row.tokens.end(), tokens.begin(), tokens.end());
    row.tokens.push_back(tokenizer_.eos());
    row.messages.resize(row.tokens.size(), 0);
    return row;
  }

  /// Encodes a conversation; messages before the `first`-th are not learned.
  Labeled of_messages(data::Conversation conversation, std::int64_t first, const std::string& where) {
    auto& messages = conversation.messages;
    if (encoder_.chat().is_plain()) {
      const bool is_answer = messages.size() == 2 && messages[0].role == "user" && messages[1].role == "assistant";
      QRL_REQUIRE(is_answer, where, "a chat template for more than one question and its answer",
                  "data.chat_template plain", "set data.chat_template, or use a model that has one");
      return answered(encoder_.encode(messages[0].content, {}, where), messages[1].content);
    }
    if (!recipe_.data.system_prompt.empty() && messages.front().role != "system") {
      messages.insert(messages.begin(), {"system", recipe_.data.system_prompt});
      ++first;
    }
    const bool has_answer = std::any_of(messages.begin() + first, messages.end(),
                                        [](const data::Message& message) { return message.role == "assistant"; });
    QRL_REQUIRE(has_answer, where, "an assistant message to learn from", "no assistant message");
    const data::RenderOptions options{false, true, recipe_.data.parse_special_tokens, recipe_.data.enable_thinking};
    const data::Rendered rendered = data::render_conversation(encoder_.chat(), conversation, options, where);
    num_cut_answers_ += rendered.num_cut_answers;
    Labeled row = data::encode_labeled(tokenizer_, rendered.parts, where);
    for (std::int64_t& message : row.messages) message = message < first ? -1 : message;
    return row;
  }

  const Recipe& recipe_;
  const data::Tokenizer& tokenizer_;
  PromptEncoder encoder_;
  std::int64_t num_cut_answers_ = 0;
};

std::int64_t unencodable_bytes(const Json& value, const data::Tokenizer& tokenizer) {
  if (value.is_string()) return tokenizer.unencodable_bytes(value.get_ref<const std::string&>());
  std::int64_t num_bytes = 0;
  if (value.is_structured())
    for (const Json& part : value) num_bytes += unencodable_bytes(part, tokenizer);
  return num_bytes;
}

/// Marks as learned the tokens that sft.loss_on selects. Cuts the row after its last learned token. Returns nothing if
/// no token is learned.
std::optional<SftRow> row_of(const Labeled& labeled, LossOn loss_on) {
  const auto& [tokens, messages] = labeled;
  if (tokens.empty()) return std::nullopt;
  const std::int64_t last = *std::ranges::max_element(messages);
  std::vector<std::uint8_t> learned(tokens.size());
  for (std::size_t t = 1; t < tokens.size(); ++t) {
    const bool counts = loss_on == LossOn::all    ? true
                        : loss_on == LossOn::last ? last >= 0 && messages[t] == last
                                                  : messages[t] >= 0;
    learned[t] = counts ? 1 : 0;
  }
  const auto first_at = std::ranges::find(learned, 1);
  if (first_at == learned.end()) return std::nullopt;
  const auto begin = first_at - learned.begin();
  const auto end = learned.rend() - std::find(learned.rbegin(), learned.rend(), 1);
  return SftRow{{tokens.begin(), tokens.begin() + begin},
                {tokens.begin() + begin, tokens.begin() + end},
                {learned.begin() + begin, learned.begin() + end}};
}

std::vector<SftRow> read_files(const Recipe& recipe, const data::Tokenizer& tokenizer,
                               const std::vector<std::string>& files, std::int64_t& longest) {
  SftReader reader(recipe, tokenizer);
  const auto limit = static_cast<std::size_t>(recipe.sft.max_length.value_or(recipe.actor.max_tokens_per_micro_batch));
  std::vector<SftRow> rows;
  std::vector<std::filesystem::path> paths;
  for (const std::string& name : files) {
    for (const auto& path : data::find_data_files(name).files) paths.push_back(path);
  }
  for (const std::filesystem::path& path : paths) {
    const std::string file = path.string();
    std::int64_t num_overlong = 0, num_empty = 0, num_unencodable_bytes = 0;
    data::read_rows(file, [&](const data::FileRow& row) {
      const Json fields = row.ordered();
      Labeled labeled = reader.read(fields, row.where);
      for (const char* name : {"prompt", "question", "response", "completion", "answer", "messages"})
        num_unencodable_bytes += unencodable_bytes(member(fields, name), tokenizer);
      if (labeled.tokens.size() > limit) {
        QRL_REQUIRE(recipe.sft.overlong != OverlongPrompt::error, row.where,
                    "a row of at most sft.max_length = " + std::to_string(limit) + " tokens",
                    std::to_string(labeled.tokens.size()), "raise it, or set sft.overlong: filter or truncate");
        ++num_overlong;
        if (recipe.sft.overlong == OverlongPrompt::filter) return;
        labeled.tokens.resize(limit);
        labeled.messages.resize(limit);
      }
      auto learned = row_of(labeled, recipe.sft.loss_on);
      if (!learned) {
        ++num_empty;
        return;
      }
      longest = std::max(longest, static_cast<std::int64_t>(learned->context.size() + learned->rest.size()));
      rows.push_back(std::move(*learned));
    });
    tokenizer.warn_of_unencodable(file, num_unencodable_bytes);
    if (const std::int64_t num_cut = reader.take_cut_answers(); num_cut > 0) {
      base::log_warning(file + ": the chat template leaves out words of " + std::to_string(num_cut) +
                        (num_cut == 1 ? " answer" : " answers") +
                        ", such as thoughts of earlier turns; they are not learned");
    }
    const bool cut = recipe.sft.overlong == OverlongPrompt::truncate;
    if (num_overlong > 0) {
      base::log_warning(file + ": " + std::to_string(num_overlong) + " of its rows exceed " + std::to_string(limit) +
                        " tokens: " + (cut ? "cut at the end" : "left out") + " (sft.overlong)" +
                        (num_empty > 0 ? "; " + std::to_string(num_empty) + " had nothing left to learn" : ""));
    }
  }
  return rows;
}

}  // namespace

SftRows load_sft_rows(const Recipe& recipe, const data::Tokenizer& tokenizer) {
  SftRows rows;
  if (recipe.sft.train_files.empty() || !has_cold_start(recipe.sft)) return rows;
  rows.train = read_files(recipe, tokenizer, recipe.sft.train_files, rows.longest);
  rows.val = read_files(recipe, tokenizer, recipe.sft.val_files, rows.longest);
  QRL_REQUIRE(!rows.train.empty(), "sft.train_files", "one row or more to learn from", "no such row",
              "raise sft.max_length, or set sft.overlong: truncate");
  QRL_REQUIRE(!rows.val.empty() || recipe.sft.val_files.empty(), "sft.val_files", "one row or more to learn from",
              "no such row", "raise sft.max_length, or set sft.overlong: truncate");
  return rows;
}

std::int64_t cold_start_updates(const Recipe& recipe, const SftRows& rows) {
  if (recipe.sft.epochs == 0) return recipe.sft.steps;
  const std::int64_t batch = recipe.sft.batch_size;
  return (recipe.sft.epochs * static_cast<std::int64_t>(rows.train.size()) + batch - 1) / batch;
}

std::vector<std::size_t> rows_of_update(const Recipe& recipe, std::size_t num_rows, std::int64_t step) {
  const auto size = static_cast<std::int64_t>(num_rows);
  const std::int64_t first = step * recipe.sft.batch_size;
  std::int64_t end = first + recipe.sft.batch_size;
  if (recipe.sft.epochs > 0) end = std::min(end, recipe.sft.epochs * size);
  std::vector<std::size_t> order(num_rows), indices;
  std::int64_t epoch = -1;
  for (std::int64_t i = first; i < end; ++i) {
    if (i / size != epoch) {
      epoch = i / size;
      std::iota(order.begin(), order.end(), std::size_t{0});
      if (recipe.sft.shuffle) {
        base::RandomStream random(recipe.trainer.seed, base::RandomPurpose::sft_shuffle,
                                  static_cast<std::uint64_t>(epoch));
        random.shuffle(std::span(order));
      }
    }
    indices.push_back(order[static_cast<std::size_t>(i % size)]);
  }
  return indices;
}

bool ends_epoch(const Recipe& recipe, std::size_t num_rows, std::int64_t step) {
  const auto size = static_cast<std::int64_t>(num_rows), batch = recipe.sft.batch_size;
  return (step + 1) * batch / size > step * batch / size;
}

std::vector<types::MicroBatch> pack_rows(const Recipe& recipe, std::span<const SftRow* const> rows) {
  std::vector<rollout::PackItem> items;
  for (const SftRow* row : rows) items.push_back({row->context, row->rest, {}, 0.0F, row->learned});
  return rollout::pack(items, recipe.actor.max_tokens_per_micro_batch);
}

}  // namespace qrl::train
