#include "learner/emulated_gpu.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "callers_memory.h"

namespace qrl::test {

namespace {

using torch::Tensor;
constexpr c10::DeviceType kEmulated = c10::DeviceType::PrivateUse1;

/// Holds counts, and copies to the host that have not arrived.
struct State {
  std::recursive_mutex mutex;
  GpuCounts counts;
  struct Copy {
    std::int64_t number;
    Tensor to, values;
  };
  std::vector<Copy> under_way;
  std::int64_t num_copies = 0;
  std::map<const std::byte*, std::size_t> pinned;
};
State& state() {
  static State& one = *new State;
  return one;
}

void count_launches(const std::string& name, std::int64_t launches = 1) {
  const std::lock_guard lock(state().mutex);
  state().counts.launches += launches;
  state().counts.by_name[name] += launches;
}

/// Completes copies up to this number.
void arrive(std::int64_t number) {
  std::erase_if(state().under_way, [&](const State::Copy& copy) {
    if (copy.number > number) return false;
    std::memcpy(copy.to.data_ptr(), copy.values.data_ptr(), copy.to.nbytes());
    return true;
  });
}
void count_wait(const std::string& why, std::int64_t up_to) {
  const std::lock_guard lock(state().mutex);
  ++state().counts.waits;
  ++state().counts.by_name["wait: " + why];
  arrive(up_to);
}
void count_wait(const std::string& why) { count_wait(why, state().num_copies); }

void* new_memory(std::size_t num_bytes) {
  void* memory = nullptr;
  if (posix_memalign(&memory, 256, std::max<std::size_t>(num_bytes, 1)) != 0) throw std::bad_alloc();
  std::memset(memory, 0xff, num_bytes);
  return memory;
}

class DeviceMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t num_bytes) override {
    void* memory = new_memory(num_bytes);
    return {memory, memory, &std::free, c10::Device(kEmulated, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void* to, const void* from, std::size_t num_bytes) const override { std::memcpy(to, from, num_bytes); }
};

class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t num_bytes) override {
    void* memory = new_memory(num_bytes);
    const std::lock_guard lock(state().mutex);
    state().pinned[static_cast<const std::byte*>(memory)] = num_bytes;
    return {memory, memory, &free_pinned, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* to, const void* from, std::size_t num_bytes) const override { std::memcpy(to, from, num_bytes); }
  static bool holds(const void* at) {
    const std::lock_guard lock(state().mutex);
    const auto* byte = static_cast<const std::byte*>(at);
    const auto behind = state().pinned.upper_bound(byte);
    if (behind == state().pinned.begin()) return false;
    const auto& [begin, count] = *std::prev(behind);
    return byte < begin + std::max<std::size_t>(count, 1);
  }

 private:
  static void free_pinned(void* memory) {
    const std::lock_guard lock(state().mutex);
    state().pinned.erase(static_cast<const std::byte*>(memory));
    std::free(memory);
  }
};

/// Implements one stream whose work completes when it is launched.
class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kEmulated; }
  c10::Device exchangeDevice(c10::Device) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, device()); }
  c10::Stream getDefaultStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, device()); }
  c10::Stream exchangeStream(c10::Stream) const override { return c10::Stream(c10::Stream::DEFAULT, device()); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    const std::lock_guard lock(state().mutex);
    if (*event == nullptr) *event = new std::int64_t;
    *static_cast<std::int64_t*>(*event) = state().num_copies;
  }
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<std::int64_t*>(event);
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) count_wait("event", *static_cast<std::int64_t*>(event));
  }
  void synchronizeStream(const c10::Stream&) const override { count_wait("stream"); }
  bool queryStream(const c10::Stream&) const override { return true; }

 private:
  static c10::Device device() { return {kEmulated, 0}; }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override {  // a seed for all devices sets its, too
    static const at::Generator generator = at::detail::createCPUGenerator();
    return generator;
  }
  at::Device getDeviceFromPtr(void*) const override { return {kEmulated, 0}; }
  bool isPinnedPtr(const void* at) const override { return PinnedMemory::holds(at); }
  c10::Allocator* getPinnedMemoryAllocator() const override {
    static PinnedMemory memory;
    return &memory;
  }
};

