#include "model/peft.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <set>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "model/config.h"
#include "state/file.h"
#include "state/folder.h"
#include "state/json.h"
#include "state/safetensors.h"

namespace qrl::model {

namespace fs = std::filesystem;
using Json = nlohmann::json;

namespace {

constexpr const char* kConfigFile = "adapter_config.json";
constexpr const char* kWeightsFile = "adapter_model.safetensors";
constexpr const char* kPrefix = "base_model.model.";

/// Names a key that must be null or PEFT's neutral value.
struct Neutral {
  const char* key;
  Json value;
  const char* what;
};
const std::vector<Neutral>& neutrals() {
  static const std::vector<Neutral>& all = *new std::vector<Neutral>{
      {"use_dora", false, "DoRA magnitudes"},
      {"use_qalora", false, "grouped inputs"},
      {"bias", "none", "trained biases"},
      {"lora_bias", false, "biases of lora_B"},
      {"fan_in_fan_out", false, "transposed weights"},
      {"rank_pattern", Json::object(), "per-module ranks"},
      {"alpha_pattern", Json::object(), "per-module scales"},
      {"target_parameters", Json::array(), "adapters of parameters outside linear layers"},
      {"trainable_token_indices", Json::array(), "trained embedding rows"},
      {"layers_to_transform", Json::array(), "adapters of only some layers"},
      {"layer_replication", Json::array(), "repeated layers"},
      {"alora_invocation_tokens", Json::array(), "adapters that tokens activate"},
      {"megatron_config", Json::object(), "Megatron's parallel layers"},
      {"loftq_config", Json::object(), "LoftQ's quantized bases"},
      {"arrow_config", Json::object(), "routed adapters"},
      {"corda_config", Json::object(), "other initializations"},
      {"eva_config", Json::object(), "other initializations"},
      {"lora_ga_config", Json::object(), "other initializations"},
      {"kasa_config", Json::object(), "other adapter types"},
      {"monteclora_config", Json::object(), "other adapter types"},
      {"velora_config", Json::object(), "other adapter types"},
      {"use_bdlora", false, "other adapter types"},
  };
  return all;
}

/// Returns whether this initialization changes the base's weights.
bool moves_base(const Json& start) {
  static constexpr std::string_view kHarmless[] = {"gaussian", "kaiming", "orthogonal"};
  if (!start.is_string()) return false;
  return std::ranges::find(kHarmless, start.get_ref<const std::string&>()) == std::end(kHarmless);
}

class AdapterConfigReader {
 public:
  explicit AdapterConfigReader(const fs::path& file)
      : where_(state::shown(file)), root_(state::parse_json(state::read_text(file, kMaxConfig_bytes), where_)) {
    QRL_REQUIRE(root_.is_object(), where_, "a JSON object", state::shown_value(root_));
  }
  Json at(const std::string& key) const { return root_.value(key, Json()); }
  std::string name_of(const std::string& key) const { return where_ + ": " + key; }
  void require(bool holds, const std::string& key, const std::string& expected, const std::string& advice = {}) const {
    const Json value = at(key);
    QRL_REQUIRE(holds, name_of(key), expected, value.is_null() ? "no value" : state::shown_value(value), advice);
  }

