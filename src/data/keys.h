// Declares the keys that fill the options of rows and chat templates.
#pragma once

#include "config/keys/sections.h"
#include "data/bridge.h"
#include "data/chat_template.h"
#include "data/row.h"

namespace qrl::data {

void add_field_keys(config::Section<FieldNames> data);
void add_template_keys(config::Section<TemplateOptions> data);
/// Adds the keys of an observation's length.
void add_observation_keys(config::Section<ObservationLimit> environment);

}  // namespace qrl::data
