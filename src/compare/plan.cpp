#include "compare/plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/shipped_files.h"
#include "base/text.h"
#include "compare/statistics.h"
#include "config/errors.h"
#include "config/words.h"
#include "config/yaml/scalars.h"
#include "config/yaml/yaml_tree.h"
#include "state/file.h"
#include "state/hash.h"
#include "state/json.h"

namespace qrl::compare {

namespace {

using config::YamlNode;
using Numbers = std::vector<std::int64_t>;

constexpr std::array kKinds = {std::pair{"difference", Kind::difference}, std::pair{"equality", Kind::equality},
                               std::pair{"not_worse", Kind::not_worse}, std::pair{"ratio", Kind::ratio}};
constexpr std::size_t kMostNumbers = 100'000;
/// Columns of every comparison: what a reader of its rows looks up next. Without times, so that rows reproduce.
constexpr std::array kColumns = {
    "actor/entropy",      "actor/grad_norm", "critic/rewards/mean", "data/flat_group_fraction",
    "mismatch/ess_ratio", "mismatch/k3_kl",  "response_length/mean"};

bool has_margin(Kind kind) { return kind == Kind::equality || kind == Kind::not_worse; }

/// Reads a plan's YAML into a Plan and collects faults with their lines.
class Reader {
 public:
  /// `is_own`: a text of this program, which has the runs' steps and recipes in place of the base recipe's path.
  Reader(const config::YamlSource& source, bool is_own, config::Errors& errors)
      : source_(source), is_own_(is_own), errors_(errors) {}

  Plan read(const YamlNode& root) {
    Plan plan;
    std::optional<Numbers> seeds;
    std::vector<std::string> known = {"base",    "seeds", "arms",  "endpoints",  "contrasts",
                                      "columns", "isa",   "alpha", "keep_models"};
    if (is_own_) known.front() = "steps";
    members(root, "a plan", known, [&](const std::string& name, const YamlNode& node) {
      if (name == "base") plan.base = base_path(text(node));
      else if (name == "steps") plan.steps = value(node, &config::read_integer, std::int64_t{0});
      else if (name == "seeds") seeds = seeds_in(node);
      else if (name == "arms") read_arms(node, plan);
      else if (name == "endpoints") read_endpoints(node, plan);
      else if (name == "contrasts") read_contrasts(node, plan);
      else if (name == "columns") plan.columns = texts(node);
      else if (name == "isa") plan.isa = text(node);
      else if (name == "alpha") plan.alpha = value(node, &config::read_real, 0.0);
      else plan.keep_models = value(node, &config::read_boolean, false);
    });
    if (!is_own_ && plan.base.empty()) fault(root, "base: RECIPE.yaml", "none");
    for (Arm& arm : plan.arms)
      if (arm.seeds.empty()) arm.seeds = seeds.value_or(Numbers{});
    return plan;
  }

 private:
  void fault(const YamlNode& node, const std::string& expected, const std::string& got,
             const std::string& advice = "") {
    errors_.add(source_.at(node.line), expected, got, advice);
  }
  template <class Value>
  Value value(const YamlNode& node, Value (*read_as)(const YamlNode&), Value otherwise) try {
    return read_as(node);
  } catch (const config::ParseError& error) {
    fault(node, "a value", error.got, error.advice);
    return otherwise;
  }
  std::string text(const YamlNode& node) { return value(node, &config::read_text, std::string()); }
  std::vector<std::string> texts(const YamlNode& node) {
    std::vector<std::string> list;
    if (node.kind != YamlNode::Kind::sequence) fault(node, "a list", config::shown_value(node));
    for (const config::YamlPtr& item : node.items) list.push_back(text(*item));
    return list;
  }
  std::filesystem::path base_path(const std::string& name) const {
    if (base::is_shipped_recipe(name)) return base::shipped_recipe(name);
    return source_.directory / name;
  }

