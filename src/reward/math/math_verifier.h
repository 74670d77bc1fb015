#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reward/math/answer.h"
#include "reward/math/extract.h"
#include "reward/verdict.h"

namespace qrl::reward::math {

/// An answer's text without its choice label, and its parses.
struct Reading {
  struct Read {
    Comma comma;
    Tree tree;
    std::optional<Answer> answer;  ///< none: not parsed
  };
  explicit Reading(std::string_view whole, const Vocabulary& words = default_vocabulary());

  const Vocabulary& vocabulary;
  std::string text;
  char label = 0;           ///< B for "(B) 42", whose text is 42; 0: no choice
  bool is_choice = false;   ///< only a label
  std::vector<Read> reads;  ///< one per meaning of its commas, or one if all agree
};

Verdict compare(const Reading& gold, const Reading& answer);
/// Returns why a gold answer is unusable, or "". A text without a formula is usable.
std::string fault_of(const Reading& gold);

// ---- answer_form.cpp: reward.answer_form

/// Whether a right answer may have an operation left to do; value: it may not.
enum class RequiredForm : std::uint8_t { any, value };

/// Returns whether the answer is fully computed, or the gold answer is not. Answers that do not parse count as
/// computed.
bool is_worked_out_as(const Reading& gold, const Reading& answer);

// ---- the verifier

/// A gold answer, parsed once for all responses to a prompt.
struct Gold {
  Reading reading;
  bool is_readable = false;
};
Gold read_gold(std::string_view ground_truth);

/// Extracts answers and compares each of their readings with the gold answer; stateless and thread-safe.
class MathVerifier {
 public:
  explicit MathVerifier(Profile profile, RequiredForm form = RequiredForm::any) : profile_(profile), form_(form) {}
  /// Throws an input error if `ground_truth` (from `where`) is unusable. Called when data is loaded.
  void check_ground_truth(std::string_view ground_truth, const std::string& where) const;
  /// Judges with bounded work for any input; never throws.
  Verdict judge(std::string_view response, const Gold& gold) const noexcept;
  /// Returns whether two answers are equal in both orders, with bounded work. Truncated answers compare as texts.
  bool same_answer(std::string_view one, std::string_view other) const noexcept;

 private:
  Profile profile_;
  RequiredForm form_;
};

}  // namespace qrl::reward::math
