#include "learner/tensors/host_copies.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>

namespace qrl::learner {

namespace {

c10::Stream stream_of(const torch::Device& device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// Returns options for host memory, pinned for a GPU. LibTorch reuses pinned memory only after copies from it have
/// ended.
torch::TensorOptions pinned_for(const torch::Device& device) {
  return torch::TensorOptions().pinned_memory(!device.is_cpu());
}

std::int64_t bytes_of(const HostArray& array) {
  std::int64_t count = static_cast<std::int64_t>(c10::elementSize(array.type));
  for (const std::int64_t size : array.sizes) count *= size;
  return count;
}

}  // namespace

TensorList send(const std::vector<HostArray>& arrays, const torch::Device& device) {
  constexpr std::int64_t kAlignment = 256;
  std::vector<std::int64_t> begins;
  std::int64_t end = 0;
  for (const HostArray& array : arrays) {
    begins.push_back(end);
    end += (bytes_of(array) + kAlignment - 1) / kAlignment * kAlignment;
  }
  const Tensor host = torch::empty({end}, pinned_for(device).dtype(torch::kUInt8));
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::int64_t count = bytes_of(arrays[i]);
    if (count > 0)
      std::memcpy(host.data_ptr<std::uint8_t>() + begins[i], arrays[i].values, static_cast<std::size_t>(count));
  }
  Tensor there = host;
  if (!device.is_cpu()) {
    there = torch::empty({end}, torch::TensorOptions().dtype(torch::kUInt8).device(device));
    there.copy_(host, /*non_blocking=*/true);
  }
  TensorList sent;
  for (std::size_t i = 0; i < arrays.size(); ++i)
    sent.push_back(there.narrow(0, begins[i], bytes_of(arrays[i])).view(arrays[i].type).view(arrays[i].sizes));
  return sent;
}

Arrival::Arrival(const Tensor& from) {
  const torch::Device device = from.device();
  values_ = torch::empty(from.sizes(), pinned_for(device).dtype(from.scalar_type()));
  values_.copy_(from.detach(), /*non_blocking=*/true);
  if (device.is_cpu()) return;
  done_.emplace(device.type());
  done_->record(stream_of(device));
}

void Arrival::wait() const {
  if (done_) done_->synchronize();
}

void wait_for(const torch::Device& device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).synchronizeStream(stream_of(device));
}

}  // namespace qrl::learner
