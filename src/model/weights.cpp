#include "model/weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <numbers>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "base/text.h"
#include "base/threads.h"
#include "model/tensor_files.h"
#include "state/file.h"
#include "state/json.h"
#include "state/safetensors.h"

namespace qrl::model {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr const char* kStem = "model";
constexpr std::uint64_t kMaxGenerationConfig_bytes = 1'000'000;

/// Returns four normal deviates from one random block, by Box–Muller in fp64.
std::array<float, 4> normals(const base::RandomField& field, std::uint32_t tensor_idx, std::uint64_t block) {
  const auto words =
      field.words({static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), tensor_idx, 0});
  std::array<float, 4> out{};
  for (std::size_t pair = 0; pair < 2; ++pair) {
    // in (0, 1], so that the logarithm is finite
    const double uniform = (words[2 * pair] + 1.0) * 0x1p-32;
    const double angle = 2 * std::numbers::pi * words[2 * pair + 1] * 0x1p-32;
    const double radius = std::sqrt(-2 * std::log(uniform));
    out[2 * pair] = static_cast<float>(radius * std::cos(angle));
    out[2 * pair + 1] = static_cast<float>(radius * std::sin(angle));
  }
  return out;
}

void fill_normal(float* values, std::int64_t count, float std, const base::RandomField& field,
                 std::uint32_t tensor_idx) {
  constexpr std::int64_t kGrain = 4096;
  base::parallel_for((count + 3) / 4, kGrain, [&](base::Range blocks) {
    for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
      const auto four = normals(field, tensor_idx, static_cast<std::uint64_t>(block));
      for (std::int64_t i = 0; i < std::min<std::int64_t>(4, count - 4 * block); ++i) {
        values[4 * block + i] = four[static_cast<std::size_t>(i)] * std;
      }
    }
  });
}

/// Fills logarithms of uniform numbers from 0.01 to 16, as transformers initializes A_log.
void fill_decay_rates(float* values, std::int64_t count, const base::RandomField& field, std::uint32_t tensor_idx) {
  constexpr double kLeast = 0.01, kMost = 16;
  for (std::int64_t i = 0; i < count; ++i) {
    const double uniform = field.uniform({static_cast<std::uint32_t>(i), 0, tensor_idx, 0});
    values[i] = static_cast<float>(std::log(kLeast + uniform * (kMost - kLeast)));
  }
}

bool is_residual_output(const std::string& name) {
  return name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight") || name.ends_with("out_proj.weight");
}

/// Metadata that transformers requires.
const std::map<std::string, std::string> kFileFacts = {{"format", "pt"}};

void write_text(const fs::path& path, const std::string& text) {
  state::File file = state::File::create_or_empty(path);
  file.write(text);
  file.close();
}

/// `places`: file name by tensor name.
void write_index(const fs::path& dir, const std::map<std::string, std::string>& places, std::uint64_t total_bytes) {
  const Json index = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", places}};
  write_text(dir / kIndexFile, index.dump(2) + "\n");
}

/// Returns the model's own generation config (temperature, top_p, padding) with the config's end tokens.
Json generation_config_of(const ModelConfig& config) {
  const Json parsed = Json::parse(config_json(config));
  Json generation =
      config.generation_config.empty() ? Json{{"_from_model_config", true}} : Json::parse(config.generation_config);
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (!parsed[key].is_null() && (!generation.contains(key) || generation[key].is_null()))
      generation[key] = parsed[key];
  }
  const auto eos = parse_generation_eos(generation.dump(), "generation_config", config.vocab_size);
  if (eos.value_or(std::vector<types::TokenId>{}) != config.eos_token_ids)
    generation["eos_token_id"] = parsed["eos_token_id"];
  return generation;
}

