#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "reward/math/extract.h"
#include "reward/math/math_verifier.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/processor_time.h"

using namespace qrl::reward;
using math::Profile;
using nlohmann::json;

namespace {

std::vector<json> read_rows(const std::filesystem::path& file) {
  std::vector<json> rows;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) rows.push_back(json::parse(line));
  return rows;
}

std::filesystem::path own_data(const char* name) { return qrl::test::shipped_data() / "verifier" / name; }

/// Returns a folder of the shared data, or an empty path.
std::filesystem::path shared_folder(const char* name) {
  const auto root = qrl::test::shared_data();
  return root && std::filesystem::exists(*root / name) ? *root / name : std::filesystem::path();
}

Verdict judge(const std::string& response, const std::string& gold, Profile profile = Profile::automatic) {
  return math::MathVerifier(profile).judge(response, math::read_gold(gold));
}
bool accepts(const std::string& response, const std::string& gold, Profile profile = Profile::automatic) {
  return judge(response, gold, profile).outcome == Outcome::correct;
}
/// Returns the answer found first; empty if none is found.
std::string found(const std::string& response, Profile profile) {
  const auto candidates = math::extract(response, profile);
  return candidates.empty() ? std::string() : candidates[0];
}
std::string boxed(const std::string& answer) { return "So the answer is \\boxed{" + answer + "}."; }

/// Maps rows whose verdict differs from their label, as "file:line", to the verdict.
std::map<std::string, bool> changed_rows() {
  std::map<std::string, bool> changed;
  for (const json& row : read_rows(own_data("changed.jsonl")))
    changed.emplace(row["file"].get<std::string>() + ":" + std::to_string(row["line"].get<int>()), row["after"]);
  return changed;
}

/// Returns the verdict that row `k` of a file should get.
bool expected(const std::map<std::string, bool>& changed, const std::string& file, std::size_t k, const json& row) {
  const auto found = changed.find(file + ":" + std::to_string(k + 1));
  return found == changed.end() ? row["equal"].get<bool>() : found->second;
}

/// Returns the text of parts: a string, [string or parts, repetitions] or [first number, last number, text between].
std::string spelled_out(const json& parts) {
  if (parts.is_string()) return parts;
  std::string text;
  for (const json& part : parts) {
    if (part.size() == 3) {
      const int first = part[0], last = part[1];
      for (int i = first;; i += first < last ? 1 : -1) {
        text += std::to_string(i);
        if (i == last) break;
        text += part[2];
      }
      continue;
    }
    const std::string once = spelled_out(part.is_string() ? part : part[0]);
    const std::size_t times = part.is_string() ? 1 : part[1].get<std::size_t>();
    for (std::size_t i = 0; i < times; ++i) text += once;
  }
  return text;
}

}  // namespace

TEST_CASE("math answers: two different values joined by an equals sign equal neither") {
  constexpr std::pair<const char*, const char*> kOthers[] = {
      {"17", "\\{18\\}"},
      {"\\{17\\}", "\\{18\\}"},
      {"\\frac12", "\\{\\frac13\\}"},
      {"(1,2)", "(3,4)"},
      {"[1,2]", "[3,5]"},
      {"2i", "3i"},
      {"2", "3i"},
      {"\\infty", "3"},
      {"3", "\\pm 2"},
      {"\\begin{pmatrix}1\\\\2\\end{pmatrix}", "\\begin{pmatrix}1\\\\3\\end{pmatrix}"},
  };
  for (const auto& [one, other] : kOthers) {
    const std::string first = one, second = other;
    for (const char* between : {"=", "=x=", "\\equiv ", "\\iff "}) {
      for (const std::string& answer : {first + between + second, second + between + first}) {
        CAPTURE(answer);
        CHECK(accepts(boxed(first), first));
        CHECK_FALSE(accepts(boxed(answer), first));
        CHECK_FALSE(accepts(boxed(answer), second));
      }
    }
  }
  CHECK(accepts(boxed("(1,2)=(\\frac22,2)"), "(1,2)"));
  CHECK(accepts(boxed("A\\cap B=\\{2,3\\}"), "\\{2,3\\}"));
  CHECK(accepts(boxed("\\text{domain}=(-\\infty,2)"), "(-\\infty,2)"));
  CHECK(accepts(boxed("\\sqrt{-4}=2i"), "2i"));
  CHECK(accepts(boxed("x=\\pm\\sqrt9=\\pm3"), "\\pm 3"));
}

