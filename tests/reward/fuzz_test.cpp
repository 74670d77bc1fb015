#include "support/fuzz.h"

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "reward/verifier.h"
#include "support/catch.h"

using namespace qrl::reward;

namespace {

/// Pieces that hostile text is made of; raw bytes come in between.
const std::vector<std::string> kPieces = {"<answer>",
                                          "</answer>",
                                          "\\boxed{",
                                          "}",
                                          "{",
                                          "(",
                                          ")",
                                          "+",
                                          "-",
                                          "*",
                                          "/",
                                          "=",
                                          "3",
                                          "7",
                                          "12",
                                          "07",
                                          "99999999999999999999",
                                          " ",
                                          "\n",
                                          "\\times ",
                                          "×",
                                          ".",
                                          "**",
                                          "<answ",
                                          "\\boxed",
                                          "\xff"};

/// Processor time of this thread: other work on the machine does not count.
double thread_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

std::string hostile_text(qrl::base::RandomStream& random) {
  std::string text;
  const std::uint64_t num_pieces = random.below(40);
  for (std::uint64_t i = 0; i < num_pieces; ++i) {
    if (random.below(12) == 0) text += static_cast<char>(random.below(256));
    else if (random.below(60) == 0) text.append(random.below(3000), kPieces[random.below(kPieces.size())][0]);
    else text += kPieces[random.below(kPieces.size())];
  }
  return text;
}

}  // namespace

TEST_CASE("hostile text is judged, twice the same, by an answer that lies in it") {
  const auto verifier = make_verifier({});
  const std::string truth = R"({"numbers":[3,7,12],"target":36})";
  std::uint64_t outcomes[3] = {};
  const std::uint64_t num_runs = qrl::test::fuzz_runs(100000, 2'000'000);
  double slowest_s = 0;
  for (std::uint64_t i = 0; i < num_runs; ++i) {
    qrl::base::RandomStream random(11, qrl::base::RandomPurpose::test, i);
    std::string text = hostile_text(random);
    if (i % 4 == 0) text += "<answer>(7-" + text.substr(0, random.below(3)) + "3+12-4)*12/4</answer>";
    if (i % 50 == 0) text += "<answer>(7 - 3 - 12 / 12) * 12</answer>";
    const double start_s = thread_s();
    const Verdict verdict = verifier->judge(text, truth);
    slowest_s = std::max(slowest_s, thread_s() - start_s);
    ++outcomes[static_cast<int>(verdict.outcome)];
    const Verdict again = verifier->judge(text, truth);
    REQUIRE(again.outcome == verdict.outcome);
    REQUIRE(again.reason.data() == verdict.reason.data());  // static text
    if (const auto answer = extract_answer(text)) {
      REQUIRE(answer->text.size() <= text.size());
      REQUIRE((answer->text.empty() || (answer->text.data() >= text.data() &&
                                        answer->text.data() + answer->text.size() <= text.data() + text.size())));
    } else {
      REQUIRE(verdict.outcome == Outcome::no_answer);
    }
  }
  CHECK(slowest_s < 5e-3);
  CHECK(outcomes[static_cast<int>(Outcome::wrong)] > num_runs / 100);      // the texts reach the grammar …
  CHECK(outcomes[static_cast<int>(Outcome::no_answer)] > num_runs / 100);  // … and mostly miss it
}

TEST_CASE("hostile ground truths never throw out of judge") {
  const auto verifier = make_verifier({});
  const std::string good = R"({"numbers":[3,7,12],"target":36})";
  std::uint64_t readable = 0;
  const std::uint64_t num_runs = qrl::test::fuzz_runs(20000);
  for (std::uint64_t i = 0; i < num_runs; ++i) {
    qrl::base::RandomStream random(12, qrl::base::RandomPurpose::test, i);
    const Verdict verdict = verifier->judge("<answer>3+7+12</answer>", qrl::test::edited(good, 6, random));
    readable += verdict.verifier_error ? 0 : 1;
  }
  CHECK(readable > 0);
  CHECK(readable < num_runs / 2);
  CHECK(verifier->judge("<answer>1</answer>", std::string(100000, '[')).verifier_error);
}

TEST_CASE("text of many megabytes costs what its searched tail costs") {
  const auto verifier = make_verifier({});
  const std::string truth = R"({"numbers":[5],"target":5})";
  for (const char* piece : {"<answer>", "</answer>", "\\boxed{", "{", "}", "<answer></answer", "\\boxed{}", "("}) {
    std::string text;
    while (text.size() < (std::size_t{8} << 20)) text += piece;
    INFO(piece);
    CHECK(verifier->judge(text, truth).outcome == Outcome::no_answer);
    CHECK(verifier->judge(text + "<answer>5</answer>", truth).outcome == Outcome::correct);
  }
}