  /// Calls visit(name, node) for each member, and reports members outside `known`.
  template <class Visit>
  void members(const YamlNode& node, const std::string& what, const std::vector<std::string>& known, Visit visit) {
    if (node.kind != YamlNode::Kind::map) return fault(node, what + " as KEY: VALUE", config::shown_value(node));
    for (const config::YamlMember& member : node.members) {
      if (known.empty() || std::ranges::find(known, member.name) != known.end()) {
        visit(member.name, *member.value);
        continue;
      }
      const std::string nearest = base::nearest_name(member.name, known);
      errors_.add(source_.at(member.line), "one of " + base::joined(known, ", "), base::quoted(member.name),
                  nearest.empty() ? "" : "did you mean " + nearest + "?");
    }
  }

  Numbers numbers(const YamlNode& node, bool* is_range = nullptr) {
    if (node.kind == YamlNode::Kind::sequence) {
      Numbers list;
      for (const config::YamlPtr& item : node.items)
        list.push_back(value(*item, &config::read_integer, std::int64_t{0}));
      return list;
    }
    const std::optional<Numbers> list = numbers_in(node.text, is_range);
    if (!list) fault(node, "whole numbers such as [0, 1, 2] or 0-7", config::shown_value(node));
    return list.value_or(Numbers{});
  }

  Numbers seeds_in(const YamlNode& node) {
    if (base::number_in<std::uint32_t>(node.text))  // --seeds 8 are eight seeds
      fault(node, "a list of seeds or a range such as 0-7", config::shown_value(node),
            "write [" + node.text + "] for one");
    return numbers(node);
  }

  /// Returns a scalar, or a list of scalars, as --set has it.
  std::string setting(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::scalar) return node.quoted ? config::write_text(node.text) : node.text;
    if (node.kind == YamlNode::Kind::null) return "null";
    if (node.kind != YamlNode::Kind::sequence) return fault(node, "a value or a list", config::shown_value(node)), "";
    std::vector<std::string> items;
    for (const config::YamlPtr& item : node.items) items.push_back(setting(*item));
    return "[" + base::joined(items, ", ") + "]";
  }

  void read_arms(const YamlNode& node, Plan& plan) {
    members(node, "arms", {}, [&](const std::string& name, const YamlNode& of_arm) {
      Arm arm{.name = name};
      if (!config::is_score_name(name))
        fault(of_arm, "a name of 1 to 64 letters, digits and . _ - @ +", base::quoted(name));
      std::vector<std::string> known = {"set", "seeds", "samples"};
      if (is_own_) known.push_back("recipe");
      members(of_arm, "an arm", known, [&](const std::string& key, const YamlNode& each) {
        if (key == "seeds") arm.seeds = seeds_in(each);
        else if (key == "samples") arm.samples = value(each, &config::read_integer, std::int64_t{0});
        else if (key == "recipe") arm.recipe = text(each);
        else if (each.kind == YamlNode::Kind::sequence) arm.set = texts(each);
        else
          members(each, "recipe keys", {}, [&](const std::string& recipe_key, const YamlNode& set) {
            arm.set.push_back(recipe_key + "=" + setting(set));
          });
      });
      std::ranges::sort(arm.set);
      plan.arms.push_back(std::move(arm));
    });
  }

  void read_endpoints(const YamlNode& node, Plan& plan) {
    members(node, "endpoints", {}, [&](const std::string& name, const YamlNode& of_endpoint) {
      Endpoint endpoint{.name = name};
      if (!config::is_score_name(name))
        fault(of_endpoint, "a name of 1 to 64 letters, digits and . _ - @ +", base::quoted(name));
      members(of_endpoint, "an endpoint", {"metric", "steps", "better"},
              [&](const std::string& key, const YamlNode& each) {
                if (key == "metric") endpoint.metric = text(each);
                else if (key == "steps") endpoint.steps = numbers(each, &endpoint.is_range);
                else {
                  const std::string word = text(each);
                  if (word != "higher" && word != "lower") fault(each, "higher or lower", base::quoted(word));
                  endpoint.higher_is_better = word != "lower";
                }
              });
      plan.endpoints.push_back(std::move(endpoint));
    });
  }

