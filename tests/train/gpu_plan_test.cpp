// Checks the settings that a run on a GPU chooses for auto, and those that a resumed run takes over.
#include "train/plan/gpu_plan.h"

#include <cmath>
#include <fstream>

#include "base/error.h"
#include "base/log.h"
#include "dist/collectives.h"
#include "learner/ranks.h"
#include "learner/tensors/cuda_library.h"
#include "support/catch.h"
#include "support/models.h"
#include "train/checkpoint/resume.h"
#include "train/plan/memory_estimate.h"
#include "train/plan/recorded_recipe.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/support.h"

using namespace qrl;
using train::AutoSettings;

namespace {

constexpr double kGiB = 1 << 30;

/// Qwen2.5-1.5B's shape.
model::ModelConfig large_model() {
  return test::model_config(model::Family::qwen3, {151'936, 1536, 28, 12, 2, 128, 8960, 0});
}

/// 64 prompts x 8 answers of 256 + 1,024 tokens, 64 prompts an update.
train::LoadedRecipe on_gpu(const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {"trainer.device=cuda",
                                        "model.dtype=bfloat16",
                                        "data.max_prompt_length=256",
                                        "data.max_response_length=1024",
                                        "data.train_batch_size=64",
                                        "actor.mini_batch_size=64",
                                        "rollout.n=8",
                                        "actor.max_tokens_per_micro_batch=auto"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return train::load_recipe(train::keys(), test::kTiny, overrides, true);
}

AutoSettings choose(const train::Recipe& recipe, double gib, int num_ranks = 1) {
  return train::choose_settings(recipe, large_model(), num_ranks, gib * kGiB);
}

/// Returns the recipe with the settings chosen for a GPU of that size.
train::Recipe chosen(train::Recipe recipe, double gib) {
  train::set_auto(choose(recipe, gib), recipe);
  return recipe;
}

/// Returns the text of the input error that `call` throws; "" if it throws none.
template <class Call>
std::string error_of(const Call& call) try {
  call();
  return {};
} catch (const base::Error& error) {
  return error.what();
}

std::string printed(const train::Recipe& recipe, std::string_view key) { return recipe.keys->find(key)->print(recipe); }

/// Returns the recipe of a short tiny run on a GPU, its numbers at `auto`.
train::LoadedRecipe tiny_on_gpu(const std::filesystem::path& run, const std::vector<std::string>& more = {}) {
  std::vector<std::string> overrides = {"sft.steps=0",
                                        "eval.freq=0",
                                        "trainer.total_training_steps=1",
                                        "quant.rollout.rotation=none",
                                        "actor.max_tokens_per_micro_batch=auto",
                                        "trainer.default_local_dir=" + run.string(),
                                        "trainer.device=cuda"};
  overrides.insert(overrides.end(), more.begin(), more.end());
  return train::load_recipe(train::keys(), test::kTiny, overrides, true);
}

/// Makes a run folder with the checkpoint that a run leaves on a GPU of that size. Returns the numbers chosen for it. A
/// CPU makes the checkpoint, with these numbers; its recipe then says that a GPU did.
AutoSettings make_gpu_run(const std::filesystem::path& run, double gib) {
  train::LoadedRecipe begun = tiny_on_gpu(run);
  CHECK(train::decide_auto({}, large_model(), 1, gib * kGiB, begun).starts_with("micro-batches of "));
  const test::TempDir made;
  std::ofstream(made / "recipe.yaml") << begun.resolved_yaml;
  const std::string command = test::kProgram + (made / "recipe.yaml").string() +
                              " --set trainer.device=cpu --set trainer.default_local_dir=" + (made / "run").string();
  const test::Outcome outcome = test::run_command(command);
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  std::filesystem::create_directories(run / "checkpoints");
  test::copy_edited(made / "run/checkpoints/step_1", run / "checkpoints/step_1", "recipe.yaml", [](std::string& text) {
    const std::size_t at = text.find("device: cpu", text.find("\ntrainer:"));
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string("device: cpu").size(), "device: cuda");
  });
  return train::auto_settings_of(begun.recipe);
}

/// Holds the folder of a run that began on a GPU of 80 GiB, with its first step's checkpoint.
struct GpuRun {
  test::TempDir dir;
  std::filesystem::path path = dir / "run";
  AutoSettings chosen = make_gpu_run(path, 80);  ///< the numbers that the run chose
  train::Inputs inputs = train::read_checkpoint_state(path / "checkpoints/step_1").inputs;
  train::RunFolder folder{path};
};

}  // namespace

TEST_CASE("auto sizes: a fixed number on a CPU, open for a GPU until a run chooses") {
  const std::pair<std::string_view, const char*> numbers[] = {{"rollout.max_num_seqs", "256"},
                                                              {"actor.max_tokens_per_micro_batch", "4096"},
                                                              {"actor.logprob_chunk_tokens", "1024"},
                                                              {"actor.activation_checkpointing", "false"}};
  const std::vector<std::string> automatic = {"actor.max_tokens_per_micro_batch=auto", "rollout.max_num_seqs=auto"};
  const train::LoadedRecipe cpu = train::load_recipe(train::keys(), test::kTiny, automatic, true);
  CHECK_FALSE(train::has_auto(cpu.recipe));
  const train::LoadedRecipe gpu = on_gpu();
  CHECK(train::has_auto(gpu.recipe));
  for (const auto& [key, number] : numbers) {
    INFO(key);
    CHECK(printed(cpu.recipe, key) == number);
    CHECK(printed(gpu.recipe, key) == "auto");
  }
  const std::vector<std::string> set = {"actor.activation_checkpointing=true", "actor.logprob_chunk_tokens=512"};
  CHECK(printed(on_gpu(set).recipe, "actor.activation_checkpointing") == "true");
  CHECK(printed(on_gpu(set).recipe, "actor.logprob_chunk_tokens") == "512");
}

TEST_CASE("GPU plan: a large GPU gets large micro-batches, a small one recomputes, and both fit") {
  const train::Recipe recipe = on_gpu().recipe;
  const AutoSettings large = choose(recipe, 80), small = choose(recipe, 40);
  CHECK_FALSE(large.activation_checkpointing);
  CHECK(large.logprob_chunk_tokens == 4096);
  CHECK(large.max_tokens_per_micro_batch >= 8192);
  CHECK(large.max_tokens_per_micro_batch > small.max_tokens_per_micro_batch);
  for (const double gib : {80.0, 40.0}) {
    INFO(gib);
    const train::Recipe fits = chosen(recipe, gib);
    CHECK(train::gpu_peak_bytes(fits, large_model(), 1, gib * kGiB) <= 0.85 * gib * kGiB);
    train::Recipe larger = fits;  // the next size does not fit, or exceeds the limit
    larger.actor.max_tokens_per_micro_batch.value += 256;
    CHECK((train::gpu_peak_bytes(larger, large_model(), 1, gib * kGiB) > 0.85 * gib * kGiB ||
           larger.actor.max_tokens_per_micro_batch > 32'768));
  }
  // Masters, gradients and moments of 1.5B parameters leave little of 32 GiB.
  const AutoSettings tight = choose(recipe, 32);
  CHECK(tight.activation_checkpointing);
  CHECK(tight.max_tokens_per_micro_batch >= 1280);  // the longest sequence
  CHECK(choose(on_gpu({"actor.max_tokens_per_micro_batch=1536"}).recipe, 80).max_tokens_per_micro_batch == 1536);
}

TEST_CASE("GPU plan: activations of a second micro-batch are counted where they fit") {
  const auto ahead = [](const train::Recipe& recipe, double gib) {
    return train::activations_ahead_bytes(recipe, large_model(), 1, gib * kGiB);
  };
  // The KV cache shares the GPU with the learner, and is equally large on any card.
  const std::vector<std::string> small = {"actor.max_tokens_per_micro_batch=2048", "rollout.free_cache_engine=false",
                                          "rollout.kv_pages=2000"};
  const train::Recipe recipe = chosen(on_gpu(small).recipe, 80);
  const double activations = 2048 * train::activation_bytes(recipe, large_model());
  CHECK(std::fabs(ahead(recipe, 80) - activations) < 1);
  const double with = train::gpu_peak_bytes(recipe, large_model(), 1, 80 * kGiB);
  CHECK(with <= 0.85 * 80 * kGiB);
  CHECK(train::describe_gpu_plan(recipe, large_model(), 1, 80 * kGiB)
            .ends_with("with the next micro-batch's activations"));
  // Slightly below the memory for both, nothing is planned ahead, and the plan equals that for one.
  const double least = with - activations, gib = (with - 0.5 * activations) / 0.85 / kGiB;
  CHECK(ahead(recipe, gib) == 0);
  CHECK(std::fabs(train::gpu_peak_bytes(recipe, large_model(), 1, gib * kGiB) - least) < 1);
  const std::vector<std::string> whole = {"data.train_batch_size=1", "actor.mini_batch_size=1", "rollout.n=2",
                                          "actor.max_tokens_per_micro_batch=4096"};
  CHECK(ahead(chosen(on_gpu(whole).recipe, 80), 80) == 0);
  train::Recipe bitwise = recipe;
  bitwise.rollout.bitwise = true;
  CHECK(ahead(bitwise, 80) == 0);
}

TEST_CASE("GPU plan: counts CUDA graphs, and none when kernels are launched individually") {
  const auto graph_bytes = [](const std::vector<std::string>& more) {
    double bytes = 0;
    for (const train::MemoryPart& part : train::estimate_memory(on_gpu(more).recipe, large_model(), 1)) {
      if (!part.name.starts_with("CUDA graphs")) continue;
      CHECK((part.on_gpu && part.phase == train::MemoryPhase::always));
      bytes += part.bytes;
    }
    return bytes;
  };
  CHECK(graph_bytes({}) == kGiB / 4);
  CHECK(graph_bytes({"rollout.enforce_eager=true"}) == 0);
  CHECK(graph_bytes({"rollout.device=cpu"}) == 0);
}

TEST_CASE("GPU plan: micro-batches hold the longest sequence and row, and at most an update") {
  const AutoSettings update =
      choose(on_gpu({"data.train_batch_size=2", "actor.mini_batch_size=2", "rollout.n=2"}).recipe, 80);
  CHECK(update.max_tokens_per_micro_batch == 4864);  // two groups of 255 + 2 · 1,025 tokens, in steps of 256
  const AutoSettings shared =
      choose(on_gpu({"data.train_batch_size=2", "actor.mini_batch_size=2", "rollout.n=2"}).recipe, 80, 2);
  CHECK(shared.max_tokens_per_micro_batch == 2 * 1280);
  const train::Recipe longer = on_gpu({"data.max_response_length=8000"}).recipe;  // above the CPU's 4,096: allowed
  CHECK(choose(longer, 16).max_tokens_per_micro_batch >= 8256);
}

TEST_CASE("GPU plan: more than 256 concurrent sequences only if their KV cache fits") {
  CHECK(choose(on_gpu({"quant.rollout.kv_cache=int8"}).recipe, 80).max_num_seqs == 512);  // 64 x 8
  CHECK(choose(on_gpu({"rollout.n=64"}).recipe, 80).max_num_seqs <= 1024);
  CHECK(choose(on_gpu({"rollout.n=2"}).recipe, 80).max_num_seqs == 256);
  CHECK(choose(on_gpu({"rollout.max_num_seqs=96"}).recipe, 80).max_num_seqs == 96);
  CHECK(choose(on_gpu({"rollout.kv_pages=24000"}).recipe, 80).max_num_seqs == 24'000 / 80 / 64 * 64);  // 80 pages each
  // A longest sequence has 28 layers x 2 x 2 heads of 128 in bf16: 36.7 MB of 1,280 tokens.
  const train::Recipe bf16 = on_gpu({"quant.rollout.kv_cache=bf16", "rollout.n=16"}).recipe;
  for (const double gib : {48.0, 56.0, 64.0, 80.0}) {
    const train::Recipe plan = chosen(bf16, gib);
    double always = 0;
    for (const train::MemoryPart& part : train::estimate_memory(plan, large_model(), 1))
      if (part.on_gpu && part.phase == train::MemoryPhase::always) always += part.bytes;
    const double pages = static_cast<double>(plan.rollout.max_num_seqs) * 1280 * 28 * 2 * 2 * 128 * 2;
    INFO(gib << " GiB: " << plan.rollout.max_num_seqs.value << " sequences");
    CHECK((plan.rollout.max_num_seqs == 256 || always + pages <= 0.5 * gib * kGiB));
  }
}

TEST_CASE("GPU plan: chosen numbers are in the printed recipe, which reads back as chosen") {
  train::LoadedRecipe loaded = on_gpu({"actor.logprob_chunk_tokens=512"});
  const AutoSettings settings{384, 8704, 4096, true};
  train::set_auto(settings, "auto", loaded);
  const auto line_of = [&](const std::string& key) {
    const std::size_t at = loaded.annotated_yaml.find("  " + key + ": ");
    return loaded.annotated_yaml.substr(at, loaded.annotated_yaml.find('\n', at) - at);
  };
  CHECK(line_of("max_tokens_per_micro_batch").starts_with("  max_tokens_per_micro_batch: 8704 "));
  CHECK(line_of("max_tokens_per_micro_batch").ends_with("# auto"));
  CHECK(line_of("logprob_chunk_tokens").starts_with("  logprob_chunk_tokens: 512 "));
  CHECK(line_of("logprob_chunk_tokens").ends_with("# --set actor.logprob_chunk_tokens"));
  CHECK(loaded.resolved_yaml.find(": auto\n  logprob") == std::string::npos);
  const train::Recipe again =
      train::parse_recipe(train::keys(), loaded.resolved_yaml, "again", ".", {}, false, train::RecipeUse::record)
          .recipe;
  CHECK(train::auto_settings_of(again) == AutoSettings{384, 8704, 512, true});
  CHECK_FALSE(train::has_auto(again));
}

TEST_CASE("GPU resume: auto takes the checkpoint's numbers") {
  const test::TempDir dir;
  const auto run = test::copy_of_finished_run(dir / "run");
  const std::vector<std::string> overrides = {"trainer.default_local_dir=" + run.string(),
                                              "quant.rollout.rotation=none"};
  train::LoadedRecipe loaded = train::load_recipe(train::keys(), test::kTiny, overrides, true);
  loaded.recipe.actor.max_tokens_per_micro_batch.is_auto = true;  // as with trainer.device cuda
  const train::Inputs inputs = train::read_checkpoint_state(run / "checkpoints/step_4").inputs;
  const train::RunFolder folder(run);
  const auto world = dist::make_solo();
  train::take_recorded_keys(loaded, *world);
  CHECK(train::recorded_settings(loaded.recipe, *world) == AutoSettings{256, 256, 1024, false});
  train::set_auto({256, 256, 1024, false}, loaded.recipe);
  CHECK(train::find_resume_point(loaded.recipe, inputs, &folder, false, *world).changes.empty());
  loaded.recipe.actor.max_tokens_per_micro_batch = 512;  // a different number is refused as usual
  CHECK(error_of([&] {
          (void)train::find_resume_point(loaded.recipe, inputs, &folder, false, *world);
        }).find("actor.max_tokens_per_micro_batch 512 (it was made with 256)") != std::string::npos);
}

TEST_CASE("GPU resume: two ranks on half a smaller GPU each keep one rank's numbers, and report what lacks") {
  const GpuRun run;
  constexpr std::size_t kRanks = 2;
  std::vector<train::LoadedRecipe> resumed(kRanks, tiny_on_gpu(run.path));
  std::vector<std::string> plans(kRanks);
  std::vector<double> bytes(kRanks);
  base::set_log_file(run.dir / "log.txt");
  test::Ranks(kRanks).run([&](dist::Collectives& world) {
    const auto rank = static_cast<std::size_t>(world.rank());
    train::LoadedRecipe& loaded = resumed[rank];
    train::take_recorded_keys(loaded, world);
    bytes[rank] = learner::smallest_gpu_share("the only one", std::size_t{48} << 30, world);
    const AutoSettings recorded = train::recorded_settings(loaded.recipe, world);
    plans[rank] = train::decide_auto(recorded, large_model(), world.size(), bytes[rank], loaded);
    (void)train::find_resume_point(loaded.recipe, run.inputs, world.is_first() ? &run.folder : nullptr, false, world);
    if (world.is_first()) train::require_gpu_memory(loaded.recipe, large_model(), world.size(), bytes[rank], true);
  });
  base::set_log_file({});
  CHECK(choose(tiny_on_gpu(run.path).recipe, 24, kRanks) != run.chosen);  // as a new run would
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    CHECK(bytes[rank] == 24 * kGiB);
    CHECK(train::auto_settings_of(resumed[rank].recipe) == run.chosen);
    CHECK(plans[rank].ends_with(" of 24.00 GiB, from the checkpoint"));
    CHECK(resumed[rank].annotated_yaml.find("# auto, from the checkpoint") != std::string::npos);
  }
  const std::string said = test::read_file(run.dir / "log.txt");
  INFO(plans[0] << "\n" << said);
  CHECK(said.find("was written by a run of 1 ranks and continues with 2") != std::string::npos);
  const std::size_t at = said.find("warning: the plan needs about ");
  CHECK(at != std::string::npos);
  const std::string advice = said.substr(said.find(" of the GPU's 24.00 GiB: lower "));
  for (const char* key : {"actor.max_tokens_per_micro_batch with --allow-change", "rollout.gpu_memory_utilization"})
    CHECK(advice.find(key) != std::string::npos);
  for (const char* fixed : {"actor.logprob_chunk_tokens", "actor.activation_checkpointing"})
    CHECK(advice.find(fixed) == std::string::npos);
  CHECK(said.find("warning: the plan needs about ", at + 1) == std::string::npos);
}

TEST_CASE("GPU resume: another number of concurrent sequences is reported, the same is not") {
  const GpuRun run;
  const auto world = dist::make_solo();
  const auto said = [&](const std::string& max_num_seqs) {
    const auto log = run.dir / ("log_" + max_num_seqs);
    base::set_log_file(log);
    train::LoadedRecipe loaded = tiny_on_gpu(run.path, {"rollout.max_num_seqs=" + max_num_seqs});
    train::take_recorded_keys(loaded, *world);
    train::Recipe& recipe = loaded.recipe;
    train::set_auto(train::recorded_settings(recipe, *world), recipe);
    (void)train::find_resume_point(recipe, run.inputs, &run.folder, false, *world);
    base::set_log_file({});
    return test::read_file(log);
  };
  const std::string is_named = "rollout.max_num_seqs 64 (the checkpoint was made with 256): on a GPU samples depend on";
  const std::string none = said("auto"), other = said("64");
  CHECK(run.chosen.max_num_seqs == 256);
  CHECK(none.find("warning: rollout.max_num_seqs") == std::string::npos);
  CHECK(other.find("warning: " + is_named) != std::string::npos);
}

TEST_CASE("GPU plan: refused if it cannot fit, reported if it may not fit") {
  const train::Recipe recipe = chosen(on_gpu().recipe, 80);
  CHECK_NOTHROW(train::require_gpu_memory(recipe, large_model(), 1, 80 * kGiB));
  const std::string error = error_of([&] { train::require_gpu_memory(recipe, large_model(), 1, 16 * kGiB); });
  CHECK(error.find("expected a plan within the GPU's 16.00 GiB, got ") != std::string::npos);
  CHECK(error.find("lora.rank") != std::string::npos);
  // A run from the large card that resumes on a smaller one keeps its numbers; one sentence names what does not fit.
  const test::TempDir dir;
  base::set_log_file(dir / "log.txt");
  train::require_gpu_memory(recipe, large_model(), 1, 80 * kGiB);
  const std::string of_large = test::read_file(dir / "log.txt");
  train::require_gpu_memory(recipe, large_model(), 1, 40 * kGiB);
  base::set_log_file({});
  const std::string said = test::read_file(dir / "log.txt").substr(of_large.size());
  CHECK(of_large.find("warning: the plan needs about ") == std::string::npos);
  CHECK(said.find("warning: the plan needs about ") != std::string::npos);
  CHECK(said.find(" of the GPU's 40.00 GiB: lower actor.max_tokens_per_micro_batch") != std::string::npos);
  // The plan excludes the activations of a second micro-batch: the learner then has one at a time.
  CHECK(train::activations_ahead_bytes(recipe, large_model(), 1, 40 * kGiB) == 0);
}
