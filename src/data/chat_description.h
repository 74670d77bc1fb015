// Owns what `qrl-train check chat` says of a chat template. Knows nothing of data.
#pragma once

#include <string>

#include "data/tokenizer.h"

namespace qrl::data {

/// Describes the chat template in the tokenizer's folder, one property a line. Shows a sample prompt, with text from
/// data between « and », the end of a turn, and which parts of a conversation the template shows. Reports whether later
/// turns change what it wrote.
std::string describe_chat(const Tokenizer& tokenizer);

}  // namespace qrl::data
