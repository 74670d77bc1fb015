#include "decoder/sequence.h"

namespace qrl::decoder {

double sampling_uniform(const Sequence& sequence) {
  const Group& group = *sequence.group;
  const Request& request = group.request;
  const auto high = static_cast<std::uint32_t>(request.prompt_id >> 32);
  const auto low = static_cast<std::uint32_t>(request.prompt_id);
  const std::int64_t position = request.first_position + sequence.num_sampled();
  return group.field.uniform({static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(sequence.sample_idx),
                              low ^ (high * 0x9E3779B9U), request.key.step});
}

}  // namespace qrl::decoder
