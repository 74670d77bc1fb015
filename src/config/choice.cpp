#include "config/choice.h"

namespace qrl::config {

Range any() {
  return {"", [](double) { return true; }};
}
Range positive() {
  return {" > 0", [](double x) { return x > 0; }};
}
Range at_least_0() {
  return {" ≥ 0", [](double x) { return x >= 0; }};
}
Range at_least_1() {
  return {" ≥ 1", [](double x) { return x >= 1; }};
}
Range above_1_or_off() {
  return {" > 1, or 0 for off", [](double x) { return x > 1 || x == 0; }};
}
Range from_0_to_1() {
  return {" in [0, 1]", [](double x) { return x >= 0 && x <= 1; }};
}
Range above_0_to_1() {
  return {" in (0, 1]", [](double x) { return x > 0 && x <= 1; }};
}
Range percentile() {
  return {" in (0, 100]", [](double x) { return x > 0 && x <= 100; }};
}
Range inside_0_to_1() {
  return {" in (0, 1)", [](double x) { return x > 0 && x < 1; }};
}
Range from_0_to_below_1() {
  return {" in [0, 1)", [](double x) { return x >= 0 && x < 1; }};
}

}  // namespace qrl::config
