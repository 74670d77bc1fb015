// Whole ticks as a benchmark times them.
#include "cuda/bench/device_speed.h"
#include "device.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;
using quant::Format;
using quant::KvFormat;

TEST_CASE("whole ticks are measured: their bytes, operations and some time, in batches that find room") {
  if (!find_device()) return;
  TickSpeedTask task;
  model::ModelConfig& config = task.options.model;
  config.vocab_size = 67;
  config.hidden_size = 32;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 2;
  config.num_key_value_heads = 1;
  config.head_dim = 16;
  config.intermediate_size = 48;
  config.rms_norm_eps = 1e-6F;
  config.qk_norm = config.qkv_bias = true;
  task.options.max_rows = 24;
  task.options.max_sequences = 3;
  task.options.max_positions = 21;
  task.options.page_size = 4;
  task.options.num_pages = 13;  // two sequences of 21 positions, six of 5
  task.batches = {1, 3};
  task.contexts = {5, 21};
  task.matmul_size = 64;
  task.pool_bytes = 1 << 17;
  for (const Format format : {Format::bf16, Format::int8, Format::fp8_tensor}) {
    INFO(quant::name(format));
    task.format = format;
    task.options.kv_format = format == Format::int8         ? KvFormat::int8
                             : format == Format::fp8_tensor ? KvFormat::fp8_e4m3
                                                            : KvFormat::bf16;
    const TickSpeeds speeds = target::measure_tick_speeds(task);
    CHECK((speeds.copy_bytes_per_s > 0 && speeds.read_bytes_per_s > 0 && speeds.matmul_flops > 0 &&
           speeds.rewrite_s > 0));
    REQUIRE(speeds.ticks.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      const TickSpeed& tick = speeds.ticks[i];
      const auto batch = static_cast<double>(tick.batch);
      CHECK((tick.batch == (i % 2 == 0 ? 1 : 3) && tick.context == (i < 2 ? 5 : 21)));
      CHECK((tick.tick_s > 0) == (i < 3));
      CHECK((tick.host_s > 0) == (i < 3));
      CHECK(tick.host_s <= tick.tick_s);
      // The matrices of 2 layers; lm_head; 2 heads of 16.
      CHECK(tick.layer_operations == 2 * batch * 2 * (64 * 32 + 32 * 32 + 96 * 32 + 32 * 48));
      CHECK(tick.other_operations == 2 * batch * 67 * 32 + 4 * batch * static_cast<double>(tick.context) * 2 * 32);
      const std::int64_t position = format == Format::int8 ? 16 + 4 : format == Format::fp8_tensor ? 16 : 32;
      CHECK(tick.num_bytes - speeds.ticks[0].num_bytes == 2 * 2 * position * (tick.batch * tick.context - 5));
    }
    if (format == Format::bf16) {  // inputs padded to 128, outputs to 64
      CHECK(speeds.ticks[0].num_bytes == 2 * 128 * (2 * (64 + 64 + 128 + 64) + 128) + 2 * 2 * 32 * 5);
    }
  }
}

}  // namespace
