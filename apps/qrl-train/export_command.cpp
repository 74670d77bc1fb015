#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/hub.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "commands.h"
#include "decoder/cpu/teacher_forcing.h"
#include "export_gguf.h"
#include "loaded_sampler.h"
#include "model/compressed_tensors.h"
#include "model/gguf_model.h"
#include "model/peft.h"
#include "output_folder.h"
#include "state/file.h"
#include "state/safetensors.h"
#include "state/sealed.h"
#include "train/checkpoint/checkpoint.h"
#include "train/evaluate/export_score.h"
#include "train/files/checkpoint_folder.h"
#include "train/plan/formats.h"
#include "train/policy/merge.h"
#include "train/policy/policy.h"
#include "train/policy/quantizer.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"

namespace qrl::app {

namespace {

struct ExportArguments {
  std::string checkpoint, out, dtype, logits, onto, gguf, type;
  bool merge = false, quantized = false;
};

/// Reads the exported folder and writes fp32 logits of fixed random sequences, for scripts/golden/check_export.py:
/// tokens_N (I32 [T]) and logits_N (F32 [T, V]).
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

void check_outputs(const ExportArguments& arguments) {
  namespace fs = std::filesystem;
  QRL_REQUIRE(arguments.out.empty() != arguments.gguf.empty(), "--out", "--out DIR or --gguf FILE",
              arguments.out.empty() ? "neither" : "both");
  QRL_REQUIRE(!arguments.gguf.empty() || arguments.type.empty(), "--type", "--gguf FILE as well", "no --gguf",
              "add --gguf, or omit --type");
  if (!arguments.gguf.empty()) {
    for (const auto& [option, is_given] : {std::pair{"--dtype", !arguments.dtype.empty()},
                                           {"--logits", !arguments.logits.empty()},
                                           {"--quantized", arguments.quantized}})
      QRL_REQUIRE(!is_given, option, "no --gguf with it", "both",
                  "omit one of them: --type says what a GGUF file holds");
    state::output_file(arguments.gguf);
    return require_new_file(arguments.gguf, "--gguf");
  }
  require_output_folder(arguments.out);
  if (arguments.logits.empty()) return;
  // If the file is in --out, its folder need not exist yet.
  const fs::path folder = fs::path(arguments.logits).parent_path().lexically_normal();
  if (folder != fs::path(arguments.out + "/").lexically_normal().parent_path()) state::output_file(arguments.logits);
  require_new_file(arguments.logits, "--logits");
}

/// Throws an input error for an option that does not apply to the checkpoint's kind: adapters or all weights.
void check_kind(const ExportArguments& arguments, const train::Policy& policy) {
  const bool has_adapters = policy.adapter.has_value();
  QRL_REQUIRE(has_adapters || !arguments.merge, "--merge", "a checkpoint of adapters", "a checkpoint of all weights",
              "omit --merge: the checkpoint is already a whole model");
  QRL_REQUIRE(arguments.merge || arguments.onto.empty(), "--onto", "--merge as well", "no --merge", "add --merge");
  const bool writes_adapters = has_adapters && !arguments.merge;
  QRL_REQUIRE(!writes_adapters || arguments.gguf.empty(), "--gguf", "--merge as well for a checkpoint of adapters",
              "no --merge", "add --merge: a GGUF file holds a whole model");
  QRL_REQUIRE(!writes_adapters || arguments.dtype.empty(), "--dtype", "--merge as well for a checkpoint of adapters",
              "no --merge", "omit --dtype, or add --merge: adapters are written in float32");
  QRL_REQUIRE(!writes_adapters || arguments.logits.empty(), "--logits", "--merge as well for a checkpoint of adapters",
              "no --merge", "add --merge: logits need a whole model");
}

train::Recipe recipe_of(const std::string& checkpoint) {
  return train::load_recipe(train::keys(), checkpoint + "/recipe.yaml", {}, false, train::RecipeUse::record).recipe;
}

/// Returns the quantized base to merge onto, or nothing for the original weights. Prints the choice. --onto selects the
/// base; by default, it is the base that the learner's matmuls used.
std::optional<model::WeightSource> base_of_merge(const ExportArguments& arguments, const train::Policy& policy) {
  const auto say = [&](const std::string& how) {
    std::printf("merging onto %s, %s\n", policy.adapter->base_path.c_str(), how.c_str());
  };
  const bool is_checkpoint = train::is_checkpoint(arguments.checkpoint);
  QRL_REQUIRE(is_checkpoint || arguments.onto != "quantized", "--onto", "original for a PEFT folder", "quantized",
              "use --onto original: no recipe says how the base was quantized");
  if (!is_checkpoint || arguments.onto == "original") {
    say("not quantized");
    return std::nullopt;
  }
  const train::Recipe recipe = recipe_of(arguments.checkpoint);
  const bool reads_original = recipe.quant.learner.forward == learner::LearnerForward::bf16;
  if (arguments.onto.empty() && reads_original) {
    say("not quantized, as the learner used it");
    return std::nullopt;
  }
  say("quantized to " + std::string(quant::name(train::snapshot_formats(recipe.quant).linear)));
  return train::quantized_weights(policy.config, policy.adapter->base, train::snapshot_formats(recipe.quant));
}

/// Returns the policy's weights. For a bf16 export of a run whose model.path exists, each read records in `errors` how
/// much rounding changes the update. The update is the difference from the weights at model.path.
model::WeightSource rounded_from_base(const ExportArguments& arguments, const train::Policy& policy,
                                      train::UpdateErrors& errors) {
  if (!train::is_checkpoint(arguments.checkpoint) || policy.config.dtype == base::DType::f32) return policy.weights;
  try {
    const model::HfModel base = model::open_model(base::local_model(recipe_of(arguments.checkpoint).model.path));
    const bool same = std::ranges::equal(model::weight_specs(base.config), model::weight_specs(policy.config), {},
                                         &model::WeightSpec::shape, &model::WeightSpec::shape);
    if (same) return train::with_errors(policy.weights, base.weights, policy.config.dtype, errors);
  } catch (const base::Error& error) {  // the base may be missing
    if (error.kind() != base::ErrorKind::input) throw;
  }
  return policy.weights;
}

std::string text_of(const train::UpdateErrors& errors) {
  return base::format("relative error %.3g on average, %.3g at most", errors.mean(), errors.worst) +
         (errors.worst_layer.empty() ? "" : " (" + errors.worst_layer + ")");
}

constexpr double kLargeError = 0.1;

/// If rounding undoes the whole update, the error is 1.
constexpr double kNearlyLost = 0.9;

void report_rounding(const train::UpdateErrors& errors) {
  if (errors.num_layers == 0) return;
  std::printf("the update from model.path, rounded to bfloat16: %s\n", text_of(errors).c_str());
  if (errors.mean() < kNearlyLost) return;
  base::log_warning(
      "rounding to bfloat16 undoes most of the update (an error of 1 is all of it), and the model may lose what it "
      "learned: score the folder (qrl-train eval), or export with --dtype float32");
}

void report(const train::UpdateErrors& errors) {
  std::printf("merged updates as stored: %s\n", text_of(errors).c_str());
  if (errors.worst > kLargeError) {
    base::log_warning(
        "rounding changes the merged weights by more than 0.1 of their update: score the folder (qrl-train eval), or "
        "export with --dtype float32, or export a PEFT folder without --merge");
  }
}

/// Prints the error of the merged updates if they are quantized to the run's low-bit format. Warns of a large error.
void report_quantized(const ExportArguments& arguments, const train::Policy& policy,
                      const std::optional<model::WeightSource>& onto) {
  if (!train::is_checkpoint(arguments.checkpoint)) return;
  const model::SnapshotFormats formats = train::snapshot_formats(recipe_of(arguments.checkpoint).quant);
  if (!quant::spec(formats.linear).has_weight_scales()) return;
  const std::string format(quant::name(formats.linear));
  const train::UpdateErrors errors = train::errors_if_quantized(policy, onto, formats);
  std::printf("merged updates if the folder is quantized to %s: %s\n", format.c_str(), text_of(errors).c_str());
  if (errors.worst <= kLargeError) return;
  base::log_warning("quantized to " + format +
                    " again, as by qrl-train eval RECIPE --checkpoint DIR or W8A8 engines, the model may lose what its "
                    "adapters learned: score it with --set quant.rollout.weights=bf16; the run's own policy is the "
                    "base with separate adapters");
}

void report_scores(const std::string& checkpoint) {
  if (!train::is_checkpoint(checkpoint)) return;
  const train::KnownScores known = train::known_scores(checkpoint);
  std::printf("the run sampled from %s\n", known.text().c_str());
  if (!known.of_export.empty()) std::printf("the exported model scored %s\n", known.of_export.c_str());
}

void export_adapters(const ExportArguments& arguments, const train::Policy& policy) {
  const train::PolicyAdapter& adapter = *policy.adapter;
  write_folder(arguments.out, [&] {
    const model::Weights weights = model::read_adapters(policy.config, adapter.lora, adapter.adapters);
    model::save_peft(arguments.out, policy.config, adapter.lora, adapter.base_path, model::views(weights));
    policy.tokenizer.save(arguments.out);
  });
  report_scores(arguments.checkpoint);
  std::printf("wrote %s (adapter_config.json, adapter_model.safetensors, tokenizer.json; its base is %s)\n",
              arguments.out.c_str(), adapter.base_path.c_str());
}

train::Recipe quantized_recipe(const ExportArguments& arguments) {
  QRL_REQUIRE(train::is_checkpoint(arguments.checkpoint), "--quantized", "a checkpoint",
              base::quoted(arguments.checkpoint),
              "name RUN or RUN/checkpoints/step_N: only a run's recipe says how its sampler was quantized");
  for (const auto& [option, is_given] : {std::pair{"--dtype", !arguments.dtype.empty()},
                                         {"--logits", !arguments.logits.empty()},
                                         {"--merge", arguments.merge},
                                         {"--onto", !arguments.onto.empty()}}) {
    QRL_REQUIRE(!is_given, option, "no --quantized with it", "both",
                "omit one of them: with --quantized the checkpoint's recipe determines what is written");
  }
  const train::Recipe recipe = recipe_of(arguments.checkpoint);
  QRL_REQUIRE(
      !model::is_peft(arguments.checkpoint) || recipe.lora.publish == train::LoraPublish::merge, "--quantized",
      "lora.publish: merge for a checkpoint of adapters", "adapter",
      "export a PEFT folder without --quantized: one folder cannot hold a quantized base and separate adapters");
  const quant::Format format = train::snapshot_formats(recipe.quant).linear;
  QRL_REQUIRE(quant::spec(format).has_weight_scales(), "--quantized",
              "a run with quant.rollout.weights int8, fp8_e4m3 or int4", std::string(quant::name(format)),
              "export without --quantized");
  QRL_REQUIRE(recipe.quant.lm_head != train::HeadFormat::int8, "--quantized",
              "a run with quant.rollout.lm_head auto or fp32", "int8",
              "export without --quantized: the folder's lm_head would differ from the sampler's");
  QRL_REQUIRE(recipe.quant.rotation == train::RotationKind::none, "--quantized",
              "a run with quant.rollout.rotation none", "hadamard",
              "export without --quantized, or train with quant.rollout.rotation: none: no reader of compressed-tensors "
              "rotates a layer's inputs this way");
  return recipe;
}

void export_quantized(const ExportArguments& arguments, dist::Collectives& world) {
  const train::Recipe recipe = quantized_recipe(arguments);
  train::Policy policy = train::load_policy(arguments.checkpoint);
  policy.config = train::read_checkpoint_state(arguments.checkpoint).config;
  const model::SnapshotFormats formats = train::snapshot_formats(recipe.quant);
  model::Snapshot snapshot(policy.config, formats);
  snapshot.use_profile(train::load_quantizer(arguments.checkpoint, policy.config, world).profile);
  snapshot.publish(policy.weights, 0);
  write_folder(arguments.out, [&] {
    model::save_compressed(arguments.out, snapshot);
    policy.tokenizer.save(arguments.out);
  });
  report_scores(arguments.checkpoint);
  std::printf("wrote %s (%s; compressed-tensors: config.json, model.safetensors, tokenizer.json)\n",
              arguments.out.c_str(), std::string(quant::name(formats.linear)).c_str());
}

void export_model(const ExportArguments& arguments, dist::Collectives& world) {
  check_outputs(arguments);
  if (arguments.quantized) return export_quantized(arguments, world);
  train::Policy policy = train::load_policy(arguments.checkpoint);
  if (train::is_checkpoint(arguments.checkpoint))
    policy.config = train::read_checkpoint_state(arguments.checkpoint).config;
  if (!arguments.dtype.empty())
    policy.config.dtype = arguments.dtype == "float32" ? base::DType::f32 : base::DType::bf16;
  if (!arguments.gguf.empty())  // rounding to bf16 is reported for that type alone
    policy.config.dtype =
        gguf_precision(arguments.type).word == std::string("bf16") ? base::DType::bf16 : base::DType::f32;
  check_kind(arguments, policy);
  if (policy.adapter && !arguments.merge) return export_adapters(arguments, policy);
  train::UpdateErrors errors;
  const std::optional<model::WeightSource> onto =
      policy.adapter ? base_of_merge(arguments, policy) : std::optional<model::WeightSource>();
  if (policy.adapter) policy.weights = train::merged(policy, onto, errors);
  else policy.weights = rounded_from_base(arguments, policy, errors);
  if (!arguments.gguf.empty()) {
    export_gguf(arguments.gguf, arguments.type, policy);
  } else {
    write_folder(arguments.out, [&] {
      model::save_hf(arguments.out, policy.config, policy.weights);
      policy.tokenizer.save(arguments.out);
    });
  }
  if (policy.adapter) report(errors);
  else report_rounding(errors);
  if (policy.adapter) report_quantized(arguments, policy, onto);
  report_scores(arguments.checkpoint);
  if (!arguments.gguf.empty()) return;
  std::printf("wrote %s (%s; config.json, model.safetensors, tokenizer.json)\n", arguments.out.c_str(),
              policy.config.dtype == base::DType::f32 ? "float32" : "bfloat16");
  if (!arguments.logits.empty()) {
    require_new_file(arguments.logits, "--logits");  // checks again: the export may have created the file
    write_logits(arguments.out, arguments.logits);
    std::printf("wrote %s (fp32 logits of that folder: scripts/golden/check_export.py %s --logits %s)\n",
                arguments.logits.c_str(), arguments.out.c_str(), arguments.logits.c_str());
  }
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ExportArguments>();
  CLI::App* command = app.add_subcommand(
      "export", "write a checkpoint as a Hugging Face folder; a checkpoint of adapters becomes a PEFT folder");
  command->add_option("CHECKPOINT", arguments->checkpoint, "RUN/checkpoints/step_N, or RUN for its newest checkpoint")
      ->required();
  add_text(*command, "--out", arguments->out, "DIR", "output folder, new or empty; or --gguf");
  add_text(*command, "--gguf", arguments->gguf, "FILE",
           "write one GGUF file for llama.cpp instead, with its tokenizer");
  add_word(*command, "--type", arguments->type, gguf_types(), "bf16|q8_0|q4_0",
           "with --gguf: type of the matrices, default bf16; with q4_0, token table and lm_head are q8_0");
  add_word(*command, "--dtype", arguments->dtype, {"float32", "bfloat16"}, "float32|bfloat16",
           "dtype of the weights; default: the model's own");
  command->add_flag(
      "--merge", arguments->merge,
      "for a checkpoint of adapters: merge them into the base and write a whole model, not a PEFT folder");
  command->add_flag("--quantized", arguments->quantized,
                    "write the low-bit weights of the run's sampler, in compressed-tensors format; needs a run with "
                    "quant.rollout.rotation: none (int8 on a CPU rotates by default)");
  add_word(*command, "--onto", arguments->onto, {"quantized", "original"}, "quantized|original",
           "with --merge: merge onto the quantized or the original base; default: the base that the learner used");
  add_text(*command, "--logits", arguments->logits, "FILE",
           "also write the exported model's fp32 logits on fixed random tokens, for comparison with other programs");
  set_work(*command, action, arguments, export_model, [arguments] {
    const std::string given = base::local_model(arguments->checkpoint);
    arguments->checkpoint = given_model(given);
    if (arguments->checkpoint != given)
      std::printf("exporting %s, the newest checkpoint of the run\n", arguments->checkpoint.c_str());
  });
}

}  // namespace qrl::app
