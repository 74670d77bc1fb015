// Owns the ranges of numbers.
#pragma once

#include <functional>
#include <string>

namespace qrl::config {

struct Range {
  std::string text;
  std::function<bool(double)> holds;
};
Range any();
Range positive();
Range at_least_0();
Range at_least_1();
Range above_1_or_off();     ///< (1, ∞), and 0 for none
Range from_0_to_1();        ///< [0, 1]
Range above_0_to_1();       ///< (0, 1]
Range percentile();         ///< (0, 100]
Range inside_0_to_1();      ///< (0, 1)
Range from_0_to_below_1();  ///< [0, 1)

}  // namespace qrl::config
