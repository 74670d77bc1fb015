#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "config/recipe.h"
#include "data/conversation.h"
#include "data/jsonl.h"
#include "train/prompts/prompts.h"
#include "types/batch.h"

namespace qrl::train {

struct SftRow {
  std::vector<types::TokenId> context;  ///< tokens before all learned ones, at least one
  std::vector<types::TokenId> rest;     ///< tokens from there to the last learned one
  std::vector<std::uint8_t> learned;    ///< 1 for each learned token of `rest`, such as its first and last
};

/// Rows of sft.train_files and sft.val_files in order; both empty without files.
struct SftRows {
  std::vector<SftRow> train, val;
  std::int64_t longest = 0;  ///< tokens
};

/// Reads sft.train_files and sft.val_files. A row holds one of:
/// - `messages`, a conversation (data/messages.h) with optional `tools`, written by the chat template in its training
///   form. The plain template allows only one question and its answer.
/// - a prompt (data.prompt_key, or `prompt` or `question`), a text or a conversation, with `response`, `completion` or
///   `answer`. A text follows the prompt as in RL, then the end token. Messages continue the conversation.
///
/// An assistant's text may contain added tokens; other text only with data.parse_special_tokens. Warns of answers that
/// the template shortened. Input errors name file:line. sft.overlong decides on rows above sft.max_length.
SftRows load_sft_rows(const config::Recipe& recipe, const data::Tokenizer& tokenizer);

/// Returns sft.steps, or the updates of sft.epochs passes. A pass's last update may have fewer rows.
std::int64_t cold_start_updates(const config::Recipe& recipe, const SftRows& rows);

/// Returns the row indices of update `step` (from 0), epoch by epoch: in file order, or, with sft.shuffle, in an order
/// keyed by trainer.seed and epoch.
std::vector<std::size_t> rows_of_update(const config::Recipe& recipe, std::size_t num_rows, std::int64_t step);

/// Returns whether update `step` has the last row of an epoch.
bool ends_epoch(const config::Recipe& recipe, std::size_t num_rows, std::int64_t step);

/// Packs rows into micro-batches of at most actor.max_tokens_per_micro_batch tokens.
std::vector<types::MicroBatch> pack_rows(const config::Recipe& recipe, std::span<const SftRow* const> rows);

}  // namespace qrl::train
