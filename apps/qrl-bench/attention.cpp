// attention: a GPU's decoding attention of one layer, beside the speed of its memory.
#include <memory>
#include <nlohmann/json.hpp>

#include "benchmarks.h"
#include "cuda/bench/bench_plan.h"
#include "shapes.h"

namespace qrl::app {

namespace {

using Json = nlohmann::ordered_json;

struct BenchAttentionArguments {
  std::string shape = "8b", format = "bf16";
  std::vector<std::int64_t> batches = {1, 16, 64, 256};
  std::int64_t context = 2048, shared = 0;
  bool json = false, dry_run = false;
};

void bench_attention(const BenchAttentionArguments& arguments) {
  const model::ModelConfig config = built_in_shape(arguments.shape);
  cuda::AttentionSpeedTask task;
  task.format = gpu_kv_format(arguments.format);
  task.num_heads = config.num_attention_heads;
  task.num_kv_heads = config.num_key_value_heads;
  task.head_dim = config.head_dim;
  task.num_positions = arguments.context;
  task.shared_positions = arguments.shared;
  cuda::require_valid(task);
  Json result = {{"bench", "attention"},
                 {"shape", arguments.shape},
                 {"kv_cache", arguments.format},
                 {"context", arguments.context},
                 {"shared", arguments.shared}};
  if (arguments.dry_run) {
    result["dry_run"] = true;
    for (const std::int64_t batch : arguments.batches) {
      task.num_sequences = batch;
      result["batch" + std::to_string(batch) + "_bytes"] = cuda::attention_bytes(task);
    }
    return print_result(result, arguments.json);
  }
  double copy_bytes_per_s = 0, read_bytes_per_s = 0;
  for (const std::int64_t batch : arguments.batches) {
    task.num_sequences = batch;
    const cuda::AttentionSpeed speed = cuda::measure_attention(task);
    copy_bytes_per_s = std::max(copy_bytes_per_s, speed.copy_bytes_per_s);
    read_bytes_per_s = std::max(read_bytes_per_s, speed.read_bytes_per_s);
    const std::string name = "batch" + std::to_string(batch);
    result[name + "_us"] = speed.attention_s * 1e6;
    result[name + "_gb_per_s"] = static_cast<double>(speed.num_bytes) / speed.attention_s * 1e-9;
    result[name + "_share_of_read"] = static_cast<double>(speed.num_bytes) / speed.attention_s / speed.read_bytes_per_s;
  }
  result["copy_gb_per_s"] = copy_bytes_per_s * 1e-9;
  result["read_gb_per_s"] = read_bytes_per_s * 1e-9;
  print_result(result, arguments.json);
}

}  // namespace

void add_bench_attention(CLI::App& program, Action& action) {
  auto arguments = std::make_shared<BenchAttentionArguments>();
  CLI::App* command = program.add_subcommand(
      "attention", "a layer's attention while the GPU decodes, beside its memory's speed (share_of_read)");
  command->add_option("--shape", arguments->shape, "built-in shape")->check(one_of(shape_names()))->type_name("NAME");
  command->add_option("--format", arguments->format, "of the keys and values")
      ->check(one_of(gpu_kv_format_names()))
      ->type_name("NAME");
  command->add_option("--batch", arguments->batches, "numbers of sequences, with commas")
      ->delimiter(',')
      ->check(between(1, 4096))
      ->type_name("INT");
  command->add_option("--context", arguments->context, "positions that each sees")
      ->check(between(1, 131'072))
      ->type_name("INT");
  command->add_option("--shared", arguments->shared, "of these, the first ones that lie in the same pages (of 16)")
      ->check(between(0, 131'072))
      ->type_name("INT");
  command->add_flag("--dry-run", arguments->dry_run, "print what it would measure; wants no GPU");
  command->add_flag("--json", arguments->json, "print one JSON object");
  command->callback([&action, arguments] {
    action = [arguments](dist::Collectives& world) {
      require_one_process(world, "qrl-bench attention");
      bench_attention(*arguments);
    };
  });
}

}  // namespace qrl::app
