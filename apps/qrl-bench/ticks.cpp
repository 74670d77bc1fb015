#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "benchmarks.h"
#include "cuda/bench/bench_plan.h"
#include "cuda/bench/speed.h"
#include "decoder/device/device_backend.h"
#include "shapes.h"
#include "tick_limit.h"

namespace qrl::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kPrefillRows = 2048;
constexpr float kTopP = 0.95F;
/// Standard deviation of logits / temperature of which kTopP keeps some 50 tokens of a vocabulary of 49,152.
constexpr float kPeakedSigma = 6;

struct BenchTicksArguments {
  std::string shape = "8b", format = "bf16", head_format = "bf16", kv_format = "bf16", rotation = "none", kept = "all";
  std::vector<std::int64_t> batches = {1, 16, 64, 256, 512}, contexts = {512, 2048};
  bool json = false, dry_run = false;
};

cuda::TickSpeedTask task_of(const BenchTicksArguments& arguments) {
  const model::ModelConfig config = built_in_shape(arguments.shape);
  const std::int64_t batch = *std::ranges::max_element(arguments.batches),
                     context = *std::ranges::max_element(arguments.contexts);
  decoder::DecoderOptions options;
  options.max_num_seqs = batch;
  options.max_num_batched_tokens = std::max(kPrefillRows, batch);
  options.max_model_len = context;
  options.kv_pages = batch * ((context + options.page_size - 1) / options.page_size);
  options.gpu_memory_utilization = 0.9;
  options.kv_format = gpu_kv_format(arguments.kv_format);
  cuda::TickSpeedTask task;
  task.options = decoder::engine_options(config, options);
  task.format = gpu_format(arguments.format);
  task.head_format = gpu_format(arguments.head_format);
  if (arguments.rotation != "none") {
    QRL_REQUIRE(quant::spec(task.format).has_weight_scales(), "--rotation", "none with --format bf16",
                arguments.rotation, "name a format of fewer bits");
    task.rotation = {std::stoll(arguments.rotation)};
    model::visit_matrices(config, cuda::kAnyLayer, [&](const model::BlockMatrix& matrix, const auto&) {
      QRL_REQUIRE(task.rotation.fits(matrix.in), "--rotation", "a block that divides the layers' widths",
                  arguments.rotation + " with " + std::to_string(matrix.in) + " inputs", "take a smaller one");
    });
  }
  if (arguments.kept != "all") task.top_p = kTopP;
  // Logits are sums of hidden_size normal products.
  if (arguments.kept == "some")
    task.temperature = cuda::kBenchMasterSigma * std::sqrt(static_cast<float>(config.hidden_size)) / kPeakedSigma;
  task.batches = arguments.batches;
  task.contexts = arguments.contexts;
  return task;
}

TickWork work_of(const cuda::TickSpeedTask& task, std::int64_t batch, std::int64_t context) {
  return gpu_tick_work(
      task.options.model, task.format, task.head_format,
      {static_cast<double>(batch), static_cast<double>(context), task.options.kv_format, task.options.page_size});
}

void plan_ticks(const BenchTicksArguments& arguments) {
  const cuda::TickSpeedTask task = task_of(arguments);
  const model::ModelConfig& config = task.options.model;
  Json result = {{"bench", "ticks"},
                 {"dry_run", true},
                 {"shape", arguments.shape},
                 {"weights", arguments.format},
                 {"rotation", arguments.rotation},
                 {"lm_head", arguments.head_format},
                 {"kept", arguments.kept},
                 {"kv_cache", arguments.kv_format},
                 {"ceiling_matmul", std::to_string(task.matmul_size) + " x " + std::to_string(task.matmul_size)},
                 {"ceiling_pool_bytes", task.pool_bytes},
                 {"lm_head_bytes", cuda::matrix_bytes(task.head_format, config.vocab_size, config.hidden_size)}};
  for (const std::int64_t batch : arguments.batches) {
    for (const model::BlockMatrix& matrix : cuda::layer_matrices(config)) {
      result["batch" + std::to_string(batch) + "_" + std::string(matrix.name)] =
          cuda::plan_matmul(task.format, matrix.out(), matrix.in, batch).text;
    }
  }
  for (const std::int64_t context : arguments.contexts) {
    for (const std::int64_t batch : arguments.batches) {
      const std::string name = "context" + std::to_string(context) + "_batch" + std::to_string(batch);
      result[name + "_bytes"] = static_cast<std::int64_t>(work_of(task, batch, context).num_bytes);
    }
  }
  print_result(result, arguments.json);
}

