#pragma once

#include <span>

#include "base/embedded_file.h"

namespace qrl::compare {

/// Returns one embedded file, docs/reference/metrics.md, whose tables list every metric.
std::span<const base::EmbeddedFile> metric_page();

}  // namespace qrl::compare