TEST_CASE("math answers: LaTeX spaces, digit commas, leading words and thoughts are ignored") {
  for (const char* spaced : {"42\\,", "42\\;", "42\\ ", "\\,42", "\\!42\\:", "42\\,."})
    CHECK(accepts(boxed(spaced), "42"));
  for (const char* negative : {"\\text{-5}", "\\textbf{-5}", "\\mathrm{-5}"}) CHECK(accepts(boxed(negative), "-5"));
  CHECK(accepts(boxed("\\text{\\$1,234}"), "1234"));
  CHECK_FALSE(accepts(boxed("\\text{-5}"), "5"));
  CHECK(accepts(boxed("(1,2)\\,"), "(1,2)"));
  CHECK(accepts("2.74", "2,74"));
  CHECK(accepts("0.111", "0,111"));
  CHECK(accepts("1250", "1,250"));
  for (const auto& [response, gold] :
       {std::pair{"#### 1.25", "1,250"}, {"\\boxed{3.6}", "#### 3,600"}, {"2.125", "2,125"}})
    CHECK_FALSE(accepts(response, gold));
  for (const char* clause : {"not 42", "Less than 42", "at least 42", "half of 42"}) {
    CHECK_FALSE(accepts("The answer is " + std::string(clause) + ".", "42"));
    CHECK_FALSE(accepts("#### " + std::string(clause), "42"));
  }
  CHECK(accepts("<think>\\boxed{7}</think>\n42", "42"));
  CHECK(accepts("\\boxed{42}</think>", "42"));
  CHECK_FALSE(accepts("<think>\\boxed{42}</think> 7", "42"));
}

TEST_CASE("math answers: words of magnitude multiply the number") {
  for (const auto& [answer, gold] : {std::pair{"5\\text{ million}", "5000000"},
                                     {"5 million", "5,000,000"},
                                     {"2 dozen", "24"},
                                     {"5\\text{ million}", "5\\text{ million}"},
                                     {"3\\text{ hundred}", "300"}}) {
    INFO(answer << " " << gold);
    CHECK(accepts(boxed(answer), gold));
    CHECK(accepts(boxed(gold), answer));
  }
  for (const char* wrong : {"5 million", "5\\text{ thousand}", "5 dozen", "5\\text{ hundred}"}) {
    INFO(wrong);
    CHECK_FALSE(accepts(boxed(wrong), "5"));
    CHECK_FALSE(accepts(boxed("5"), wrong));
  }
  CHECK_FALSE(accepts(boxed("5\\text{ thousand}"), "5\\text{ million}"));
  CHECK(accepts(boxed("5 apples"), "5"));
}

TEST_CASE("math answers: all kinds are equal or different as in mathematics") {
  const auto rows = read_rows(own_data("math_kinds.jsonl"));
  REQUIRE(rows.size() > 700);
  const auto changed = changed_rows();
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const std::string gold = rows[k]["gold"], answer = rows[k]["answer"];
    const bool equal = expected(changed, "math_kinds.jsonl", k, rows[k]);
    INFO(gold << "   and   " << answer);
    CHECK(accepts(boxed(answer), gold) == equal);
    CHECK(accepts(boxed(answer), boxed(gold)) == equal);  // a box around the gold answer changes nothing
  }
}

TEST_CASE("math responses: the stated answer is extracted") {
  const auto rows = read_rows(own_data("math_responses.jsonl"));
  REQUIRE(rows.size() > 150);
  const auto changed = changed_rows();
  for (std::size_t k = 0; k < rows.size(); ++k) {
    const std::string gold = rows[k]["gold"], response = rows[k]["response"];
    INFO(gold << "   and   " << response);
    CHECK(accepts(response, gold) == expected(changed, "math_responses.jsonl", k, rows[k]));
  }
}

TEST_CASE("math goldens: wrong verdicts are only false negatives, and each names its rule") {
  std::map<std::string, std::vector<json>> files;
  for (const char* file : {"math_kinds.jsonl", "math_responses.jsonl"}) files[file] = read_rows(own_data(file));
  const std::string page = qrl::test::read_file(QRL_SOURCE_DIR "/docs/reference/math-answers.md");
  std::map<std::string, int> lost;
  for (const json& change : read_rows(own_data("changed.jsonl"))) {
    INFO(change.dump());
    const std::string file = change["file"], rule = change["rule"];
    REQUIRE(files.contains(file));
    const json& row = files[file].at(change["line"].get<std::size_t>() - 1);
    CHECK(row["equal"] == change["before"]);
    CHECK(change["before"] == true);
    CHECK(change["after"] == false);
    CHECK(page.find("\n## " + rule + "\n") != std::string::npos);
    ++lost[file == "math_kinds.jsonl" ? file : rule];
  }
  CHECK(lost["math_kinds.jsonl"] <= 60);  // mostly kinds that docs/reference/math-answers.md compares as text
  CHECK(lost["What a marker points at"] <= 5);
  CHECK(lost["The last number"] <= 60);
}

