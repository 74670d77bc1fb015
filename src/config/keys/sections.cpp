#include "config/keys/sections.h"

#include <algorithm>
#include <functional>

#include "base/text.h"

namespace qrl::config {

namespace {

List::const_iterator place_of(const std::string& name, const List& list) {
  const std::string section = name.substr(0, name.rfind('.') + 1);
  const auto last =
      std::find_if(list.rbegin(), list.rend(), [&](const Key& key) { return key.name.starts_with(section); });
  return last == list.rend() ? list.end() : last.base();
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
      Key& key = *list.insert(place_of(param.name, list), param_key(param, param.name, std::mem_fn(&Recipe::own)));
      key.on_resume = on_resume;
      only_with_options(key, selector, choices, param.name);
    }
  }
}

}  // namespace qrl::config
