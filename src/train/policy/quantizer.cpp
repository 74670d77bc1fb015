#include "train/policy/quantizer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "decoder/cpu/teacher_forcing.h"
#include "state/file.h"
#include "state/folder.h"
#include "state/hash.h"
#include "state/json.h"
#include "state/safetensors.h"
#include "train/plan/formats.h"
#include "train/prompts/prompts.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

constexpr const char* kProfileFile = "int8_profile.safetensors";
constexpr const char* kKvScalesFile = "kv_scales.safetensors";
constexpr const char* kResponsesFile = "kv_responses.json";
constexpr std::uint64_t kMaxResponsesBytes = std::uint64_t{1} << 20;

/// Hashes the inputs of a profile, except weights.
std::string settings_hash(const PromptSet& prompts, std::uint64_t seed) {
  state::Hash hash;
  hash.add(&seed, sizeof seed);
  for (const types::Prompt& prompt : prompts.prompts) {
    const std::uint64_t length = prompt.tokens.size();
    hash.add(&length, sizeof length);
    hash.add(prompt.tokens.data(), prompt.tokens.size() * sizeof(types::TokenId));
  }
  return hash.hex();
}

/// Returns the first prompts, as many as calibration needs (kKvPrompts, kKvTokens).
std::span<const std::vector<types::TokenId>> enough_for_kv(std::span<const std::vector<types::TokenId>> prompts) {
  std::size_t count = 0, num_tokens = 0;
  while (count < prompts.size() && (count < kKvPrompts || num_tokens < kKvTokens))
    num_tokens += prompts[count++].size();
  return prompts.first(count);
}

}  // namespace

model::Int8Profile calibrate_profile(const model::ModelConfig& config, const model::WeightSource& weights,
                                     const PromptSet& prompts, const Recipe& recipe) {
  model::Snapshot wide(config, quant::Format::bf16);
  wide.publish(weights, 0);
  const auto ranges = decoder::channel_ranges(wide, calibration_prompts(prompts, recipe.trainer.seed, 0));
  model::Int8Profile profile = model::make_int8_profile(config, weights, ranges);
  profile.settings_hash = settings_hash(prompts, recipe.trainer.seed);
  return profile;
}

std::optional<model::Int8Profile> read_profile_file(const Recipe& recipe, const model::ModelConfig& config) {
  const std::string& wanted = recipe.quant.profile;
  if (wanted.empty() || wanted == "auto") return std::nullopt;
  QRL_REQUIRE(fs::is_regular_file(wanted), "quant.rollout.profile", "auto, or a file that qrl-train profile made",
              base::quoted(wanted), "delete the key to use no profile");
  return model::load_int8_profile(wanted, config);
}

void require_same_profile(const Recipe& recipe, const model::ModelConfig& config, const model::Int8Profile& own) {
  const std::optional<model::Int8Profile> named = read_profile_file(recipe, config);
  QRL_REQUIRE(!named || (named->model_hash == own.model_hash && named->settings_hash == own.settings_hash),
              recipe.quant.profile, "the profile stored in the checkpoint",
              "a profile of other weights or training data",
              "name the file that the run was given, or set quant.rollout.profile: auto");
}

std::shared_ptr<const model::Int8Profile> find_profile(const model::ModelConfig& config,
                                                       const model::WeightSource& weights, const PromptSet& prompts,
                                                       const Recipe& recipe) {
  const std::string& wanted = recipe.quant.profile;
  if (wanted == "auto")
    return std::make_shared<const model::Int8Profile>(calibrate_profile(config, weights, prompts, recipe));
  std::optional<model::Int8Profile> profile = read_profile_file(recipe, config);
  if (!profile) return nullptr;
  const char* again = "make it again with qrl-train profile, or set quant.rollout.profile: auto";
  QRL_REQUIRE(profile->model_hash == model::weights_hash(config, weights), wanted,
              "a profile of the weights that training begins with", "a profile of other weights", again);
  QRL_REQUIRE(profile->settings_hash == settings_hash(prompts, recipe.trainer.seed), wanted,
              "a profile made on this recipe's training data (tokens of the prompts, template included) with its seed",
              "a profile of other prompts or another seed", again);
  return std::make_shared<const model::Int8Profile>(std::move(*profile));
}

void see_responses(std::span<const rollout::Rollout> rollouts, std::int32_t n, std::span<const std::int64_t> places,
                   const QuantRecipe& quant, QuantizerState& quantizer, dist::Collectives& world) {
  if (kv_format(quant) != quant::KvFormat::fp8_e4m3 || quant.kv_when == CalibrateKv::once) return;
  nlohmann::json mine = nlohmann::json::array();
  std::size_t num_mine = 0;
  for (std::size_t g = 0; g < places.size() && num_mine < kKvResponseTokens; ++g) {  // first sample of each prompt
    const rollout::Rollout& sample = rollouts[g * static_cast<std::size_t>(n)];
    std::vector<types::TokenId> sequence = sample.prompt->tokens;
    sequence.insert(sequence.end(), sample.completion.tokens.begin(), sample.completion.tokens.end());
    num_mine += sequence.size();
    mine.push_back({places[g], sequence});
  }
  std::map<std::int64_t, std::vector<types::TokenId>> by_place;
  for (const std::string& text : world.all_gather(mine.dump())) {
    for (const auto& one : nlohmann::json::parse(text)) by_place[one[0]] = one[1].get<std::vector<types::TokenId>>();
  }
  quantizer.responses.clear();
  std::size_t num_tokens = 0;
  for (auto& [place, sequence] : by_place) {
    if (num_tokens >= kKvResponseTokens) break;
    sequence.resize(std::min(sequence.size(), kKvResponseTokens - num_tokens));
    num_tokens += sequence.size();
    quantizer.responses.push_back(std::move(sequence));
  }
}