TEST_CASE("math verifier budget: counts roots, functions and list members") {
  const auto repeated = [](int count, const std::string& joint, const auto& item) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i == 0 ? "" : joint) + item(i);
    return text;
  };
  const auto root = [](int i) { return "\\sqrt{" + std::to_string(i + 2) + "}"; };
  const auto sine = [](int i) { return "\\sin(" + std::to_string(i + 2) + ")"; };
  const auto power = [](int i) { return std::to_string(i + 2) + "^{x/7}"; };
  const auto factorial = [](int i) { return std::to_string(i + 900) + "!"; };
  const auto set = [](int i) { return "\\{" + std::to_string(i) + "," + std::to_string(i + 1) + "\\}"; };
  const auto set_back = [&](int i) { return set(60 - i); };
  const auto determinant = [](const std::string& text) { return "\\begin{vmatrix}" + text + "\\end{vmatrix}"; };
  // Without the limit each of these took more than 5 ms.
  for (const auto& [answer, gold] :
       {std::pair{"x=" + repeated(250, "+", root), std::string("x=5")},
        std::pair{determinant(repeated(250, "&", root)), std::string("5")},
        std::pair{"\\pm" + determinant(repeated(150, "&", root)), std::string("5")},
        std::pair{"[" + repeated(200, "+", root) + "," + repeated(120, "+", root) + "]", std::string("[0,1]")},
        std::pair{repeated(200, "", root), std::string("5")}, std::pair{repeated(250, "+", sine), std::string("5")},
        std::pair{determinant(repeated(250, "&", power)), std::string("2^x")},
        std::pair{repeated(61, ",", set), repeated(61, ",", set_back)},
        std::pair{"(-1000000000000)!+" + repeated(250, "+", root), std::string("x=5")},
        std::pair{repeated(100, "+", factorial), std::string("5")}}) {
    INFO(answer.substr(0, 60));
    CHECK(judge(boxed(answer), gold).reason == "out of budget");
  }
  // Expressions that people write are within the limit.
  CHECK(accepts(boxed(repeated(20, "+", root)), repeated(20, "+", root)));
  CHECK(accepts(boxed(repeated(12, ",", set)), repeated(12, ",", set)));
}

TEST_CASE("math lists: numbers and points match in any order, for any length") {
  struct Members {
    const char* name;
    int count;
    std::string (*item)(int);
  };
  const Members all[] = {
      {"integers", 900, [](int i) { return std::to_string(i + 1); }},
      {"numbers that may be groups of digits", 900, [](int i) { return std::to_string(i + 100); }},
      {"negative ones", 400, [](int i) { return std::to_string(-i); }},
      {"each thrice", 600, [](int i) { return std::to_string(i / 3); }},
      {"one alone", 900, [](int) { return std::string("1"); }},
      {"fractions", 150, [](int i) { return "\\frac{" + std::to_string(i) + "}{7}"; }},
      {"complex ones of one real part", 150, [](int i) { return "2+" + std::to_string(i) + "i"; }},
      {"multiples of a letter", 200, [](int i) { return std::to_string(i + 1) + "x"; }},
      {"points", 200, [](int i) { return "(" + std::to_string(i) + "," + std::to_string(i * i) + ")"; }},
      {"points on a line", 200, [](int i) { return "(1," + std::to_string(i) + ")"; }},
      {"points of a grid", 144,
       [](int i) { return "(" + std::to_string(i / 12) + "," + std::to_string(i % 12) + ")"; }},
  };
  for (const Members& members : all) {
    for (const bool braces : {false, true}) {
      INFO(members.name << (braces ? " in braces" : ""));
      const auto text = [&](int first, int step, int others) {  // the last `others` are no members
        std::string joined;
        for (int k = 0; k < members.count; ++k) {
          const int other = k < members.count - others ? 0 : 1000;
          joined += (k == 0 ? "" : ",") + members.item((first + k * step) % members.count + other);
        }
        return braces ? "\\{" + joined + "\\}" : joined;
      };
      const std::string gold = text(0, 1, 0), back = text(members.count - 1, members.count - 1, 0);
      CHECK(judge(boxed(back), gold).reason == "correct");
      CHECK(judge(boxed(text(0, 7, 0)), gold).reason == "correct");
      if (members.item(0) != members.item(1000)) CHECK_FALSE(accepts(boxed(text(0, 7, 1)), gold));
    }
  }
}

