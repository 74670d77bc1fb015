// Tests whole ticks as a benchmark times them.
#include "cuda/bench/speed.h"
#include "device.h"
#include "support/models.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;
using quant::Format;
using quant::KvFormat;

TEST_CASE("tick benchmark: reports positive host and total times, for batches that fit") {
  if (!find_device()) return;
  TickSpeedTask task;
  task.options.model = qrl::test::model_config(model::Family::qwen3, {67, 32, 2, 2, 1, 16, 48}, {false, true, true});
  task.options.max_rows = 24;
  task.options.max_sequences = 3;
  task.options.max_positions = 21;
  task.options.page_size = 4;
  task.options.num_pages = 13;  // fits two sequences of 21 positions, or six of 5
  task.batches = {1, 3};
  task.contexts = {5, 21};
  task.matmul_size = 64;
  task.pool_bytes = 1 << 17;
  for (const Format format : {Format::bf16, Format::int8, Format::fp8_tensor}) {
    INFO(quant::name(format));
    task.format = format;
    task.top_p = format == Format::int8 ? 0.9F : 1;
    task.options.kv_format = format == Format::int8         ? KvFormat::int8
                             : format == Format::fp8_tensor ? KvFormat::fp8_e4m3
                                                            : KvFormat::bf16;
    const TickSpeeds speeds = target::measure_ticks(task);
    CHECK((speeds.read_bytes_per_s > 0 && speeds.matmul_flops > 0 && speeds.rewrite_s > 0));
    REQUIRE(speeds.ticks.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      const TickSpeed& tick = speeds.ticks[i];
      CHECK((tick.batch == (i % 2 == 0 ? 1 : 3) && tick.context == (i < 2 ? 5 : 21)));
      CHECK((tick.tick_s > 0) == (i < 3));
      CHECK((tick.host_s > 0) == (i < 3));
      CHECK(tick.host_s <= tick.tick_s);
    }
  }
}

}  // namespace