/// Appends the tensors that files store for a spec, as ranges of its view.
void add_stored(const WeightViews& weights, const WeightSpec& spec, base::DType dtype, const state::StagedRead& staged,
                std::vector<state::NamedView>& tensors) {
  const base::View& whole = find_view(weights, spec, staged != nullptr);
  for (const StoredPart& part : stored_parts(spec)) {
    base::View view = whole;
    view.data = static_cast<float*>(whole.data) + part.first;
    view.shape = part.shape;
    tensors.push_back({part.name, view, dtype});
  }
}

void write_folder(const fs::path& dir, const ModelConfig& config, const std::vector<state::NamedView>& tensors,
                  std::uint64_t max_shard_bytes, const state::StagedRead& staged) {
  std::error_code error;
  fs::create_directories(dir, error);
  QRL_REQUIRE(!error, state::shown(dir), "a folder that can be created", error.message());
  write_shards(dir, tensors, max_shard_bytes, staged);
  write_config(dir, config);
}

}  // namespace

WeightViews views(const Weights& weights) {
  WeightViews all;
  for (const auto& [name, buffer] : weights) all.emplace(name, buffer.view());
  return all;
}

const base::View& find_view(const WeightViews& weights, const WeightSpec& spec, bool anywhere) {
  const auto found = weights.find(spec.name);
  QRL_INVARIANT(found != weights.end(), spec.name, "a weight of this name", "no such weight");
  const base::View& view = found->second;
  QRL_INVARIANT(
      view.dtype == base::DType::f32 && (anywhere || view.device == base::Device::cpu) && view.shape == spec.shape,
      spec.name, "F32 " + spec.shape.to_string() + " in CPU memory",
      std::string(base::name(view.dtype)) + " " + view.shape.to_string() +
          (view.device == base::Device::cpu ? "" : " on a GPU"));
  return view;
}

WeightSource::WeightSource(const Weights& weights)
    : read_([&weights](const WeightSpec& spec, float* to) {
        const auto found = weights.find(spec.name);
        QRL_REQUIRE(found != weights.end(), "weights", "tensor " + spec.name, "no such tensor");
        const base::View view = found->second.view();
        QRL_REQUIRE(view.dtype == base::DType::f32 && view.shape == spec.shape, "weights, tensor " + spec.name,
                    "F32 " + spec.shape.to_string(),
                    std::string(base::name(view.dtype)) + " " + view.shape.to_string());
        std::memcpy(to, view.data, view.num_bytes());
      }) {}

Weights read_weights(const ModelConfig& config, const WeightSource& source) {
  Weights weights;
  for (const WeightSpec& spec : weight_specs(config)) {
    base::Buffer buffer(base::DType::f32, spec.shape);
    source.read(spec, buffer.as<float>());
    weights.emplace(spec.name, std::move(buffer));
  }
  return weights;
}

WeightSource new_weights(const ModelConfig& config, std::uint64_t seed) {
  const base::RandomField field(seed, base::RandomPurpose::model_init);
  const float range = config.initializer_range;
  const float residual_std = range / std::sqrt(2.0F * static_cast<float>(config.num_hidden_layers));
  std::map<std::string, std::uint32_t> tensor_idx;
  for (const WeightSpec& spec : weight_specs(config))
    tensor_idx.emplace(spec.name, static_cast<std::uint32_t>(tensor_idx.size()));
  return WeightSource([=](const WeightSpec& spec, float* to) {
    const std::int64_t count = spec.shape.numel();
    if (spec.kind == WeightKind::norm) std::fill_n(to, count, 1.0F - config.norm_offset);
    else if (spec.kind == WeightKind::plain_norm || spec.kind == WeightKind::dt_bias) std::fill_n(to, count, 1.0F);
    else if (spec.kind == WeightKind::bias) std::fill_n(to, count, 0.0F);
    else if (spec.kind == WeightKind::a_log) fill_decay_rates(to, count, field, tensor_idx.at(spec.name));
    else fill_normal(to, count, is_residual_output(spec.name) ? residual_std : range, field, tensor_idx.at(spec.name));
  });
}

