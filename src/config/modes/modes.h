// Owns the list of modes. A mode gives keys the settings of a paper as defaults. An embedded YAML file of config/modes
// describes it with `what`, `paper`, `defaults` (key: value) and `with`. `with` maps another key to defaults that apply
// only while that key has the mode's value.
#pragma once

#include <span>

#include "base/embedded_file.h"
#include "config/option.h"

namespace qrl::config {

std::span<const base::EmbeddedFile> mode_files();  // written by src/embed.cmake

Choices<Option> modes();

}  // namespace qrl::config
