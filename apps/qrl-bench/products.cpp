#include <memory>
#include <nlohmann/json.hpp>

#include "benchmarks.h"
#include "cuda/bench/bench_plan.h"
#include "cuda/bench/speed.h"
#include "shapes.h"

namespace qrl::app {

namespace {

using Json = nlohmann::ordered_json;

struct BenchProductsArguments {
  std::string shape = "8b", format = "int4";
  std::vector<std::int64_t> num_rows = {1, 16, 64, 256};
  bool json = false, dry_run = false;
};

void bench_products(const BenchProductsArguments& arguments) {
  const model::ModelConfig config = built_in_shape(arguments.shape);
  const std::vector<model::BlockMatrix> matrices = cuda::layer_matrices(config);
  Json result = {{"bench", "products"}, {"shape", arguments.shape}, {"weights", arguments.format}};
  if (arguments.dry_run) {
    result["dry_run"] = true;
    for (const model::BlockMatrix& matrix : matrices) {
      for (const std::int64_t num_rows : arguments.num_rows) {
        const cuda::MatmulPlan plan =
            cuda::plan_matmul(gpu_format(arguments.format), matrix.out(), matrix.in, num_rows);
        const std::string name = std::string(matrix.name) + "_rows" + std::to_string(num_rows);
        result[name] = plan.text;
        result[name + "_bytes"] = plan.num_bytes;
      }
    }
    return print_result(result, arguments.json);
  }
  std::vector<double> layer_s(arguments.num_rows.size()), layer_bytes(arguments.num_rows.size());
  double read_bytes_per_s = 0;
  for (const model::BlockMatrix& matrix : matrices) {
    cuda::GemmSpeedTask task;
    task.format = gpu_format(arguments.format);
    task.out = matrix.out();
    task.in = matrix.in;
    task.num_rows = arguments.num_rows;
    const cuda::GemmSpeeds speeds = cuda::measure_gemms(task);
    read_bytes_per_s = std::max(read_bytes_per_s, speeds.read_bytes_per_s);
    for (std::size_t i = 0; i < arguments.num_rows.size(); ++i) {
      layer_s[i] += speeds.gemm_s[i];
      layer_bytes[i] +=
          static_cast<double>(cuda::plan_matmul(task.format, matrix.out(), matrix.in, arguments.num_rows[i]).num_bytes);
      result[std::string(matrix.name) + "_rows" + std::to_string(arguments.num_rows[i]) + "_us"] =
          speeds.gemm_s[i] * 1e6;
    }
  }
  result["read_gb_per_s"] = read_bytes_per_s * 1e-9;
  for (std::size_t i = 0; i < arguments.num_rows.size(); ++i) {
    const std::string rows = "_rows" + std::to_string(arguments.num_rows[i]);
    double weights = 0;
    for (const model::BlockMatrix& matrix : matrices) weights += static_cast<double>(matrix.out() * matrix.in);
    result["layer" + rows + "_us"] = layer_s[i] * 1e6;
    result["layer" + rows + "_tflops"] = 2 * weights * static_cast<double>(arguments.num_rows[i]) / layer_s[i] * 1e-12;
    result["layer" + rows + "_share_of_read"] = layer_bytes[i] / layer_s[i] / read_bytes_per_s;
  }
  print_result(result, arguments.json);
}

}  // namespace

void add_bench_products(CLI::App& program, Action& action) {
  auto arguments = std::make_shared<BenchProductsArguments>();
  CLI::App* command =
      program.add_subcommand("products", "one layer's matmuls on the GPU, relative to its memory bandwidth");
  add_word(*command, "--shape", arguments->shape, shape_names(false), "NAME", "built-in shape");
  add_word(*command, "--format", arguments->format, gpu_format_names(), "NAME", "format of the weights");
  add_integer(*command, "--rows", arguments->num_rows, 1, 65'536, "numbers of rows, comma-separated");
  command->add_flag("--dry-run", arguments->dry_run, "print what it would measure; needs no GPU");
  command->add_flag("--json", arguments->json, "print one JSON object");
  set_work(*command, action, arguments, bench_products);
}

}  // namespace qrl::app