/// Returns the same memory as a tensor of the CPU.
Tensor on_cpu(const Tensor& x) {
  if (!x.defined() || x.is_cpu()) return x;
  return torch::from_blob(x.data_ptr(), x.sizes(), x.strides(), torch::TensorOptions().dtype(x.scalar_type()));
}

Tensor empty_on_device(at::IntArrayRef sizes, std::optional<at::ScalarType> type, std::optional<at::Layout>,
                       std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(sizes, c10::GetAllocator(kEmulated),
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   type.value_or(at::ScalarType::Float), format);
}
Tensor empty_strided_on_device(at::IntArrayRef sizes, at::IntArrayRef strides, std::optional<at::ScalarType> type,
                               std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(sizes, strides, c10::GetAllocator(kEmulated),
                                           c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           type.value_or(at::ScalarType::Float));
}
Tensor moved_to_device(const Tensor& x) {
  const Tensor there = torch::empty_strided(x.sizes(), x.strides(), x.options().device(emulated_gpu()));
  on_cpu(there).copy_(x);
  return there;
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  if (!from.is_cpu() && !to.is_cpu()) {
    count_launches("copy on the device");
    on_cpu(to).copy_(on_cpu(from));
    return to;
  }
  const Tensor& host = from.is_cpu() ? from : to;
  const bool beside = non_blocking && PinnedMemory::holds(host.data_ptr());
  count_launches(from.is_cpu() ? "copy to the device" : "copy to the host");
  if (from.is_cpu() || !beside) on_cpu(to).copy_(on_cpu(from));
  if (!beside) {
    count_wait(non_blocking ? "copy of pageable memory" : "blocking copy");
    return to;
  }
  if (from.is_cpu()) return to;
  const std::lock_guard lock(state().mutex);
  std::memset(to.data_ptr(), 0xff, to.nbytes());
  state().under_way.push_back({++state().num_copies, to, on_cpu(from).clone()});
  return to;
}

at::Scalar local_scalar(const Tensor& x) {
  count_wait("item");
  return at::_local_scalar_dense(on_cpu(x));
}

/// Multiplies with fp32 sums and an fp32 result, which the CPU lacks for bf16.
Tensor mm_f32(const Tensor& x, const Tensor& y, at::ScalarType) {
  count_launches("mm");
  return moved_to_device(torch::mm(on_cpu(x).to(torch::kFloat32), on_cpu(y).to(torch::kFloat32)));
}
Tensor& addmm_f32_out(const Tensor& sum, const Tensor& x, const Tensor& y, at::ScalarType, const at::Scalar& beta,
                      const at::Scalar& alpha, Tensor& out) {
  count_launches("addmm");
  on_cpu(out).copy_(
      torch::addmm(on_cpu(sum), on_cpu(x).to(torch::kFloat32), on_cpu(y).to(torch::kFloat32), beta, alpha));
  return out;
}

/// Returns the launches of CUDA's form of an operation; an unlisted operation takes one.
std::int64_t launches_of(const std::string& name) {
  static const std::map<std::string, std::int64_t> many = {
      // Deterministic: several kernels sort the keys, then indices are made and rows added.
      {"aten::index_add.out", 9}, {"aten::index_add_", 9},       {"aten::index_copy.out", 9}, {"aten::index_copy_", 9},
      {"aten::index_put_", 9},    {"aten::_index_put_impl_", 9}, {"aten::_fused_adamw_", 1},  {"aten::cat.out", 1}};
  const auto found = many.find(name);
  return found != many.end() ? found->second : 1;
}

