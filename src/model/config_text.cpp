#include <algorithm>
#include <array>
#include <string>

#include "model/config_reader.h"
#include "model/families.h"

namespace qrl::model {

namespace {

using Json = nlohmann::json;

const FamilySpec* family_of(const Json& root, const FamilySpec* (*find)(std::string_view)) {
  const auto type = root.find("model_type");
  return type == root.end() || !type->is_string() ? nullptr : find(type->get<std::string>());
}

}  // namespace

void ConfigReader::take_text_part() {
  const FamilySpec* family = family_of(root_, find_wrapped_family);
  if (family == nullptr) return;
  constexpr const char* kPart = "text_config";
  const auto part = root_.find(kPart);
  QRL_REQUIRE(part != root_.end() && part->is_object(), at(kPart), "an object with the text model's keys",
              part == root_.end() ? "no such key" : state::shown_value(*part));
  Json text = *part;
  for (const char* key : {"dtype", "torch_dtype", "bos_token_id", "eos_token_id", "pad_token_id", "tie_word_embeddings",
                          "quantization_config"}) {
    if (!text.contains(key) && root_.contains(key)) text[key] = root_[key];
  }
  text["model_type"] = family->model_type;
  text["architectures"] = Json::array({family->architecture});
  where_ += std::string(": ") + kPart;
  root_ = std::move(text);
}

void ConfigReader::add_missing_keys() {
  const FamilySpec* family = family_of(root_, find_family);
  if (family == nullptr) return;
  const Json missing = Json::parse(family->missing_keys);
  const auto has = [](const Json& rope, const std::string& key) {
    return rope.contains(key) ||
           std::ranges::any_of(rope, [&](const Json& of_kind) { return of_kind.is_object() && of_kind.contains(key); });
  };
  const auto is_in_rope = [&](const std::string& key) {
    return std::ranges::any_of(std::array{"rope_parameters", "rope_scaling"}, [&](const char* name) {
      const auto rope = root_.find(name);
      return rope != root_.end() && rope->is_object() && has(*rope, key);
    });
  };
  Json added = Json::object();
  for (const auto& [key, value] : missing.items())
    if (!root_.contains(key) && !is_in_rope(key)) added[key] = value;
  root_.update(added);
}

}  // namespace qrl::model
