// The recipes that are shipped, and what --dry-run says of a run.
#include <algorithm>

#include "decoder/kv/delta_states.h"
#include "learner/learner.h"
#include "learner/ranks.h"
#include "support/catch.h"
#include "train/plan/memory_estimate.h"
#include "train/plan/options.h"
#include "train/policy/policy.h"
#include "train/policy/sampler.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

std::vector<fs::path> shipped_recipes() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(QRL_SOURCE_DIR "/recipes")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

double bytes_of(const std::vector<train::MemoryPart>& parts, const std::string& name) {
  for (const train::MemoryPart& part : parts) {
    if (part.name == name) return part.bytes;
  }
  FAIL(name);
  return 0;
}

}  // namespace

TEST_CASE("shipped recipes: each passes a dry run, which allocates no model and names what is absent") {
  const std::vector<fs::path> recipes = shipped_recipes();
  REQUIRE(recipes.size() >= 28);
  for (const fs::path& recipe : recipes) {
    // Far below the 8B model of some: nothing of it may be made.
    const test::Outcome outcome =
        test::run_command("ulimit -v 3000000; " + test::kProgram + recipe.string() + " --dry-run --allow-absent");
    INFO(recipe << outcome.output);
    CHECK(outcome.exit_code == 0);
    CHECK(outcome.output.find("memory per device") != std::string::npos);
    const std::string name = recipe.string();
    const bool is_here = name.find("/papers/") == std::string::npos && name.find("/math/") == std::string::npos &&
                         name.find("/smollm2_") == std::string::npos &&
                         name.find("/calculator") == std::string::npos;              // its rows are made by products.py
    const bool may_be_here = name.find("/smollm2_arithmetic") != std::string::npos;  // after scripts/fetch/models
    CHECK((may_be_here || (outcome.output.find("\nabsent ") == std::string::npos) == is_here));
  }
}

TEST_CASE("dry run: refuses shapes, batches and score names that do not fit") {
  const auto refuses = [](const std::string& settings, const std::string& about) {
    const test::Outcome outcome = test::run_command(test::kProgram + test::kTiny + " --dry-run " + settings);
    INFO(outcome.output);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.output.find(about) != std::string::npos);
  };
  refuses("--set data.max_response_length=600 --set actor.max_tokens_per_micro_batch=4096", "max_position_embeddings");
  refuses("--set actor.mini_batch_size=3", "divide data.train_batch_size");
  refuses("--set algorithm.filter_groups.enable=true --set algorithm.filter_groups.metric=nope",
          "expected one of score, acc, correct, wrong");
  refuses("--set model.path=/nowhere --set model.init.config=null", "/nowhere");
}

TEST_CASE("memory estimate: equals what sampler and learner take") {
  const std::string models = "model.init.config=" QRL_SOURCE_DIR "/recipes/models/";
  const std::string mixture = models + "quickstart-moe/config.json", delta = models + "quickstart-delta/config.json";
  for (const auto& [settings, model] : {std::pair<std::string, std::string>{"quant.rollout.weights=int8", ""},
                                        {"quant.rollout.weights=bf16", ""},
                                        {"quant.rollout.weights=fp8_e4m3", ""},
                                        {"quant.rollout.weights=int4", ""},
                                        {"quant.rollout.weights=fp32", ""},
                                        {"quant.rollout.weights=int8", mixture},
                                        {"quant.rollout.weights=int4", mixture},
                                        {"quant.rollout.weights=int8", delta},
                                        {"quant.rollout.weights=int4", delta}}) {
    CAPTURE(settings, model);
    std::vector<std::string> overrides = {settings, "optim.name=muon"};
    if (!model.empty()) overrides.push_back(model);
    const train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, overrides, true).recipe;
    const train::Policy policy = train::make_policy(recipe);
    const auto parts = train::estimate_memory(recipe, policy.config, 1);
    const auto world = dist::make_solo();
    const train::Sampler sampler(policy.config, recipe, *world, recipe.data.max_prompt_length);
    CHECK(
        test::close(bytes_of(parts, "sampler's weights"), static_cast<double>(sampler.snapshot.num_bytes()), 0, 0.05));
    const learner::Learner learner(policy.config, policy.weights, train::learner_options(recipe), *world);
    const auto total = [](const model::WeightViews& views) {
      double bytes = 0;
      for (const auto& [name, view] : views) bytes += static_cast<double>(view.num_bytes());
      return bytes;
    };
    CHECK(bytes_of(parts, "master weights") == total(learner.state().masters()));
    CHECK(bytes_of(parts, "gradients") == total(learner.state().gradients()));
    CHECK(bytes_of(parts, "optimizer moments") == total(learner.state().moments()));
  }
}