  void read_contrasts(const YamlNode& node, Plan& plan) {
    if (node.kind != YamlNode::Kind::sequence) return fault(node, "a list of contrasts", config::shown_value(node));
    for (const config::YamlPtr& item : node.items) {
      Contrast contrast;
      members(*item, "a contrast", {"first", "second", "endpoint", "kind", "margin", "family"},
              [&](const std::string& key, const YamlNode& each) {
                if (key == "margin") contrast.margin = value(each, &config::read_real, 0.0);
                else if (key == "kind") {
                  const std::string word = text(each);
                  const auto found =
                      std::ranges::find(kKinds, word, [](const auto& kind) { return std::string(kind.first); });
                  if (found != kKinds.end()) contrast.kind = found->second;
                  else fault(each, "difference, equality, not_worse or ratio", base::quoted(word));
                } else {
                  (key == "first"    ? contrast.first
                   : key == "second" ? contrast.second
                   : key == "family" ? contrast.family
                                     : contrast.endpoint) = text(each);
                }
              });
      plan.contrasts.push_back(std::move(contrast));
    }
  }

  const config::YamlSource& source_;
  bool is_own_;
  config::Errors& errors_;
};

template <class Items, class Name>
void check_unique(config::Errors& errors, const std::string& where, const Items& items, const Name& name) {
  std::set<std::string> seen;
  for (const auto& item : items)
    if (!seen.insert(name(item)).second) errors.add(where, "each once", name(item) + " twice");
}

void check_arms(config::Errors& errors, const std::string& where, const Plan& plan) {
  if (plan.arms.size() < 2) errors.add(where, "two arms or more", std::to_string(plan.arms.size()));
  check_unique(errors, where + ": arms", plan.arms, [](const Arm& arm) { return arm.name; });  // of --arm
  for (const Arm& arm : plan.arms) {
    const std::string place = where + ": arm " + arm.name;
    if (arm.seeds.empty()) errors.add(place, "seeds", "none", "add seeds: 0-7");
    if (arm.seeds.size() > kMostPairs)
      errors.add(place, "at most " + std::to_string(kMostPairs) + " seeds", std::to_string(arm.seeds.size()));
    if (!arm.seeds.empty() && arm.seeds.front() < 0)
      errors.add(place, "seeds of at least 0", std::to_string(arm.seeds.front()));
    check_unique(errors, place + ": seeds", arm.seeds, [](std::int64_t seed) { return std::to_string(seed); });
    check_unique(errors, place, arm.set, [](const std::string& word) { return word.substr(0, word.find('=')); });
    for (const std::string& word : arm.set) {
      const std::string key = word.substr(0, word.find('='));
      if (key == "trainer.seed" || key.ends_with(".seed") || key == "trainer.default_local_dir" ||
          key == "trainer.resume_mode")
        errors.add(place, "keys that comparisons leave to arms", key, "the plan sets seeds and run folders");
    }
  }
}

void check_contrasts(config::Errors& errors, const std::string& where, const Plan& plan) {
  if (plan.contrasts.empty()) errors.add(where, "contrasts", "none");
  const auto named = [](const auto& items, const std::string& name) {
    return std::ranges::any_of(items, [&](const auto& item) { return item.name == name; });
  };
  check_unique(errors, where + ": contrasts", plan.contrasts, [](const Contrast& contrast) {
    return contrast.name() + ", " + contrast.endpoint + ", " + std::string(name_of(contrast.kind));
  });
  for (const Contrast& contrast : plan.contrasts) {
    const std::string place = where + ": contrast " + contrast.name();
    bool known = true;
    for (const std::string& arm : {contrast.first, contrast.second})
      if (!named(plan.arms, arm)) errors.add(place, "an arm of the plan", base::quoted(arm)), known = false;
    if (contrast.first == contrast.second) errors.add(place, "two arms", "the same one twice");
    if (!named(plan.endpoints, contrast.endpoint))
      errors.add(place, "an endpoint of the plan", base::quoted(contrast.endpoint));
    if (has_margin(contrast.kind) && !(contrast.margin > 0 && std::isfinite(contrast.margin)))
      errors.add(place, "a finite margin above 0 for " + std::string(name_of(contrast.kind)),
                 config::write_real(contrast.margin));
    if (!has_margin(contrast.kind) && contrast.margin != 0)
      errors.add(place, "no margin for " + std::string(name_of(contrast.kind)), config::write_real(contrast.margin));
    if (known && plan.pairs(contrast).empty()) errors.add(place, "seeds that both arms have", "none");
  }
}

/// Fills what follows from the rest, and throws one input error with all faults that need no recipe.
Plan checked(Plan plan, const std::string& where, config::Errors& errors) {
  std::set<std::string> columns(kColumns.begin(), kColumns.end());
  columns.insert(plan.columns.begin(), plan.columns.end());
  for (Endpoint& endpoint : plan.endpoints) {
    columns.insert(endpoint.metric);
    const std::string place = where + ": endpoint " + endpoint.name;
    if (endpoint.metric.empty()) errors.add(place, "metric: NAME", "none");
    std::ranges::sort(endpoint.steps);
    check_unique(errors, place + ": steps", endpoint.steps, [](std::int64_t step) { return std::to_string(step); });
  }
  plan.columns.assign(columns.begin(), columns.end());
  if (plan.endpoints.empty()) errors.add(where, "endpoints", "none");
  for (Contrast& contrast : plan.contrasts) {
    if (contrast.family.empty()) contrast.family = name_of(contrast.kind);
    if (contrast.endpoint.empty() && plan.endpoints.size() == 1) contrast.endpoint = plan.endpoints.front().name;
  }
  for (Arm& arm : plan.arms) std::ranges::sort(arm.seeds);
  if (!(plan.alpha > 0 && plan.alpha < 0.5))
    errors.add(where, "alpha above 0 and below 0.5", config::write_real(plan.alpha));
  check_arms(errors, where, plan);
  check_contrasts(errors, where, plan);
  errors.raise();
  return plan;
}

/// Splits KEY=VALUE,KEY=VALUE. A comma outside quotes ends a value only in front of the next KEY=.
std::vector<std::string> settings_in(const std::string& text) {
  std::vector<std::string> settings;
  std::size_t begin = 0;
  char quote = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (quote != 0 || c == '"' || c == '\'') quote = quote == 0 ? c : c == quote ? 0 : quote;
    const std::size_t next = text.find_first_of(",=\"'", i + 1);
    const bool ends = i == text.size() || (c == ',' && quote == 0 && next != std::string::npos && text[next] == '=');
    if (ends && i > begin) settings.push_back(text.substr(begin, i - begin));
    if (ends) begin = i + 1;
  }
  return settings;
}

