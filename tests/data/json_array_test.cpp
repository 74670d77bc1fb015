#include "data/json_array.h"

#include <fstream>
#include <sstream>

#include "data/jsonl.h"
#include "support/refusal.h"

using namespace qrl::data;
using qrl::test::refusal_of;
using qrl::test::says;

namespace {

const std::string kObject = R"({"question":"1+1?","answer":"2"})";

std::vector<PromptRow> read_file(const std::string& text, const std::string& name = "rows.json") {
  const qrl::test::TempDir dir;
  std::ofstream(dir / name, std::ios::binary) << text;
  return read_prompt_file(dir / name);
}
std::string file_refusal(const std::string& text, const std::string& name = "rows.json") {
  return refusal_of([&] { read_file(text, name); });
}

}  // namespace

TEST_CASE("JSON arrays: a .json array gives its objects, with lines and member order") {
  const auto rows =
      read_file("\xEF\xBB\xBF \n[\n  {\"question\": \"a ] \\\" } ,\", \"answer\": [1, {\"k\": 2}]},\r\n\n  " + kObject +
                ",{\n\"question\":\n[{\"role\": \"user\", \"content\": \"hi\"}], \"answer\": 3}\n]\n");
  REQUIRE(rows.size() == 3);
  CHECK(rows[0].prompt == "a ] \" } ,");
  CHECK(rows[0].ground_truth == R"([1,{"k":2}])");
  CHECK(rows[0].line == 3);
  CHECK(rows[0].data_source == "rows");
  CHECK(rows[1].line == 5);
  CHECK(rows[2].prompt == "hi");
  CHECK(rows[2].line == 5);
  std::istringstream in(R"([{"b":1,"a":[]}, 5 ,"x,]"])");
  std::vector<std::string> texts;
  read_json_array(in, "in", [&](std::string_view text, std::int64_t) { texts.emplace_back(text); });
  CHECK(texts == std::vector<std::string>{R"({"b":1,"a":[]})", "5 ", R"("x,]")"});
}

TEST_CASE("JSON arrays: .json with an object per line is read, and an array in .jsonl gets advice to rename it") {
  CHECK(read_file(kObject + "\n" + kObject + "\n").size() == 2);
  for (const char* name : {"rows.jsonl", "rows.txt"})
    CHECK(says(file_refusal("[" + kObject + "]", name),
               ":1: expected JSONL: one object per line, got a JSON array; name the file .json, or write each element "
               "on a line of its own (jq -c '.[]')"));
}

TEST_CASE("JSON arrays: a malformed array is refused at its line") {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"[]", "a file without rows"},
      {"[\n" + kObject,
       "rows.json:2: expected a comma or ] after an object, got the end of the file; is the file whole?"},
      {"[" + kObject + ",", "rows.json:1: expected an object, got the end of the file"},
      {"[" + kObject + "\n" + kObject + "]", "rows.json:2: expected a comma or ] after an object, got \"{\""},
      {"[" + kObject + ",]", "expected an object, got \"]\""},
      {"[,", "expected an object, got \",\""},
      {"[" + kObject + "] x", "expected nothing after the array, got \"x\""},
      {"[\n" + kObject + ",\n{\"question\": \"x\"", "rows.json:3 (element 2): expected JSON"},
      {"[" + kObject + ",\n {\"question\": \"x, \"answer\": 1}]", "rows.json:2 (element 2): expected JSON"},
      {"[" + kObject + ",\n3]", "rows.json:2 (element 2): expected a JSON object, got number"},
      {"[" + kObject + ",\n[1]]", "rows.json:2 (element 2): expected a JSON object, got array"},
      {"[{\"question\": \"x\", \"question\": \"y\", \"answer\": 1}]", "twice"},
      {"[{\"question\": \"\xff\", \"answer\": 1}]", "UTF-8"},
      {"[" + std::string(1000, '['), "rows.json:1 (element 1): "},
  };
  for (const auto& [text, reason] : faults) {
    INFO(text.substr(0, 80));
    CHECK(says(file_refusal(text), reason));
  }
}

TEST_CASE("ground truth: may be missing in all rows or in none, where optional") {
  const qrl::test::TempDir dir;
  const auto read = [&](const std::string& text, RowOptions options = {}) {
    std::ofstream(dir / "p.jsonl") << text;
    RowReader reader(options);
    return read_prompt_file(dir / "p.jsonl", reader.allow_no_ground_truth(true));
  };
  const std::string without = R"({"question":"1+1?","letter":"d"})";
  const auto rows = read(without + "\n" + without + "\n");
  REQUIRE(rows.size() == 2);
  CHECK_FALSE(rows[0].has_ground_truth);
  CHECK(rows[0].ground_truth.empty());
  CHECK(rows[0].ground_truth_json == "null");
  CHECK(says(describe_rows(rows), "no ground truths: for reward.verifier command alone"));
  CHECK(read(kObject + "\n")[0].ground_truth == "2");
  CHECK(says(refusal_of([&] { read(kObject + "\n" + kObject + "\n" + without + "\n" + without + "\n"); }),
             "p.jsonl:3: expected a field `ground_truth`, `answer` or `reward_model.ground_truth`, as " +
                 (dir / "p.jsonl").string() + ":1 has, got none; give each row of the file a ground truth, or none"));
  CHECK(says(refusal_of([&] { read(without + "\n" + kObject + "\n"); }), "p.jsonl:1: expected a field"));
  RowOptions named;
  named.ground_truth_key = "gold";
  CHECK(says(refusal_of([&] { read(without, named); }), "expected a field `gold`, got a row with the fields"));
  RowReader strict;
  CHECK(says(refusal_of([&] { strict.read(nlohmann::json::parse(without), "f:1", "f"); }),
             "expected a field `ground_truth`"));
}