TEST_CASE("memory estimate: a step's routes count twice, a byte per token, sparse layer and expert") {
  const std::vector<std::string> mixture{"model.init.config=" QRL_SOURCE_DIR
                                         "/recipes/models/quickstart-moe/config.json"};
  const train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, mixture, true).recipe;
  const model::ModelConfig config = train::model_config(recipe);
  constexpr double kBytes = 2 * 4 * 4 * (24 + 24) * 3 * 2;  // 4 prompts with 4 samples, 3 layers with 2 experts
  CHECK(bytes_of(train::estimate_memory(recipe, config, 1), "routes of a step, at most") == kBytes);
  CHECK(bytes_of(train::estimate_memory(recipe, config, 2), "routes of a step, at most") == kBytes / 2);
  const model::ModelConfig large = model::read_config(QRL_SOURCE_DIR "/recipes/models/qwen3-30b-a3b/config.json");
  CHECK(bytes_of(train::estimate_memory(recipe, large, 1), "routes of a step, at most") ==
        2.0 * 4 * 4 * (24 + 24) * 384);
}

TEST_CASE("memory estimate: Muon's updates count beside a micro-batch's activations where they are larger") {
  const std::vector<std::string> muon{"optim.name=muon"};
  const train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, muon, true).recipe;
  const model::ModelConfig large = model::read_config(QRL_SOURCE_DIR "/recipes/models/qwen3-30b-a3b/config.json");
  // 48 layers of width 2,048: q, o; k, v; a router; 128 experts of three matrices
  constexpr double kUpdates = 2.0 * 48 * (2 * 4096 + 2 * 512 + 128 + 128 * 3 * 768) * 2048;
  for (const int num_ranks : {1, 2}) {
    const auto parts = train::estimate_memory(recipe, large, num_ranks);
    const double bytes = bytes_of(parts, "Muon's updates, beyond activations") +
                         bytes_of(parts, "activations of a micro-batch") + bytes_of(parts, "logits of a chunk");
    CHECK(bytes == kUpdates / num_ranks);
  }
}

TEST_CASE("memory estimate: the KV cache is for concurrent sequences, for all slots before held-out data are read") {
  const auto kv_bytes = [](std::vector<std::string> overrides, std::optional<std::int64_t> held_out = {}) {
    const train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, overrides, true).recipe;
    const auto parts = train::estimate_memory(recipe, train::make_policy(recipe).config, 1, held_out);
    return bytes_of(parts, "KV cache");
  };
  const std::string unjudged = "data.val_generator.task=null", batch = "data.train_batch_size=4",
                    mini = "actor.mini_batch_size=4", n = "rollout.n=4";
  const double all = kv_bytes({"rollout.max_num_seqs=256"});
  CHECK(kv_bytes({"rollout.max_num_seqs=256", batch, mini, n}) == all);
  const std::string apart = "rollout.prefix_sharing=false";
  CHECK(kv_bytes({"rollout.max_num_seqs=256", batch, mini, n, unjudged, apart}) == all / 16);
  CHECK(kv_bytes({"rollout.max_num_seqs=8", batch, mini, n, unjudged, apart}) == all / 32);
  // One of a sequence's three pages belongs to its prompt, which four samples share.
  CHECK(kv_bytes({"rollout.max_num_seqs=256", batch, mini, n, unjudged}) == all / 16 * 9 / 12);
  CHECK(kv_bytes({"rollout.max_num_seqs=8", batch, mini, n, unjudged}) == all / 32 * 9 / 12);
  // An evaluation has as many sequences as its largest set; tiny.yaml's eval.n is 2.
  CHECK(kv_bytes({"rollout.max_num_seqs=256", batch, mini, n, apart}, 32) == all / 4);
  CHECK(kv_bytes({"rollout.max_num_seqs=256", batch, mini, n}, 32) == all / 4 * 5 / 6);
  CHECK(kv_bytes({"rollout.max_num_seqs=256", batch, mini, n, apart}, 2) == all / 16);  // a step has more
  CHECK(kv_bytes({"rollout.max_num_seqs=256", batch, mini, n, apart}, 1000) == all);
  CHECK(kv_bytes({"rollout.max_num_seqs=256", batch, mini, n, apart, "eval.freq=0"}) == all / 16);
}