/// Runs any other operation on the CPU, in the same memory.
void compute_on_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string name = schema.operator_name().overload_name.empty()
                               ? schema.name()
                               : schema.name() + "." + schema.operator_name().overload_name;
  count_launches(name, launches_of(name));
  const std::size_t num_arguments = schema.arguments().size(), first = stack->size() - num_arguments;
  std::vector<c10::IValue> given(stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  for (std::size_t i = first; i < stack->size(); ++i) {
    c10::IValue& value = (*stack)[i];
    if (value.isTensor()) {
      value = on_cpu(value.toTensor());
    } else if (value.isTensorList()) {
      std::vector<Tensor> all;
      for (const Tensor& one : value.toTensorVector()) all.push_back(on_cpu(one));
      value = all;
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<Tensor>> all;
      for (const std::optional<Tensor>& one : value.toOptionalTensorList())
        all.push_back(one ? std::optional(on_cpu(*one)) : std::nullopt);
      value = all;
    } else if (value.isDevice()) {
      value = c10::Device(c10::DeviceType::CPU);
    }
  }
  op.callBoxed(stack);
  const std::size_t num_results = schema.returns().size(), first_result = stack->size() - num_results;
  for (std::size_t i = 0; i < num_results; ++i) {
    c10::IValue& value = (*stack)[first_result + i];
    if (!value.isTensor()) continue;
    const c10::AliasInfo* alias = schema.returns()[i].alias_info();
    bool is_given = false;
    for (std::size_t a = 0; alias != nullptr && a < num_arguments && !is_given; ++a) {
      const c10::AliasInfo* of = schema.arguments()[a].alias_info();
      is_given = of != nullptr && *of == *alias && given[a].isTensor();
      if (is_given) value = given[a];
    }
    if (!is_given && value.toTensor().defined()) value = moved_to_device(value.toTensor());
  }
}

