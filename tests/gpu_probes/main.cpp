// Small programs that decide which kernels are built next. Each runs GEMMs on a GPU and compares numbers of their
// results with the CPU's fp64.
//
//   gpu_probes rows|tiles|guesses|mixed [--list]
//
// rows: whether a row's bits depend on the rows beside it, on its place, or on their number. tiles, mixed: times of a
// layer of 8B, each call from memory, not from cache. guesses: times of cuBLASLt's algorithms. --list prints the
// kernels without a GPU. Prints one JSON object a kernel. Exit code 1: a result is wrong; 2: bad arguments.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "cuda/runtime/portable.h"
#include "tests/gpu_probes/guesses.h"
#include "tests/gpu_probes/probes.h"

namespace {

using namespace qrl;
using namespace qrl::probes;
using quant::Element;
using Json = nlohmann::ordered_json;

struct LayerShape {
  std::int64_t outputs, inputs;
};
constexpr LayerShape kLayer[] = {{6144, 4096}, {4096, 4096}, {24576, 4096}, {4096, 12288}};  // of 8B
constexpr float kAlpha = 0x1p-7F;

void check(cudaError_t result, const char* what) {
  QRL_INVARIANT(result == cudaSuccess, what, "success", cudaGetErrorString(result));
}

struct Free {
  void operator()(void* at) const { (void)cudaFree(at); }
};
using OnDevice = std::unique_ptr<void, Free>;
OnDevice device_bytes(std::size_t count) {
  void* at = nullptr;
  check(cudaMalloc(&at, count), "cudaMalloc");
  return OnDevice(at);
}

std::int64_t bits_of(Element element) { return element == Element::bf16 ? 16 : element == Element::int4 ? 4 : 8; }

/// Holds random numbers of an element: their bytes, and a reader of each.
struct Numbers {
  Numbers(Element element_, std::int64_t count, std::uint64_t seed) : element(element_) {
    base::RandomStream random(seed, base::RandomPurpose::test, 0);
    bytes.resize(static_cast<std::size_t>(count * bits_of(element) / 8));
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = random.normal();
      const auto at = static_cast<std::size_t>(i);
      if (element == Element::bf16) {
        const std::uint16_t bits = cuda::bf16_of(value);
        std::memcpy(bytes.data() + 2 * at, &bits, 2);
      } else if (element == Element::fp8_e4m3) {
        bytes[at] = cuda::fp8_of(value);
      } else {
        const int most = element == Element::int4 ? 7 : 127;
        const int rounded =
            std::clamp(static_cast<int>(std::lround(value * static_cast<float>(most) / 3)), -most, most);
        if (element == Element::int8) bytes[at] = static_cast<std::uint8_t>(rounded);
        else bytes[at / 2] = static_cast<std::uint8_t>(bytes[at / 2] | (rounded & 15) << (i % 2 * 4));
      }
    }
  }
  double at(std::int64_t i) const {
    const auto place = static_cast<std::size_t>(i);
    if (element == Element::bf16) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * place, 2);
      return static_cast<double>(cuda::float_of_bf16(bits));
    }
    if (element == Element::fp8_e4m3) return static_cast<double>(cuda::float_of_fp8(bytes[place]));
    if (element == Element::int8) return static_cast<std::int8_t>(bytes[place]);
    return (((bytes[place / 2] >> (i % 2 * 4)) & 15) ^ 8) - 8;
  }
  OnDevice upload() const {
    OnDevice there = device_bytes(bytes.size());
    check(cudaMemcpy(there.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
    return there;
  }
  Element element;
  std::vector<std::uint8_t> bytes;
};

/// Holds a GEMM's operands on host and device.
struct Operands {
  Operands(const ProbeKernel& kernel, const LayerShape& shape, std::int64_t most_rows)
      : outputs(shape.outputs),
        inputs(shape.inputs),
        num_rows(most_rows),
        weights(kernel.weights, outputs * inputs, 1),
        rows(kernel.rows, most_rows * inputs, 2),
        scales(Element::bf16, outputs * (inputs / kProbeGroup), 3),
        has_scales(kernel.has_scales),
        weights_there(weights.upload()),
        rows_there(rows.upload()),
        scales_there(scales.upload()),
        y(device_bytes(static_cast<std::size_t>(outputs * most_rows * 2))) {}
  ProbeGemm task(std::int64_t count) const {
    return {count,  outputs, inputs, weights_there.get(), has_scales ? scales_there.get() : nullptr, rows_there.get(),
            kAlpha, y.get()};
  }
  std::vector<std::uint16_t> results(std::int64_t count) const {
    std::vector<std::uint16_t> values(static_cast<std::size_t>(outputs * count));
    check(cudaMemcpy(values.data(), y.get(), values.size() * 2, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }
  /// Returns the largest error among some results, in times of the sum of all products' sizes.
  double error_of(const std::vector<std::uint16_t>& values, std::int64_t count) const {
    double worst = 0;
    for (std::int64_t i = 0; i < 64; ++i) {
      const std::int64_t row = i * 37 % count, output = i * 1009 % outputs;
      double sum = 0, size = 0;
      for (std::int64_t k = 0; k < inputs; ++k) {
        const double scale = has_scales ? scales.at(k / kProbeGroup * outputs + output) : 1;
        const double product = weights.at(output * inputs + k) * scale * rows.at(row * inputs + k);
        sum += product;
        size += std::fabs(product);
      }
      const double got =
          static_cast<double>(cuda::float_of_bf16(values[static_cast<std::size_t>(row * outputs + output)]));
      const double error = std::fabs(got - kAlpha * sum) / (kAlpha * size);
      worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
    }
    return worst;
  }
  std::int64_t outputs, inputs, num_rows;
  Numbers weights, rows, scales;
  bool has_scales;
  OnDevice weights_there, rows_there, scales_there, y;
};

/// Bounds an error relative to the sum of all products' sizes: roundings of the result and of fp8's narrow sums.
constexpr double kMostError = 0x1p-8;

constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
void* workspace() {
  static const OnDevice memory = device_bytes(kWorkspaceBytes);
  return memory.get();
}

bool run(const ProbeKernel& kernel, const ProbeGemm& task) {
  return kernel.run(task, workspace(), kWorkspaceBytes, nullptr);
}

/// Fills all rows but one with NaN, for integers with −1.
void spoil_others(const ProbeKernel& kernel, const Operands& operands, std::int64_t kept) {
  std::vector<std::uint8_t> bytes = operands.rows.bytes;
  const auto width = static_cast<std::size_t>(operands.inputs * bits_of(kernel.rows) / 8);
  for (std::int64_t row = 0; row < operands.num_rows; ++row) {
    if (row != kept) std::memset(bytes.data() + static_cast<std::size_t>(row) * width, 0xff, width);
  }
  check(cudaMemcpy(operands.rows_there.get(), bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
}

Json probe_rows(const ProbeKernel& kernel) {
  constexpr std::int64_t kRows = 256;
  const Operands operands(kernel, {512, 4096}, kRows);
  Json found = {{"kernel", kernel.name}};
  if (!run(kernel, operands.task(kRows))) return {{"kernel", kernel.name}, {"refused", true}};
  const std::vector<std::uint16_t> all = operands.results(kRows);
  found["error"] = operands.error_of(all, kRows);
  std::int64_t num_differing = 0, num_compared = 0;
  const auto compare = [&](const std::vector<std::uint16_t>& other, std::int64_t row) {
    const auto first = static_cast<std::size_t>(row * operands.outputs);
    for (std::size_t i = first; i < first + static_cast<std::size_t>(operands.outputs); ++i)
      num_differing += other[i] == all[i] ? 0 : 1;
    num_compared += operands.outputs;
  };
  for (const std::int64_t row : {0, 1, 7, 15, 63, 200}) {
    spoil_others(kernel, operands, row);
    for (const std::int64_t count : {row + 1, kRows}) {
      if (!run(kernel, operands.task(count))) continue;
      compare(operands.results(count), row);
    }
  }
  found["numbers_compared"] = num_compared;
  found["numbers_differing"] = num_differing;
  return found;
}

double time_us(const std::function<void()>& call) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  constexpr int kRounds = 4, kCalls = 8;
  float best_ms = std::numeric_limits<float>::infinity();
  for (int round = 0; round < kRounds; ++round) {
    check(cudaEventRecord(begin), "cudaEventRecord");
    for (int i = 0; i < kCalls; ++i) call();
    check(cudaEventRecord(end), "cudaEventRecord");
    check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float taken_ms = 0;
    check(cudaEventElapsedTime(&taken_ms, begin, end), "cudaEventElapsedTime");
    if (round > 0) best_ms = std::min(best_ms, taken_ms);
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  return static_cast<double>(best_ms) * 1e3 / kCalls;
}

/// Times a layer's four GEMMs one after another, so that each one's weights come from memory.
Json probe_layer(const ProbeKernel& kernel, const std::vector<std::int64_t>& rows) {
  Json found = {{"kernel", kernel.name}};
  std::vector<std::unique_ptr<Operands>> layer;
  for (const LayerShape& shape : kLayer)
    layer.push_back(std::make_unique<Operands>(kernel, shape, *std::max_element(rows.begin(), rows.end())));
  if (!run(kernel, layer[1]->task(64))) return {{"kernel", kernel.name}, {"refused", true}};
  found["error"] = layer[1]->error_of(layer[1]->results(64), 64);
  for (const std::int64_t count : rows) {
    bool takes_all = true;
    const double us = time_us([&] {
      for (const auto& one : layer) takes_all = run(kernel, one->task(count)) && takes_all;
    });
    if (takes_all) found["rows" + std::to_string(count) + "_us"] = us;
  }
  return found;
}

/// Times the algorithms that cuBLASLt proposes for each GEMM of a layer. Weights of several GEMMs come from memory
/// where they exceed L2.
Json probe_guesses(const ProbeKernel& shape) {
  Json found = {{"kernel", shape.name}};
  const OnDevice one = device_bytes(sizeof(float));
  const float value = 1;
  check(cudaMemcpy(one.get(), &value, sizeof value, cudaMemcpyHostToDevice), "cudaMemcpy");
  double worst = 0;
  for (const LayerShape& of : kLayer) {
    const Operands operands(shape, of, 512);
    for (const std::int64_t count : {64, 256, 512}) {
      const std::vector<double> times =
          guesses_us(operands.task(count), static_cast<const float*>(one.get()), workspace(), kWorkspaceBytes, time_us);
      worst = std::max(worst, operands.error_of(operands.results(count), count));
      found[std::to_string(of.outputs) + "x" + std::to_string(of.inputs) + "_rows" + std::to_string(count) + "_us"] =
          times;
    }
  }
  found["error"] = worst;
  return found;
}
constexpr ProbeKernel kGuessed[] = {{"e4m3 by cuBLASLt", Element::fp8_e4m3, Element::fp8_e4m3, false, 0, nullptr}};

struct Probe {
  std::span<const ProbeKernel> kernels;
  Json (*run)(const ProbeKernel&) = nullptr;
};

int main_of(const std::string& name, bool lists) {
  Probe probe{};
  if (name == "rows") probe = {tile_kernels(), probe_rows};
  else if (name == "tiles")
    probe = {tile_kernels(), [](const ProbeKernel& kernel) { return probe_layer(kernel, {16, 64, 128, 256, 512}); }};
  else if (name == "mixed")
    probe = {mixed_kernels(), [](const ProbeKernel& kernel) { return probe_layer(kernel, {16, 64, 256, 512, 8192}); }};
  else if (name == "guesses") probe = {kGuessed, probe_guesses};
  if (probe.run == nullptr) {
    std::fprintf(stderr, "usage: gpu_probes rows|tiles|guesses|mixed [--list]\n");
    return 2;
  }
  bool is_right = true;
  for (const ProbeKernel& kernel : probe.kernels) {
    const Json found = lists ? Json{{"kernel", kernel.name}} : probe.run(kernel);
    is_right = is_right && !(found.value("error", 0.0) > kMostError);
    std::printf("%s\n", found.dump().c_str());
    std::fflush(stdout);
  }
  return is_right ? 0 : 1;
}

}  // namespace

int main(int count, char** words) try {
  const bool lists = count == 3 && std::string(words[2]) == "--list";
  return main_of(count == 2 || lists ? words[1] : "", lists);
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
