#include "data/jsonl.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "support/refusal.h"

using namespace qrl::data;
using qrl::test::refusal_of;
using qrl::test::says;
using namespace std::string_literals;

namespace {

std::vector<PromptRow> read_text(const std::string& text) {
  std::istringstream in(text);
  return parse_jsonl(in, "rows.jsonl", "rows");
}

std::string line_refusal(const std::string& text) {
  return qrl::test::refusal_of([&] { read_text(text); });
}

/// Returns the gold answer of a row whose `answer` is this JSON.
std::string gold(const std::string& json) {
  return read_text(R"({"prompt":"x","answer":)" + json + "}").at(0).ground_truth;
}

const std::string kRow = R"({"question":"1+1?","answer":"2"})";

}  // namespace

TEST_CASE("JSONL: rows have their lines and sources") {
  const auto rows = read_text(
      "\n"
      R"({"prompt":"a","ground_truth":"1","data_source":"mine","extra":[1,{"k":null}]})"
      "\n \t\n" +
      kRow);
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].prompt == "a");
  CHECK(rows[0].ground_truth == "1");
  CHECK(rows[0].data_source == "mine");
  CHECK(rows[0].line == 2);
  CHECK(rows[1].prompt == "1+1?");
  CHECK(rows[1].data_source == "rows");
  CHECK(rows[1].line == 4);
}

TEST_CASE("JSONL: byte order mark, CRLF, escapes and long lines are accepted") {
  CHECK(read_text("\xEF\xBB\xBF" + kRow + "\r\n\r\n" + kRow + "\r\n").size() == 2);
  CHECK(read_text(R"({"prompt":"a\u0000b","answer":"\u0000"})")[0].prompt == "a\0b"s);
  CHECK(read_text(R"({"prompt":"\ud83d\ude42","answer":"1"})")[0].prompt == "🙂");
  CHECK(read_text("{\"prompt\":\"a\xE2\x80\xA8z\",\"answer\":\"1\"}").size() == 1);  // U+2028 does not end a line
  const std::string longest(3 << 20, 'a');
  CHECK(read_text(R"({"prompt":")" + longest + R"(","answer":"1"})")[0].prompt == longest);
}

TEST_CASE("JSONL: numeric ground truths are written in shortest form") {
  CHECK(gold("27.0") == "27");
  CHECK(gold("27") == "27");
  CHECK(gold("2.7e1") == "27");
  CHECK(gold("\"27\"") == "27");
  CHECK(gold("\" 27.0\"") == " 27.0");  // a string is kept unchanged
  CHECK(gold("-0.0") == "0");
  CHECK(gold("0.1") == "0.1");
  CHECK(gold("1.50") == "1.5");
  CHECK(gold("1e-7") == "1e-07");
  CHECK(gold("9223372036854775807") == "9223372036854775807");
  CHECK(gold("18446744073709551615") == "18446744073709551615");
  CHECK(gold("9007199254740991.0") == "9007199254740991");
  CHECK(gold(R"({"target": 36, "numbers": [3, 7]})") == R"({"numbers":[3,7],"target":36})");
  CHECK(gold(R"([1, "a"])") == R"([1,"a"])");
  for (const char* lossy : {"18446744073709551616", "1e22", "-1e16"}) {
    CHECK(says(line_refusal(R"({"prompt":"x","answer":)"s + lossy + "}"), "write it in quotes"));
  }
  CHECK(says(line_refusal(R"({"prompt":"x","answer":1e999})"), ":1"));
}