TEST_CASE("memory estimate: keys and values are those of layers with attention, and states those of the slots in use") {
  const model::ModelConfig config = model::read_config(QRL_SOURCE_DIR "/recipes/models/qwen3.5-0.8b/config.json");
  model::ModelConfig dense = config;
  dense.delta_layers.clear();
  const auto part = [&](const model::ModelConfig& of, const std::string& name, std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(), {"data.train_batch_size=4", "actor.mini_batch_size=4", "rollout.n=4",
                                         "rollout.max_num_seqs=256", "data.val_generator.task=null"});
    const train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, overrides, true).recipe;
    return bytes_of(train::estimate_memory(recipe, of, 1), name);
  };
  CHECK(part(dense, "KV cache", {}) == 4 * part(config, "KV cache", {}));
  const std::string states = "states of DeltaNet layers";
  CHECK(decoder::state_slot_bytes(dense) == 0);
  const auto slot = static_cast<double>(decoder::state_slot_bytes(config));
  CHECK(slot > 18 * (16 * 128 * 128 + 4 * 6144) * 4.0);
  CHECK(part(config, states, {}) == (16 + 4) * slot);
  CHECK(part(config, states, {"rollout.prefix_sharing=false"}) == 16 * slot);
  CHECK(part(config, states, {"rollout.max_num_seqs=8"}) == (8 + 2) * slot);
}

TEST_CASE(
    "rollout.max_num_seqs: unset on the CPU, the states of DeltaNet layers take at most a quarter of the memory") {
  const model::ModelConfig config = model::read_config(QRL_SOURCE_DIR "/recipes/models/qwen3.5-9b/config.json");
  const auto chosen = [&](std::uint64_t gib, const std::string& setting) {
    const std::vector<std::string> overrides = {setting};
    train::LoadedRecipe loaded = train::load_recipe(train::keys(), test::kTiny, overrides, true);
    if (setting == "rollout.n=2") loaded.origins.erase("rollout.max_num_seqs");
    loaded.recipe.rollout.max_num_seqs.value = setting == "rollout.n=2" ? 256 : 200;
    train::choose_sequences_by_states(config, gib << 30, loaded);
    return loaded.recipe.rollout.max_num_seqs.value;
  };
  CHECK(chosen(1000, "rollout.n=2") == 256);
  CHECK(chosen(32, "rollout.n=2") == 128);  // 145 slots of 52 MiB
  CHECK(chosen(1, "rollout.n=2") == 8);
  CHECK(chosen(1, "rollout.max_num_seqs=200") == 200);
}

TEST_CASE("memory estimate: activations of at most an update's or cold start's tokens") {
  const auto tokens = [](const std::string& setting, int num_ranks, std::int64_t limit = 1'000'000) {
    const std::vector<std::string> overrides = {setting};
    train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, overrides, true).recipe;
    recipe.actor.max_tokens_per_micro_batch = limit;
    const model::ModelConfig config = train::make_policy(recipe).config;
    const auto parts = train::estimate_memory(recipe, config, num_ranks);
    return bytes_of(parts, "activations of a micro-batch") / train::activation_bytes(recipe, config);
  };
  // Two prompts of 24 tokens with four samples of 24: all of a prompt but its last token is computed once.
  constexpr int kGroup = 23 + 4 * 25;
  CHECK(tokens("sft.steps=0", 1) == 2 * kGroup);
  CHECK(tokens("sft.steps=0", 2) == kGroup);
  CHECK(tokens("sft.steps=0", 3) == kGroup);  // the samples of a prompt are on one rank
  CHECK(tokens("sft.batch_size=40", 1) == 40 * 48);
  CHECK(tokens("sft.batch_size=40", 2) == 40 * 48);
  CHECK(tokens("sft.steps=0", 1, 200) == 200);
  // Dynamic sampling may leave both prompts to one rank.
  train::Recipe filtered = train::load_recipe(train::keys(), test::kTiny, {}, true).recipe;
  filtered.actor.max_tokens_per_micro_batch = 1'000'000;
  filtered.algorithm.filter_groups.enable = true;
  CHECK(train::trained_tokens_at_once(filtered, 2) == 2 * kGroup);
}

