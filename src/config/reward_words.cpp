// Owns the words of the reward section that commands list, too.
#include "config/keys.h"

namespace qrl::config {

std::vector<std::pair<std::string, VerifierName>> verifier_names() {
  return {{"countdown", VerifierName::countdown}, {"math", VerifierName::math}, {"sudoku", VerifierName::sudoku}};
}

std::vector<std::pair<std::string, MathProfile>> math_profiles() {
  using P = MathProfile;
  return {{"auto", P::automatic},         {"boxed", P::boxed},           {"gsm8k", P::gsm8k},
          {"answer_is", P::answer_is},    {"answer_tag", P::answer_tag}, {"text", P::text},
          {"last_number", P::last_number}};
}

std::vector<std::pair<std::string, AnswerForm>> answer_forms() {
  return {{"any", AnswerForm::any}, {"value", AnswerForm::value}};
}

}  // namespace qrl::config
