#include "config/reader.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>

#include "base/ascii.h"
#include "base/error.h"
#include "base/shipped_files.h"
#include "base/text.h"
#include "config/keys/automatic.h"
#include "config/keys/other_trainers.h"
#include "config/printer.h"
#include "config/yaml/yaml_tree.h"

namespace qrl::config {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxIncludes = 16;
constexpr std::string_view kInclude = "include";

/// Reads a regular file. Stops one byte after the size that parse_yaml accepts. Returns false on a read error.
bool read_bytes(const fs::path& file, std::string& bytes) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return false;
  std::ifstream stream(file, std::ios::binary);
  bytes.resize(kMaxYamlBytes + 1);
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return !stream.bad() && (stream.eof() || bytes.size() > kMaxYamlBytes);
}

class Loader {
 public:
  Loader(const Keys& keys, std::string whole) : keys_(keys), recipe_(keys.defaults()) {
    origins_.whole = std::move(whole);
  }

  /// Applies the file's includes, then its own keys.
  void add_file(std::string_view yaml, const fs::path& file, const fs::path& directory) {
    const YamlSource source{shown_name(file.string()), true, directory};
    if (base::is_lfs_pointer(yaml)) {
      errors_.add(source.name, "a recipe", base::kLfsPointer, "");
      is_whole_ = false;
      return;
    }
    const YamlPtr root = parse_yaml(yaml, source, errors_);
    if (root == nullptr) {
      is_whole_ = false;
      return;
    }
    if (root->kind != YamlNode::Kind::map || root->members.empty()) {
      errors_.add(
          source.at(root->line), "a map of sections such as model, data, rollout",
          root->kind == YamlNode::Kind::map || root->kind == YamlNode::Kind::null ? "nothing" : shown_value(*root),
          "see docs/reference/recipe-keys.md");
      return;
    }
    std::error_code no_path;
    chain_.push_back(fs::weakly_canonical(file, no_path));
    for (const YamlMember& member : root->members) {
      if (member.name == kInclude) include(member, source);
    }
    chain_.pop_back();
    for (const YamlMember& member : root->members) {
      if (member.name != kInclude) set_member(member, "", source);
    }
  }

  void add_override(const std::string& argument) {
    if (!without_overrides_) without_overrides_ = recipe_;
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    const YamlSource source{"--set " + shown_name(name), false};
    if (equals == std::string::npos || name.empty()) {
      errors_.add(source.name, "KEY=VALUE", base::quoted(argument), "as in --set optim.lr=2e-6");
      return;
    }
    const std::string value = argument.substr(equals + 1);
    const std::string_view trimmed = base::trimmed(value);
    Errors of_value;
    const YamlPtr node = parse_yaml(value, source, of_value);
    const bool may_be_text =
        node != nullptr && (node->kind == YamlNode::Kind::scalar || node->kind == YamlNode::Kind::null);
    if (!may_be_text && !trimmed.empty() && quoting_helps(name, value)) {
      errors_.add(source.name, "text", base::quoted(value) + ", which YAML does not read as text",
                  "put text with ': ', '{' or '#' in quotes: --set '" + name + "=\"…\"'");
      return;
    }
    errors_.take(std::move(of_value));
    if (node == nullptr) return;
    if (node->kind == YamlNode::Kind::scalar && !node->quoted && node->text != trimmed) {
      errors_.add(source.name, "one plain value", base::quoted(value), "put text with # or --- in quotes");
      return;
    }
    if (keys_.find(name) != nullptr || keys_.is_section(name)) set(*node, name, source);
    else refuse_unknown(*node, name, source);
  }

  bool quoting_helps(const std::string& name, const std::string& value) const {
    const Key* key = keys_.find(name);
    return key != nullptr && key->type.starts_with("text") && !value.starts_with('"') && !value.starts_with('\'');
  }