TEST_CASE("memory estimate: the peak is the sum, or the larger phase if phases alternate") {
  using Phase = train::MemoryPhase;
  const std::vector<train::MemoryPart> parts = {{"a", 100, true, false, Phase::always},
                                                {"b", 20, true, false, Phase::sampling},
                                                {"c", 3, true, false, Phase::learning},
                                                {"d", 5, true, false, Phase::learning},
                                                {"e", 1000, true, true, Phase::learning}};
  CHECK(train::peak_bytes(parts, false, false) == 128);
  CHECK(train::peak_bytes(parts, false, true) == 120);
  CHECK(train::peak_bytes(parts, true, true) == 1000);
  const train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, {}, true).recipe;
  double sampling = 0, learning = 0;
  for (const train::MemoryPart& part : train::estimate_memory(recipe, train::make_policy(recipe).config, 1)) {
    if (part.phase == Phase::sampling) sampling += part.bytes;
    if (part.phase == Phase::learning) learning += part.bytes;
  }
  CHECK(sampling > 0);
  CHECK(learning > 0);
}

TEST_CASE("memory check: a plan is refused, doubted, or accepted silently") {
  const std::vector<train::MemoryPart> parts = {{"masters", 4e9},
                                                {"gradients", 2e9},
                                                {"activations", 3e9, false, false, train::MemoryPhase::learning},
                                                {"KV cache", 5e9, true, false, train::MemoryPhase::sampling},
                                                {"on a GPU", 1e12, true, true}};
  const auto check = [&](std::uint64_t bytes, std::uint64_t free, int num_here = 1, bool take_turns = false) {
    return train::check_memory(parts, take_turns, num_here, {bytes, "this machine's memory", free});
  };
  CHECK(check(20'000'000'000, 20'000'000'000) == "");
  CHECK_THAT(check(20'000'000'000, 10'000'000'000), Catch::Contains("of free memory"));
  CHECK_THAT(check(13'000'000'000, 13'000'000'000), Catch::Contains("is more than this machine's memory"));
  CHECK(check(13'000'000'000, 13'000'000'000, 1, true) == "");  // activations or the KV cache
  CHECK_THROWS_WITH(check(5'900'000'000, 0),
                    Catch::Contains("memory: expected a plan within this machine's memory, 5.49 GiB, got 5.59 GiB") &&
                        Catch::Contains("\"masters\", 3.73 GiB"));
  CHECK_THROWS_WITH(check(13'000'000'000, 0, 3), Catch::Contains("16.76 GiB in 3 processes here"));
  CHECK(check(0, 0) == "");  // nobody knows
}

TEST_CASE("memory check: a plan that cannot fit ends dry run and start with exit code 2, before data are read") {
  const test::TempDir dir;
  std::ofstream(dir / "config.json") << R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
      "vocab_size": 151936, "hidden_size": 16384, "intermediate_size": 65536, "num_hidden_layers": 200,
      "num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 256, "hidden_act": "silu",
      "max_position_embeddings": 40960, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "tie_word_embeddings": false,
      "eos_token_id": 151645, "torch_dtype": "bfloat16"})";
  std::ofstream(dir / "r.yaml") << "model: {init: {config: config.json}}\n"
                                   "data: {train_generator: {task: countdown, size: 64}, train_batch_size: 4, "
                                   "max_prompt_length: 96}\nactor: {mini_batch_size: 4}\n";
  const std::string command =
      test::kProgram + (dir / "r.yaml").string() + " --set trainer.default_local_dir=" + (dir / "run").string();
  const test::Outcome planned = test::run_command(command + " --dry-run");
  CHECK(planned.exit_code == 2);
  CHECK(test::says(planned, "optimizer moments"));
  CHECK(test::says(planned, "does not fit: memory: expected a plan within "));
  CHECK(test::says(planned, "--allow-absent"));
  CHECK(test::run_command(command + " --dry-run --allow-absent").exit_code == 0);
  const test::Outcome started = test::run_command(command +
                                                  " --set 'data.train_files=[nowhere.jsonl]' --set "
                                                  "data.train_generator.task=null");
  CHECK(started.exit_code == 2);
  CHECK(test::says(started, "error: memory: expected a plan within "));
  CHECK_FALSE(fs::exists(dir / "run"));
}

TEST_CASE("memory estimate: a share of masters and moments is the largest of any rank") {
  const std::vector<std::string> overrides = {"trainer.zero_stage=1", "optim.name=muon"};
  const train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, overrides, true).recipe;
  const train::Policy policy = train::make_policy(recipe);
  const auto parts = train::estimate_memory(recipe, policy.config, 3);
  std::vector<double> kept(3);
  test::Ranks(3).run([&](dist::Collectives& world) {
    const learner::Learner learner(policy.config, policy.weights, train::learner_options(recipe), world);
    double bytes = 0;
    for (const auto& views : {learner.state().masters(), learner.state().moments()})
      for (const auto& [name, view] : views) bytes += static_cast<double>(view.num_bytes());
    kept[static_cast<std::size_t>(world.rank())] = bytes;
  });
  CHECK(bytes_of(parts, "master weights") + bytes_of(parts, "optimizer moments") == *std::ranges::max_element(kept));
  const auto whole = train::estimate_memory(recipe, policy.config, 1);
  CHECK(bytes_of(parts, "gradients") == bytes_of(whole, "gradients"));
  CHECK(bytes_of(parts, "weights to compute with") == bytes_of(whole, "master weights"));  // fp32, as the recipe says
}

