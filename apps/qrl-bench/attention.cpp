#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "benchmarks.h"
#include "cuda/bench/speed.h"
#include "shapes.h"
#include "tick_limit.h"

namespace qrl::app {

namespace {

using Json = nlohmann::ordered_json;

struct BenchAttentionArguments {
  std::string shape = "8b", format = "bf16";
  std::vector<std::int64_t> batches = {1, 16, 64, 256};
  std::int64_t context = 2048, shared = 0;
  bool json = false, dry_run = false;
};

/// Returns the bytes of keys, values, scales, queries and outputs. Counts a shared prefix once.
double attention_bytes(const cuda::AttentionSpeedTask& task) {
  model::ModelConfig layer = task.model;
  layer.num_hidden_layers = 1;
  const std::int64_t own = task.num_positions - task.shared_positions;
  const auto positions = static_cast<double>(task.shared_positions + task.num_sequences * own);
  return attention_of_tick(layer, {1, positions, task.format, task.page_size}).kv_bytes +
         2.0 * static_cast<double>(task.num_sequences * layer.q_size()) * sizeof(float);
}

void bench_attention(const BenchAttentionArguments& arguments) {
  cuda::AttentionSpeedTask task;
  task.model = built_in_shape(arguments.shape);
  task.format = gpu_kv_format(arguments.format);
  task.num_positions = arguments.context;
  task.shared_positions = arguments.shared;
  QRL_REQUIRE(arguments.shared % task.page_size == 0 && arguments.shared < arguments.context, "--shared",
              "whole pages, fewer than the " + std::to_string(arguments.context) + " positions of --context",
              std::to_string(arguments.shared), "give a multiple of " + std::to_string(task.page_size));
  Json result = {{"bench", "attention"},
                 {"shape", arguments.shape},
                 {"kv_cache", arguments.format},
                 {"context", arguments.context},
                 {"shared", arguments.shared}};
  if (arguments.dry_run) {
    result["dry_run"] = true;
    for (const std::int64_t batch : arguments.batches) {
      task.num_sequences = batch;
      result["batch" + std::to_string(batch) + "_bytes"] = static_cast<std::int64_t>(attention_bytes(task));
    }
    return print_result(result, arguments.json);
  }
  double read_bytes_per_s = 0;
  for (const std::int64_t batch : arguments.batches) {
    task.num_sequences = batch;
    const cuda::AttentionSpeed speed = cuda::measure_attention(task);
    read_bytes_per_s = std::max(read_bytes_per_s, speed.read_bytes_per_s);
    const std::string name = "batch" + std::to_string(batch);
    result[name + "_us"] = speed.attention_s * 1e6;
    const double bytes_per_s = attention_bytes(task) / speed.attention_s;
    result[name + "_gb_per_s"] = bytes_per_s * 1e-9;
    result[name + "_share_of_read"] = bytes_per_s / speed.read_bytes_per_s;
  }
  result["read_gb_per_s"] = read_bytes_per_s * 1e-9;
  print_result(result, arguments.json);
}

}  // namespace

void add_bench_attention(CLI::App& program, Action& action) {
  auto arguments = std::make_shared<BenchAttentionArguments>();
  CLI::App* command = program.add_subcommand(
      "attention",
      "one layer's attention during decoding on the GPU, relative to its memory bandwidth (share_of_read)");
  add_word(*command, "--shape", arguments->shape, shape_names(), "NAME", "built-in shape");
  add_word(*command, "--format", arguments->format, gpu_kv_format_names(), "NAME", "format of the keys and values");
  add_integer(*command, "--batch", arguments->batches, 1, 4096, "numbers of sequences, comma-separated");
  add_integer(*command, "--context", arguments->context, 1, 131'072, "positions per sequence");
  add_integer(*command, "--shared", arguments->shared, 0, 131'072,
              "number of leading positions in shared pages (of 16)");
  command->add_flag("--dry-run", arguments->dry_run, "print what it would measure; needs no GPU");
  command->add_flag("--json", arguments->json, "print one JSON object");
  set_work(*command, action, arguments, bench_attention);
}

}  // namespace qrl::app
