#include "model/tensor_files.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "base/threads.h"
#include "state/file.h"
#include "state/json.h"

namespace qrl::model {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kMaxIndex_bytes = 100'000'000;
/// Number of elements that a thread reads at once.
constexpr std::int64_t kReadChunk = std::int64_t{1} << 18;

[[noreturn]] void refuse_without_safetensors(const std::filesystem::path& dir) {
  for (const char* pickle :
       {"pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "model.pth", "consolidated.00.pth"}) {
    QRL_REQUIRE(!std::filesystem::exists(dir / pickle), state::shown(dir / pickle), "model.safetensors",
                "pickled weights, which can run code when read",
                "load them with transformers, and write safetensors with save_pretrained");
  }
  base::fail_input(state::shown(dir), std::string(kSingleFile) + " or " + kIndexFile, "neither",
                   "give a Hugging Face folder, or OWNER/NAME of the Hugging Face cache (in a recipe: model.path)");
}

std::string tensor_in(const state::SafetensorsFile& file, const std::string& name) {
  return state::shown(file.path()) + ": tensor " + base::quoted(name, name.size());
}

void refuse_fused(const TensorFiles& files, const WeightSpec& spec) {
  if (spec.parts.empty()) return;
  const std::string fused = spec.name.substr(0, spec.name.rfind('.'));
  const state::SafetensorsFile* file = files.find(fused);
  QRL_REQUIRE(file == nullptr, tensor_in(*file, fused),
              "each expert's matrices, " + spec.parts.front().name + " and others", "one tensor of all experts",
              "save it with transformers' save_pretrained(..., save_original_format=True)");
}

void require_part(const TensorFiles& files, const StoredPart& part, const std::string& dir) {
  const state::SafetensorsFile* file = files.find(part.name);
  QRL_REQUIRE(file != nullptr, dir, "a tensor " + base::quoted(part.name, part.name.size()), "no such tensor",
              "the weights do not match config.json");
  const base::Shape& shape = file->entry(files.stored_name(part.name)).shape;
  QRL_REQUIRE(shape == part.shape, tensor_in(*file, part.name), "shape " + part.shape.to_string(), shape.to_string(),
              "the weights do not match config.json");
}

void read_part(const TensorFiles& files, const StoredPart& part, float* to) {
  const state::SafetensorsFile& file = *files.find(part.name);
  base::parallel_for(part.shape.numel(), kReadChunk, [&](base::Range range) {
    const std::span<float> mine(to + range.begin, static_cast<std::size_t>(range.size()));
    file.read_f32(files.stored_name(part.name), range.begin, mine);
    const auto bad = std::find_if(mine.begin(), mine.end(), [](float value) { return !std::isfinite(value); });
    QRL_REQUIRE(bad == mine.end(), tensor_in(file, part.name), "finite weights",
                std::to_string(*bad) + " at element " + std::to_string(range.begin + (bad - mine.begin())),
                "the checkpoint is broken");
  });
}

bool same_values(const state::SafetensorsFile& a, const std::string& name_a, const state::SafetensorsFile& b,
                 const std::string& name_b) {
  if (a.entry(name_a).shape != b.entry(name_b).shape) return false;
  std::vector<float> x(kReadChunk), y(kReadChunk);
  const std::int64_t count = a.entry(name_a).shape.numel();
  for (std::int64_t at = 0; at < count; at += kReadChunk) {
    const auto size = static_cast<std::size_t>(std::min(kReadChunk, count - at));
    a.read_f32(name_a, at, std::span(x).first(size));
    b.read_f32(name_b, at, std::span(y).first(size));
    if (std::memcmp(x.data(), y.data(), size * sizeof(float)) != 0) return false;
  }
  return true;
}

/// Returns whether this is RoPE's buffer, which older transformers stored.
bool is_rope_buffer(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

void require_no_extra_tensor(const TensorFiles& files, const ModelConfig& config) {
  const std::string head = "lm_head.weight", embedding = "model.embed_tokens.weight";
  std::set<std::string> wanted;
  for (const WeightSpec& spec : weight_specs(config)) {
    for (const StoredPart& part : stored_parts(spec)) wanted.insert(part.name);
  }
  for (const auto& [name, file] : files.by_name()) {
    if (wanted.contains(name) || is_rope_buffer(name)) continue;
    const std::string where = state::shown(file->path()) + ": tensor " + base::quoted(name);
    QRL_REQUIRE(name == head && config.tie_word_embeddings, where, "only the tensors of config.json",
                "an extra tensor");
    QRL_REQUIRE(same_values(*file, files.stored_name(head), *files.find(embedding), files.stored_name(embedding)),
                where, "the embedding's values (tie_word_embeddings is true)", "different values",
                "set tie_word_embeddings to false if the head has its own weights");
  }
}

bool is_plain_shard_name(std::string_view name) {
  return name.ends_with(".safetensors") && !name.starts_with('.') && name.find('/') == std::string_view::npos &&
         std::none_of(name.begin(), name.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '\\'; });
}

}  // namespace

std::map<std::string, fs::path, std::less<>> read_index(const fs::path& file) {
  const std::string where = state::shown(file);
  const nlohmann::json root = state::parse_json(state::read_text(file, kMaxIndex_bytes), where);
  QRL_REQUIRE(root.is_object(), where, "a JSON object", base::quoted(root.dump()));
  const auto map = root.find("weight_map");
  QRL_REQUIRE(map != root.end() && map->is_object() && !map->empty(), where,
              "\"weight_map\", an object of tensor names and files",
              map == root.end() ? "no such key" : base::quoted(map->dump()));
  QRL_REQUIRE(!root.contains("metadata") || root["metadata"].is_object(), where + ": \"metadata\"", "an object",
              "a value of a different type");

  std::map<std::string, fs::path, std::less<>> places;
  std::set<std::string> shards;
  for (const auto& [name, value] : map->items()) {
    const std::string entry = where + ": weight_map." + base::quoted(name);
    QRL_REQUIRE(value.is_string(), entry, "a file name", base::quoted(value.dump()));
    const auto& shard = value.get_ref<const std::string&>();
    QRL_REQUIRE(!shard.ends_with(".bin") && !shard.ends_with(".pt") && !shard.ends_with(".pth"), entry,
                "a .safetensors file", base::quoted(shard) + ", pickled weights, which can run code when read",
                "load them with transformers, and write safetensors with save_pretrained");
    QRL_REQUIRE(is_plain_shard_name(shard), entry, "the plain name of a .safetensors file in the same folder",
                base::quoted(shard));
    places.emplace(name, file.parent_path() / shard);
    shards.insert(shard);
  }
  std::size_t num_placed = 0;
  for (const std::string& shard : shards) {
    const fs::path path = file.parent_path() / shard;
    const state::SafetensorsFile opened(path);
    for (const auto& [name, entry] : opened.tensors()) {
      const auto place = places.find(name);
      QRL_REQUIRE(place != places.end(), state::shown(path) + ": tensor " + base::quoted(name),
                  "only tensors of the index", "a tensor that is not in the index");
      QRL_REQUIRE(place->second == path, state::shown(path) + ": tensor " + base::quoted(name),
                  "it in " + state::shown(place->second) + " only, as in the index", "a copy in this file");
      ++num_placed;
    }
  }
  if (num_placed != places.size()) {
    for (const auto& [name, path] : places) {
      QRL_REQUIRE(state::SafetensorsFile(path).tensors().contains(name), where + ": weight_map." + base::quoted(name),
                  "the tensor in " + state::shown(path), "no such tensor in that file");
    }
  }
  return places;
}

TensorFiles::TensorFiles(const std::filesystem::path& dir) {
  const bool single = std::filesystem::exists(dir / kSingleFile);
  const bool sharded = std::filesystem::exists(dir / kIndexFile);
  QRL_REQUIRE(!single || !sharded, state::shown(dir), "either model.safetensors or an index of shards", "both",
              "remove one of them");
  if (sharded) {
    for (const auto& [name, file] : read_index(dir / kIndexFile)) add(name, file);
    return;
  }
  if (!single) refuse_without_safetensors(dir);
  for (const auto& [name, entry] : open(dir / kSingleFile).tensors()) add(name, dir / kSingleFile);
}

namespace {

/// Returns a tensor's name in a text model alone; empty for a tensor of another part.
std::string text_name(const std::string& name) {
  for (const std::string_view other : {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                       "model.multi_modal_projector.", "model.visual.", "visual.", "mtp."}) {
    if (name.starts_with(other)) return {};
  }
  for (const auto& [prefix, text] :
       {std::pair<std::string_view, std::string_view>{"language_model.", ""}, {"model.language_model.", "model."}}) {
    if (name.starts_with(prefix)) return std::string(text) + name.substr(prefix.size());
  }
  return name;
}

}  // namespace

std::int64_t TensorFiles::take_text_model() {
  std::int64_t num_dropped = 0;
  for (auto& [name, file] : std::exchange(by_name_, {})) {
    const std::string text = text_name(name);
    if (text.empty()) {
      ++num_dropped;
      continue;
    }
    if (text != name) stored_names_.emplace(text, name);
    QRL_REQUIRE(by_name_.emplace(text, file).second, tensor_in(*file, name), "one tensor for " + text, "a second one");
  }
  return num_dropped;
}

const std::string& TensorFiles::stored_name(const std::string& name) const {
  const auto found = stored_names_.find(name);
  return found == stored_names_.end() ? name : found->second;
}

const state::SafetensorsFile* TensorFiles::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

const state::SafetensorsFile& TensorFiles::open(const std::filesystem::path& file) {
  auto& opened = files_[file];
  if (opened == nullptr) opened = std::make_unique<state::SafetensorsFile>(file);
  return *opened;
}

void require_tensors_of(const TensorFiles& files, const ModelConfig& config, const std::string& dir) {
  for (const WeightSpec& spec : weight_specs(config)) {
    refuse_fused(files, spec);
    for (const StoredPart& part : stored_parts(spec)) require_part(files, part, dir);
  }
  require_no_extra_tensor(files, config);
}

void read_tensor(const TensorFiles& files, const WeightSpec& spec, float* to) {
  for (const StoredPart& part : stored_parts(spec)) read_part(files, part, to + part.first);
}

}  // namespace qrl::model
