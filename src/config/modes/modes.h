// Owns the list of modes. A mode has a paper's settings as defaults, in an embedded YAML file of config/modes. The file
// has `what`, `paper`, `defaults` (key: value) and `with`. `with` maps another key to defaults that apply only while
// that key has the mode's value. docs/reference/algorithms.md gives sources; "ours" marks values that the paper lacks.
#pragma once

#include <span>

#include "base/embedded_file.h"
#include "config/option.h"

namespace qrl::config {

std::span<const base::EmbeddedFile> mode_files();  // written by src/embed.cmake

/// Returns the modes in the order of their names.
Choices<Option> modes();

}  // namespace qrl::config
