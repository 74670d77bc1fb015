#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/conversation.h"
#include "data/jsonl.h"
#include "train/prompts/prompts.h"
#include "train/recipe/recipe.h"
#include "types/batch.h"

namespace qrl::train {

struct SftRow {
  std::vector<types::TokenId> context;  ///< tokens before the first learned one, at least one
  std::vector<types::TokenId> rest;     ///< tokens from the first to the last learned one
  std::vector<std::uint8_t> learned;    ///< 1 for each learned token of `rest`, else 0
};

/// Holds the rows of sft.train_files and sft.val_files in order; both empty without files.
struct SftRows {
  std::vector<SftRow> train, val;
  std::int64_t longest = 0;  ///< tokens of the longest row
};

/// Reads sft.train_files and sft.val_files. A row holds one of:
/// - `messages`: a conversation (data/messages.h) with optional `tools`, rendered by the chat template in training
///   mode. The plain template allows only one question and its answer.
/// - a prompt and an answer. The prompt is text or a conversation in data.prompt_key, by default `prompt` or
///   `question`. The answer is in `response`, `completion` or `answer`. An answer's text follows the prompt (encoded as
///   in RL), and ends with the end token. An answer's messages continue the conversation.
///
/// Added tokens are parsed in an assistant's text; in other text, only with data.parse_special_tokens. Warns of answers
/// that the template shortened. Input errors name file:line. sft.overlong applies to rows above sft.max_length.
SftRows load_sft_rows(const Recipe& recipe, const data::Tokenizer& tokenizer);

/// Returns sft.steps, or the updates of sft.epochs passes. The last update may have fewer rows.
std::int64_t cold_start_updates(const Recipe& recipe, const SftRows& rows);

/// Returns the row indices of update `step` (from 0). Each epoch is in file order, or with sft.shuffle in an order
/// determined by trainer.seed and epoch.
std::vector<std::size_t> rows_of_update(const Recipe& recipe, std::size_t num_rows, std::int64_t step);

bool ends_epoch(const Recipe& recipe, std::size_t num_rows, std::int64_t step);

std::vector<types::MicroBatch> pack_rows(const Recipe& recipe, std::span<const SftRow* const> rows);

}  // namespace qrl::train
