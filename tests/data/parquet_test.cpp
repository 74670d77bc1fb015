// Tests Parquet: rows equal those that Python writes from the same table, and values without a JSON form are refused.
#include "data/parquet.h"

#include <fstream>

#include "data/jsonl.h"
#include "support/files.h"
#include "support/refusal.h"

using namespace qrl::data;
using qrl::test::refusal_of;
using qrl::test::says;
namespace fs = std::filesystem;

namespace {

fs::path golden_parquet(const std::string& name) { return qrl::test::shipped_data() / "golden" / "parquet" / name; }

std::vector<nlohmann::ordered_json> rows_of(const fs::path& file) {
  std::vector<nlohmann::ordered_json> rows;
  read_rows(file, [&](const FileRow& row) {
    CHECK(row.where == file.string() + ":" + std::to_string(rows.size() + 1));
    rows.push_back(row.ordered());
  });
  return rows;
}

}  // namespace

TEST_CASE("parquet: rows equal those of the same table as JSON lines") {
  if (!can_read_parquet()) return qrl::test::skip("no Arrow here: scripts/setup --parquet");
  const auto rows = rows_of(golden_parquet("types.parquet"));
  CHECK(rows == rows_of(golden_parquet("types.jsonl")));
  // Compares as JSON, including the order of members.
  std::string order;
  for (const auto& [name, value] : rows.at(0).items()) order += name + " ";
  CHECK(order == "text small big unsigned single number flag word messages lists nested ");
  const auto prompts = read_prompt_file(golden_parquet("countdown.parquet"), {});
  REQUIRE(prompts.size() == 12);
  CHECK(prompts[0].prompt == read_prompt_file(golden_parquet("countdown.jsonl"), {})[0].prompt);
}

TEST_CASE("parquet: unused columns without a JSON form are left out") {
  if (!can_read_parquet()) return qrl::test::skip("no Arrow here: scripts/setup --parquet");
  const auto rows = rows_of(golden_parquet("left_out.parquet"));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].dump() == R"({"prompt":"3 + 5?","answer":"8","rate":null,"pair":[1,2],)"
                          R"("info":{"gold":"8","scores":[0.5,null]}})");
  const auto prompts = read_prompt_file(golden_parquet("left_out.parquet"), {});
  CHECK(prompts.at(0).prompt == "3 + 5?");
  CHECK(prompts.at(0).ground_truth == "8");
}

TEST_CASE("parquet: files of other kinds and types without a JSON form have one clear error") {
  const qrl::test::TempDir dir;
  std::ofstream(dir / "text.parquet") << "{\"prompt\": \"a\"}\n";
  if (!can_read_parquet()) {
    CHECK(says(refusal_of([&] { rows_of(dir / "text.parquet"); }), "run scripts/setup --parquet, then scripts/build"));
    return qrl::test::skip("no Arrow here: scripts/setup --parquet");
  }
  CHECK(says(refusal_of([&] { rows_of(dir / "text.parquet"); }), "text.parquet: expected a parquet file, got"));
  const auto refusal_by = [](const char* file, const char* ground_truth_key) {
    RowOptions keys;
    keys.ground_truth_key = ground_truth_key;
    return refusal_of([&] { read_prompt_file(golden_parquet(file), RowReader(keys)); });
  };
  CHECK(says(refusal_by("dates.parquet", "day"),
             "expected a field `day`, got a row with the fields \"prompt\"; set data.ground_truth_key to the field's "
             "name, or to several names separated by commas if files differ; the column \"day\" has the type "
             "date32[day], which is not supported: convert it"));
  CHECK(says(refusal_by("left_out.parquet", "info.created"),
             "the column \"info.created\" has the type timestamp[us], which is not supported: convert it"));
  CHECK_FALSE(says(refusal_by("left_out.parquet", "gold"), "which is not supported"));
  CHECK(says(refusal_of([&] { rows_of(dir / "none.parquet"); }), "expected a parquet file, got no such file"));
  fs::copy_file(golden_parquet("countdown.parquet"), dir / "half.parquet");
  fs::resize_file(dir / "half.parquet", 2000);
  CHECK(says(refusal_of([&] { rows_of(dir / "half.parquet"); }), "half.parquet: expected a parquet file, got"));
  fs::copy_file(golden_parquet("countdown.parquet"), dir / "named.jsonl");
  CHECK(says(refusal_of([&] { rows_of(dir / "named.jsonl"); }), "parquet: name it .parquet"));
}
