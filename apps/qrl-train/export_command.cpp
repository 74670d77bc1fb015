// export and data: what leaves the program for others to read.
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/rng.h"
#include "commands.h"
#include "decoder/forced.h"
#include "state/file.h"
#include "state/safetensors.h"
#include "train/checkpoint.h"
#include "train/session.h"

namespace qrl::app {

namespace {

struct ExportArguments {
  std::string checkpoint, out, dtype, logits;
};

/// Reads the folder back and writes our fp32 logits on fixed random sequences, for another program to compare:
/// tokens_N (I32 [T]) and logits_N (F32 [T, V]) as scripts/golden/check_export.py reads them.
void write_logits(const std::string& folder, const std::string& file) {
  const model::HfModel hf = model::open_hf(folder);
  model::Snapshot snapshot(hf.config, quant::Format::f32);
  snapshot.publish(hf.weights, 0);
  base::RandomStream random(0, base::RandomPurpose::probe, 0);
  std::vector<base::Buffer> buffers;
  std::vector<state::NamedView> tensors;
  for (const std::int64_t wanted : {1, 7, 64, 257}) {
    const std::int64_t length = std::min(wanted, hf.config.max_position_embeddings);
    std::vector<types::TokenId> tokens(static_cast<std::size_t>(length));
    for (types::TokenId& token : tokens)
      token = static_cast<types::TokenId>(random.below(static_cast<std::uint64_t>(hf.config.vocab_size)));
    const std::vector<float> logits = decoder::forced_logits(snapshot, tokens);
    const std::string suffix = std::to_string(wanted);
    base::Buffer& kept_tokens = buffers.emplace_back(base::DType::i32, base::Shape{length});
    std::copy(tokens.begin(), tokens.end(), kept_tokens.as<types::TokenId>());
    tensors.push_back({"tokens_" + suffix, kept_tokens.view(), {}});
    base::Buffer& kept_logits = buffers.emplace_back(base::DType::f32, base::Shape{length, hf.config.vocab_size});
    std::copy(logits.begin(), logits.end(), kept_logits.as<float>());
    tensors.push_back({"logits_" + suffix, kept_logits.view(), {}});
  }
  state::write_safetensors(file, tensors, {{"model", folder}});
}

/// Refuses what cannot be written, or would be lost, before the model is read.
void check_outputs(const ExportArguments& arguments) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::file_status out = fs::status(arguments.out, error);
  QRL_REQUIRE(!fs::exists(out) || fs::is_directory(out), arguments.out, "a folder that is new or empty",
              "something that is no folder", "choose another --out");
  QRL_REQUIRE(!fs::exists(out) || fs::is_empty(arguments.out, error), arguments.out, "a folder that is new or empty",
              "one with files in it", "choose another --out");
  if (arguments.logits.empty()) return;
  // It may lie in the folder that is about to be made.
  const fs::path folder = fs::path(arguments.logits).parent_path().lexically_normal();
  if (folder != fs::path(arguments.out + "/").lexically_normal().parent_path()) state::output_file(arguments.logits);
  require_new_file(arguments.logits, "--logits");
}

void export_model(const ExportArguments& arguments, dist::Collectives& world) {
  require_one_process(world, "qrl-train export");
  check_outputs(arguments);
  train::Policy policy = train::load_policy(arguments.checkpoint);
  if (train::is_checkpoint(arguments.checkpoint))
    policy.config = train::read_checkpoint_state(arguments.checkpoint).config;
  if (!arguments.dtype.empty())
    policy.config.dtype = arguments.dtype == "float32" ? base::DType::f32 : base::DType::bf16;
  std::error_code error;
  std::filesystem::create_directories(arguments.out, error);
  QRL_REQUIRE(!error, arguments.out, "a folder that can be made", error.message(), "choose another --out");
  try {
    const model::Weights weights = model::read_weights(policy.config, policy.weights);
    model::save_hf(arguments.out, policy.config, model::views(weights));
    policy.tokenizer.save(arguments.out);
  } catch (...) {  // half a model is no model: the folder, which was new or empty, becomes empty again
    for (const auto& entry : std::filesystem::directory_iterator(arguments.out, error))
      std::filesystem::remove_all(entry, error);
    throw;
  }
  std::printf("wrote %s (%s; config.json, model.safetensors, tokenizer.json)\n", arguments.out.c_str(),
              policy.config.dtype == base::DType::f32 ? "float32" : "bfloat16");
  if (!arguments.logits.empty()) {
    require_new_file(arguments.logits, "--logits");  // it may be a name of the folder just written
    write_logits(arguments.out, arguments.logits);
    std::printf("wrote %s (fp32 logits of that folder: scripts/golden/check_export.py %s --logits %s)\n",
                arguments.logits.c_str(), arguments.out.c_str(), arguments.logits.c_str());
  }
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand("export", "write a checkpoint as a Hugging Face folder");
  command->add_option("CHECKPOINT", arguments->checkpoint, "RUN/checkpoints/step_N")->required();
  command->add_option("--out", arguments->out, "folder to write")->required()->check(not_empty())->type_name("DIR");
  command->add_option("--dtype", arguments->dtype, "dtype of the weights; default: the model's own")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->type_name("float32|bfloat16");
  command
      ->add_option(
          "--logits", arguments->logits,
          "also write the written model's fp32 logits on fixed random tokens, to compare with another program's")
      ->check(not_empty())
      ->type_name("FILE");
  command->callback(
      [&action, arguments] { action = [arguments](dist::Collectives& world) { export_model(*arguments, world); }; });
}

}  // namespace qrl::app