 private:
  std::string where_;
  Json root_;
};

constexpr std::size_t kLongest_bytes = 1000;
constexpr std::uint32_t kMostSteps = 100'000;

bool is_read_alike(std::string_view pattern) {
  if (pattern.size() > kLongest_bytes) return false;
  const auto is_one_of = [&](std::string_view characters, std::size_t at) {
    return at < pattern.size() && characters.find(pattern[at]) != std::string_view::npos;
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (!base::is_letter(c) && !base::is_digit(c) && !is_one_of("_-.,*+?|()[]{}\\^$", i)) return false;
    if (c == '\\' && !is_one_of(".dwb_-", i + 1)) return false;
    if (c == '{' && !is_one_of("0123456789", i + 1))
      return false;  // {,3} is a count in Python, but literal text in older PCRE2
    if (c != '(' || !is_one_of("?*", i + 1)) continue;
    if (!is_one_of("?", i + 1) || !is_one_of(":!=", i + 2)) return false;
    i += 2;
  }
  return true;
}

/// Matches module names against a PEFT regular expression of at most 1,000 bytes. Accepts only syntax that PCRE2 and
/// Python read alike: letters, digits, \d, \w, \b, escaped punctuation, (?: (?! (?= and . * + ? | ( ) [ ] { } ^ $.
class ModulePattern {
 public:
  /// Throws an input error that names `where` for other syntax.
  ModulePattern(const std::string& pattern, const std::string& where) : pattern_(pattern), where_(where) {
    int error = 0;
    PCRE2_SIZE error_at = 0;
    pcre2_code* code = !is_read_alike(pattern)
                           ? nullptr
                           : pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                           PCRE2_ANCHORED | PCRE2_ENDANCHORED, &error, &error_at, nullptr);
    QRL_REQUIRE(code != nullptr, where,
                R"(a regular expression of letters, digits, \d, \w, \b, (?: (?! (?= and . * + ? | ( ) [ ] { })",
                base::quoted(pattern), "write a list of modules");
    code_ = {code, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); }};
  }

  /// Returns whether the whole name matches. Throws an input error after too many steps, because folders are untrusted.
  bool fits(const std::string& module) const {
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> found(pcre2_match_data_create(1, nullptr),
                                                                                    pcre2_match_data_free);
    const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> limits(
        pcre2_match_context_create(nullptr), pcre2_match_context_free);
    pcre2_set_match_limit(limits.get(), kMostSteps);
    const int result =
        pcre2_match(static_cast<const pcre2_code*>(code_.get()), reinterpret_cast<PCRE2_SPTR>(module.data()),
                    module.size(), 0, 0, found.get(), limits.get());
    QRL_REQUIRE(result >= 0 || result == PCRE2_ERROR_NOMATCH, where_,
                "a regular expression that matches in fewer steps", base::quoted(pattern_), "write a list of modules");
    return result >= 0;
  }

 private:
  std::string pattern_, where_;
  std::shared_ptr<void> code_;
};

using ModuleRule = std::function<bool(const std::string& module)>;

ModuleRule rule_of_pattern(const AdapterConfigReader& reader, const char* key) {
  return [pattern = ModulePattern(reader.at(key).get<std::string>(), reader.name_of(key))](const std::string& module) {
    return pattern.fits(module);
  };
}

/// Restricts `lora` to modules that `keeps` accepts. Throws an input error unless each kind (such as q_proj) remains in
/// all layers or in none.
void keep_kinds(const AdapterConfigReader& reader, const char* key, const ModelConfig& config, const ModuleRule& keeps,
                LoraConfig& lora) {
  const std::vector<std::string> targeted = adapted_modules(config, lora);
  std::vector<std::string> kept;
  LoraConfig less = lora;
  less.target_modules.clear();
  for (const std::string& module : targeted) {
    if (!keeps(module)) continue;
    kept.push_back(module);
    const std::string kind = module.substr(module.rfind('.') + 1);
    if (std::ranges::find(less.target_modules, kind) == less.target_modules.end()) less.target_modules.push_back(kind);
  }
  if (kept.size() == targeted.size()) return;
  reader.require(!kept.empty(), key, "a rule that keeps some adapters",
                 R"(match whole names, as .*\.q_proj matches model.layers.0.self_attn.q_proj)");
  reader.require(adapted_modules(config, less) == kept, key, "modules of some kinds, each in all layers",
                 "merge the adapter with PEFT: adapters of only some layers are not supported");
  lora = less;
}

void read_targets(const AdapterConfigReader& reader, const ModelConfig& config, LoraConfig& lora) {
  constexpr const char* kKey = "target_modules";
  const Json targets = reader.at(kKey);
  if (targets == "all-linear") return;
  if (targets.is_string()) return keep_kinds(reader, kKey, config, rule_of_pattern(reader, kKey), lora);
  const bool is_list = targets.is_array() && !targets.empty() &&
                       std::ranges::all_of(targets, [](const Json& one) { return one.is_string(); });
  reader.require(is_list, kKey, "a list of modules, all-linear, or a regular expression");
  lora.target_modules = targets.get<std::vector<std::string>>();
}

