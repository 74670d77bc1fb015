#pragma once

#include <cstdint>
#include <optional>

#include "learner/engine/forward_engine.h"
#include "learner/weights/trainable_weights.h"
#include "model/device_weights.h"
#include "model/snapshot.h"

namespace qrl::learner {

/// Writes masters into snapshots, and makes the engine read them. A snapshot holds the current masters from `publish`
/// until the masters change or the snapshot is rewritten.
class Publisher {
 public:
  Publisher(TrainableWeights& weights, ForwardEngine& engine) : weights_(weights), engine_(engine) {}

  void publish(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device);
  void masters_changed() { published_.reset(); }

  /// Implements Learner::published.
  const model::Snapshot* present() const;
  /// Returns the snapshot that a forward pass must read, or null if the engine does not read snapshots. Throws an
  /// internal error if no snapshot was made from the current masters.
  const model::Snapshot* for_forward_pass() const;

 private:
  /// Return whether the new weights are on the device but not in host memory.
  bool write_masters(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device);
  bool write_adapters(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device);
  void write_on_device(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights& device);

  struct Published {
    const model::Snapshot* snapshot;
    std::int64_t version;
  };
  TrainableWeights& weights_;
  ForwardEngine& engine_;
  std::optional<Published> published_;         // none if the masters changed since the last publish
  const model::Snapshot* has_base_ = nullptr;  // last snapshot that got the adapters' base
};

}  // namespace qrl::learner