Plan parsed(const std::string& text, const config::YamlSource& source, bool is_own) {
  config::Errors errors;
  const config::YamlPtr root = config::parse_yaml(text, source, errors);
  errors.raise();
  Plan plan = Reader(source, is_own, errors).read(*root);
  errors.raise();
  return checked(std::move(plan), source.name, errors);
}

}  // namespace

std::string_view name_of(Kind kind) {
  return std::ranges::find(kKinds, kind, [](const auto& each) { return each.second; })->first;
}

const Arm& Plan::arm(std::string_view name) const { return *std::ranges::find(arms, name, &Arm::name); }

const Endpoint& Plan::endpoint(std::string_view name) const {
  return *std::ranges::find(endpoints, name, &Endpoint::name);
}

Numbers Plan::pairs(const Contrast& contrast) const {
  Numbers both;
  std::ranges::set_intersection(arm(contrast.first).seeds, arm(contrast.second).seeds, std::back_inserter(both));
  return both;
}

std::string Plan::json() const {
  nlohmann::ordered_json json = {
      {"steps", steps}, {"alpha", alpha}, {"keep_models", keep_models}, {"columns", columns}};
  if (!isa.empty()) json["isa"] = isa;
  for (const Arm& arm : arms)
    json["arms"][arm.name] = {{"set", arm.set}, {"seeds", arm.seeds}, {"samples", arm.samples}};
  for (const Arm& arm : arms)
    if (!arm.recipe.empty()) json["arms"][arm.name]["recipe"] = arm.recipe;
  for (const Endpoint& one : endpoints) {
    nlohmann::ordered_json& to = json["endpoints"][one.name];
    to = {{"metric", one.metric}, {"steps", one.steps}, {"better", one.higher_is_better ? "higher" : "lower"}};
    if (one.is_range) to["steps"] = std::to_string(one.steps.front()) + "-" + std::to_string(one.steps.back());
  }
  for (const Contrast& one : contrasts)
    json["contrasts"].push_back({{"first", one.first},
                                 {"second", one.second},
                                 {"endpoint", one.endpoint},
                                 {"kind", name_of(one.kind)},
                                 {"margin", one.margin},
                                 {"family", one.family}});
  return json.dump();
}