HfModel open_hf(const fs::path& dir) {
  QRL_REQUIRE(fs::is_directory(dir), state::shown(dir), "a folder with config.json and model.safetensors",
              "no such folder");
  ModelConfig config = read_config(dir / "config.json");
  if (const fs::path file = dir / "generation_config.json"; fs::exists(file)) {
    const std::string text = state::read_text(file, kMaxGenerationConfig_bytes);
    auto eos = parse_generation_eos(text, state::shown(file), config.vocab_size);
    if (eos) config.eos_token_ids = std::move(*eos);
    const std::string note = stop_strings_note(text, state::shown(file));
    if (!note.empty()) base::log_once(state::shown(file) + ": stop_strings", state::shown(file) + ": " + note);
    const Json generation = Json::parse(text);
    if (generation != generation_config_of(config)) config.generation_config = generation.dump();
  }
  const auto files = std::make_shared<TensorFiles>(dir);
  if (spec_of(config.family).wrapper != nullptr) {
    const std::int64_t num_dropped = files->take_text_model();
    if (num_dropped > 0)
      base::log_once(state::shown(dir) + ": vision",
                     state::shown(dir) +
                         ": the text model is read; skipped tensors of other parts: " + std::to_string(num_dropped));
  }
  require_tensors_of(*files, config, state::shown(dir));
  return {config, WeightSource([files](const WeightSpec& spec, float* to) { read_tensor(*files, spec, to); })};
}

void write_shards(const fs::path& dir, const std::vector<state::NamedView>& tensors, std::uint64_t max_shard_bytes,
                  const state::StagedRead& staged) {
  std::vector<std::vector<state::NamedView>> shards(1);
  std::uint64_t total_bytes = 0, shard_bytes = 0;
  for (const state::NamedView& tensor : tensors) {
    const auto bytes = static_cast<std::uint64_t>(tensor.view.numel()) *
                       base::size_bytes(tensor.stored_as.value_or(tensor.view.dtype));
    if (!shards.back().empty() && shard_bytes + bytes > max_shard_bytes) {
      shards.emplace_back();
      shard_bytes = 0;
    }
    shards.back().push_back(tensor);
    shard_bytes += bytes;
    total_bytes += bytes;
  }
  if (shards.size() == 1) return state::write_safetensors(dir / kSingleFile, tensors, kFileFacts, staged);
  std::map<std::string, std::string> places;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(kStem, i + 1, shards.size());
    state::write_safetensors(dir / name, shards[i], kFileFacts, staged);
    for (const state::NamedView& tensor : shards[i]) places[tensor.name] = name;
  }
  write_index(dir, places, total_bytes);
}

void write_config(const fs::path& dir, const ModelConfig& config, std::string_view quantization_config) {
  std::string text = config_json(config);
  if (!quantization_config.empty()) {
    Json root = Json::parse(text);
    root["quantization_config"] = Json::parse(quantization_config);
    text = root.dump(2) + "\n";
  }
  write_text(dir / "config.json", text);
  write_text(dir / "generation_config.json", generation_config_of(config).dump(2) + "\n");
}

void save_hf(const fs::path& dir, const ModelConfig& config, const WeightViews& weights, std::uint64_t max_shard_bytes,
             const state::StagedRead& staged) {
  std::vector<state::NamedView> tensors;
  for (const WeightSpec& spec : weight_specs(config)) add_stored(weights, spec, config.dtype, staged, tensors);
  write_folder(dir, config, tensors, max_shard_bytes, staged);
}

