// Owns how one YAML value becomes a number, a flag or a text, and how it is written back. Knows nothing of keys.
//
// YAML 1.1 and 1.2 read some words differently (010, 1_000, 12:30:45, yes, no): such words are refused, never guessed.
// 1e-6, which YAML 1.1 takes for a text since it has no point, is a number here.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "config/yaml_tree.h"

namespace qrl::config {

/// Why a value was refused: what was found and what to do.
struct Refusal {
  std::string got;
  std::string advice;
};

template <class T>
using Reading = std::variant<T, Refusal>;

/// A value as a message names it: quoted("fast"), "null", "a list", "a section".
std::string shown_value(const YamlNode& node);

/// Decimal integers of 64 bits; ranges are the caller's.
Reading<std::int64_t> read_integer(const YamlNode& node);
Reading<std::uint64_t> read_unsigned(const YamlNode& node);
/// Finite decimal numbers that fp64 holds without overflow or underflow to zero; −0 becomes 0.
Reading<double> read_real(const YamlNode& node);
/// true or false alone.
Reading<bool> read_boolean(const YamlNode& node);
/// A text of one byte or more without NUL; a bare word that some YAML version reads as something else is refused.
Reading<std::string> read_text(const YamlNode& node);

/// Canonical forms, which every YAML version reads alike: reals carry a point, texts stand in double quotes.
std::string write_real(double value);
std::string write_text(std::string_view text);

}  // namespace qrl::config