TEST_CASE("JSONL: faulty rows are refused with file and line") {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {R"({"prompt":"x"})", "`answer` or `reward_model.ground_truth`"},
      {R"({"answer":"x"})", "`prompt` or `question`"},
      {R"({"question":"q","prompt":"p","answer":"a"})", "a field `prompt` or `question`, got both"},
      {R"({"prompt":"p","answer":"a","ground_truth":"g"})", "got both `ground_truth` and `answer`"},
      {R"({"prompt":"","answer":"x"})", "`prompt` to contain text"},
      {R"({"prompt":" \n","answer":"x"})", "`prompt` to contain text"},
      {R"({"prompt":"x","answer":""})", "`answer` to contain text"},
      {R"({"prompt":null,"answer":"x"})", "got null"},
      {R"({"prompt":"x","answer":null})", "got null"},
      {R"({"prompt":"x","answer":true})", "got boolean"},
      {R"({"prompt":7,"answer":"x"})", "got number"},
      {R"({"prompt":[{"role":"critic","content":"x"}],"answer":"x"})", "a `role` of system, user, assistant or tool"},
      {R"({"prompt":{"role":"user","content":"x"},"answer":"x"})", "got object"},
      {R"({"prompt":"x","answer":"x","data_source":3})", "data_source"},
      {R"({"prompt":"x","answer":"x","prompt":"y"})", "twice"},
      {R"({"prompt":"x","answer":"x","meta":{"a":1,"a":2}})", "twice"},
      {R"({"prompt":"x","answer":NaN})", "JSON"},
      {R"({"prompt":"x","answer":-Infinity})", "JSON"},
      {R"({"prompt":"x","answer":"x",})", "JSON"},
      {R"({"prompt":"x","answer":"x"} // why)", "JSON"},
      {R"({"prompt":"x","answer":"x"}{"prompt":"x","answer":"x"})", "JSON"},
      {R"({'prompt':'x','answer':'x'})", "JSON"},
      {R"({"prompt":"\ud800","answer":"x"})", "a syntax error near byte"},
      {R"({"prompt":"\udc00x","answer":"x"})", "a syntax error near byte"},
      {R"({"prompt":"x)", "JSON"},
      {"{", "JSON"},
      {R"("prompt")", "a JSON object"},
      {"null", "a JSON object"},
      {"[" + kRow + "]", "a JSON array"},
      {"{\"prompt\":\"a\0b\",\"answer\":\"x\"}"s, "NUL"},
      {kRow + "\0"s, "NUL"},
      {"{\"prompt\":\"\xff\",\"answer\":\"x\"}", "UTF-8"},
      {"{\"prompt\":\"\xed\xa0\x80\",\"answer\":\"x\"}", "UTF-8"},
      {"{\"prompt\":\"a\tb\",\"answer\":\"x\"}", "JSON"},
      {"\xEF\xBB\xBF" + kRow, "a byte-order mark"},
      {R"({"prompt":"x","answer":"x","deep":)" + std::string(70, '[') + std::string(70, ']') + "}",
       "nested at most 64 deep"},
      {R"({"a":)" + std::string(100000, '['), "nested at most 64 deep"},
  };
  for (const auto& [row, reason] : faults) {
    INFO(row.substr(0, 80));
    const std::string message = line_refusal(kRow + "\n" + row + "\n");
    CHECK(says(message, "rows.jsonl:2: "));
    CHECK(says(message, reason));
    CHECK(message.size() < 600);
  }
  CHECK(says(line_refusal(kRow + "\n"
                                 R"({"question":"1+1?","ans)"),
             "rows.jsonl:2"));
}

TEST_CASE("JSONL: a parser error's byte offset becomes the file's line") {
  const std::string message = line_refusal(kRow + "\n" + R"({"prompt":"x" "answer":1})" + "\n");
  CHECK(says(message, "rows.jsonl:2: expected JSON, got a syntax error near byte 22: "));
  CHECK(message.find("line 1") == std::string::npos);
}

TEST_CASE("JSONL: content of similar formats is refused by the format's name") {
  const std::vector<std::pair<std::string, std::string>> files = {
      {"prompt,answer\n1+1?,2\n",
       "rows.jsonl:1: expected JSONL: one object per line, got what looks like a line of CSV or TSV"},
      {"\"prompt\",\"answer\"\n\"1+1?\",\"2\"\n", "CSV"},
      {"prompt\tanswer\n1+1?\t2\n", "CSV"},
      {"{\n  \"prompt\": \"1+1?\",\n  \"answer\": 2\n}\n",
       "rows.jsonl:1: expected JSONL: one object per line, got JSON "
       "over several lines; write each object on one line"},
      {"[\n  {\n", "a JSON array"},
      {kRow + "\n {\t\n", "rows.jsonl:2: expected JSONL: one object per line, got JSON over several lines"},
      {kRow + "\r" + kRow + "\r", "rows.jsonl:1: expected JSONL: one object per line, got lines that end in only CR"},
      {"{'prompt': '1+1?', 'answer': 2}\n", "single quotes, as in a printed Python dict; write rows with json.dumps"},
      {"{ 'prompt': '1+1?'}\n", "Python dict"},
  };
  for (const auto& [text, reason] : files) {
    INFO(text);
    CHECK(says(line_refusal(text), reason));
  }
  CHECK(says(line_refusal("\"a, b\"\n"), "a JSON object"));
  CHECK(says(line_refusal(kRow + "\nnull, null\n"), "rows.jsonl:2: expected JSON"));
  CHECK(read_text(kRow + " \r \r\n").size() == 1);
}

