#include "config/keys/sections.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <variant>

#include "base/text.h"

namespace qrl::config {

namespace {

List::const_iterator place_of(const std::string& name, const List& list) {
  const std::string section = name.substr(0, name.rfind('.') + 1);
  const auto last =
      std::find_if(list.rbegin(), list.rend(), [&](const Key& key) { return key.name.starts_with(section); });
  return last == list.rend() ? list.end() : last.base();
}

/// Declares the key `name` for a param. `values_of` returns the ParamValues that store the param.
Key param_key(const Param& param, std::string name, const Access<ParamValues>& values_of) {
  Key key{std::move(name), {}, param.meaning, {}};
  key.reset = [param, values_of](Recipe& recipe) { values_of(recipe).set(param, param.default_value); };
  key.equal = [param, values_of](const Recipe& one, const Recipe& other) {
    return values_of(one).value(param) == values_of(other).value(param);
  };
  const auto declare = [&]<class T>(const Type<T>& type) {
    key.type = type.text;
    key.read = [param, values_of, read = type.read](const YamlNode& node, Recipe& recipe) {
      values_of(recipe).set(param, read(node));
    };
    key.print = [param, values_of, print = type.print](const Recipe& recipe) {
      return print(std::get<T>(values_of(recipe).value(param)));
    };
  };
  if (const auto* range = std::get_if<Range>(&param.type)) {
    declare(real(*range));
  } else if (const auto* integers = std::get_if<Param::Integers>(&param.type)) {
    declare(integer(integers->low, integers->high));
  } else if (const auto* words = std::get_if<Param::Words>(&param.type)) {
    const Type<std::size_t> index = one_of(*words);
    const auto read = [words = *words, read = index.read](const YamlNode& node) { return words[read(node)]; };
    declare(Type<std::string>{index.text, read, [](const std::string& word) { return word; }});
  } else {
    declare(type_of<bool>());
  }
  return key;
}

}  // namespace

void only_with_options(Key& key, const std::string& selector, const AnyChoices& choices, const std::string& name) {
  std::vector<std::string> words;
  for (const Option* one : choices.all()) {
    const bool uses = std::find(one->uses.begin(), one->uses.end(), name) != one->uses.end();
    const bool declares =
        std::any_of(one->params.begin(), one->params.end(), [&](const Param& param) { return param.name == name; });
    if (uses || declares) words.push_back(one->word);
  }
  key.only_with(selector, base::joined(words, " or "));
}

void add_params(List& list, OnResume on_resume, const std::string& section, bool nested, const AnyChoices& choices,
                const std::string& selector) {
  std::set<std::string> added;
  for (const Option* one : choices.all()) {
    for (const Param& param : one->params) {
      const bool inside = param.name.starts_with(section + ".");
      if (!inside || (param.name.find('.', section.size() + 1) != std::string::npos) != nested) continue;
      if (!added.insert(param.name).second) continue;
      Key& key = *list.insert(place_of(param.name, list), param_key(param, param.name, Access(&Recipe::own)));
      key.on_resume = on_resume;
      only_with_options(key, selector, choices, param.name);
    }
  }
}

void add_generator(OnResume on_resume, Section<GeneratorRecipe> section, const Choices<tasks::Generator>& generators,
                   const std::string& unset_seed, bool is_endless) {
  constexpr std::int64_t kMaxTasks = 10'000'000;
  using G = GeneratorRecipe;
  const std::string prefix = section.name() + ".", task = prefix + "task";
  if (!is_endless)
    section.add(on_resume, "size", &G::size, integer(0, kMaxTasks), "number of prompts").only_with(task, "set");
  Key& kind = section.add(on_resume, "task", &G::task, option_of(generators), "kind of task", "no generator");
  if (!is_endless) kind.needs("set", prefix + "size", "above 0", "set the number of tasks to make");
  section.add(on_resume, "seed", &G::seed, "seed of the tasks").unset_is(unset_seed).only_with(task, "set");
  std::set<std::string> added;
  for (const Option* one : generators.all()) {
    for (const Param& param : one->params) {
      if (!added.insert(param.name).second) continue;
      Key& key = section.list().emplace_back(param_key(param, prefix + param.name, section.access().at(&G::own)));
      key.on_resume = on_resume;
      only_with_options(key, task, generators, param.name);
      if (!param.at_most.empty()) key.needs("", prefix + param.at_most, "at least " + key.name, "set both");
    }
  }
}

std::int64_t tokens_per_micro_batch(const Recipe& recipe) {
  const AutoValue<std::int64_t>& size = recipe.actor.max_tokens_per_micro_batch;
  if (!size.is_auto || learns_on_gpu(recipe)) return size;
  const std::int64_t sequence = recipe.data.max_prompt_length + recipe.data.max_response_length;
  return std::max({ActorRecipe{}.max_tokens_per_micro_batch.value, sequence, recipe.sft.max_length.value_or(0)});
}

}  // namespace qrl::config
