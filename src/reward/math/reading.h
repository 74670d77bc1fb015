// Owns a text as an answer: every way to read it, and whether two texts are the same answer.
#pragma once

#include <memory>
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

/// A text and what it is read as, a choice's label apart. Read once and compared as often as one likes; what commas
/// between digits make of it otherwise is read when it is asked for. Not thread-safe before `read_all`.
class Reading {
 public:
  explicit Reading(std::string_view text, const Vocabulary& vocabulary = default_vocabulary());
  const std::string& text() const noexcept { return text_; }
  /// The answer by one reading of commas; null: none.
  const Answer* answer(Comma comma) const;
  const Tree& tree(Comma comma) const;
  void read_all() const;
  char label() const noexcept { return label_; }
  /// What stands behind the label of a choice, "42" of "(B) 42"; null: nothing.
  const Reading* labelled() const noexcept { return rest_.get(); }
  const Vocabulary& vocabulary() const noexcept { return vocabulary_; }

 private:
  struct Read {
    Tree tree;
    std::optional<Answer> answer;
  };
  std::string text_;
  const Vocabulary& vocabulary_;
  char label_ = 0;
  std::unique_ptr<Reading> rest_;
  mutable std::unique_ptr<Read> read_[3];
};

Comparison compare(const Reading& gold, const Reading& answer);
/// Why a gold answer cannot be judged by; empty when it can. A text (letters that are no formula) is one.
std::string fault_of(const Reading& gold);

}  // namespace qrl::reward::math
