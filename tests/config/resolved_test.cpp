// Tests the printed recipe, changes between recipes, and the pages generated from the keys.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/rng.h"
#include "config/keys/key.h"
#include "config/printer.h"
#include "config/reader.h"
#include "reference_pages.h"
#include "support.h"
#include "train/plan/catalog.h"

using namespace qrl;
using namespace qrl::test;
using config::Recipe;

namespace {

/// Draws a valid recipe with every member set, so the reader fills in nothing.
class RandomRecipe {
 public:
  explicit RandomRecipe(std::uint64_t index) : draw_(11, base::RandomPurpose::test, index) {}

  Recipe next() {
    Recipe r = train::keys().defaults();
    const bool new_model = flag();
    if (new_model) {
      r.model.init_config = path();
      r.model.init_seed = word();
    } else {
      r.model.path = path();
    }
    r.model.dtype = pick(config::ComputeDType::bf16, config::ComputeDType::f32);
    if (flag()) r.data.train_files = {path(), path()};
    else r.data.train_generator = generator();
    if (!r.data.train_files.empty() && flag()) r.data.train_weights = {positive(), positive()};
    if (flag()) r.data.val_files = {path()};
    if (!r.data.train_files.empty() || !r.data.val_files.empty()) {
      r.data.prompt_key = text();
      r.data.ground_truth_key = text();
      r.data.data_source_key = text();
      if (!r.data.train_files.empty() && flag()) r.data.filter = {text(), text()};
      if (!r.data.val_files.empty() && flag()) r.data.val_filter = {text()};
    }
    r.data.val_generator = generator();
    r.actor.mini_batch_size = draw_.between(1, 64);
    r.data.train_batch_size = *r.actor.mini_batch_size * draw_.between(1, 8);
    r.data.max_prompt_length = draw_.between(1, 4000);
    r.data.max_response_length = draw_.between(1, 4000);
    r.data.overlong_prompt =
        pick(config::OverlongPrompt::error, config::OverlongPrompt::filter, config::OverlongPrompt::truncate);
    r.data.shuffle = flag();
    r.data.seed = word();
    r.data.prompt_template = text() + "{prompt}" + text();
    r.data.chat_template = pick(std::string("auto"), std::string("qwen2.5"), std::string("/a b/chat.jinja"));
    r.data.system_prompt = text();
    if (flag()) r.data.enable_thinking = flag();
    r.data.parse_special_tokens = flag();
    r.rollout.n = draw_.between(2, 64);
    r.rollout.temperature = positive();
    r.rollout.top_p = 1 - draw_.uniform();
    r.rollout.top_k = flag() ? -1 : draw_.between(1, config::kMaxKeptTokens);
    r.rollout.max_num_seqs = draw_.between(1, 1000);
    r.rollout.max_num_batched_tokens = draw_.between(1, 10000);
    r.rollout.page_size = draw_.between(1, 64);
    r.rollout.kv_pages = draw_.between(8000, 16'000'000);
    r.rollout.prefix_sharing = flag();
    r.quant.weights = pick(config::WeightFormat::f32, config::WeightFormat::bf16, config::WeightFormat::int8);
    r.quant.kv_cache = pick(config::KvCache::automatic, config::KvCache::f32, config::KvCache::fp8_e4m3);
    r.quant.learner_forward =
        pick(config::LearnerForward::bf16, config::LearnerForward::fake_quant, config::LearnerForward::low_bit);
    if (r.quant.weights != config::WeightFormat::f32 && r.quant.kv_cache != config::KvCache::f32)
      r.rollout.device =
          pick(config::RolloutDevice::automatic, config::RolloutDevice::cpu, config::RolloutDevice::cuda);
    if (r.quant.kv_cache == config::KvCache::fp8_e4m3) {
      r.quant.kv_percentile = 100 - 50 * draw_.uniform();
      r.quant.kv_margin = positive();
    }
    set_loss(r.algorithm, r.rollout_correction, r.own);
    r.algorithm.kl_loss_coef = positive();
    r.algorithm.kl_loss_type = catalog_.kl_estimators.select(pick("k2", "k3", "k3+", "unbiased"));
    r.algorithm.entropy_coef = positive();
    r.sft.steps = draw_.between(0, 1000);
    r.sft.batch_size = draw_.between(1, 1000);
    set_optimizer(r.sft.optim);
    r.sft.demonstrations = generator();
    r.sft.demonstrations.size = 0;
    if (flag()) set_files(r.sft);
    r.sft.save_freq = draw_.between(0, 1000);
    set_verifier(r.reward, r.own);
    if (r.reward.verifier != "command") {
      r.reward.wrong = -positive();
      r.reward.format = draw_.uniform() / 2;
      r.reward.correct = 0.75;
    }
    r.reward.max_error_fraction = draw_.uniform();
    r.actor.max_tokens_per_micro_batch = draw_.between(8000, flag() ? 131'072 : 1'000'000);
    r.actor.ppo_epochs = draw_.between(1, 5);
    r.actor.logprob_chunk_tokens = draw_.between(1, 5000);
    r.actor.activation_checkpointing = flag();
    set_optimizer(r.optim);
    r.optim.eps = positive();
    r.optim.name = pick(config::OptimName::adamw, config::OptimName::muon);
    if (r.optim.name == config::OptimName::muon) r.optim.muon = {draw_.uniform(), flag(), draw_.between(1, 9), flag()};
    r.mode = catalog_.modes.select(pick("", "bf16", "qarl", "ais"));
    if (flag()) {
      const std::int64_t draw = draw_.between(1, 100);
      r.data.gen_batch_size = draw;
      r.algorithm.filter_groups = {true, pick("score", "acc", "format"),
                                   r.data.train_batch_size / draw + draw_.between(1, 20),
                                   pick(config::OnExhausted::error, config::OnExhausted::train_partial)};
    }
    if (flag()) r.reward.overlong_buffer = {true, draw_.between(1, r.data.max_response_length), positive()};
    r.eval.freq = draw_.between(1, 100);
    if (flag()) r.eval.stop = std::vector<std::string>{text() + "x"};
    r.rollout.stop = {text() + "x", text() + "y"};
    if (flag()) r.trainer.max_time = static_cast<double>(draw_.between(1, 1'000'000));
    if (flag()) r.trainer.keep_best = text();
    if (flag()) r.data.val_max_samples = draw_.between(1, 100);
    if (flag() && r.data.train_weights.empty()) r.data.train_max_samples = draw_.between(1, 100);
    r.eval.before_train = flag();
    r.eval.n = draw_.between(1, 64);
    r.eval.temperature = flag() ? 0 : positive();
    r.eval.top_p = 1 - draw_.uniform();
    r.eval.top_k = flag() ? -1 : draw_.between(1, 1000);
    r.eval.dump = draw_.between(0, 100);
    if (r.quant.learner_forward == config::LearnerForward::low_bit && r.quant.weights == config::WeightFormat::int8 &&
        r.actor.max_tokens_per_micro_batch <= 131'072)
      r.quant.learner_backward = pick(config::LearnerBackward::model_dtype, config::LearnerBackward::int8);
    if (r.quant.learner_forward == config::LearnerForward::low_bit &&
        r.quant.weights == config::WeightFormat::fp8_e4m3 && r.quant.granularity == config::Granularity::block128)
      r.quant.learner_backward = pick(config::LearnerBackward::model_dtype, config::LearnerBackward::fp8_e4m3);
    const bool low_bit = r.quant.learner_forward == config::LearnerForward::low_bit;
    const bool has_products =
        r.rollout.device != config::RolloutDevice::cpu && r.quant.learner_backward != config::LearnerBackward::int8;
    if ((!low_bit || has_products) && r.quant.weights != config::WeightFormat::f32 &&
        r.quant.kv_cache != config::KvCache::f32)
      r.trainer.device = pick(config::TrainDevice::automatic, config::TrainDevice::cpu, config::TrainDevice::cuda);
    set_rotation(r);
    r.trainer.threads = draw_.between(0, 1024);
    r.trainer.total_training_steps = draw_.between(0, 1'000'000'000);
    r.trainer.save_freq = draw_.between(0, 100);
    r.trainer.max_ckpt_to_keep = draw_.between(1, 100);
    r.trainer.resume_from.mode =
        pick(config::ResumeMode::automatic, config::ResumeMode::never, config::ResumeMode::path);
    if (r.trainer.resume_from.mode == config::ResumeMode::path) r.trainer.resume_from.path = text();
    r.trainer.default_local_dir = text();
    r.trainer.rollout_dump = flag();
    r.trainer.tensorboard = flag();
    r.trainer.wandb = flag();
    r.trainer.seed = word();
    r.trainer.max_non_finite_steps = draw_.between(1, 100);
    return r;
  }

 private:
  /// Draws a rotation for int8 on the CPU, which may stay auto; otherwise sets none.
  void set_rotation(config::Recipe& r) {
    const bool on_cpu = !config::samples_on_gpu(r) && !config::learns_on_gpu(r);
    r.quant.rotation = config::RotationKind::none;
    if (!on_cpu || r.quant.weights != config::WeightFormat::int8) return;
    r.quant.rotation =
        pick(config::RotationKind::automatic, config::RotationKind::none, config::RotationKind::hadamard);
    if (r.quant.rotation != config::RotationKind::none) r.quant.rotation_block = pick(32, 64, 128);
  }
  bool flag() { return draw_.below(2) == 1; }
  std::uint64_t word() { return (static_cast<std::uint64_t>(draw_.next()) << 32) | draw_.next(); }
  /// Draws a loss and a correction that are allowed together, and fills in the defaults for null like the reader.
  void set_loss(config::AlgorithmRecipe& algorithm, config::CorrectionRecipe& correction, config::ParamValues& own) {
    algorithm.name = catalog_.losses.select(pick("grpo", "dr_grpo", "dapo", "gspo", "tbpo"));
    const bool has_bands = algorithm.name == "tbpo", token_ratios = !has_bands && algorithm.name != "gspo";
    algorithm.loss_agg_mode = config::LossAggMode::seq_mean_token_mean;
    algorithm.clip_ratio_c = 0;
    if (!has_bands) {
      algorithm.clip_ratio_low = 0.5 + draw_.uniform() / 3;
      algorithm.clip_ratio_high = positive();
    } else {
      set_own(own, "algorithm.tbpo.seq_clip_ratio_low", draw_.uniform() / 2 + 0.1);
      set_own(own, "algorithm.tbpo.seq_clip_ratio_high", positive());
      set_own(own, "algorithm.tbpo.neg_seq_clip_ratio_high", positive());
    }
    if (token_ratios) {
      algorithm.clip_ratio_c = 1.5 + draw_.uniform();
      algorithm.loss_agg_mode = pick(config::LossAggMode::token_sum, config::LossAggMode::seq_mean_token_sum,
                                     config::LossAggMode::seq_mean_token_sum_norm);
    }
    algorithm.norm_adv_by_std = flag();
    algorithm.mask_truncated = flag();
    correction.method = catalog_.corrections.select(
        has_bands ? pick("none", "tbpo") : pick("none", "tis", "icepop", "mis_prod", "mis_geo", "tbpo", "ais"));
    const std::string method = correction.method.word();
    const bool has_lower = method == "icepop" || method == "mis_geo";
    if (has_lower || method == "tis" || method == "mis_prod") correction.threshold = 2 + draw_.uniform();
    if (has_lower) correction.threshold_low = draw_.uniform() / 2 + 0.01;
    if (method == "tbpo") {
      set_own(own, "algorithm.tbpo.seq_tis_imp_ratio_cap", 1 + draw_.uniform());
      set_own(own, "algorithm.tbpo.mismatch_action", pick("clip", "drop"));
    }
    if (method == "ais") {
      set_own(own, "rollout_correction.ais.C", 1 + draw_.uniform());
      set_own(own, "rollout_correction.ais.delta", positive());
      set_own(own, "rollout_correction.ais.gamma", positive());
      set_own(own, "rollout_correction.ais.beta_var", 0.0);
      set_own(own, "rollout_correction.ais.eps", 1e-3);
    }
    if (token_ratios && method == "tis") set_own(own, "rollout_correction.acr", true);
    algorithm.positive_only = flag();
    if (flag() && !algorithm.positive_only) algorithm.off_policy_mask_threshold = positive();
    if (!has_bands && flag()) {
      algorithm.top_entropy_quantile = 1 - draw_.uniform();
      algorithm.clip_cov = {draw_.uniform() / 2 + 0.1, -positive(), positive()};
      algorithm.teacher = {path(), pick(config::WeightFormat::bf16, config::WeightFormat::int4), positive()};
      algorithm.reward_coef = draw_.uniform();
    }
    if (flag()) {
      correction.rs = pick(config::RsLevel::seq_sum, config::RsLevel::seq_mean, config::RsLevel::seq_max);
      correction.rs_stat = pick(config::RsStat::k2, config::RsStat::k3);
      correction.rs_threshold = positive();
    }
    if (flag()) correction.token_veto_threshold = draw_.uniform() / 2 + 0.01;
    correction.batch_normalize = method != "none" && flag();
    correction.behaviour_in_ratio = token_ratios && method == "none";
    const bool around_sampler = correction.behaviour_in_ratio || algorithm.name.option()->around_sampler;
    algorithm.bound_moved_only = around_sampler && flag();
  }
  void set_own(config::ParamValues& own, std::string_view name, const config::ParamValue& value) {
    for (const config::AnyChoices* choices : std::initializer_list<const config::AnyChoices*>{
             &catalog_.losses, &catalog_.corrections, &catalog_.generators, &catalog_.verifiers}) {
      for (const config::Option* one : choices->all()) {
        for (const config::Param& key : one->params) {
          if (key.name == name) own.set(key, value);
        }
      }
    }
  }
  template <class T, class... Rest>
  T pick(T first, Rest... rest) {
    return std::array<T, 1 + sizeof...(rest)>{first, rest...}[draw_.below(1 + sizeof...(rest))];
  }
  /// Returns a positive number with all 53 bits and any exponent that a setting may have.
  double positive() { return (0.5 + draw_.uniform()) * std::pow(10.0, static_cast<double>(draw_.between(-30, 3))); }
  /// Returns words that YAML could misread, quotes, line breaks and code points of every UTF-8 length.
  std::string text() {
    static constexpr std::array<const char*, 24> kParts = {"no",
                                                           "010",
                                                           "a/b",
                                                           " ",
                                                           "#",
                                                           ": ",
                                                           "- ",
                                                           "\"",
                                                           "\\",
                                                           "'",
                                                           "\n",
                                                           "\t",
                                                           "{",
                                                           "]",
                                                           "*x",
                                                           "&x",
                                                           "!t",
                                                           "<<",
                                                           "\xc3\xa9",
                                                           "\xe4\xb8\xad",
                                                           "\xf0\x9f\x98\x80",
                                                           "\xe2\x80\xa8",
                                                           "\xc2\x85",
                                                           "\x7f"};
    std::string out;
    for (std::uint64_t i = 0, n = 1 + draw_.below(6); i < n; ++i) out += kParts[draw_.below(kParts.size())];
    return out;
  }
  /// Returns an absolute path, which is how the reader stores input paths.
  std::string path() { return "/x" + text(); }
  config::GeneratorRecipe generator() {
    config::GeneratorRecipe g;
    g.task = catalog_.generators.select("countdown");
    g.size = draw_.between(1, 100000);
    g.seed = word();
    const std::int64_t min_numbers = draw_.between(2, 6);
    set_own(g.own, "min_numbers", min_numbers);
    set_own(g.own, "max_numbers", draw_.between(min_numbers, 6));
    set_own(g.own, "max_number", draw_.between(1, 100));
    set_own(g.own, "max_target", draw_.between(1, 1000));
    return g;
  }
  void set_verifier(config::RewardRecipe& reward, config::ParamValues& own) {
    reward.verifier = catalog_.verifiers.select(pick("countdown", "math", "sudoku", "command"));
    if (reward.verifier == "command") set_command(reward);
    if (flag())
      reward.by_source = {{"a-1", catalog_.verifiers.select("math")}, {"b.2", catalog_.verifiers.select("sudoku")}};
    if (reward.verifier == "countdown") set_own(own, "reward.numbers", pick("all", "subset"));
    if (reward.verifier == "sudoku") reward.partial = draw_.uniform() / 8;
    if (reward.verifier == "math") {
      set_own(own, "reward.profile", pick("auto", "boxed", "gsm8k", "answer_is", "answer_tag", "text", "last_number"));
      set_own(own, "reward.answer_form", pick("any", "value"));
    }
  }
  void set_files(config::SftRecipe& sft) {
    sft.demonstrations = {};
    sft.train_files = {path(), path()};
    if (flag()) sft.val_files = {path()};
    sft.max_length = draw_.between(2, 8000);
    sft.overlong = pick(config::OverlongPrompt::filter, config::OverlongPrompt::truncate);
    sft.shuffle = flag();
    sft.loss_on = pick(config::LossOn::assistant, config::LossOn::last, config::LossOn::all);
    if (!flag()) return;
    sft.steps = 0;
    sft.epochs = draw_.between(1, 100);
  }
  void set_command(config::RewardRecipe& reward) {
    reward.command = {text(), text()};
    reward.folder = path();
    reward.env = {"A_KEY", "_b2"};
    reward.after = catalog_.verifiers.select(pick("", "math"));
    reward.workers = draw_.between(0, 1024);
    reward.timeout_s = positive();
    reward.start_timeout_s = positive();
    reward.memory_mb = draw_.between(1, 100'000);
    reward.rows = pick(config::RewardRows::sample, config::RewardRows::group);
    if (reward.rows == config::RewardRows::sample) reward.in_flight = draw_.between(1, 100);
    if (flag()) reward.weights = {{"correct", positive()}, {"a+b@c", 0}, {"z", -positive()}};
    reward.correct_at = positive();
    reward.on_error = pick(config::OnVerifierError::drop, config::OnVerifierError::wrong);
  }
  void set_optimizer(config::OptimRecipe& o) {
    o.lr = positive();
    o.betas = {draw_.uniform(), draw_.uniform()};
    o.weight_decay = positive();
    o.lr_warmup_steps = draw_.between(0, 1000);
    o.lr_scheduler = pick(config::LrScheduler::constant, config::LrScheduler::linear, config::LrScheduler::cosine);
    o.grad_clip = positive();
  }

  const config::Catalog& catalog_ = train::keys().catalog();
  base::RandomStream draw_;
};

std::string file_text(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

}  // namespace

TEST_CASE("printed recipe: reads back equal") {
  for (std::uint64_t i = 0; i < 500; ++i) {
    const Recipe recipe = RandomRecipe(i).next();
    const std::string yaml = config::resolved_yaml(recipe);
    INFO(yaml);
    const config::LoadedRecipe loaded = config::parse_recipe(train::keys(), yaml, "r.yaml", "", {}, true);
    REQUIRE(loaded.recipe == recipe);
    REQUIRE(loaded.resolved_yaml == yaml);
  }
}

TEST_CASE("printed values: give the same recipe as overrides") {
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Recipe recipe = RandomRecipe(1000 + i).next();
    Overrides overrides;
    for (const config::Key& key : train::keys().all()) overrides.push_back(key.name + "=" + key.print(recipe));
    INFO(config::resolved_yaml(recipe));
    REQUIRE(read("trainer: {seed: 1}", overrides, true) == recipe);
  }
}

TEST_CASE("resolved recipe: values filled in by the reader survive printing and reading") {
  const std::string yaml =
      "{model: {init: {config: c}}, data: {train_generator: {task: countdown, size: 5}}, trainer: {seed: 3}}";
  const config::LoadedRecipe first = config::parse_recipe(train::keys(), yaml, "r.yaml", "", {}, true);
  const config::LoadedRecipe second =
      config::parse_recipe(train::keys(), first.resolved_yaml, "config.yaml", "", {}, true);
  CHECK(first.recipe == second.recipe);
  CHECK(first.resolved_yaml == second.resolved_yaml);
  CHECK(config::changes_on_resume(first.recipe, second.recipe).empty());
}

TEST_CASE("printed reals and texts: YAML 1.1 parsers read them equally") {
  Recipe recipe = train::keys().defaults();
  recipe.optim.lr = 1e-6;
  recipe.optim.weight_decay = 1;
  recipe.optim.grad_clip = 1e22;
  recipe.model.path = "no";
  recipe.trainer.default_local_dir = "a\xe2\x80\xa8\xc3\xa9";
  const std::string yaml = config::resolved_yaml(recipe);
  CHECK(holds(yaml, "\noptim:\n  name: adamw\n  lr: 1.0e-6\n"));
  CHECK(holds(yaml, "  weight_decay: 1.0\n"));
  CHECK(holds(yaml, "  default_local_dir: \"a\\u2028\xc3\xa9\"\n"));
  CHECK(holds(yaml, "  grad_clip: 1.0e+22\n"));
  CHECK(holds(yaml, "model:\n  path: \"no\"\n  dtype: bfloat16\n  init:\n    config: null\n"));
}

TEST_CASE("changes on resume: changed keys are named, except those that may change") {
  const Recipe before = train::keys().defaults();
  Recipe after = train::keys().defaults();
  after.trainer.total_training_steps = 7;
  after.trainer.save_freq = 7;
  after.sft.save_freq = 7;
  after.trainer.max_ckpt_to_keep = 7;
  after.trainer.resume_from.mode = config::ResumeMode::never;
  after.trainer.default_local_dir = "x";
  after.trainer.rollout_dump = false;
  after.trainer.tensorboard = false;
  after.eval.freq = 7;
  after.eval.before_train = false;
  after.quant.kv_margin = 1.05;  // removes fp8 keys and values
  CHECK(config::changes_on_resume(before, after).empty());
  after.optim.lr = 2e-6;
  after.rollout.kv_pages = 100;
  after.rollout.page_size = 32;
  after.trainer.seed = 1;
  std::vector<std::string> text;
  for (const config::KeyChange& change : config::changes_on_resume(before, after))
    text.push_back(change.key + " " + change.before + " " + change.after + (change.may_be_allowed ? " may" : ""));
  CHECK(text == std::vector<std::string>{"rollout.page_size 16 32", "optim.lr 1.0e-6 2.0e-6 may", "trainer.seed 0 1"});
}

TEST_CASE("keys: each declared once with its meaning, its default equal to the struct's") {
  std::map<std::string, int> seen;
  for (const config::Key& key : train::keys().all()) {
    INFO(key.name);
    CHECK(++seen[key.name] == 1);
    CHECK_FALSE(key.meaning.empty());
    CHECK_FALSE(train::keys().is_section(key.name));
    Recipe recipe = RandomRecipe(5).next();
    key.reset(recipe);
    CHECK(key.print(recipe) == key.print(train::keys().defaults()));
    CHECK((key.print(train::keys().defaults()) == "null") == !key.unset.empty());
  }
}

TEST_CASE("keys help: one line for each key") {
  const std::string help = config::keys_help(train::keys());
  CHECK(holds(help, "  float > 0, default 1.0e-6  peak learning rate\n"));
  CHECK(static_cast<std::size_t>(std::count(help.begin(), help.end(), '\n')) == train::keys().all().size());
}

TEST_CASE("the committed reference pages: equal those made from the keys") {
  // After a change of keys: QRL_WRITE_REFERENCE=1 test_config "the committed reference page*" regenerates the pages.
  const std::filesystem::path folder = std::filesystem::path(QRL_SOURCE_DIR) / "docs" / "reference";
  const std::pair<const char*, std::string> pages[] = {{"recipe-keys.md", keys_markdown(train::keys())},
                                                       {"other-trainers.md", other_trainers_markdown(train::keys())}};
  for (const auto& [name, text] : pages) {
    INFO(name);
    if (std::getenv("QRL_WRITE_REFERENCE") != nullptr) std::ofstream(folder / name, std::ios::binary) << text;
    CHECK(file_text(folder / name) == text);
  }
}
