#pragma once

#include <string>

#include "data/tokenizer.h"

namespace qrl::data {

/// Describes the chat template in the tokenizer's folder, one property per line, for `qrl-train check chat`. Shows a
/// sample prompt with data between « and », the end of a turn, and which parts of a conversation the template shows.
/// Reports whether later turns change earlier output.
std::string describe_chat(const Tokenizer& tokenizer);

}  // namespace qrl::data
