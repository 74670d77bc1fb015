// Owns the YAML files of config that the build embeds: modes, and other trainers' names.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/embedded_file.h"
#include "config/yaml/yaml_tree.h"

namespace qrl::config {

/// Return the files (src/embed.cmake writes both functions).
std::span<const base::EmbeddedFile> mode_files();
std::span<const base::EmbeddedFile> table_files();

/// Parses an embedded file. Throws an input error with its faults.
YamlPtr embedded_yaml(const base::EmbeddedFile& file);

/// Return a text that lives as long as the program: of a scalar, or of a list in brackets; "" for null.
std::string_view kept_text(std::string text);
std::string_view kept_text(const YamlNode& node);

}  // namespace qrl::config
