// Owns the list of modes: each paper's system as defaults, one embedded YAML file each in config/modes. A file has
// `what`, `paper`, `defaults` (key: value) and `with`: values that hold only while another key has the mode's value.
// docs/reference/algorithms.md gives sources; "ours" marks values that the paper lacks.
#pragma once

#include <span>

#include "base/embedded_file.h"
#include "config/option.h"

namespace qrl::config {

std::span<const base::EmbeddedFile> mode_files();  // written by src/embed.cmake

/// Returns the modes in the order of their names.
Choices<Option> modes();

}  // namespace qrl::config