TEST_CASE("memory estimate: counts dequantized operands of a GPU's GEMMs of many rows") {
  const auto bytes = [](std::vector<std::string> overrides) {
    overrides.insert(overrides.begin(),
                     {"trainer.device=cuda", "model.dtype=bfloat16", "quant.learner.forward=low_bit"});
    const train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, overrides, true).recipe;
    double sum = 0;
    for (const train::MemoryPart& part : train::estimate_memory(recipe, train::make_policy(recipe).config, 1)) {
      if (part.name == "dequantized operands") sum += part.on_gpu ? part.bytes : -1e9;
    }
    return sum;
  };
  const std::string int4 = "quant.rollout.weights=int4", fp8 = "quant.rollout.weights=fp8_e4m3",
                    block128 = "quant.rollout.granularity=block128", few = "rollout.max_num_batched_tokens=64",
                    few_learnt = "actor.max_tokens_per_micro_batch=64",
                    many_learnt = "actor.max_tokens_per_micro_batch=512";
  const model::ModelConfig config =
      train::make_policy(train::load_recipe(train::keys(), test::kTiny, {}, true).recipe).config;
  const auto padded = [](std::int64_t count, std::int64_t multiple) {
    return static_cast<double>((count + multiple - 1) / multiple * multiple);
  };
  const double inputs = padded(config.hidden_size, 128), inner = padded(config.intermediate_size, 128);
  const double largest =
      std::max({padded(2 * config.intermediate_size, 64) * inputs, padded(config.hidden_size, 64) * inner,
                padded(config.q_size() + 2 * config.kv_size(), 64) * inputs});
  CHECK(bytes({int4}) == 2 * largest);
  CHECK(bytes({fp8, block128}) == 2 * (largest + 4096 * std::max({inputs, inner, padded(config.q_size(), 128)})));
  CHECK(bytes({int4, few, few_learnt}) == 0);
  CHECK(bytes({int4, few, many_learnt}) == 2 * largest);  // the learner's rows
  CHECK(bytes({int4, "rollout.bitwise=true"}) == 0);
  CHECK(bytes({fp8}) == 0);
  CHECK(bytes({int4, "quant.rollout.activations=int8"}) == 0);
}

