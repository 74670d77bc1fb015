// Fuzzes JSONL prompts, read by the usual keys and by a recipe's: rows have prompts and line numbers, refusals are
// short.
#include "data/jsonl.h"

#include <sstream>

#include "target.h"

using namespace qrl;

namespace {

void read(std::string_view text, const data::RowReader& reader) {
  fuzz::accepts([&] {
    std::istringstream in{std::string(text)};
    try {
      for (const data::PromptRow& row : data::parse_jsonl(in, "rows.jsonl", "rows", reader)) {
        fuzz::require(!row.prompt.empty() && !row.ground_truth.empty() && row.line > 0, "a row is whole");
      }
    } catch (const base::Error& error) {
      fuzz::require(std::string_view(error.what()).size() < 700, "a refusal is short");
      throw;
    }
  });
}

data::RowReader reader_of_paths() {
  data::RowOptions options;
  options.prompt_key = "prompt";
  options.ground_truth_key = "reward_model.ground_truth";
  options.data_source_key = "data_source";
  options.filter = {"level >= 3", "kind != x"};
  return data::RowReader(options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t num_bytes) {
  static const data::RowReader usual, paths = reader_of_paths();
  const std::string_view text = fuzz::text_of(data, num_bytes);
  read(text, usual);
  read(text, paths);
  return 0;
}
