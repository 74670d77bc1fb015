// Owns the countdown verifier. Grammar and limits: reliability.md (ASCII + - * / ( ), unary sign, decimal integers,
// exact rationals, each number once).
#pragma once

#include "reward/verifier.h"

namespace qrl::reward {

class CountdownVerifier final : public Verifier {
 public:
  explicit CountdownVerifier(config::Numbers numbers) : numbers_(numbers) {}
  void check_ground_truth(std::string_view ground_truth, const std::string& where) const override;
  Verdict judge(std::string_view response, std::string_view ground_truth) const noexcept override;

 private:
  config::Numbers numbers_;
};

}  // namespace qrl::reward