void load_published(Sampler& sampler, std::span<const std::vector<types::TokenId>> prompts, const QuantRecipe& quant,
                    QuantizerState& quantizer) {
  if (!sampler.decoder.reads(sampler.snapshot)) sampler.decoder.load(sampler.snapshot);
  if (kv_format(quant) != quant::KvFormat::fp8_e4m3) return;
  if (quant.kv_when == CalibrateKv::once && quantizer.kv_scales) {
    decoder::KvScales scales = *quantizer.kv_scales;
    scales.version = sampler.snapshot.version();  // `once` reuses the scales of older weights
    return sampler.decoder.set_kv_scales(std::move(scales));
  }
  const auto few = enough_for_kv(prompts);
  std::vector<std::vector<types::TokenId>> sequences(few.begin(), few.end());
  sequences.insert(sequences.end(), quantizer.responses.begin(), quantizer.responses.end());
  sampler.decoder.calibrate_kv(sequences, {.percentile = quant.kv_percentile,
                                           .margin = quant.kv_margin,
                                           .queries = quant.queries == QueryFormat::fp8_e4m3});
  if (quant.kv_when == CalibrateKv::every_update) return;
  quantizer.kv_scales = sampler.decoder.kv_scales();
  base::log_info("fp8 scales of keys and values are those of policy version " +
                 std::to_string(sampler.snapshot.version()) + " from now on (quant.kv_calibration.when: once)");
}

void save_quantizer(const fs::path& dir, const QuantizerState& quantizer) {
  if (quantizer.profile != nullptr) model::save_int8_profile(dir / kProfileFile, *quantizer.profile);
  if (!quantizer.responses.empty())
    state::replace_file(dir / kResponsesFile, nlohmann::json(quantizer.responses).dump() + "\n");
  if (!quantizer.kv_scales) return;
  const auto view = [](const std::vector<float>& values) {
    return base::View{const_cast<float*>(values.data()), base::DType::f32, {static_cast<std::int64_t>(values.size())}};
  };
  std::vector<state::NamedView> tensors = {{"keys", view(quantizer.kv_scales->keys_LK), {}},
                                           {"values", view(quantizer.kv_scales->values_LK), {}}};
  if (!quantizer.kv_scales->queries_LK.empty())
    tensors.push_back({"queries", view(quantizer.kv_scales->queries_LK), {}});
  state::write_safetensors(
      dir / kKvScalesFile, tensors,
      {{"format", "qrl-train kv scales"}, {"version", std::to_string(quantizer.kv_scales->version)}});
}

namespace {

std::optional<decoder::KvScales> load_kv_scales(const fs::path& path, const model::ModelConfig& config,
                                                dist::Collectives& world) {
  std::optional<state::SafetensorsFile> file;
  if (world.is_first() && fs::exists(path)) file.emplace(path);
  const std::string found = !file ? "" : file->tensors().count("queries") > 0 ? "with queries" : "without";
  const std::string kind = world.all_gather(found).front();
  if (kind.empty()) return {};
  const auto count = static_cast<std::size_t>(config.num_attention_layers() * config.num_key_value_heads);
  decoder::KvScales scales{0, std::vector<float>(count), std::vector<float>(count)};
  if (kind == "with queries") scales.queries_LK.resize(count);
  for (auto& [name, values] :
       {std::pair{"keys", &scales.keys_LK}, {"values", &scales.values_LK}, {"queries", &scales.queries_LK}}) {
    if (values->empty()) continue;
    if (file) {
      const base::Buffer stored = file->read_f32(name);
      QRL_REQUIRE(stored.shape() == base::Shape{static_cast<std::int64_t>(count)}, path.string(),
                  std::to_string(count) + " scales", stored.shape().to_string());
      std::copy_n(stored.as<float>(), count, values->data());
    }
    world.broadcast(std::as_writable_bytes(std::span(*values)), 0);
  }
  return scales;
}

}  // namespace

QuantizerState load_quantizer(const fs::path& dir, const model::ModelConfig& config, dist::Collectives& world) {
  QuantizerState quantizer;
  const std::vector<std::string> found = world.all_gather(fs::exists(dir / kProfileFile) ? "profile" : "");
  if (!found.front().empty()) {
    model::Int8Profile profile;
    if (world.is_first()) profile = model::load_int8_profile(dir / kProfileFile, config);
    profile.model_hash = world.all_gather(profile.model_hash).front();
    profile.settings_hash = world.all_gather(profile.settings_hash).front();
    for (const model::WeightSpec& spec : model::profile_specs(config)) {
      const auto tensor = profile.tensors.try_emplace(spec.name, base::DType::f32, spec.shape).first;
      world.broadcast({static_cast<std::byte*>(tensor->second.view().data), tensor->second.num_bytes()}, 0);
    }
    quantizer.profile = std::make_shared<const model::Int8Profile>(std::move(profile));
  }
  quantizer.kv_scales = load_kv_scales(dir / kKvScalesFile, config, world);
  std::string responses;
  if (world.is_first() && fs::exists(dir / kResponsesFile))
    responses = state::read_text(dir / kResponsesFile, kMaxResponsesBytes);
  responses = world.all_gather(responses).front();
  if (!responses.empty())
    quantizer.responses =
        state::parse_json(responses, (dir / kResponsesFile).string()).get<decltype(quantizer.responses)>();
  return quantizer;
}

}  // namespace qrl::train
