#include "data/row.h"

#include <fstream>
#include <sstream>

#include "data/conversation.h"
#include "data/csv.h"
#include "data/jsonl.h"
#include "support/refusal.h"

using namespace qrl::data;
using nlohmann::json;
using qrl::test::refusal_of;
using qrl::test::says;

namespace {

std::optional<PromptRow> read(const std::string& row, const RowOptions& options = {}) {
  return RowReader(options).read(json::parse(row), "f:1", "f");
}
std::string row_refusal(const std::string& row, const RowOptions& options = {}) {
  return refusal_of([&] { read(row, options); });
}
RowOptions filtered(std::vector<std::string> conditions) {
  RowOptions options;
  options.filter = std::move(conditions);
  return options;
}

std::vector<json> records(const std::string& text) {
  std::istringstream in(text);
  std::vector<json> all;
  read_csv(in, "x.csv", [&](const json& record, std::int64_t line) {
    all.push_back(record);
    all.back()["line"] = line;
  });
  return all;
}
std::string csv_refusal(const std::string& text) {
  return refusal_of([&] { records(text); });
}

}  // namespace

TEST_CASE("rows: reading only prompts needs neither ground truth nor source, and keeps every row") {
  RowOptions options = filtered({"level >= 3"});
  options.prompt_key = "q";
  options.data_source_key = "from";
  const RowReader reader = RowReader::prompts_only(options);
  const auto row = reader.read(
      json::parse(R"({"q": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]})"), "f:1", "f");
  REQUIRE(row);
  CHECK(row->prompt == "u");
  CHECK(row->system == "s");
  CHECK(says(refusal_of([&] { reader.read(json::parse(R"({"prompt": "p"})"), "f:2", "f"); }),
             "f:2: expected a field `q`"));
}

TEST_CASE("rows: veRL's form with messages, nested ground truth and its own source") {
  const auto row = read(R"({"data_source":"openai/gsm8k","prompt":[{"role":"system","content":"Be brief."},
      {"role":"user","content":"1+1?"}],"ability":"math","reward_model":{"style":"rule","ground_truth":"2"}})");
  REQUIRE(row);
  CHECK(row->prompt == "1+1?");
  CHECK(row->system == "Be brief.");
  CHECK(row->ground_truth == "2");
  CHECK(row->data_source == "openai/gsm8k");
  const auto gold = [](const char* messages) {
    return row_refusal(R"({"answer":"1","prompt":)" + std::string(messages) + "}");
  };
  CHECK(gold(R"([{"role":"user","content":"x"}])") == "accepted");
  CHECK(says(gold("[]"), "an empty list"));
  CHECK(says(gold(R"([{"role":"assistant","content":"x"}])"), "to end with a user or tool message"));
  CHECK(says(gold(R"([{"role":"user","content":"x"},{"role":"system","content":"y"}])"), "got \"system\""));
  CHECK(says(gold(R"([{"role":"user"}])"), "prompt[0]: expected a message of role user to contain text"));
  CHECK(says(gold(R"([{"role":"user","content":" "}])"), "a message of role user to contain text"));
  CHECK(says(gold("[5]"), "messages with a `role`"));
  CHECK_FALSE(row->conversation);
  const auto turns = read(R"({"answer":"1","prompt":[{"role":"user","content":"x"},{"role":"assistant","content":"y"},
      {"role":"user","content":"z"}],"tools":[{"name":"f"}]})");
  REQUIRE(turns);
  CHECK(turns->prompt == "z");
  REQUIRE(turns->conversation);
  CHECK(turns->conversation->messages.size() == 3);
  CHECK(turns->conversation->tools.size() == 1);
}

