// Owns the math verifier: extracts an answer, tries its readings, and compares each with the gold answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/recipe.h"
#include "reward/math/answer.h"
#include "reward/verdict.h"

namespace qrl::reward::math {

/// Holds an answer's text without its choice label, and its parses.
struct Reading {
  struct Read {
    Comma comma;
    Tree tree;
    std::optional<Answer> answer;  ///< none: not readable
  };
  explicit Reading(std::string_view whole, const Vocabulary& words = default_vocabulary());

  const Vocabulary& vocabulary;
  std::string text;
  char label = 0;           ///< of a choice: B for "(B) 42", whose text is 42; 0: none
  bool is_choice = false;   ///< only a label
  std::vector<Read> reads;  ///< one for each meaning of its commas, unless all agree
};

Verdict compare(const Reading& gold, const Reading& answer);
/// Returns why a gold answer is unusable, or "". A text (letters that are no formula) is usable.
std::string fault_of(const Reading& gold);

// ---- answer_form.cpp: reward.answer_form

/// Returns whether an answer has no operation on rational numbers left, or the gold answer's. Unreadable ones count as
/// computed.
bool is_worked_out_as(const Reading& gold, const Reading& answer);

// ---- the verifier

/// Parsed once for all responses to a prompt
struct Gold {
  Reading reading;
  bool is_readable = false;
};
Gold read_gold(std::string_view ground_truth);

/// Judges responses, stateless and thread-safe.
class MathVerifier {
 public:
  explicit MathVerifier(config::MathProfile profile, config::AnswerForm form = config::AnswerForm::any)
      : profile_(profile), form_(form) {}
  /// At load: throws an input error if `ground_truth` (from `where`) is unusable.
  void check_ground_truth(std::string_view ground_truth, const std::string& where) const;
  /// Never throws, with bounded work for any input.
  Verdict judge(std::string_view response, const Gold& gold) const noexcept;
  /// Returns, with bounded work, whether two answers are equal in both orders; truncated ones (kMaxExtracted_bytes)
  /// compare as texts.
  bool same_answer(std::string_view one, std::string_view other) const noexcept;

 private:
  config::MathProfile profile_;
  config::AnswerForm form_;
};

}  // namespace qrl::reward::math