TEST_CASE("math answers: a gold answer equals itself in a box") {
  for (const json& row : read_rows(own_data("math_kinds.jsonl"))) {
    const std::string gold = row["gold"];
    INFO(gold);
    if (math::fault_of(math::Reading(gold)).empty()) CHECK(accepts(boxed(gold), gold));
  }
}

TEST_CASE("math outputs of real models: verdicts equal the agreement of two other judges") {
  int num_right = 0;
  const auto rows = read_rows(own_data("real_outputs_excerpt.jsonl"));
  for (const json& row : rows) {
    INFO(row["id"] << " gold " << row["gold"]);
    CHECK(accepts(row["output"], row["gold"]) == row["expected"].get<bool>());
    num_right += row["expected"].get<bool>() ? 1 : 0;
  }
  CHECK(rows.size() == 80);
  CHECK(num_right == 40);
}

TEST_CASE("math suites of other verifiers: mathematically equal pairs are accepted") {
  const auto folder = shared_folder("verifier");
  if (folder.empty()) return qrl::test::skip("no shared data (QRL_TEST_DATA)");
  int num_true = 0;
  int num_accepted = 0;
  for (const json& row : read_rows(folder / "math_verifier_cases.jsonl")) {
    const bool plain = row["profile"].get<std::string>().starts_with("mv-free") &&
                       (!row.contains("opts") || row["opts"].is_null() || row["opts"].empty());
    if (!plain || !row["expected"].get<bool>() || !row.value("math_truth", true)) continue;
    ++num_true;
    if (accepts(row["pred"], row["gold"])) ++num_accepted;
    else WARN(row["gold"] << "   and   " << row["pred"]);
  }
  CHECK(num_true > 80);
  CHECK(num_accepted >= 0.99 * num_true);
}

TEST_CASE("math responses: hostile texts score nothing and take no time") {
  const auto folder = shared_folder("verifier");
  // scripts/accept/check_verifiers measures the 5 ms on the same texts. A nonlinear scan of a text takes
  // seconds, so this limit can be far from both.
  constexpr double kLinear_s = 0.2;
  int num_texts = 0;
  for (const json& row : read_rows(own_data("hostile_texts.jsonl"))) {
    INFO(row["name"]);
    const std::string text = spelled_out(row["parts"]);
    Outcome outcome = Outcome::correct;
    CHECK(qrl::test::seconds_on_xeon(
              [&] { outcome = judge(text, spelled_out(row.value("gold", json("42")))).outcome; }) < kLinear_s);
    CHECK(outcome != Outcome::correct);
    ++num_texts;
  }
  CHECK(num_texts > 30);
  if (folder.empty()) return;
  for (const json& row : read_rows(folder / "verifier_hostile_math.jsonl")) {
    if (!row.contains("text") || !row["text"].is_string() || row["expect_reward"].is_null()) continue;
    INFO(row["name"]);
    CHECK(accepts(row["text"], row["gold"]) == (row["expect_reward"] == 1));
  }
}

TEST_CASE("real datasets: every gold answer is readable and equals itself in a box") {
  const auto folder = shared_folder("datasets");
  if (folder.empty()) return qrl::test::skip("no shared data (QRL_TEST_DATA)");
  const std::pair<const char*, const char*> files[] = {
      {"gsm8k_train", "answer"}, {"gsm8k_test", "answer"},         {"math500", "answer"},
      {"svamp", "Answer"},       {"deepmath_roll_4994", "answer"}, {"olympiadbench", "final_answer"}};
  int num_golds = 0;
  for (const auto& [file, key] : files) {
    for (const json& row : read_rows(folder / (std::string(file) + ".jsonl"))) {
      for (const json& answer : row[key].is_array() ? row[key] : json::array({row[key]})) {
        const std::string gold = answer.is_string() ? answer.get<std::string>() : answer.dump();
        INFO(file << " " << gold);
        REQUIRE(math::fault_of(math::Reading(math::extract_gold(gold))).empty());
        REQUIRE(accepts("So \\boxed{" + math::extract_gold(gold) + "}.", gold));
        ++num_golds;
      }
    }
  }
  CHECK(num_golds == 15961);
}

