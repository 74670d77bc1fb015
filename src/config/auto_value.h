// Owns the value of a key whose default a run chooses.
#pragma once

#include <concepts>

namespace qrl::config {

/// Holds a given value, or one chosen when a run begins ("auto"). Until then `value` is the CPU's default.
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
  /// A template, so that comparing with a number converts nothing.
  template <std::same_as<AutoValue> Same>
  friend bool operator==(const Same& one, const Same& other) {
    return one.value == other.value && one.is_auto == other.is_auto;
  }
};

}  // namespace qrl::config
