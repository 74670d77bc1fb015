#include "rollout/teaching.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace qrl::rollout {

std::vector<Rollout*> choose_teaching(std::span<Rollout> group) {
  std::vector<Rollout*> judged;
  for (Rollout& rollout : group) {
    rollout.teaches = false;
    rollout.advantage = 0;
    if (!rollout.verdict.dropped) judged.push_back(&rollout);
  }
  if (judged.size() < 2 && group.size() > 1) return {};
  for (Rollout* rollout : judged) rollout->teaches = true;
  return judged;
}

Spread spread_of_all(std::span<const double> mine, dist::Collectives& world) {
  std::vector<double> all;
  for (const std::string& bytes :
       world.all_gather(std::string(reinterpret_cast<const char*>(mine.data()), mine.size_bytes()))) {
    const std::size_t before = all.size();
    all.resize(before + bytes.size() / sizeof(double));
    if (!bytes.empty()) std::memcpy(all.data() + before, bytes.data(), bytes.size());
  }
  Spread spread{static_cast<std::int64_t>(all.size()), 0, 0};
  if (all.empty()) return spread;
  std::sort(all.begin(), all.end());
  double squares = 0;
  for (const double value : all) spread.mean += value;
  spread.mean /= static_cast<double>(all.size());
  for (const double value : all) squares += (value - spread.mean) * (value - spread.mean);
  if (all.size() > 1) spread.std = std::sqrt(squares / static_cast<double>(all.size() - 1));
  return spread;
}

}  // namespace qrl::rollout
