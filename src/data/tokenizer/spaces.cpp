#include "data/tokenizer/spaces.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace qrl::data {

using nlohmann::json;

namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& part, const json& step) {
  base::fail_input(
      where, "", part + " " + base::readable(step.dump(), 200) + " is not supported by this version",
      "use a tokenizer like that of Llama 2, Mistral, Phi-3, Gemma or T5: BPE or Unigram with spaces spelled ▁");
}

/// Returns the members of a Sequence, or the part itself; null gives an empty list.
std::vector<json> steps_of(const json& root, const char* part, const char* members) {
  const json& whole = root.contains(part) ? root.at(part) : json();
  if (!whole.is_object()) return {};
  if (whole.value("type", json()) != "Sequence") return {whole};
  const json list = whole.value(members, json::array());
  return {list.begin(), list.end()};
}

bool is(const json& step, const json& members) {
  return step.is_object() && std::ranges::all_of(members.items(), [&](const auto& member) {
           return step.contains(member.key()) && step.at(member.key()) == member.value();
         });
}

json replace_step(std::string_view from, std::string_view to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

bool squeezes(const json& step) {
  return is(step, {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}}) &&
         (step.value("content", "") == " " || step.value("content", "") == kSpaceMark);
}

bool marks_spaces(const json& step) { return is(step, replace_step(" ", kSpaceMark)); }
bool is_metaspace(const json& step) { return is(step, {{"type", "Metaspace"}, {"replacement", kSpaceMark}}); }

SpaceRules::Prefix metaspace_prefix(const json& step, const std::string& where) {
  const json scheme = step.value("prepend_scheme", json());
  if (scheme == "always") return SpaceRules::Prefix::each;
  if (scheme == "first") return SpaceRules::Prefix::first;
  if (scheme == "never") return SpaceRules::Prefix::none;
  // Files of before tokenizers 0.15 have a flag instead.
  const json flag = step.value("add_prefix_space", json(true));
  if (!scheme.is_null() || !flag.is_boolean()) refuse(where, "pre_tokenizer", step);
  return flag.get<bool>() ? SpaceRules::Prefix::each : SpaceRules::Prefix::none;
}

void read_normalizers(const json& root, const std::string& where, SpaceRules& rules) {
  int stage = 0;  // of the step before: the order is fixed
  const auto follows = [&](int own) { return std::exchange(stage, own) < own; };
  for (const json& step : steps_of(root, "normalizer", "normalizers")) {
    if (is(step, {{"type", "Precompiled"}}) && step.value("precompiled_charsmap", json()).is_string() && follows(1)) {
      rules.char_map = step["precompiled_charsmap"].get<std::string>();
    } else if (is(step, {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}}) && follows(2)) {
      rules.strips_end = true;
    } else if (squeezes(step) && follows(3)) {
      rules.squeezes_spaces = true;
    } else if (is(step, {{"type", "Prepend"}, {"prepend", kSpaceMark}})) {
      rules.prefix = SpaceRules::Prefix::always;
    } else if (!marks_spaces(step) || !follows(4)) {
      refuse(where, "normalizer", step);
    }
  }
}

void read_pre_tokenizers(const json& root, const std::string& where, SpaceRules& rules) {
  const auto normalizers = steps_of(root, "normalizer", "normalizers");
  const bool are_marked = std::ranges::any_of(normalizers, marks_spaces);
  for (const json& step : steps_of(root, "pre_tokenizer", "pretokenizers")) {
    if (is_metaspace(step)) {
      const SpaceRules::Prefix prefix = metaspace_prefix(step, where);
      if (rules.prefix == SpaceRules::Prefix::none) rules.prefix = prefix;
      rules.splits = step.value("split", json(true)) == json(true);
      continue;
    }
    // Gemma's split at spaces finds none: its normalizer has replaced them.
    if (!are_marked || !is(step, {{"type", "Split"}, {"pattern", {{"String", " "}}}}))
      refuse(where, "pre_tokenizer", step);
  }
}

void read_decoders(const json& root, const std::string& where, SpaceRules& rules) {
  for (const json& step : steps_of(root, "decoder", "decoders")) {
    if (is_metaspace(step)) {
      if (metaspace_prefix(step, where) != SpaceRules::Prefix::none) rules.strip = SpaceRules::Strip::first_token;
    } else if (is(step, {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}})) {
      rules.strip = SpaceRules::Strip::one;
    } else if (is(step, {{"type", "ByteFallback"}})) {
      rules.joins_bytes = true;
    } else if (!is(step, replace_step(kSpaceMark, " ")) && !is(step, {{"type", "Fuse"}})) {
      refuse(where, "decoder", step);
    }
  }
}

}  // namespace

std::optional<SpaceRules> read_space_rules(const json& root, const std::string& where) {
  const auto normalizers = steps_of(root, "normalizer", "normalizers");
  const auto pre_tokenizers = steps_of(root, "pre_tokenizer", "pretokenizers");
  if (std::ranges::none_of(normalizers, marks_spaces) && std::ranges::none_of(pre_tokenizers, is_metaspace)) return {};
  SpaceRules rules;
  read_normalizers(root, where, rules);
  read_pre_tokenizers(root, where, rules);
  read_decoders(root, where, rules);
  return rules;
}

std::string with_spaces(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::size_t at = std::min(text.find(kSpaceMark), text.size());
    result += text.substr(0, at);
    if (at == text.size()) break;
    result += ' ';
    text.remove_prefix(at + kSpaceMark.size());
  }
  return result;
}

std::optional<unsigned char> byte_of_token(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return {};
  int value = 0;
  for (const char digit : token.substr(3, 2)) {
    const std::size_t number = std::string_view("0123456789ABCDEF").find(digit);
    if (number == std::string_view::npos) return {};
    value = value * 16 + static_cast<int>(number);
  }
  return static_cast<unsigned char>(value);
}

}  // namespace qrl::data
