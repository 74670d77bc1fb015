// Owns random valid recipes, drawn from the key table.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "support.h"
#include "train/recipe/catalog.h"

namespace qrl::test {

/// Draws values of random keys by the keys' types, and keeps each that the reader accepts beside those before it.
class RandomRecipe {
 public:
  explicit RandomRecipe(std::uint64_t index) : draw_(11, base::RandomPurpose::test, index) {}

  /// Returns a complete recipe with all defaults filled in.
  train::Recipe next() {
    Overrides kept = {flag() ? "model.init.config=" + path() : "model.path=" + path()};
    if (flag()) kept.push_back("data.train_files=[" + path() + "]");
    else kept.insert(kept.end(), {"data.train_generator.task=countdown", "data.train_generator.size=7"});
    std::optional<train::Recipe> recipe = accepted(kept);
    REQUIRE(recipe);
    std::vector<const config::Key*> keys;
    for (const config::Key& key : train::keys().all()) keys.push_back(&key);
    draw_.shuffle(std::span(keys));
    for (int pass = 0; pass < 2; ++pass) {  // the second pass draws keys again whose conditions hold by now
      std::erase_if(keys, [&](const config::Key* key) {
        if (flag()) return false;
        kept.push_back(key->name + "=" + value(key->type));
        const std::optional<train::Recipe> with = accepted(kept);
        if (with) recipe = with;
        else kept.pop_back();
        return with.has_value();
      });
    }
    return *recipe;
  }

 private:
  static std::optional<train::Recipe> accepted(const Overrides& overrides) {
    try {
      return read("trainer: {seed: 1}", overrides, true);
    } catch (const base::Error&) {
      return std::nullopt;
    }
  }

  /// Returns YAML of a value for a type as the key table spells it ("list of float > 0"). It may be out of range.
  std::string value(std::string_view type) {
    const auto begins = [&](std::string_view word) { return type.starts_with(word); };
    if (begins("list of 2 × ")) return "[" + value("float") + ", " + value("float") + "]";
    if (begins("list of ")) return "[" + value(type.substr(8)) + (flag() ? ", " + value(type.substr(8)) : "") + "]";
    if (begins("map of score names")) return "{correct: " + value("float") + ", a+b@c: 0}";
    if (begins("map of data sources")) return "{a-1: math, b.2: sudoku}";
    if (begins("integer")) return std::to_string(draw_.between(0, std::array{4, 64, 5000, 60'000}[draw_.below(4)]));
    if (begins("float"))
      return config::write_real(flag() ? draw_.uniform() * static_cast<double>(1 + draw_.below(3)) : positive());
    if (begins("time")) return std::to_string(1 + draw_.below(59)) + "m";
    if (begins("text with one {prompt}")) return config::write_text(text() + "{prompt}" + text());
    if (begins("variable name")) return flag() ? "A_KEY" : "_b2";
    if (type.find(" | ") != std::string_view::npos) {
      const std::vector<std::string_view> words = config::split(type, " | ");
      return value(words[draw_.below(words.size())]);
    }
    if (type == "text") return config::write_text(text());
    if (type == "path" || begins("OWNER/")) return path();
    return std::string(type);  // a word of a choice
  }

  bool flag() { return draw_.below(2) == 1; }
  /// Returns a positive number with all 53 bits and any exponent that a setting may have.
  double positive() { return (0.5 + draw_.uniform()) * std::pow(10.0, static_cast<double>(draw_.between(-30, 3))); }
  /// Returns words that YAML could misread, quotes, line breaks and code points of every UTF-8 length.
  std::string text() {
    static constexpr const char* kParts[] = {"no",
                                             "010",
                                             "a/b",
                                             " ",
                                             "#",
                                             ": ",
                                             "- ",
                                             "\"",
                                             "\\",
                                             "'",
                                             "\n",
                                             "\t",
                                             "{",
                                             "]",
                                             "*x",
                                             "&x",
                                             "!t",
                                             "<<",
                                             "\xc3\xa9",
                                             "\x7f",
                                             "\xe4\xb8\xad",
                                             "\xf0\x9f\x98\x80",
                                             "\xe2\x80\xa8",
                                             "\xc2\x85"};
    std::string out;
    for (std::uint64_t i = 0, n = 1 + draw_.below(6); i < n; ++i) out += kParts[draw_.below(std::size(kParts))];
    return out;
  }
  /// Returns an absolute path, which is how the reader stores input paths.
  std::string path() { return config::write_text("/x" + text()); }

  base::RandomStream draw_;
};

}  // namespace qrl::test
