#include "config/keys/sections.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <variant>

#include "base/text.h"

namespace qrl::config {

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

void add_params(Keys& keys, OnResume on_resume, const std::string& section, bool nested, const AnyChoices& choices,
                const std::string& selector, const Access<ParamValues>& values_of) {
  std::set<std::string> added;
  for (const Option* one : choices.all()) {
    for (const Param& param : one->params) {
      const bool inside = param.name.starts_with(section + ".");
      if (!inside || (param.name.find('.', section.size() + 1) != std::string::npos) != nested) continue;
      if (!added.insert(param.name).second) continue;
      Key& key = keys.add_to_section(param_key(param, param.name, values_of));
      key.on_resume = on_resume;
      only_with_options(key, selector, choices, param.name);
    }
  }
}

}  // namespace qrl::config
