// Owns what `qrl-train check chat` says of a chat template. Knows nothing of data.
#pragma once

#include <string>

#include "data/tokenizer.h"

namespace qrl::data {

/// Lines about the template of the tokenizer's folder: what it makes of a prompt, with what came from data between «
/// and », where turns end, which parts of a conversation it shows, and whether later turns change what it wrote.
std::string describe_chat(const Tokenizer& tokenizer);

}  // namespace qrl::data
