// Owns how one YAML value becomes a number, a flag or a text, and how it is written back.
// YAML 1.1 and 1.2 read some words differently (010, 1_000, 12:30:45, yes, no): such words are refused, never guessed.
// 1e-6, which YAML 1.1 reads as a text because it has no point, is a number here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "config/yaml_tree.h"

namespace qrl::config {

/// Says why a value was refused: the finding and the advice.
struct Refusal {
  std::string got;
  std::string advice;
};

template <class T>
using Reading = std::variant<T, Refusal>;

/// Returns a value as a message names it: quoted("fast"), "null", "a list", "a section".
std::string shown_value(const YamlNode& node);

/// Reads a decimal 64-bit integer; the caller checks the range.
Reading<std::int64_t> read_integer(const YamlNode& node);
Reading<std::uint64_t> read_unsigned(const YamlNode& node);
/// Reads a finite decimal number that fp64 holds without overflow or underflow to zero; −0 becomes 0.
Reading<double> read_real(const YamlNode& node);
/// Reads true or false; no other word.
Reading<bool> read_boolean(const YamlNode& node);
/// Reads a text of at least one byte without NUL. Refuses a bare word that some YAML version reads as something else.
Reading<std::string> read_text(const YamlNode& node);

/// Return canonical forms, which every YAML version reads alike: reals have a point, texts are in double quotes.
std::string write_real(double value);
std::string write_text(std::string_view text);

}  // namespace qrl::config
