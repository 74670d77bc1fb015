#include "cuda/engine/kv_memory.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

using quant::KvFormat;

PageMemory::PageMemory(KvFormat format, const KvLayout& at, std::int64_t num_pages, std::int64_t num_layers)
    : layer_slots(at.slots(num_pages)) {
  const auto slots = static_cast<std::size_t>(num_layers * layer_slots);
  keys = Memory::zeroed(slots * static_cast<std::size_t>(at.slot_bytes()));
  values = Memory::zeroed(slots * static_cast<std::size_t>(at.slot_bytes()));
  if (format != KvFormat::int8) return;
  key_slot_scales = Memory::zeroed(slots * sizeof(float));
  value_slot_scales = Memory::zeroed(slots * sizeof(float));
}

std::size_t PageMemory::page_bytes(KvFormat format, const KvLayout& at) {
  const std::size_t slot_bytes =
      static_cast<std::size_t>(at.slot_bytes()) + (format == KvFormat::int8 ? sizeof(float) : 0);
  return 2 * static_cast<std::size_t>(at.slots(1)) * slot_bytes;
}

std::size_t PageMemory::rounding_bytes(KvFormat format) {
  constexpr std::size_t kGranule = std::size_t{2} << 20;
  return (format == KvFormat::int8 ? 4 : 2) * kGranule;
}

KvMemory::KvMemory(const EngineOptions& options, const DeviceFacts& device)
    : options_(options),
      total_bytes_(device.total_bytes),
      kept_back_bytes_(device.kept_back_bytes + (options.graphs ? options.graph_bytes : 0)),
      device_name_(device.name) {}

void KvMemory::set_scales(std::span<const float> keys_LK, std::span<const float> values_LK, const Stream& stream) {
  const auto wanted = static_cast<std::size_t>(options_.model.num_hidden_layers * options_.model.num_key_value_heads);
  QRL_INVARIANT(options_.kv_format == KvFormat::fp8_e4m3 && keys_LK.size() == wanted && values_LK.size() == wanted,
                "KV scales", std::to_string(wanted) + " for fp8_e4m3 pages", std::to_string(keys_LK.size()));
  if (head_scales_.empty()) head_scales_ = Memory(2 * wanted * sizeof(float));
  copy_to_device(head_scales_.data(), keys_LK.data(), wanted * sizeof(float), stream);
  copy_to_device(head_scales_.as<float>() + wanted, values_LK.data(), wanted * sizeof(float), stream);
  stream.wait();
}

std::int64_t KvMemory::affordable_pages(std::size_t page_bytes) const {
  std::size_t available = free_bytes();
  if (options_.memory_utilization > 0) {
    const auto kept_free =
        static_cast<std::size_t>((1 - options_.memory_utilization) * static_cast<double>(total_bytes_));
    available -= std::min(available, kept_free);
    available -= std::min(available, kept_back_bytes_);
  }
  available -= std::min(available, PageMemory::rounding_bytes(options_.kv_format));
  return std::min(options_.num_pages, static_cast<std::int64_t>(available / page_bytes));
}

std::int64_t KvMemory::allocate() {
  if (has_pages()) return num_pages_;
  const KvLayout at = layout(options_.kv_format);
  const std::size_t page_bytes =
      static_cast<std::size_t>(options_.model.num_hidden_layers) * PageMemory::page_bytes(options_.kv_format, at);
  const std::int64_t num_pages = affordable_pages(page_bytes);
  const bool may_be_fewer = options_.memory_utilization > 0;
  const std::int64_t fewest = may_be_fewer ? ceil_div(options_.max_positions, options_.page_size) : options_.num_pages;
  const char* const key = may_be_fewer ? "rollout.gpu_memory_utilization" : "rollout.kv_pages";
  QRL_REQUIRE(
      num_pages >= fewest, key,
      "memory for " + std::to_string(fewest) + " KV pages, " + mib_text(static_cast<std::size_t>(fewest) * page_bytes),
      "room for " + std::to_string(num_pages) + " in the " + mib_text(free_bytes()) + " that " + device_name_ +
          " has left",
      may_be_fewer ? "raise it, lower data.max_response_length, or stop other programs that use the device"
                   : "lower rollout.kv_pages or rollout.max_num_seqs");
  const MemoryUse use{key, "KV pages", may_be_fewer ? "lower it" : "lower rollout.kv_pages or rollout.max_num_seqs"};
  layers_ =
      with_memory(use, [&] { return PageMemory(options_.kv_format, at, num_pages, options_.model.num_hidden_layers); });
  num_pages_ = num_pages;
  return num_pages_;
}

KvPages KvMemory::view(const PageMemory& memory, std::size_t index_in_memory, std::size_t layer_idx) const {
  const model::ModelConfig& config = options_.model;
  const KvLayout at = layout(options_.kv_format);
  const std::int64_t first = static_cast<std::int64_t>(index_in_memory) * memory.layer_slots;
  KvPages pages{options_.kv_format,
                at,
                config.head_dim,
                memory.keys.as<std::uint8_t>() + at.byte_at(first),
                memory.values.as<std::uint8_t>() + at.byte_at(first),
                nullptr,
                nullptr,
                nullptr,
                nullptr};
  if (options_.kv_format == KvFormat::int8) {
    pages.key_slot_scales = memory.key_slot_scales.as<float>() + first;
    pages.value_slot_scales = memory.value_slot_scales.as<float>() + first;
  }
  if (options_.kv_format == KvFormat::fp8_e4m3) {
    pages.key_head_scales_K =
        head_scales_.as<float>() + static_cast<std::int64_t>(layer_idx) * config.num_key_value_heads;
    pages.value_head_scales_K = pages.key_head_scales_K + config.num_hidden_layers * config.num_key_value_heads;
  }
  return pages;
}

KvPages KvMemory::shared_pages(std::int64_t num_pages, std::size_t layer_idx) {
  if (num_shared_pages_ < num_pages) {
    shared_ = PageMemory();  // frees the old memory before allocating
    num_shared_pages_ = 0;
    shared_ = PageMemory(options_.kv_format, layout(options_.kv_format), num_pages, 1);
    num_shared_pages_ = num_pages;
  }
  return view(shared_, 0, layer_idx);
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