void read_excluded(const AdapterConfigReader& reader, const ModelConfig& config, LoraConfig& lora) {
  constexpr const char* kKey = "exclude_modules";
  const Json excluded = reader.at(kKey);
  if (excluded.is_null() || excluded == Json("")) return;
  ModuleRule is_excluded;
  if (excluded.is_string()) {
    is_excluded = rule_of_pattern(reader, kKey);
  } else {
    const bool is_list =
        excluded.is_array() && std::ranges::all_of(excluded, [](const Json& one) { return one.is_string(); });
    reader.require(is_list, kKey, "a list of modules, or a regular expression");
    is_excluded = [names = excluded.get<std::vector<std::string>>()](const std::string& module) {
      return std::ranges::any_of(names, [&](const std::string& name) { return is_named(module, name); });
    };
  }
  keep_kinds(
      reader, kKey, config, [&](const std::string& module) { return !is_excluded(module); }, lora);
}

/// Returns the last part of each norm's name, such as "input_layernorm".
std::set<std::string> norm_names(const ModelConfig& config) {
  std::set<std::string> names;
  for (const WeightSpec& spec : weight_specs(config)) {
    if (!is_norm(spec.kind)) continue;
    const std::string module = spec.name.substr(0, spec.name.rfind('.'));
    names.insert(module.substr(module.rfind('.') + 1));
  }
  return names;
}

LoraConfig read_lora(const AdapterConfigReader& reader, const ModelConfig& config) {
  reader.require(reader.at("peft_type") == "LORA", "peft_type", "LORA");
  for (const Neutral& neutral : neutrals()) {
    const Json value = reader.at(neutral.key);
    reader.require(value.is_null() || value == neutral.value, neutral.key, neutral.value.dump(),
                   std::string(neutral.what) + " are not supported: merge the adapter with PEFT");
  }
  reader.require(!moves_base(reader.at("init_lora_weights")), "init_lora_weights", "true or false",
                 "that initialization changes the base's weights, so the adapter does not fit the original model");
  constexpr std::int64_t kDefault = 8;  // PEFT's default for r and lora_alpha
  const Json rank = reader.at("r"), alpha = reader.at("lora_alpha"), rslora = reader.at("use_rslora"),
             norms = reader.at("modules_to_save");
  LoraConfig lora;
  reader.require(rank.is_null() || (rank.is_number_integer() && rank >= 1), "r", "an integer of 1 or more");
  reader.require(alpha.is_null() || (alpha.is_number() && alpha > 0), "lora_alpha", "a number above 0");
  reader.require(rslora.is_null() || rslora.is_boolean(), "use_rslora", "true or false");
  lora.rank = rank.is_null() ? kDefault : rank.get<std::int64_t>();
  lora.alpha = alpha.is_null() ? static_cast<double>(kDefault) : alpha.get<double>();
  lora.rslora = !rslora.is_null() && rslora.get<bool>();
  read_targets(reader, config, lora);
  read_excluded(reader, config, lora);
  lora.train_norms = !norms.is_null() && !norms.empty();
  if (lora.train_norms) {
    std::set<std::string> named;
    for (const Json& one : norms) named.insert(one.is_string() ? one.get<std::string>() : std::string());
    reader.require(named == norm_names(config), "modules_to_save", "null, or the names of all norms of the model");
  }
  return lora;
}

std::string stored_name(const WeightSpec& spec) { return kPrefix + spec.name; }

void check_tensors(const state::SafetensorsFile& file, const ModelConfig& config, const LoraConfig& lora) {
  const std::string where = state::shown(file.path());
  std::set<std::string, std::less<>> wanted;
  for (const WeightSpec& spec : adapter_specs(config, lora)) {
    const std::string name = stored_name(spec);
    const auto found = file.tensors().find(name);
    QRL_REQUIRE(found != file.tensors().end(), where, "tensor " + name, "no such tensor",
                "the adapter must contain A and B of every module in target_modules");
    QRL_REQUIRE(found->second.shape == spec.shape, where + ": " + name, spec.shape.to_string(),
                found->second.shape.to_string(), "r and the model's shapes determine the shapes of A and B");
    wanted.insert(name);
  }
  for (const auto& [name, entry] : file.tensors()) {
    QRL_REQUIRE(wanted.contains(name), where, "tensors of this model's modules in target_modules", name,
                "the adapter belongs to a different model");
  }
}

}  // namespace

