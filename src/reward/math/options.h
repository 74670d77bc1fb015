// Owns the labels of choices in front of an answer: "(B) 42", "B. 42". Knows nothing of what the answers are worth.
#pragma once

#include <optional>
#include <string_view>

namespace qrl::reward::math {

struct Option {
  char label = 0;         ///< A to J
  std::string_view rest;  ///< what stands behind it, not empty
};

/// An answer with the label of its choice: a capital from A to J, in brackets or with ) . or : behind it, perhaps
/// within \text{…}, and more behind that.
std::optional<Option> labelled(std::string_view text) noexcept;

/// The label that an answer is alone: "B", "(B)", "\text{B}"; 0 where it is more or something else.
char lone_label(std::string_view text) noexcept;

/// The label that a sentence says is right: "Option B is correct", "So (B) is the correct answer"; 0 where it says
/// something else.
char affirmed_label(std::string_view sentence) noexcept;

/// "B because …": a label with its reason behind it.
bool is_explained_label(std::string_view text) noexcept;

}  // namespace qrl::reward::math