void save_hf(const fs::path& dir, const ModelConfig& config, const WeightSource& weights,
             std::uint64_t max_shard_bytes) {
  /// Describes the source of a stored tensor. The data pointer of the tensor's view points to a Place, for `read`
  /// below.
  struct Place {
    const WeightSpec* spec;
    std::int64_t first;
  };
  const std::vector<WeightSpec> specs = weight_specs(config);
  std::int64_t largest = 0;
  std::deque<Place> places;
  std::vector<state::NamedView> tensors;
  for (const WeightSpec& spec : specs) {
    largest = std::max(largest, spec.shape.numel());
    for (const StoredPart& part : stored_parts(spec)) {
      places.push_back({&spec, part.first});
      tensors.push_back({part.name, base::View{&places.back(), base::DType::f32, part.shape}, config.dtype});
    }
  }
  const base::Buffer tensor(base::DType::f32, {largest});
  const WeightSpec* held = nullptr;
  const state::StagedRead read = [&](const base::View& view, std::size_t first_byte, std::size_t num_bytes) {
    const Place& place = *static_cast<const Place*>(view.data);
    if (place.spec != held) weights.read(*place.spec, tensor.as<float>());
    held = place.spec;
    const auto* bytes = static_cast<const std::byte*>(tensor.view().data);
    return std::span(bytes + static_cast<std::size_t>(place.first) * sizeof(float) + first_byte, num_bytes);
  };
  write_folder(dir, config, tensors, max_shard_bytes, read);
}

std::string shard_name(const std::string& stem, std::size_t number, std::size_t count) {
  const auto digits = [](std::size_t n) {
    const std::string text = std::to_string(n);
    return std::string(5 - std::min<std::size_t>(5, text.size()), '0') + text;
  };
  return stem + "-" + digits(number) + "-of-" + digits(count) + ".safetensors";
}

void save_hf_shard(const fs::path& dir, const ModelConfig& config, const WeightViews& weights, std::size_t number,
                   std::size_t count, const state::StagedRead& staged) {
  std::vector<state::NamedView> tensors;
  for (const WeightSpec& spec : weight_specs(config)) {
    if (weights.contains(spec.name)) add_stored(weights, spec, config.dtype, staged, tensors);
  }
  if (!tensors.empty()) state::write_safetensors(dir / shard_name(kStem, number, count), tensors, kFileFacts, staged);
}

void finish_hf_shards(const fs::path& dir, const ModelConfig& config) {
  std::map<std::string, std::string> places;
  std::uint64_t total_bytes = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(std::string(kStem) + "-") || !name.ends_with(".safetensors")) continue;
    const state::SafetensorsFile shard(entry.path());
    for (const auto& [tensor, stored] : shard.tensors()) {
      places[tensor] = name;
      total_bytes += stored.end - stored.begin;
    }
  }
  for (const WeightSpec& spec : weight_specs(config)) {
    for (const StoredPart& part : stored_parts(spec))
      QRL_INVARIANT(places.contains(part.name), dir.string(), "a shard that has " + part.name, "no such shard");
  }
  write_index(dir, places, total_bytes);
  write_config(dir, config);
}

std::string describe_index(const fs::path& file) {
  const auto places = read_index(file);
  std::set<fs::path> shards;
  for (const auto& [name, path] : places) shards.insert(path);
  return state::shown(file) + ": " + std::to_string(places.size()) + " tensors in " + std::to_string(shards.size()) +
         " shards, as in the index";
}

void add_gain_noise(const GainNoise& noise, std::int64_t version, std::uint32_t norm, std::span<float> gains) {
  const base::RandomField field(noise.seed, base::RandomPurpose::gain_noise);
  const auto of_version = static_cast<std::uint64_t>(version);
  for (std::size_t channel = 0; channel < gains.size(); ++channel) {
    const auto words =
        field.words({static_cast<std::uint32_t>(of_version), static_cast<std::uint32_t>(of_version >> 32), norm,
                     static_cast<std::uint32_t>(channel)});
    const double radius = std::sqrt(-2.0 * std::log(1.0 - base::to_unit(words[0], words[1])));
    const double z = radius * std::cos(2.0 * std::numbers::pi * base::to_unit(words[2], words[3]));
    gains[channel] = static_cast<float>(gains[channel] + noise.sigma * z);
  }
}

}  // namespace qrl::model
