#include "config/modes/modes.h"

namespace qrl::config {

extern const Choice bf16_mode, flashrl_mode, fp8rl_mode, qurl_mode, qarl_mode, ais_mode, qerl_mode;

Choices modes() {
  return {{&bf16_mode, &flashrl_mode, &fp8rl_mode, &qurl_mode, &qarl_mode, &ais_mode, &qerl_mode}, ""};
}

}  // namespace qrl::config
