#include "learner/engine/publisher.h"

#include "base/error.h"

namespace qrl::learner {

void Publisher::publish(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device) {
  const bool is_on_device =
      weights_.lora().enabled() ? write_adapters(snapshot, version, device) : write_masters(snapshot, version, device);
  engine_.read(weights_.parameters(), snapshot, device, is_on_device);
  published_ = Published{&snapshot, version};
}

bool Publisher::write_masters(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device) {
  const Parameters& parameters = weights_.parameters();
  bool stays_there = device != nullptr && device->holds(snapshot) && parameters.options().torch_ops;
  if (weights_.is_sharded()) stays_there = !weights_.world().any(!stays_there);  // the same on all ranks
  if (stays_there) write_on_device(snapshot, version, *device);
  else if (weights_.is_sharded() || parameters.options().torch_ops) snapshot.publish(weights_.all_masters(), version);
  else snapshot.publish(parameters.named().masters(), version);
  return stays_there;
}

bool Publisher::write_adapters(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights* device) {
  const Parameters& parameters = weights_.parameters();
  const bool stays_there = snapshot.lora().enabled() && has_base_ == &snapshot && parameters.options().torch_ops &&
                           device != nullptr && device->holds(snapshot);
  if (stays_there) {
    write_on_device(snapshot, version, *device);
  } else if (!snapshot.lora().enabled()) {
    QRL_INVARIANT(!engine_.reads_snapshot(), "publish", "a snapshot with adapters", "a snapshot without adapters");
    snapshot.publish(weights_.all_masters(), version);
  } else {
    if (has_base_ != &snapshot) snapshot.publish(weights_.base(), version);
    has_base_ = &snapshot;
    if (parameters.options().torch_ops) {  // masters may be in device memory
      snapshot.publish_adapters(
          model::views(model::read_adapters(weights_.config(), weights_.lora(), weights_.trained_masters())), version);
    } else {
      snapshot.publish_adapters(parameters.named().masters(), version);
    }
  }
  return stays_there;
}

void Publisher::write_on_device(model::Snapshot& snapshot, std::int64_t version, model::DeviceWeights& device) {
  model::Snapshot::DeviceWriter writer(snapshot, device, version);
  weights_.parameters().visit_masters(weights_.ranks(), [&](const model::WeightViews& some) { writer.write(some); });
  writer.finish();
}

const model::Snapshot* Publisher::present() const {
  return published_ && published_->snapshot->version() == published_->version ? published_->snapshot : nullptr;
}

const model::Snapshot* Publisher::for_forward_pass() const {
  if (!engine_.reads_snapshot()) return nullptr;
  const model::Snapshot* snapshot = present();
  QRL_INVARIANT(snapshot != nullptr, "learner", "a published snapshot of the current weights",
                "a snapshot of other weights, or no snapshot", "publish after each update");
  return snapshot;
}

}  // namespace qrl::learner