TEST_CASE("rows: options name fields and paths, and the usual names lose their meaning") {
  RowOptions options;
  options.prompt_key = "problem";
  options.ground_truth_key = "meta.answer.value";
  options.data_source_key = "subject";
  const std::string row = R"({"problem":"p","prompt":"other","subject":"algebra","meta":{"answer":{"value":7.0}}})";
  const auto read_row = read(row, options);
  REQUIRE(read_row);
  CHECK(read_row->prompt == "p");
  CHECK(read_row->ground_truth == "7");
  CHECK(read_row->data_source == "algebra");
  CHECK(says(row_refusal(R"({"problem":"p","subject":"a","meta":{"answer":5}})", options),
             "a field `meta.answer.value`"));
  CHECK(says(row_refusal(R"({"problem":"p","meta":{"answer":{"value":1}}})", options), "a field `subject`"));

  // Reads rows of different files: each row has one of several field names.
  RowOptions both;
  both.prompt_key = "question, problem";
  both.ground_truth_key = "answer,meta.gold";
  CHECK(read(R"({"question":"p","answer":"1"})", both)->prompt == "p");
  CHECK(read(R"({"problem":"q","meta":{"gold":"2"}})", both)->ground_truth == "2");
  CHECK(says(row_refusal(R"({"question":"p","problem":"q","answer":"1"})", both), "both `question` and `problem`"));
  CHECK(says(row_refusal(R"({"prompt":"p","answer":"1"})", both), "several names separated by commas if files differ"));
  both.prompt_key = "question,,problem";
  CHECK(says(refusal_of([&] { RowReader reader(both); }), "data.prompt_key: expected field names separated by commas"));
  CHECK(read(R"({"prompt":"p","answer":"1","a.b":"x"})", filtered({"a.b == x"})));  // a field name that contains a dot
  CHECK(says(row_refusal(R"({"question":"p","answer":"1","reward_model":{"ground_truth":"2"}})"), "both `answer` and"));
  CHECK(says(row_refusal(R"({"question":"p"})"), "set data.ground_truth_key"));
}

TEST_CASE("row filters: keep rows that satisfy every condition") {
  const std::string row = R"({"prompt":"p","answer":"1","level":4,"kind":"Number Theory","hard":true,"n":"2.50"})";
  const auto kept = [&](const std::string& condition) { return read(row, filtered({condition})).has_value(); };
  for (const char* holds : {"level == 4", "level==4.0", "level >= 4", "level <= 4", "level != 5", "level < 4.5",
                            "level > -1", "kind == Number Theory", "kind != Algebra", "hard == true", "n == 2.5",
                            "kind == 'Number Theory'", "kind == \"Number Theory\"", "n == '2.50'", "n != '2.5'"}) {
    INFO(holds);
    CHECK(kept(holds));
  }
  for (const char* fails : {"level == 5", "level > 4", "level < 4", "kind == number theory", "hard != true",
                            "kind == ' Number Theory'", "n == '2.5'"}) {
    INFO(fails);
    CHECK_FALSE(kept(fails));
  }
  CHECK_FALSE(read(row, filtered({"level == 4", "kind == Algebra"})));
  CHECK(says(row_refusal(row, filtered({"missing == 1"})), "a field `missing` (data.filter)"));
  RowOptions held_out = filtered({"missing == 1"});
  held_out.filter_key = "data.val_filter";
  CHECK(says(row_refusal(row, held_out), "a field `missing` (data.val_filter)"));
  CHECK(says(row_refusal(row, filtered({"kind > 1"})), "`kind` to be a number"));
  for (const char* bad : {"", "level", "== 4", "level = 4", "level > x", "level >", "kind == 'A", "kind == '",
                          "kind == 'A'B", "kind == 'A\"", "level > '3'"}) {
    INFO(bad);
    CHECK(says(row_refusal(row, filtered({bad})), "data.filter: expected"));
  }
}

