// Owns a text as an answer: every way to read it, and whether two texts are the same answer.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "reward/math/answer.h"

namespace qrl::reward::math {

enum class Comparison : unsigned char {
  equal,
  different,
  unreadable,  ///< the answer is not in the grammar, and not the same text either
  out_of_budget,
};

/// A text and what it is read as, the label of a choice apart. Read once and compared as often as one likes.
class Reading {
 public:
  struct Read {
    Comma comma;
    Tree tree;
    std::optional<Answer> answer;  ///< none: it could not be read
  };
  explicit Reading(std::string_view text, const Vocabulary& vocabulary = default_vocabulary());
  const std::string& text() const noexcept { return text_; }
  /// What it is by each reading of its commas; one where all give the same.
  const std::vector<Read>& reads() const noexcept { return reads_; }
  /// Of a choice, B of "(B) 42", whose text is 42 alone; 0: there is none.
  char label() const noexcept { return label_; }
  bool is_choice() const noexcept { return is_choice_; }  ///< a label alone
  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }

 private:
  std::string text_;
  const Vocabulary& vocabulary_;
  char label_ = 0;
  bool is_choice_ = false;
  std::vector<Read> reads_;
};

Comparison compare(const Reading& gold, const Reading& answer);
/// Why a gold answer cannot be judged by; empty when it can. A text (letters that are no formula) is one.
std::string fault_of(const Reading& gold);

}  // namespace qrl::reward::math