TEST_CASE("JSONL: files of other formats are refused by the format's name") {
  const auto utf16 = [](const std::string& text, bool little) {
    std::string wide;
    for (const char c : text) wide += little ? std::string{c, '\0'} : std::string{'\0', c};
    return wide;
  };
  const std::vector<std::pair<std::string, std::string>> files = {
      {"", "a file without rows"},
      {"\n\r\n \t\n", "a file without rows"},
      {"\xEF\xBB\xBF", "a file without rows"},
      {"[" + kRow + "]", "a JSON array"},
      {"[\n" + kRow + "\n]", "a JSON array"},
      {"\x1f\x8b\x08\0\0"s, "gzip"},
      {"PAR1", "parquet"},
      {"PAR1\x15\x04\n\0PAR1"s, "parquet"},
      {"PK\x03\x04zz", "zip"},
      {"\x28\xb5\x2f\xfd..", "zstd"},
      {"\xff\xfe" + utf16(kRow, true), "UTF-16"},
      {"\xfe\xff" + utf16(kRow, false), "UTF-16"},
      {utf16(kRow, true), "UTF-16"},
      {utf16(kRow, false), "UTF-16"},
      {"\xff\xfe\0\0"s, "UTF-32"},
  };
  for (const auto& [bytes, name] : files) {
    INFO(name);
    CHECK(says(line_refusal(bytes), name));
  }
  const qrl::test::TempDir dir;
  CHECK(says(refusal_of([&] { read_prompt_file(dir / "none.jsonl"); }), "no such file"));
  CHECK(says(refusal_of([&] { read_prompt_file(dir.path() / "datasets/gsm8k/train.jsonl"); }),
             "python3 scripts/fetch/datasets.py gsm8k SOURCE to make it from a downloaded copy"));
  CHECK(says(refusal_of([&] { read_prompt_file(dir.path()); }), "not a regular file"));
  for (const char* name : {"p.jsonl", "p.csv", "p.parquet"}) {
    std::ofstream(dir / name) << "version https://git-lfs.github.com/spec/v1\noid sha256:00\n";
    CHECK(says(refusal_of([&] { read_prompt_file(dir / name, {}); }), "file, got a Git LFS pointer; fetch the file"));
  }
}

TEST_CASE("JSONL: shared malformed files behave as their manifest declares") {
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("the shared data is missing: malformed/jsonl");
  // Lists this program's decisions for the rows that the manifest leaves to the reader (see jsonl.h).
  const std::map<std::string, bool> accepted_by_policy = {
      {"jsonl/bom.jsonl", true}, {"jsonl/number_answer.jsonl", true},     {"jsonl/lone_surrogate.jsonl", false},
      {"jsonl/nul.jsonl", true}, {"jsonl/special_in_prompt.jsonl", true}, {"jsonl/long_prompt.jsonl", true}};
  std::ifstream manifest(*shared / "malformed" / "manifest.jsonl");
  int num_files = 0;
  for (std::string line; std::getline(manifest, line);) {
    const auto row = nlohmann::json::parse(line);
    if (row["kind"] != "jsonl") continue;
    ++num_files;
    const std::string name = row["file"];
    INFO(name);
    const bool want = row["expect"] == "policy" ? accepted_by_policy.at(name) : row["expect"] == "accept";
    bool accepted = true;
    try {
      read_prompt_file(*shared / "malformed" / name);
    } catch (const qrl::base::Error&) {
      accepted = false;
    }
    CHECK(accepted == want);
  }
  CHECK(num_files == 14);
  CHECK(read_prompt_file(*shared / "malformed" / "jsonl" / "number_answer.jsonl")[0].ground_truth == "27");
  CHECK(read_prompt_file(*shared / "malformed" / "jsonl" / "nul.jsonl")[0].prompt == "a\0b"s);
  CHECK(read_prompt_file(*shared / "datasets" / "gsm8k_test.jsonl").size() == 1319);
  CHECK(read_prompt_file(*shared / "datasets" / "gsm8k_train.jsonl").size() == 7473);
}

TEST_CASE("JSONL: a file's stem is the source of its rows") {
  const qrl::test::TempDir dir;
  std::ofstream(dir / "my.rows.jsonl") << "\n" << kRow;
  const auto rows = read_prompt_file(dir / "my.rows.jsonl");
  CHECK(rows.at(0).data_source == "my.rows");
  CHECK(rows.at(0).line == 2);
  std::ofstream(dir / "bad.jsonl") << "{";
  CHECK(says(refusal_of([&] { read_prompt_file(dir / "bad.jsonl"); }), (dir / "bad.jsonl").string() + ":1: "));
}

TEST_CASE("prompt files: describe prints rows, sizes and sources on one line") {
  const qrl::test::TempDir dir;
  std::ofstream(dir / "a.jsonl") << R"({"prompt":"abc","answer":1})"
                                    "\n"
                                    R"({"prompt":"abcde","answer":1,"data_source":"x \"y"})"
                                    "\n";
  CHECK(describe_rows(read_prompt_file(dir / "a.jsonl")) ==
        R"(2 rows, prompts of 3 to 5 bytes, data sources: "a" (1), "x "y" (1))");
}
