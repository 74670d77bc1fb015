// Owns the rows that a cold start learns from: files of conversations to tokens, what of them is learned, and their
// order. Knows nothing of updates.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "config/recipe.h"
#include "data/conversation.h"
#include "data/jsonl.h"
#include "train/prompts.h"
#include "types/batch.h"

namespace qrl::train {

/// Holds a row as the learner sees it.
struct SftRow {
  std::vector<types::TokenId> context;  ///< one token or more that come before all that is learned
  std::vector<types::TokenId> rest;     ///< up to the last token that is learned
  std::vector<std::uint8_t> learned;    ///< of each of `rest`: 1 where it is learned, as the first and last are
};

/// Holds the rows of sft.train_files and sft.val_files, in their own order; both empty without files.
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

/// Updates of the cold start: sft.steps, or as many as sft.epochs passes over the rows take. The last of those may have
/// fewer rows.
std::int64_t cold_start_updates(const config::Recipe& recipe, const SftRows& rows);

/// Returns the indices of the rows of update `step`, from 0, epoch after epoch. Each epoch is in the files' order, or
/// with sft.shuffle in an order of its own that depends on trainer.seed and the epoch.
std::vector<std::size_t> rows_of_update(const config::Recipe& recipe, std::size_t num_rows, std::int64_t step);

/// Returns whether the last row of an epoch is among those of update `step`.
bool ends_epoch(const config::Recipe& recipe, std::size_t num_rows, std::int64_t step);

/// Rows as micro-batches of at most actor.max_tokens_per_micro_batch tokens.
std::vector<types::MicroBatch> pack_rows(const config::Recipe& recipe, std::span<const SftRow* const> rows);

}  // namespace qrl::train