TEST_CASE("documentation examples: judged as stated") {
  int num_examples = 0;
  for (const char* page : {"verifiers.md", "math-answers.md"}) {
    std::istringstream lines(qrl::test::read_file(std::string(QRL_SOURCE_DIR "/docs/reference/") + page));
    bool in_table = false;
    for (std::string line; std::getline(lines, line);) {
      in_table = line.starts_with("|") && (in_table || line == "| gold | answer | verdict |");
      std::vector<std::string> spans;  // in backquotes: the gold answer, then answers
      for (std::size_t at = line.find('`'); in_table && at != std::string::npos; at = line.find('`', at)) {
        const std::size_t end = line.find('`', at + 1);
        REQUIRE(end != std::string::npos);
        std::string span = line.substr(at + 1, end - at - 1);
        for (std::size_t bar; (bar = span.find("\\|")) != std::string::npos;) span.erase(bar, 1);
        spans.push_back(span);
        at = end + 1;
      }
      if (spans.empty()) continue;
      REQUIRE((line.ends_with("| right |") || line.ends_with("| wrong |")));
      for (std::size_t k = 1; k < spans.size(); ++k, ++num_examples) {
        INFO(page << ": " << spans[0] << "   and   " << spans[k]);
        CHECK(accepts(boxed(spans[k]), spans[0]) == line.ends_with("| right |"));
      }
    }
  }
  CHECK(num_examples > 60);
}

TEST_CASE("answer profiles: determine where the answer is") {
  const std::string all = "The answer is 3. <answer>4</answer>\n#### 2\nSo \\boxed{1} of 5 things";
  CHECK(found(all, Profile::boxed) == "1");
  CHECK(found(all, Profile::gsm8k) == "2");
  CHECK(found(all, Profile::answer_is) == "3");
  CHECK(found(all, Profile::answer_tag) == "4");
  CHECK(found(all, Profile::last_number) == "5 things");
  CHECK(found(" 7 ", Profile::text) == "7");
  CHECK(found(all, Profile::automatic) == "1");
  CHECK(found("The answer is 3. <answer>4</answer>\n#### 2\n", Profile::automatic) == "2");
  CHECK(found("<answer>4</answer> The answer is 3.", Profile::automatic) == "3");
  CHECK(found("It has 9 sides. <answer>4</answer>", Profile::automatic) == "4");
  CHECK(found("x = 4", Profile::automatic) == "x = 4");
  CHECK(found("we count 9 and then 8 of them, which makes 17 in all", Profile::automatic) == "17 in all");
  CHECK(found("nothing", Profile::boxed).empty());
  // Boxes joined by separators are one list; others are not.
  CHECK(found("\\boxed{1} and \\boxed{2}", Profile::boxed) == "1, 2");
  CHECK(found("\\boxed{1} then \\boxed{2}", Profile::boxed) == "2");
  CHECK(found("\\boxed{\\frac{1}{2}} \\boxed{3", Profile::boxed) == "\\frac{1}{2}");
  CHECK(found("\\boxed{5}<|im_end|><|endoftext|>", Profile::automatic) == "5");
}

TEST_CASE("gold answers: an unusable one is refused at load, with its place and reason") {
  const math::MathVerifier verifier(Profile::automatic);
  for (const char* good : {"42", "\\frac{1}{2}", "so we have 3 + 4\n#### 7", "\\text{Evelyn}", "Evelyn", "$x>3$"}) {
    CHECK_NOTHROW(verifier.check_ground_truth(good, "train.jsonl:3"));
  }
  for (const char* bad : {"", "  ", "\\frac{1}{", "1/0", "\\unknowncommand{3}", "3 +", "{1", "(1,2"}) {
    INFO(bad);
    std::string refusal;
    try {
      verifier.check_ground_truth(bad, "train.jsonl:3");
    } catch (const qrl::base::Error& error) {
      refusal = error.what();
    }
    CHECK(refusal.find("train.jsonl:3") != std::string::npos);
    if (std::string(bad) == "1/0") continue;  // readable: no answer equals it
    CHECK(judge("\\boxed{1}", bad).reason == "gold");
  }
}

TEST_CASE("verdict: states the reason and the judged text") {
  CHECK(judge("\\boxed{42}", "42").reason == "correct");
  CHECK(judge("\\boxed{41}", "42").reason == "wrong value");
  CHECK(judge("\\boxed{4@}", "42").reason == "not readable");
  CHECK(judge("no number here, none at all, whatever one does", "42").reason == "no answer");
  CHECK(judge("so \\boxed{41} it is", "42").extracted == "41");
  const Verdict truncated = judge(spelled_out({"\\boxed{", {"\u00e9", 1000}, "}"}), "42");
  CHECK(truncated.extracted.size() <= kMaxExtracted_bytes);
  CHECK((static_cast<unsigned char>(truncated.extracted.back()) & 0xc0) == 0x80);  // no character is cut
}