TEST_CASE("memory estimate: a GPU learner's copies, and with low_bit the sampler's own matrices") {
  const auto parts_of = [](const std::string& forward,
                           const std::string& more = "actor.activation_checkpointing=false") {
    const std::vector<std::string> overrides = {"trainer.device=cuda",
                                                "model.dtype=bfloat16",
                                                "quant.rollout.weights=int8",
                                                "quant.rollout.kv_cache=int8",
                                                "quant.learner.forward=" + forward,
                                                more};
    const train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, overrides, true).recipe;
    return train::estimate_memory(recipe, train::make_policy(recipe).config, 1);
  };
  const train::Recipe recipe = train::load_recipe(train::keys(), test::kTiny, {}, true).recipe;
  double matrices = 0, vectors = 0;
  for (const model::WeightSpec& spec : model::weight_specs(train::make_policy(recipe).config)) {
    const bool is_vector = spec.kind == model::WeightKind::norm || spec.kind == model::WeightKind::bias;
    (is_vector ? vectors : matrices) += static_cast<double>(spec.shape.numel());
  }
  for (const char* forward : {"bf16", "fake_quant"})
    CHECK(bytes_of(parts_of(forward), "weights to compute with") == 2 * matrices + 4 * vectors);
  const auto low_bit = parts_of("low_bit"), fake = parts_of("fake_quant");
  CHECK(bytes_of(fake, "a checkpoint's way to its files") == bytes_of(fake, "a tensor to be quantized"));  // small ones
  CHECK(bytes_of(low_bit, "weights to compute with") == 4 * vectors);
  CHECK(bytes_of(low_bit, "a layer's matrix and its input, dequantized") > 0);
  // End to end in fp8 beside fp8 alone: an input in fp32, and fp32 gradients of some tokens.
  const auto in_fp8 = [](const std::string& backward) {
    const std::vector<std::string> overrides = {"trainer.device=cuda",
                                                "model.dtype=bfloat16",
                                                "quant.rollout.weights=fp8_e4m3",
                                                "quant.rollout.granularity=block128",
                                                "quant.learner.forward=low_bit",
                                                "quant.learner.backward=" + backward};
    const train::Recipe fp8 = train::load_recipe(train::keys(), test::kTiny, overrides, true).recipe;
    return bytes_of(train::estimate_memory(fp8, train::make_policy(fp8).config, 1),
                    "a layer's matrix and its input, dequantized");
  };
  const double tokens = static_cast<double>(recipe.actor.max_tokens_per_micro_batch);
  const double inner = static_cast<double>(train::make_policy(recipe).config.intermediate_size);
  REQUIRE(tokens <= 4096);
  CHECK(in_fp8("fp8_e4m3") >= in_fp8("model_dtype") + tokens * inner * (2 + 6 * 4));
  CHECK(in_fp8("fp8_e4m3") <= 2 * tokens * inner * (4 + 6 * 4) + in_fp8("model_dtype"));
  // Logits and their bf16 gradient; top-k and top-p exclude logits in place.
  const auto cut = parts_of("bf16", "rollout.top_k=20");
  CHECK(bytes_of(cut, "logits of a chunk") == bytes_of(parts_of("bf16"), "logits of a chunk"));
  CHECK(bytes_of(cut, "tokens that top-k and top-p leave, at most") ==
        2.0 * 4 * 20 *
            static_cast<double>(recipe.data.train_batch_size * recipe.rollout.n * recipe.data.max_response_length));
  for (const train::MemoryPart& part : parts_of("bf16"))
    CHECK(part.name != "tokens that top-k and top-p leave, at most");
  CHECK(bytes_of(parts_of("bf16", "model.dtype=float32"), "logits of a chunk") * 1.5 ==
        bytes_of(parts_of("bf16"), "logits of a chunk"));
  CHECK(bytes_of(low_bit, "activations of a micro-batch") < bytes_of(fake, "activations of a micro-batch"));
  // A bitwise learner computes layers again from less than checkpoints hold, beside a layer's pages.
  const auto bitwise = parts_of("low_bit", "rollout.bitwise=true");
  CHECK(bytes_of(bitwise, "activations of a micro-batch") <
        bytes_of(parts_of("low_bit", "actor.activation_checkpointing=true"), "activations of a micro-batch"));
  CHECK(bytes_of(bitwise, "a layer's KV cache of a micro-batch") > 0);
  model::ModelConfig large = train::make_policy(recipe).config;
  large.vocab_size = 152'000;
  large.hidden_size = 4096;
  const std::vector<std::string> on_gpu = {"trainer.device=cuda"};
  const auto of_large =
      train::estimate_memory(train::load_recipe(train::keys(), test::kTiny, on_gpu, true).recipe, large, 1);
  CHECK(bytes_of(of_large, "a checkpoint's way to its files") == double{256 << 20});
}
