// Owns the pages of docs/reference that are written from the list of keys.
#pragma once

#include <string>

#include "train/recipe/catalog.h"

namespace qrl::test {

/// Returns docs/reference/recipe-keys.md.
std::string keys_markdown(const train::Keys& keys);
/// Returns docs/reference/other-trainers.md.
std::string other_trainers_markdown(const train::Keys& keys);

}  // namespace qrl::test
