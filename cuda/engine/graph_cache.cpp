#include "cuda/engine/graph_cache.h"

#include <tuple>

namespace qrl::cuda::QRL_CUDA_TARGET {

bool GraphCache::launch(const TickShape& shape, std::int64_t tick, std::int64_t first_unfinished, const Stream& stream,
                        const std::function<void()>& record) {
  Entry& entry = entries_[shape];
  const bool records = entry.graph.empty();
  if (records) {
    make_room(first_unfinished);
    entry.graph = Graph(stream, record);
    ++num_graphs_;
    num_bytes_ += entry.graph.num_bytes();
    measured_bytes_ += entry.graph.num_bytes();
    ++num_measured_;
  }
  entry.graph.launch(stream);
  ++entry.num_launches;
  entry.last_tick = tick;
  return records;
}

/// Drops graphs until one more of the measured mean size fits.
void GraphCache::make_room(std::int64_t first_unfinished) {
  const std::size_t mean_bytes = num_measured_ == 0 ? 0 : measured_bytes_ / static_cast<std::size_t>(num_measured_);
  while (num_bytes_ + mean_bytes > limit_bytes_) {
    Entry* least = nullptr;
    for (auto& [shape, entry] : entries_) {
      if (entry.graph.empty() || entry.last_tick >= first_unfinished) continue;
      if (least == nullptr ||
          std::tie(entry.num_launches, entry.last_tick) < std::tie(least->num_launches, least->last_tick))
        least = &entry;
    }
    if (least == nullptr) return;  // all that are left are running
    drop(*least);
    // Lets graphs of an earlier phase leave: launches count half as much after each drop.
    for (auto& [shape, entry] : entries_) entry.num_launches /= 2;
  }
}

void GraphCache::drop(Entry& entry) {
  num_bytes_ -= entry.graph.num_bytes();
  entry.graph = Graph();
  --num_graphs_;
}

void GraphCache::clear() {
  entries_.clear();
  num_bytes_ = 0;
  num_graphs_ = 0;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
