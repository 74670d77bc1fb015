// Owns values that a run chooses unless its recipe gives them.
#pragma once

#include <concepts>

namespace qrl::config {

/// Holds a given value, or one chosen when a run begins ("auto"). Until then `value` is what a run without a checkpoint
/// would choose on the CPU.
template <class T>
struct AutoValue {
  T value;
  bool is_auto = false;

  AutoValue(T given) : value(given) {}  // NOLINT(google-explicit-constructor): a number is a value of the key
  static AutoValue automatic(T on_cpu) {
    AutoValue value(on_cpu);
    value.is_auto = true;
    return value;
  }
  operator T() const { return value; }  // NOLINT(google-explicit-constructor): it reads as a number
  /// This is a template, so that comparing with a number does not convert the number.
  template <std::same_as<AutoValue> Same>
  friend bool operator==(const Same& one, const Same& other) {
    return one.is_auto == other.is_auto && (one.is_auto || one.value == other.value);
  }
};

}  // namespace qrl::config