  LoadedRecipe finish(const fs::path& file, bool complete, RecipeUse use) {
    drop_replaced();
    add_mode();
    if (use == RecipeUse::record) add_absent();
    (void)choose_automatic(recipe_);
    if (is_whole_) check_rules(recipe_, origins_, complete, use, errors_);
    errors_.raise();
    const Recipe said = recipe_;
    for (const Key& key : keys_.all()) {
      if (key.fill) key.fill(recipe_);
      if (!key.equal(said, recipe_)) origins_.places.erase(key.name);  // `fill` replaced null: the value has no origin
    }
    LoadedRecipe loaded{recipe_, file, {}, {}, {}, mode_overrides_};
    for (const Key& key : keys_.all())
      if (is_set(key)) loaded.origins[key.name] = origin_of(key);
    return loaded;
  }

  const Errors& errors() const { return errors_; }

 private:
  bool is_set(const Key& key) const { return origins_.places.contains(key.name); }
  /// Returns "file:line", "--set key" or "mode word".
  std::string origin_of(const Key& key) const {
    const std::string place = origins_.places.at(key.name), end = ": " + key.name;
    return place.ends_with(end) ? place.substr(0, place.size() - end.size()) : place;
  }

  /// Drops keys that an included recipe sets and that lost their effect: the including recipe or --set changed another
  /// key. Example: a verifier's command, after `verifier: math`. A key without effect at the same level of includes
  /// stays, and is an error.
  void drop_replaced() {
    for (bool found = true; found;) {
      found = false;
      for (const Key& key : keys_.all()) {
        const auto own = levels_.find(key.name), other = levels_.find(key.condition.key);
        if (own == levels_.end() || other == levels_.end() || other->second >= own->second) continue;
        if (origins_.invalid.contains(key.name) || key.condition.holds(recipe_)) continue;
        key.reset(recipe_);
        own->second = other->second;  // makes this loop also drop keys that depend on this key
        found = origins_.places.erase(key.name) > 0 || found;
      }
    }
    for (const Key& key : keys_.all())
      if (!is_set(key) && !key.acts(recipe_)) key.reset(recipe_);
  }

  /// Applies the mode's defaults to keys that nothing else sets. A mode lists a key before keys that depend on it.
  void add_mode() {
    if (recipe_.mode.empty()) return;
    const YamlSource source{"mode " + recipe_.mode.word(), false};
    Recipe of_mode;
    for (const KeyDefault& one : recipe_.mode->defaults) {
      const Key& key = *keys_.find(one.key);
      const YamlPtr value = parse_own_yaml(one.value, one.key);
      key.read(*value, of_mode);
      const auto has_modes_value = [&](const Key& other) { return other.equal(recipe_, of_mode); };
      if (!one.with.empty() && !has_modes_value(*keys_.find(one.with))) continue;
      if (!is_set(key)) set_key(*value, key, source);
      else if (!has_modes_value(key))
        mode_overrides_.push_back({key.name, key.print(of_mode), key.print(recipe_), origin_of(key)});
    }
  }

  /// Sets keys that an earlier version's record lacks to their absent_in_record, and `auto` of the record to what it
  /// meant.
  void add_absent() {
    const YamlSource source{"a version without the key", false};
    for (const Key& key : keys_.all()) {
      if (!key.absent_in_record.empty() && !is_set(key))
        set_key(*parse_own_yaml(key.absent_in_record, key.name), key, source);
    }
    Recipe former = recipe_;
    set_former_automatic(former);
    if (chose_pages_for_other_weights()) former.quant.kv_cache.is_auto = true;
    for (const std::string_view name : kAutomaticKeys) {  // later versions record no `auto`
      const Key& key = *keys_.find(name);
      const auto place = origins_.places.find(key.name);
      const bool is_override = place != origins_.places.end() && place->second.starts_with("--set ");
      if (!is_override) key.read(*parse_own_yaml(key.print(former), key.name), recipe_);
    }
  }

  /// Returns whether the recorded KV pages are what `auto` means for the recorded weights, and overrides change these.
  bool chose_pages_for_other_weights() const {
    if (!without_overrides_) return false;
    Recipe recorded = *without_overrides_;
    const AutoValue<KvCache> pages = recorded.quant.kv_cache;
    if (pages.is_auto) return false;  // a record of 0.2
    if (recorded.quant.weights == recipe_.quant.weights && recorded.quant.activations == recipe_.quant.activations)
      return false;
    recorded.quant.kv_cache.is_auto = true;
    (void)choose_automatic(recorded);
    return recorded.quant.kv_cache.value == pages.value;
  }

