// Owns the interface of verifiers: model text in, score out. Knows nothing of tokens, shaping or training.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/recipe.h"

namespace qrl::reward {

enum class Outcome : std::uint8_t {
  correct,
  wrong,      ///< an answer in the right form that does not solve the task
  no_answer,  ///< no answer found, or not in the grammar
};

struct Verdict {
  Outcome outcome = Outcome::no_answer;
  std::string_view reason;      ///< static text: "correct", "wrong value", "numbers differ", "no answer", …
  bool verifier_error = false;  ///< a budget ran out: counted apart from wrong answers
  double credit = 0;            ///< partial credit of a wrong answer, 0 to 1, where the task has it
  std::string extracted;        ///< the answer that was judged, its first kMaxExtracted_bytes bytes
};

inline constexpr std::size_t kMaxExtracted_bytes = 512;

/// Stateless and thread-safe. `judge` never throws and its work is bounded whatever the bytes.
class Verifier {
 public:
  virtual ~Verifier() = default;
  /// Throws an input error when `ground_truth` (of `where`) is not one this verifier can judge by: checked at load.
  virtual void check_ground_truth(std::string_view ground_truth, const std::string& where) const = 0;
  virtual Verdict judge(std::string_view response, std::string_view ground_truth) const noexcept = 0;
  /// Whether two answers that it extracted (Verdict::extracted) are the same answer, whatever the ground truth. Bounded
  /// as `judge` is. Here: the same text.
  virtual bool same_answer(std::string_view one, std::string_view other) const noexcept { return one == other; }
};

std::unique_ptr<Verifier> make_verifier(const config::RewardRecipe& recipe);

/// check_ground_truth for data of a recipe: its error also says that reward.verifier chose the verifier, and what else
/// that key may be.
void check_recipe_gold(const Verifier& verifier, const config::RewardRecipe& recipe, std::string_view ground_truth,
                       const std::string& where);

/// Only the last kMaxScanned_bytes of a response are searched for its answer: some 30,000 tokens, and what keeps a
/// response of any size, made to be slow or not, at a few milliseconds.
inline constexpr std::size_t kMaxScanned_bytes = std::size_t{128} << 10;

struct ExtractedAnswer {
  std::string_view text;  ///< a view into the response, ASCII white space trimmed
  bool boxed = false;     ///< a \boxed{} was opened
};

/// The last complete <answer>…</answer> (the last complete \boxed{} inside is unwrapped), else the last complete
/// \boxed{…}; nothing when there is neither. An <answer> that is never closed counts as none. Linear in the bytes read.
std::optional<ExtractedAnswer> extract_answer(std::string_view response) noexcept;

/// The content of the last <answer> that is followed by a </answer>.
std::optional<std::string_view> last_tagged(std::string_view text) noexcept;

/// For Verdict::extracted: cut between characters where it is too long.
std::string shown(std::string_view answer);

}  // namespace qrl::reward
