#include "tasks/split.h"

#include <array>
#include <vector>

#include "base/rng.h"

namespace qrl::tasks {

Split split_of(std::span<const std::int64_t> values) {
  std::array<std::uint32_t, 2> state{};
  for (const std::int64_t value : values) {
    const auto bits = static_cast<std::uint64_t>(value);
    const auto words =
        base::philox({static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32), state[0], state[1]},
                     {0x636f756e, 0x74646f77});  // "countdow": must never change, or tasks would change their split
    state = {words[0], words[1]};
  }
  return state[0] % 4 == 0 ? Split::held_out : Split::train;
}

Split split_of(std::string_view text) {
  const std::vector<std::int64_t> bytes(text.begin(), text.end());
  return split_of(std::span(bytes));
}

}  // namespace qrl::tasks