void bench_ticks(const BenchTicksArguments& arguments) {
  if (arguments.dry_run) return plan_ticks(arguments);
  const cuda::TickSpeedTask task = task_of(arguments);
  const cuda::TickSpeeds speeds = cuda::measure_ticks(task);
  // On every supported GPU, 8-bit values have twice the bf16 rate.
  const bool of_8_bits = quant::spec(task.format).activations != quant::Element::bf16;
  const double layer_flops = speeds.matmul_flops * (of_8_bits ? 2 : 1);
  Json result = {{"bench", "ticks"},
                 {"shape", arguments.shape},
                 {"weights", arguments.format},
                 {"rotation", arguments.rotation},
                 {"lm_head", arguments.head_format},
                 {"kept", arguments.kept},
                 {"kv_cache", arguments.kv_format},
                 {"read_gb_per_s", speeds.read_bytes_per_s * 1e-9},
                 {"ceiling_gpu_matmul_tflops", speeds.matmul_flops * 1e-12},
                 {"rewrite_s", speeds.rewrite_s}};
  for (const cuda::TickSpeed& tick : speeds.ticks) {
    const std::string name = "context" + std::to_string(tick.context) + "_batch" + std::to_string(tick.batch);
    if (tick.tick_s == 0) {
      result[name + "_us"] = nullptr;
      continue;
    }
    const TickWork work = work_of(task, tick.batch, tick.context);
    const double memory_s = work.num_bytes / speeds.read_bytes_per_s,
                 matrix_s = work.layer_operations / layer_flops + work.other_operations / speeds.matmul_flops;
    result[name + "_us"] = tick.tick_s * 1e6;
    result[name + "_tokens_per_s"] = static_cast<double>(tick.batch) / tick.tick_s;
    result[name + "_share_of_limit"] = std::max(memory_s, matrix_s) / tick.tick_s;
    result[name + "_host_share"] = tick.host_s / tick.tick_s;
  }
  print_result(result, arguments.json);
}

}  // namespace

void add_bench_ticks(CLI::App& program, Action& action) {
  auto arguments = std::make_shared<BenchTicksArguments>();
  CLI::App* command = program.add_subcommand(
      "ticks", "whole decode ticks on the GPU with random weights, relative to its memory and tensor-core speed");
  add_word(*command, "--shape", arguments->shape, shape_names(false), "NAME", "built-in shape");
  add_word(*command, "--format", arguments->format, gpu_format_names(), "NAME", "format of the weights");
  add_word(*command, "--lm-head", arguments->head_format, {"bf16", "int8"}, "NAME", "format of lm_head");
  add_word(*command, "--rotation", arguments->rotation, {"none", "32", "64", "128"}, "BLOCK",
           "inputs that are rotated together (quant.rollout.rotation_block)");
  add_word(*command, "--kept", arguments->kept, {"all", "some", "flat"}, "WORD",
           "tokens to sample from: all; of top-p 0.95, some 50 of peaked rows, or 256 of flat rows");
  add_word(*command, "--kv", arguments->kv_format, gpu_kv_format_names(), "NAME", "format of the keys and values");
  add_integer(*command, "--batch", arguments->batches, 1, 4096, "numbers of sequences, comma-separated");
  add_integer(*command, "--context", arguments->contexts, 1, 131'072, "positions per sequence, comma-separated");
  command->add_flag("--dry-run", arguments->dry_run, "print what it would measure; needs no GPU");
  command->add_flag("--json", arguments->json, "print one JSON object");
  set_work(*command, action, arguments, bench_ticks);
}

}  // namespace qrl::app