TEST_CASE("CSV: quotes, commas, line ends and empty fields, with each record's line") {
  const auto rows = records(
      "\xEF\xBB\xBF"
      "a,b,c\r\n1,2,3\r\n\r\n\"x,\"\"y\"\"\nz\",,\n,,\"\"\nlast,é,end");
  REQUIRE(rows.size() == 4);
  CHECK(rows[0] == json({{"a", "1"}, {"b", "2"}, {"c", "3"}, {"line", 2}}));
  CHECK(rows[1] == json({{"a", "x,\"y\"\nz"}, {"b", ""}, {"c", ""}, {"line", 4}}));
  CHECK(rows[2] == json({{"a", ""}, {"b", ""}, {"c", ""}, {"line", 6}}));
  CHECK(rows[3] == json({{"a", "last"}, {"b", "é"}, {"c", "end"}, {"line", 7}}));
  CHECK(says(csv_refusal(""), "a header"));
  CHECK(says(csv_refusal("a,a\n"), "twice"));
  CHECK(says(csv_refusal("a,\n"), "a name for each column"));
  CHECK(says(csv_refusal("a,b\n1,2\n1\n"), "x.csv:3: expected 2 fields"));
  CHECK(says(csv_refusal("a,b\n1,2,3\n"), "x.csv:2: expected 2 fields"));
  CHECK(says(csv_refusal("a\nx\"y\n"), "x.csv:2: expected quotes around a whole field"));
  CHECK(says(csv_refusal("a\n\"x\"y\n"), "after a quoted field"));
  CHECK(says(csv_refusal("a\n1\n\"x\n\n"), "x.csv:3: expected a closing quote"));
  CHECK(says(csv_refusal("a\n\xff\n"), "UTF-8"));
  CHECK(says(csv_refusal(std::string("a\n\0\n", 4)), "NUL"));
}

TEST_CASE("prompt files: read as CSV or JSONL by their name") {
  const qrl::test::TempDir dir;
  std::ofstream(dir / "s.csv") << "Puzzle,Solution\n\"1 2\",\"3\"\n4,5\n";
  RowOptions options;
  options.prompt_key = "Puzzle";
  options.ground_truth_key = "Solution";
  const auto rows = read_prompt_file(dir / "s.csv", RowReader(options));
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].prompt == "1 2");
  CHECK(rows[1].ground_truth == "5");
  CHECK(rows[1].data_source == "s");
  CHECK(rows[1].line == 3);
  CHECK(says(refusal_of([&] { read_prompt_file(dir / "s.csv", RowReader()); }), "s.csv:2: expected a field `prompt`"));
  options.filter = {"Puzzle == 4"};
  std::int64_t num_read = 0;
  CHECK(read_prompt_file(dir / "s.csv", RowReader(options), &num_read).size() == 1);
  CHECK(num_read == 2);
  options.filter = {"Puzzle == 9"};
  CHECK(says(refusal_of([&] { read_prompt_file(dir / "s.csv", RowReader(options)); }), "data.filter"));
  std::ofstream(dir / "j.csv") << R"({"prompt": "a", "answer": 1})";
  CHECK(says(refusal_of([&] { describe_csv(dir / "j.csv"); }), "name the file .jsonl"));
  CHECK(says(describe_csv(dir / "s.csv"), "2 records of \"Puzzle\", \"Solution\""));
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("the shared data is missing: datasets");
  options.filter = {};
  CHECK(read_prompt_file(*shared / "datasets" / "sudoku4x4_test.csv", RowReader(options)).size() == 500);
}

TEST_CASE("data source: must be a name without control characters") {
  const std::string row = R"({"prompt": "a", "ground_truth": "b", "data_source": "x\nheld-out countdown mean@8: 1"})";
  CHECK(says(row_refusal(row), "a data source without control characters"));
  CHECK(says(refusal_of([] {
               (void)RowReader().read(json{{"prompt", "a"}, {"ground_truth", "b"}}, "f:1", "f\x1b[31m");
             }),
             "rename the file"));
  CHECK(read(R"({"prompt": "a", "ground_truth": "b", "data_source": "größe 1"})")->data_source == "größe 1");
}
