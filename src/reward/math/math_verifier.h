#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "reward/math/answer.h"
#include "reward/math/extract.h"
#include "reward/verdict.h"

namespace qrl::reward::math {

/// Holds an answer's text without its choice label, and the text's parses.
struct Reading {
  struct Read {
    Comma comma;
    Tree tree;
    std::optional<Answer> answer;  ///< none: parse error
  };
  explicit Reading(std::string_view whole, const Vocabulary& words = default_vocabulary());

  const Vocabulary& vocabulary;
  std::string text;
  char label = 0;           ///< choice label: B for "(B) 42", with the text "42"; 0: none
  bool is_choice = false;   ///< the answer is only a label
  std::vector<Read> reads;  ///< one per meaning of the commas, or one if all meanings agree
};

Verdict compare(const Reading& gold, const Reading& answer);
/// Returns why a gold answer is unusable, or "". A text without a formula is usable.
std::string fault_of(const Reading& gold);

// ---- answer_form.cpp: reward.answer_form

/// Selects which right answers count: any, or only those without operations left to compute (value).
enum class RequiredForm : std::uint8_t { any, value };

/// Returns whether the answer has no operation left to compute, or is written like the gold answer. Accepts answers
/// that do not parse.
bool is_worked_out_as(const Reading& gold, const Reading& answer);

// ---- the verifier

struct Gold {
  Reading reading;
  bool is_readable = false;
};
Gold read_gold(std::string_view ground_truth);

/// Extracts answers and compares them with the gold answer. Stateless and thread-safe.
class MathVerifier {
 public:
  explicit MathVerifier(Profile profile, RequiredForm form = RequiredForm::any) : profile_(profile), form_(form) {}
  /// Throws an input error if `ground_truth` (from `where`) is unusable.
  void check_ground_truth(std::string_view ground_truth, const std::string& where) const;
  /// Judges with bounded work for any input; never throws.
  Verdict judge(std::string_view response, const Gold& gold) const noexcept;
  /// Returns whether two answers are equal, with either as the gold answer. The work is bounded. Answers that may be
  /// truncated must be identical.
  bool same_answer(std::string_view one, std::string_view other) const noexcept;

 private:
  Profile profile_;
  RequiredForm form_;
};

}  // namespace qrl::reward::math