std::string Plan::hash() const { return state::Hash().add(json()).hex().substr(0, 16); }

Plan plan_of_json(const std::string& text, const std::string& where) { return parsed(text, {where, false}, true); }

Plan read_plan(const std::filesystem::path& file) {
  return parsed(state::read_text(file, config::kMaxYamlBytes), {state::shown(file), true, file.parent_path()}, false);
}

Plan plan_of_words(const PlanWords& words) {
  const std::string places = "@steps ";
  const std::size_t at = words.endpoint.rfind(places);
  nlohmann::ordered_json json = {{"seeds", words.seeds}};
  if (const auto count = base::number_in<std::uint32_t>(words.seeds); count && *count > 0)
    json["seeds"] = "0-" + std::to_string(*count - 1);
  json["endpoints"]["endpoint"] = {{"metric", words.endpoint.substr(0, at)}, {"better", words.better}};
  if (at != std::string::npos) json["endpoints"]["endpoint"]["steps"] = words.endpoint.substr(at + places.size());
  for (const std::string& word : words.arms) {
    const std::size_t equals = word.find('=');
    QRL_REQUIRE(equals != std::string::npos, "--arm", "NAME=KEY=VALUE[,KEY=VALUE], or NAME= for the recipe as it is",
                base::quoted(word));
    const std::string name = word.substr(0, equals);
    QRL_REQUIRE(!json["arms"].contains(name), "--arm", "each name once", base::quoted(name) + " twice");
    json["arms"][name]["set"] = settings_in(word.substr(equals + 1));
    if (json["arms"].size() == 1) continue;
    const nlohmann::ordered_json contrast = {{"first", name}, {"second", json["arms"].begin().key()}};
    json["contrasts"].push_back(contrast);
    if (words.margin == 0) continue;
    json["contrasts"].push_back(contrast);
    json["contrasts"].back()["kind"] = "equality";
    json["contrasts"].back()["margin"] = words.margin;
  }
  Plan plan = plan_of_json(json.dump(), "qrl-train compare");
  plan.base = words.base;
  return plan;
}

std::optional<Numbers> numbers_in(std::string_view text, bool* is_range) {
  Numbers list;
  const std::size_t dash = text.find('-');
  if (is_range != nullptr) *is_range = dash != std::string_view::npos;
  if (dash != std::string_view::npos) {
    const auto first = base::number_in<std::int64_t>(text.substr(0, dash)),
               last = base::number_in<std::int64_t>(text.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first || *last - *first >= static_cast<std::int64_t>(kMostNumbers))
      return {};
    for (std::int64_t each = *first; each <= *last; ++each) list.push_back(each);
    return list;
  }
  while (true) {
    const std::size_t comma = text.find(',');
    const auto number = base::number_in<std::int64_t>(text.substr(0, comma));
    if (!number || *number < 0) return {};
    list.push_back(*number);
    if (comma == std::string_view::npos) return list;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace qrl::compare
