// Declares the keys that fill the decoder's options.
#pragma once

#include "config/keys/sections.h"
#include "decoder/options.h"

namespace qrl::decoder {

void add_keys(config::Section<DecoderOptions> rollout);

}  // namespace qrl::decoder
