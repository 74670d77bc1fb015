#include "config/option.h"

#include "base/error.h"

namespace qrl::config {

const ParamValue& ParamValues::value(const Param& param) const {
  const auto found = values_.find(param.name);
  return found == values_.end() ? param.default_value : found->second;
}

void ParamValues::set(const Param& param, ParamValue value) {
  QRL_INVARIANT(value.index() == param.default_value.index(), param.name, "a value of its type",
                "a value of another type");
  if (const auto* words = std::get_if<Param::Words>(&param.type)) {
    const auto& word = std::get<std::string>(value);
    QRL_INVARIANT(std::find(words->begin(), words->end(), word) != words->end(), param.name, "one of its words", word);
  }
  if (value == param.default_value) values_.erase(param.name);
  else values_[param.name] = std::move(value);
}

std::string Option::default_of(std::string_view key) const {
  const auto found =
      std::find_if(defaults.begin(), defaults.end(), [key](const KeyDefault& one) { return one.key == key; });
  return found == defaults.end() ? "null" : found->value;
}

}  // namespace qrl::config