  void include(const YamlMember& member, const YamlSource& source) {
    const std::string where = source.at(member.line) + ": " + std::string(kInclude);
    std::string word;
    try {
      word = read_text(*member.value);
    } catch (const ParseError& error) {
      errors_.add(where, "one file name", error.got, error.advice);
      return;
    }
    fs::path file = (source.directory / word).lexically_normal();
    try {
      if (base::is_shipped_recipe(word)) file = base::shipped_recipe(word);
    } catch (const base::Error& error) {
      is_whole_ = false;
      errors_.add(where, "a recipe that comes with qrl-train", error.what(), "");
      return;
    }
    const std::string name = shown_name(file.string());
    std::error_code error;
    const fs::path canonical = fs::weakly_canonical(file, error);
    if (std::find(chain_.begin(), chain_.end(), canonical) != chain_.end()) {
      errors_.add(where, "no cycle of includes", name + ", which is being read already", "delete one include");
      return;
    }
    if (chain_.size() >= kMaxIncludes) {
      errors_.add(where, "at most " + std::to_string(kMaxIncludes) + " nested includes", "a deeper include", "");
      return;
    }
    std::string bytes;
    if (error || !read_bytes(file, bytes)) {
      is_whole_ = false;
      errors_.add(where, "a readable file", name, "use a path relative to the including file's folder");
      return;
    }
    add_file(bytes, file, file.parent_path());
  }

  void set_member(const YamlMember& member, const std::string& section, const YamlSource& source) {
    const std::string name = section.empty() ? member.name : section + "." + member.name;
    if (member.name.find('.') != std::string::npos || member.name.empty()) {
      const std::string last = member.name.substr(member.name.rfind('.') + 1);
      errors_.add(source.at(member.line) + ": " + shown_name(name), "a name without a dot", shown_name(member.name),
                  keys_.find(name) != nullptr ? "nest it: the value goes to " + last + " inside its section"
                                              : advice_for_unknown_key(keys_, name));
      return;
    }
    if (keys_.find(name) != nullptr || keys_.is_section(name)) set(*member.value, name, source);
    else refuse_unknown(*member.value, name, source, member.line);
  }

  /// Sets an existing key, or the keys of a section. Only a file may have an empty section.
  void set(const YamlNode& node, const std::string& name, const YamlSource& source) {
    if (const Key* key = keys_.find(name)) {
      set_key(node, *key, source);
    } else if (node.kind == YamlNode::Kind::map) {
      for (const YamlMember& member : node.members) set_member(member, name, source);
    } else if (node.kind != YamlNode::Kind::null || !source.has_lines) {
      std::string first;
      for (const std::string& known : keys_.names()) {
        if (!known.starts_with(name + ".")) continue;
        if (first.empty()) first = known;
        origins_.invalid.insert(known);
      }
      errors_.add(place(source, node.line, name), "a section of keys", shown_value(node), "such as " + first);
    }
  }

  void set_key(const YamlNode& node, const Key& key, const YamlSource& source) {
    const std::string where = place(source, node.line, key.name);
    const bool is_null = node.kind == YamlNode::Kind::null;
    bool is_valid = true;
    try {
      if (is_null && key.unset.empty())
        throw ParseError{"null", "leave the key out for its default, " + key.print(keys_.defaults())};
      if (is_null) key.reset(recipe_);
      else key.read(node, recipe_);
    } catch (const ParseError& error) {
      is_valid = false;
      origins_.invalid.insert(key.name);
      const std::string foreign = advice_for_value(key.name, node.text);
      errors_.add(where, key.type, error.got, foreign.empty() ? error.advice : foreign);
    }
    if (is_valid && key.anchor) {
      for (const Key& one : keys_.all())  // resets keys whose values an earlier value of this key implied
        if (one.condition.key == key.name && !is_set(one)) one.reset(recipe_);
      key.anchor(recipe_, source.directory);
    }
    origins_.places[key.name] = where;
    levels_[key.name] = source.has_lines ? chain_.size() + 1 : 0;
  }

