// Owns the CUDA graphs of ticks, bounded by the device memory that they take.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>

#include "cuda/engine/tick_memory.h"
#include "cuda/runtime/runtime.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

class GraphCache {
 public:
  /// limit_bytes bounds the device memory of all graphs together.
  explicit GraphCache(std::size_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// Notes that ticks of this shape occur. Returns whether one occurred before: a capture may neither load kernels nor
  /// plan cuBLASLt's GEMMs, so a shape's first tick must be launched kernel by kernel.
  bool was_seen(const TickShape& shape) { return !entries_.try_emplace(shape).second; }

  /// Launches the shape's graph for tick number `tick`. If there is none, first records it with `record`. Returns
  /// whether it recorded. A graph that would exceed the limit replaces the least launched graph, of several the one
  /// that was launched longest ago. Never drops a graph of tick number first_unfinished or later.
  bool launch(const TickShape& shape, std::int64_t tick, std::int64_t first_unfinished, const Stream& stream,
              const std::function<void()>& record);

  /// Drops all graphs, none of which may be running. Shapes count as not seen afterwards.
  void clear();

  std::int64_t num_graphs() const { return num_graphs_; }
  /// Returns the device memory of the graphs that exist now.
  std::size_t num_bytes() const { return num_bytes_; }

 private:
  struct Entry {
    Graph graph;  // empty: not recorded, or dropped
    std::int64_t num_launches = 0, last_tick = -1;
  };
  void make_room(std::int64_t first_unfinished);
  void drop(Entry& entry);

  std::size_t limit_bytes_, num_bytes_ = 0;
  std::int64_t num_graphs_ = 0;
  // Of all graphs ever recorded. A graph's own bytes are too coarse: the driver takes memory for several at a time.
  std::size_t measured_bytes_ = 0;
  std::int64_t num_measured_ = 0;
  std::map<TickShape, Entry> entries_;
};

}  // namespace qrl::cuda::QRL_CUDA_TARGET
