#include "product_speed.h"

#include <algorithm>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "kernels.h"
#include "products.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

namespace {

constexpr int kRounds = 5, kFewestCalls = 20;

/// Bytes of any value: what the operands hold changes no time but by the power that it takes.
std::vector<std::uint64_t> random_words(std::int64_t num_bytes) {
  std::vector<std::uint64_t> words(static_cast<std::size_t>(ceil_div(num_bytes, 8)));
  std::uint64_t state = 1;
  for (std::uint64_t& word : words) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's generator
    word = state ^ (state >> 29);
  }
  return words;
}

Memory random_memory(std::int64_t num_bytes, const Stream& stream) {
  Memory memory(static_cast<std::size_t>(num_bytes));
  const std::vector<std::uint64_t> words = random_words(num_bytes);
  copy_to_device(memory.data(), words.data(), memory.num_bytes(), stream);
  stream.wait();
  return memory;
}

/// Seconds of one of `count` calls of call(i), in the best round.
template <class Call>
double best_s(std::int64_t count, const Stream& stream, Call call) {
  double best = 0;
  for (int round = -1; round < kRounds; ++round) {  // one to warm up
    const double start_s = base::now_s();
    for (std::int64_t i = 0; i < count; ++i) call(i);
    stream.wait();
    const double taken_s = (base::now_s() - start_s) / static_cast<double>(count);
    if (round == 0 || (round > 0 && taken_s < best)) best = taken_s;
  }
  return best;
}

}  // namespace

ProductSpeeds measure_product_speeds(const ProductSpeedTask& task) {
  const DeviceFacts device = use_device(task.device_number);
  const Stream stream;
  const std::unique_ptr<Products> products = make_products(device);
  const quant::FormatSpec& what = quant::spec(task.format);
  const MatrixLayout at = matrix_layout(task.format, task.out, task.in);
  const std::int64_t most_rows = *std::max_element(task.num_rows.begin(), task.num_rows.end());
  const std::int64_t half = task.pool_bytes / 2 / 256 * 256;
  const std::int64_t stretch = round_up(at.num_bytes(), 256), num_matrices = std::max<std::int64_t>(1, half / stretch);
  const Memory pool = random_memory(std::max(2 * half, stretch), stream);
  const std::int64_t x_bytes = at.width * (what.activations == quant::Code::bf16 ? 2 : 1);
  const Memory x = random_memory(most_rows * x_bytes, stream);
  const auto floats = [](std::int64_t count) { return Memory(static_cast<std::size_t>(count) * sizeof(float)); };
  const Memory w_scales = floats(std::max<std::int64_t>(at.num_scales, 1) * at.rows);
  const Memory x_scales = floats(most_rows * ceil_div(task.in, kInputRun));
  const Memory y(static_cast<std::size_t>(most_rows * at.rows) * sizeof(std::uint16_t));

  ProductSpeeds speeds;
  speeds.copy_bytes_per_s =
      2 * static_cast<double>(half) / best_s(4, stream, [&](std::int64_t) {
        copy_on_device(pool.as<std::uint8_t>() + half, pool.data(), static_cast<std::size_t>(half), stream);
      });
  const EncodedRows encoded{
      what.activations, x.data(), what.has_activation_scales() ? x_scales.as<float>() : nullptr,
      at.width,         task.in,  what.activation_scale_inputs == 0 ? task.in : what.activation_scale_inputs};
  for (const std::int64_t num_rows : task.num_rows) {
    speeds.product_s.push_back(best_s(std::max<std::int64_t>(num_matrices, kFewestCalls), stream, [&](std::int64_t i) {
      const DeviceMatrix w{task.format, at, pool.as<std::uint8_t>() + i % num_matrices * stretch,
                           at.num_scales > 0 ? w_scales.as<float>() : nullptr};
      products->multiply({encoded, num_rows, w, y.data(), at.rows, false}, stream);
    }));
    speeds.num_bytes.push_back(at.num_bytes() + at.num_scales * at.rows * 4 + num_rows * (x_bytes + at.rows * 2));
  }
  return speeds;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