bool is_peft(const fs::path& dir) { return fs::exists(dir / kConfigFile); }

std::string peft_base(const fs::path& dir) {
  const Json base = AdapterConfigReader(dir / kConfigFile).at("base_model_name_or_path");
  return base.is_string() ? base.get<std::string>() : std::string();
}

PeftAdapter open_peft(const fs::path& dir, const ModelConfig& config) {
  QRL_REQUIRE(is_peft(dir), state::shown(dir), std::string("a PEFT folder (with ") + kConfigFile + ")", "no such file");
  const AdapterConfigReader reader(dir / kConfigFile);
  const LoraConfig lora = read_lora(reader, config);
  check_lora(config, lora,
             {reader.name_of("r"), reader.name_of("target_modules"), "the adapter belongs to a different model"});
  const auto file = std::make_shared<const state::SafetensorsFile>(dir / kWeightsFile);
  check_tensors(*file, config, lora);
  return {lora, WeightSource([file](const WeightSpec& spec, float* to) {
            const std::string name = stored_name(spec);
            const auto count = static_cast<std::size_t>(spec.shape.numel());
            file->read_f32(name, 0, {to, count});
            QRL_REQUIRE(std::all_of(to, to + count, [](float value) { return std::isfinite(value); }),
                        state::shown(file->path()) + ": " + name, "finite weights", "a NaN or an infinity");
          })};
}

void save_peft(const fs::path& dir, const ModelConfig& config, const LoraConfig& lora, const std::string& base,
               const WeightViews& adapters, const state::StagedRead& staged) {
  std::vector<state::NamedView> tensors;
  for (const WeightSpec& spec : adapter_specs(config, lora))
    tensors.push_back({stored_name(spec), find_view(adapters, spec, staged != nullptr), {}});
  state::write_safetensors(dir / kWeightsFile, tensors, {{"format", "pt"}}, staged);

  std::vector<std::string> targets = lora.target_modules;
  if (targets.empty()) {
    visit_known_matrices(config, [&](const BlockMatrix& matrix) {
      for (const BlockModule& module : matrix.modules)
        targets.emplace_back(module.name.substr(module.name.rfind('.') + 1));
    });
  }
  const Json norms = lora.train_norms ? Json(norm_names(config)) : Json();
  const nlohmann::ordered_json json = {{"peft_type", "LORA"},
                                       {"task_type", "CAUSAL_LM"},
                                       {"base_model_name_or_path", base.empty() ? Json() : Json(base)},
                                       {"r", lora.rank},
                                       {"lora_alpha", lora.alpha},
                                       {"use_rslora", lora.rslora},
                                       {"target_modules", targets},
                                       {"modules_to_save", norms},
                                       {"lora_dropout", 0.0},
                                       {"bias", "none"},
                                       {"fan_in_fan_out", false},
                                       {"use_dora", false},
                                       {"inference_mode", true},
                                       {"init_lora_weights", true},
                                       {"rank_pattern", Json::object()},
                                       {"alpha_pattern", Json::object()},
                                       {"layers_to_transform", Json()},
                                       {"layers_pattern", Json()},
                                       {"revision", Json()}};
  state::replace_file(dir / kConfigFile, json.dump(2) + "\n");
}

std::vector<std::string> adapted_modules(const ModelConfig& config, const LoraConfig& lora) {
  constexpr std::string_view kWeight = ".weight";
  std::vector<std::string> modules;
  for (const WeightSpec& spec : weight_specs(config)) {
    if (spec.kind != WeightKind::linear && spec.kind != WeightKind::wide_linear) continue;
    const std::string module = spec.name.substr(0, spec.name.size() - kWeight.size());
    if (lora.targets(module)) modules.push_back(module);
  }
  return modules;
}

}  // namespace qrl::model
