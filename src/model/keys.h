// Declares the keys that fill the model's options.
#pragma once

#include "config/keys/sections.h"
#include "model/adapter.h"

namespace qrl::model {

/// Adds lora.rank, and the keys that have an effect only with it.
void add_adapter_keys(config::Section<LoraConfig> lora);

}  // namespace qrl::model
