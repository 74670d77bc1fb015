#include "toys/task/reverse.h"

#include <algorithm>

#include "base/error.h"
#include "base/rng.h"
#include "base/text.h"
#include "reward/answer.h"

namespace qrl::test {

namespace {

const config::IntegerParam kLetters{"letters", {3, 12}, 4, "letters of a word"};

std::string random_word(std::int64_t letters, std::uint64_t seed, tasks::Split split, std::uint64_t index) {
  base::RandomStream random(seed, base::RandomPurpose::generator,
                            index * 2 + (split == tasks::Split::held_out ? 1 : 0));
  for (;;) {  // one word in four is held out
    std::string word;
    for (std::int64_t i = 0; i < letters; ++i) word += static_cast<char>('a' + random.below(26));
    if (tasks::split_of(word) == split) return word;
  }
}

tasks::GeneratedTask task_of(const std::string& word) { return {word + "\n", word}; }

tasks::GeneratedTask generate(const config::ParamValues& own, std::uint64_t seed, tasks::Split split,
                              std::uint64_t index) {
  return task_of(random_word(own.of(kLetters), seed, split, index));
}

/// Every second demonstration forgets to reverse: its form is right, which leaves something to learn.
tasks::WorkedTask demonstrate(const config::ParamValues& own, std::uint64_t seed, std::uint64_t index) {
  const std::string word =
      random_word(own.of(kLetters), seed, tasks::Split::train, tasks::demonstrated_index(seed, index));
  const std::string answer = index % 2 == 0 ? std::string(word.rbegin(), word.rend()) : word;
  return {task_of(word), "<answer>" + answer + "</answer>"};
}

const config::FlagParam kIgnoreCase{"reward.reverse.ignore_case", false, "capital letters count as small ones"};

struct ReverseGold final : types::Gold {
  std::string answer;
};

class ReverseVerifier final : public tasks::RuleVerifier {
 public:
  explicit ReverseVerifier(bool ignore_case) : ignore_case_(ignore_case) {}

  void check_ground_truth(const tasks::Question& question, const std::string& where) const override {
    QRL_REQUIRE(is_word(question.ground_truth), where, "a word of small letters", base::quoted(question.ground_truth));
  }
  std::shared_ptr<const types::Gold> prepare(const tasks::Question& question) const override {
    if (!is_word(question.ground_truth)) return nullptr;
    auto gold = std::make_shared<ReverseGold>();
    gold->answer.assign(question.ground_truth.rbegin(), question.ground_truth.rend());
    return gold;
  }
  tasks::Verdict judge_one(std::string_view response, const types::Gold& gold) const noexcept override try {
    const auto found = reward::extract_answer(response);
    if (!found) return {tasks::Outcome::no_answer, "no answer"};
    std::string answer(found->text.substr(0, reward::kMaxExtracted_bytes));
    if (ignore_case_) std::transform(answer.begin(), answer.end(), answer.begin(), lower);
    const std::string& right = static_cast<const ReverseGold&>(gold).answer;
    if (answer == right) return {tasks::Outcome::correct, "correct", false, 1, answer};
    return {tasks::Outcome::wrong, "wrong word", false, share_of_letters(answer, right), answer};
  } catch (...) {
    return {tasks::Outcome::no_answer, "out of memory", true};
  }

 private:
  static bool is_word(std::string_view text) {
    return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= 'a' && c <= 'z'; });
  }
  static char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
  /// Returns the share of letters in the right place, as partial credit.
  static double share_of_letters(const std::string& answer, const std::string& right) {
    double same = 0;
    for (std::size_t i = 0; i < std::min(answer.size(), right.size()); ++i) same += answer[i] == right[i] ? 1 : 0;
    return same / static_cast<double>(right.size());
  }

  bool ignore_case_;
};

std::unique_ptr<tasks::Verifier> make(const tasks::VerifierOptions& options) {
  return std::make_unique<ReverseVerifier>(options.own.of(kIgnoreCase));
}

}  // namespace

const tasks::Task reverse_task{
    {{.word = "reverse", .what = "write a word backwards", .params = {kLetters}}, generate, demonstrate},
    {{.word = "reverse", .what = "a word backwards", .params = {kIgnoreCase}, .uses = {"reward.partial"}},
     make,
     "words to reverse"}};

}  // namespace qrl::test