  /// Adds an error with advice for each leaf below an unknown key.
  void refuse_unknown(const YamlNode& node, const std::string& name, const YamlSource& source, int line = 1) {
    if (node.kind == YamlNode::Kind::map && !node.members.empty() && !errors_.full()) {
      for (const YamlMember& member : node.members) {
        refuse_unknown(*member.value, name + "." + member.name, source, member.line);
      }
      return;
    }
    const std::string advice = errors_.full() ? "" : advice_for_unknown_key(keys_, name);
    errors_.add_unknown_key(place(source, line, name), advice);
    // If the advice names a key, that key's rules are not checked.
    for (const std::string& key : keys_.names()) {
      if (advice.find(key) != std::string::npos) origins_.invalid.insert(key);
    }
  }

  static std::string place(const YamlSource& source, int line, const std::string& key) {
    const std::string where = source.at(line);
    return !source.has_lines && source.name == "--set " + shown_name(key) ? where : where + ": " + shown_name(key);
  }

  const Keys& keys_;
  Recipe recipe_;
  std::optional<Recipe> without_overrides_;  ///< what the file says, once an override was read
  Origins origins_;
  /// Maps a key to the include depth at which it was last set: 0 for --set, 1 for the outermost file. A lower depth
  /// overrides a higher one.
  std::map<std::string, std::size_t> levels_;
  std::vector<ModeOverride> mode_overrides_;
  Errors errors_;
  std::vector<fs::path> chain_;  ///< files being read, outermost first
  bool is_whole_ = true;         ///< false: a file was not read, so the rules cannot be checked
};

std::string run_folder(const std::string& name, std::uint64_t seed) {
  std::string stem = fs::path(name).stem().string();
  const bool printable =
      std::all_of(stem.begin(), stem.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
  if (stem.empty() || !printable || !base::is_utf8(stem)) stem = "recipe";
  return "runs/" + stem + "-seed" + std::to_string(seed);
}

}  // namespace

void print_again(LoadedRecipe& loaded) {
  loaded.resolved_yaml = resolved_yaml(loaded.recipe);
  loaded.annotated_yaml = resolved_yaml(loaded.recipe, &loaded.origins);
}

LoadedRecipe load_recipe(const Keys& keys, const std::filesystem::path& file, std::span<const std::string> overrides,
                         bool complete, RecipeUse use) {
  const std::string name = shown_name(file.string());
  std::string bytes;
  std::error_code error;
  const fs::path of_run = file / "config.yaml";
  QRL_REQUIRE(!fs::exists(of_run, error), name, "a recipe file", "a run folder",
              "pass its recipe (" + shown_name(of_run.string()) + ") to resume");
  QRL_REQUIRE(!fs::is_directory(file, error), name, "a recipe file", "a folder",
              "set model.path to a model folder, or pass it to qrl-train generate");
  QRL_REQUIRE(read_bytes(file, bytes), name, "a readable recipe file", "a missing or unreadable file",
              "check the path");
  return parse_recipe(keys, bytes, file.string(), file.parent_path(), overrides, complete, use);
}

std::string value_fault(const Keys& keys, const std::string& key, const std::string& value) {
  Loader loader(keys, "");
  loader.add_override(key + "=" + value);
  const std::string text = loader.errors().text();
  const std::string where = "--set " + key + ": ";
  return text.starts_with(where) ? text.substr(where.size()) : text;
}

LoadedRecipe parse_recipe(const Keys& keys, std::string_view yaml, const std::string& name,
                          const std::filesystem::path& directory, std::span<const std::string> overrides, bool complete,
                          RecipeUse use) {
  Loader loader(keys, shown_name(name));
  loader.add_file(yaml, name, directory);
  for (const std::string& argument : overrides) loader.add_override(argument);
  LoadedRecipe loaded = loader.finish(name, complete, use);
  TrainerRecipe& trainer = loaded.recipe.trainer;
  if (trainer.default_local_dir.empty()) trainer.default_local_dir = run_folder(name, trainer.seed);
  print_again(loaded);
  return loaded;
}

}  // namespace qrl::config