/// Returns one sequence's heads as fp32 [heads, rows, E], with kv heads repeated.
Tensor heads_of(const Tensor& x, std::int64_t begin, std::int64_t end, std::int64_t group) {
  return x.narrow(0, begin, end - begin).to(torch::kFloat32).transpose(0, 1).repeat_interleave(group, 0);
}
Tensor weights_of(const Tensor& q, const Tensor& k, double scale) {
  const Tensor later = torch::ones({q.size(1), k.size(1)}, torch::kBool).triu(k.size(1) - q.size(1) + 1);
  return (q.matmul(k.transpose(1, 2)) * scale).masked_fill(later, -INFINITY).softmax(-1);
}
template <class Body>
void each_sequence(const Tensor& starts, const Tensor& key_starts, const Body& body) {
  const auto* at = on_cpu(starts).data_ptr<std::int32_t>();
  const auto* key_at = on_cpu(key_starts).data_ptr<std::int32_t>();
  for (std::int64_t s = 0; s + 1 < starts.size(0); ++s) body(at[s], at[s + 1], key_at[s], key_at[s + 1]);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> flash_forward(
    const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& starts,
    const std::optional<Tensor>& key_starts, std::int64_t, std::int64_t, double, bool, bool,
    std::optional<double> scale, std::optional<std::int64_t>, std::optional<std::int64_t>, const std::optional<Tensor>&,
    const std::optional<Tensor>&) {
  count_launches("FlashAttention, forward");
  const Tensor out = torch::empty_like(on_cpu(q));
  const std::int64_t group = q.size(1) / k.size(1);
  each_sequence(*starts, *key_starts, [&](auto begin, auto end, auto key_begin, auto key_end) {
    const Tensor weights =
        weights_of(heads_of(on_cpu(q), begin, end, 1), heads_of(on_cpu(k), key_begin, key_end, group), *scale);
    out.narrow(0, begin, end - begin)
        .copy_(weights.matmul(heads_of(on_cpu(v), key_begin, key_end, group)).transpose(0, 1));
  });
  const auto none = [&] { return torch::empty({0}, torch::TensorOptions().device(emulated_gpu())); };
  return {moved_to_device(out), none(), none(), none(), none()};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(const Tensor& d_out, const Tensor& q, const Tensor& k,
                                                  const Tensor& v, const Tensor& out, const Tensor&,
                                                  const Tensor& starts, const Tensor& key_starts, std::int64_t,
                                                  std::int64_t, double, bool, const Tensor&, const Tensor&,
                                                  std::optional<double> scale, std::optional<std::int64_t>,
                                                  std::optional<std::int64_t>) {
  const std::int64_t group = q.size(1) / k.size(1), head_dim = q.size(2);
  // Σ dO · O, the main loop, dQ to bf16, its fp32 sums cleared. If heads share keys, dK and dV are summed over them.
  count_launches("FlashAttention, backward", 4 + (group > 1 ? 2 : 0));
  const auto zeros = [](const Tensor& like) { return torch::zeros(like.sizes(), torch::kFloat32); };
  const Tensor d_q = zeros(q), d_k = zeros(k), d_v = zeros(v);
  each_sequence(starts, key_starts, [&](auto begin, auto end, auto key_begin, auto key_end) {
    const Tensor q_h = heads_of(on_cpu(q), begin, end, 1), k_h = heads_of(on_cpu(k), key_begin, key_end, group),
                 v_h = heads_of(on_cpu(v), key_begin, key_end, group), d_h = heads_of(on_cpu(d_out), begin, end, 1);
    const Tensor weights = weights_of(q_h, k_h, *scale), d_weights = d_h.matmul(v_h.transpose(1, 2));
    const Tensor along = (d_h * heads_of(on_cpu(out), begin, end, 1)).sum(-1, true);
    const Tensor d_scores = weights * (d_weights - along) * *scale;
    const auto add_to_keys = [&](const Tensor& to, const Tensor& d_heads) {  // over the heads of a group
      const std::int64_t count = key_end - key_begin;
      to.narrow(0, key_begin, count).add_(d_heads.view({-1, group, count, head_dim}).sum(1).transpose(0, 1));
    };
    d_q.narrow(0, begin, end - begin).add_(d_scores.matmul(k_h).transpose(0, 1));
    add_to_keys(d_k, d_scores.transpose(1, 2).matmul(q_h));
    add_to_keys(d_v, weights.transpose(1, 2).matmul(d_h));
  });
  const auto result = [&](const Tensor& d) { return moved_to_device(d.to(q.scalar_type())); };
  return {result(d_q), result(d_k), result(d_v)};
}

void register_device() {
  static DeviceMemory memory;
  static Hooks hooks;
  c10::SetAllocator(kEmulated, &memory);
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::register_privateuse1_backend("emulated_gpu");
  static torch::Library all(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  all.fallback(torch::CppFunction::makeFromBoxedFunction<&compute_on_cpu>());
  static torch::Library own(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  own.impl("empty.memory_format", TORCH_FN(empty_on_device));
  own.impl("empty_strided", TORCH_FN(empty_strided_on_device));
  own.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  own.impl("view", TORCH_FN(at::native::view));
  own.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  own.impl("_copy_from", TORCH_FN(copy_from));
  own.impl("_local_scalar_dense", TORCH_FN(local_scalar));
  own.impl("mm.dtype", TORCH_FN(mm_f32));
  own.impl("addmm.dtype_out", TORCH_FN(addmm_f32_out));
  own.impl("_flash_attention_forward", TORCH_FN(flash_forward));
  own.impl("_flash_attention_backward", TORCH_FN(flash_backward));
  cuda::emulated::on_launch([](const char* what) { count_launches(what); });
}

// Registered before LibTorch's engine assigns devices to threads, which it does once, in the first backward pass.
const c10::impl::DeviceGuardImplRegistrar registrar(kEmulated, new Guard);

}  // namespace

torch::Device emulated_gpu() {
  static const bool registered = (register_device(), true);
  (void)registered;
  return {kEmulated, 0};
}

GpuCounts take_counts() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().counts, {});
}

}  // namespace qrl::test
