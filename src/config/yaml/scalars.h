// Owns reading and writing a YAML value as number, flag or text. Refuses words that YAML 1.1 and 1.2 read differently
// (010, 1_000, 12:30:45, yes, no). 1e-6 is a number, although it is a text in YAML 1.1.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/yaml/yaml_tree.h"

namespace qrl::config {

/// States what was found instead of a valid value, and advice. The functions that read values throw it.
struct ParseError {
  std::string got;
  std::string advice = {};
};

/// Returns a value for messages: "fast" in quotes, "null", "a list" or "a section".
std::string shown_value(const YamlNode& node);

/// Reads a decimal 64-bit integer. The caller checks its range.
std::int64_t read_integer(const YamlNode& node);
std::uint64_t read_unsigned(const YamlNode& node);
/// Reads a finite decimal that neither overflows nor underflows to zero in fp64. −0 becomes 0.
double read_real(const YamlNode& node);
bool read_boolean(const YamlNode& node);
/// Reads a nonempty text without NUL. Refuses a bare word that some YAML version reads otherwise.
std::string read_text(const YamlNode& node);

/// Return canonical forms, the same in every YAML version: reals have a point, texts have double quotes.
std::string write_real(double value);
std::string write_text(std::string_view text);

}  // namespace qrl::config
