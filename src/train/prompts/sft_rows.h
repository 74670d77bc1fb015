// Owns a cold start's rows: from files of conversations to tokens, the learned parts, and their order.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "data/conversation.h"
#include "data/jsonl.h"
#include "train/prompts/prompts.h"
#include "types/batch.h"

namespace qrl::train {

struct SftRow {
  std::vector<types::TokenId> context;  ///< at least one token, before all that is learned
  std::vector<types::TokenId> rest;     ///< up to the last learned token
  std::vector<std::uint8_t> learned;    ///< of `rest`: 1 if learned, as the first and last are
};

/// Holds rows of sft.train_files and sft.val_files in order; both empty without files.
struct SftRows {
  std::vector<SftRow> train, val;
  std::int64_t longest = 0;  ///< tokens
};

/// Reads the files. A row holds one of:
/// - `messages`, a conversation (data/messages.h) with `tools` or without, which the chat template writes in its
///   training form, if it has one. With the template plain it may be one question of the user and its answer alone.
/// - a prompt (data.prompt_key, or `prompt` or `question`), a text or a conversation, with `response`, `completion` or
///   `answer`. A text follows the prompt as an answer does in reinforcement learning, then the end token. Messages
///   continue the conversation.
///
/// Text of an assistant may hold added tokens; other text with data.parse_special_tokens. Warns with the number of
/// answers of which the template left out words. Input errors name file:line. sft.overlong decides on rows above
/// sft.max_length.
SftRows load_sft_rows(const config::Recipe& recipe, const data::Tokenizer& tokenizer);

/// Returns sft.steps, or the updates of sft.epochs passes, whose last may have fewer rows.
std::int64_t cold_start_updates(const config::Recipe& recipe, const SftRows& rows);

/// Returns the row indices of update `step`, from 0, by epochs. Epochs are in file order, or with sft.shuffle in an
/// order by trainer.seed and epoch.
std::vector<std::size_t> rows_of_update(const config::Recipe& recipe, std::size_t num_rows, std::int64_t step);

/// Returns whether update `step` has an epoch's last row.
bool ends_epoch(const config::Recipe& recipe, std::size_t num_rows, std::int64_t step);

/// Packs rows into micro-batches of at most actor.max_tokens_per_micro_batch tokens.
std::vector<types::MicroBatch> pack_rows(const config::Recipe& recipe, std::span<const SftRow* const> rows);

}  // namespace qrl::train
