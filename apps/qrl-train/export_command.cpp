// export and data: what leaves the program for others to read.
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "command.h"
#include "data/countdown.h"
#include "train/checkpoint.h"
#include "train/session.h"

namespace qrl::app {

namespace {

struct ExportArguments {
  std::string checkpoint, out, dtype;
};

void export_model(const ExportArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "export");
  QRL_REQUIRE(!std::filesystem::exists(arguments.out) || std::filesystem::is_empty(arguments.out), arguments.out,
              "a folder that is new or empty", "one with files in it", "choose another --out");
  train::Policy policy = train::load_policy(arguments.checkpoint);
  if (train::is_checkpoint(arguments.checkpoint))
    policy.config = train::read_checkpoint_state(arguments.checkpoint).config;
  if (!arguments.dtype.empty())
    policy.config.dtype = arguments.dtype == "float32" ? base::DType::f32 : base::DType::bf16;
  std::filesystem::create_directories(arguments.out);
  model::save_hf(arguments.out, policy.config, model::views(policy.weights));
  policy.tokenizer.save(arguments.out);
  std::printf("wrote %s (%s; config.json, model.safetensors, tokenizer.json)\n", arguments.out.c_str(),
              policy.config.dtype == base::DType::f32 ? "float32" : "bfloat16");
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand("export", "write a checkpoint as a Hugging Face folder");
  command->add_option("CHECKPOINT", arguments->checkpoint, "RUN/checkpoints/step_N")->required();
  command->add_option("--out", arguments->out, "folder to write")->required()->type_name("DIR");
  command->add_option("--dtype", arguments->dtype, "dtype of the weights; default: the model's own")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->type_name("float32|bfloat16");
  command->callback(
      [&action, arguments] { action = [arguments](dist::Collectives& world) { export_model(*arguments, world); }; });
}

}  // namespace qrl::app
