#include "cuda/gemm/gemm_sweep.h"

#include <vector>

namespace qrl::cuda::QRL_CUDA_TARGET {

const GemmChoice& GemmSweep::choose(const GemmTask& task, const std::function<void(const GemmChoice&)>& make,
                                    const Stream& stream) {
  // Pads the rows as a recorded tick does, so that all sizes in a graph were measured before.
  const std::int64_t num_rows = padded_rows(task.num_rows);
  const auto [found, is_new] =
      picked_.try_emplace(Key{task.w.format, task.w.at.rows, task.w.at.width, task.w.at.has_whole_blocks, num_rows,
                              task.y_is_f32, task.adds_to_y});
  if (!is_new) return found->second;
  if (task.adds_to_y) {
    found->second = {GemmKernel::streamed, plan_stream(task.w.format, task.w.at, num_rows, limits_)};
    return found->second;
  }
  const std::vector<GemmChoice> choices =
      gemm_choices(task.w.format, task.w.at, num_rows, task.y_is_f32, rules_, limits_);
  found->second = choices.front();
  if (choices.size() == 1) return found->second;
  double best_s = 0;
  for (const GemmChoice& choice : choices) {
    const double taken_s = timer_([&] { make(choice); }, stream);
    if (&choice != &choices.front() && !(taken_s < best_s)) continue;
    best_s = taken_s;
    found->second = choice;
  }
  return found->second;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
