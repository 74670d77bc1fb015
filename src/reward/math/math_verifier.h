// Owns the math verifier: an answer found by a profile (extract.h), every way to read it, and whether it is the gold
// answer, also by its form where reward.answer_form says so.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "config/recipe.h"
#include "reward/math/answer.h"
#include "reward/verdict.h"

namespace qrl::reward::math {

/// A text and what it is read as, the label of a choice apart. Read once and compared as often as one likes.
struct Reading {
  struct Read {
    Comma comma;
    Tree tree;
    std::optional<Answer> answer;  ///< none: it could not be read
  };
  explicit Reading(std::string_view whole, const Vocabulary& words = default_vocabulary());

  const Vocabulary& vocabulary;
  std::string text;
  char label = 0;           ///< of a choice, B of "(B) 42", whose text is 42 alone; 0: there is none
  bool is_choice = false;   ///< a label alone
  std::vector<Read> reads;  ///< by each reading of its commas; one where all give the same
};

/// The verdict on an answer by its value.
Verdict compare(const Reading& gold, const Reading& answer);
/// Why a gold answer cannot be judged by; empty when it can. A text (letters that are no formula) is one.
std::string fault_of(const Reading& gold);

// ---- answer_form.cpp: reward.answer_form

/// Whether no operation on rational numbers is left to do in an answer, or the one that the gold answer leaves. What
/// cannot be read is worked out.
bool is_worked_out_as(const Reading& gold, const Reading& answer);

// ---- the verifier

/// A gold answer, read once for all responses to its prompt.
struct Gold {
  Reading reading;
  bool is_readable = false;
};
Gold read_gold(std::string_view ground_truth);

/// Stateless and thread-safe.
class MathVerifier {
 public:
  explicit MathVerifier(config::MathProfile profile, config::AnswerForm form = config::AnswerForm::any)
      : profile_(profile), form_(form) {}
  /// Throws an input error when `ground_truth` (of `where`) is not one this verifier can judge by: checked at load.
  void check_ground_truth(std::string_view ground_truth, const std::string& where) const;
  /// Never throws, and its work is bounded whatever the bytes.
  Verdict judge(std::string_view response, const Gold& gold) const noexcept;
  /// Equal in both orders, by `compare`; answers cut short (kMaxExtracted_bytes) as texts. Bounded as `judge` is.
  bool same_answer(std::string_view one, std::string_view other) const noexcept;

 private:
  config::MathProfile profile_;
  config::AnswerForm form_;
};

}  // namespace qrl::reward::math
