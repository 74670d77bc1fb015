// Owns the words of a recipe: a choice describes one word of a key such as algorithm.name, a catalog holds the lists of
// choices. Plain data: the functions of a choice belong to the folder that defines it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/range.h"

namespace qrl::config {

/// Describes a key that only one choice, or several choices, declare. Its type is a range of numbers, an integer range,
/// a flag or a list of words.
struct OwnKey {
  /// Holds the full name "algorithm.WORD.KEY"; for a task generator, the name within its section ("max_number").
  std::string name;
  struct Switch {};
  using Words = std::vector<std::string>;
  struct Integers {
    std::int64_t low = 0, high = 1'000'000'000;  ///< both inclusive; the default is the limit of most keys
  };
  std::variant<Range, Switch, Words, Integers> type;
  double standard;  ///< default; a flag holds 0 or 1, words hold an index
  std::string meaning;
  bool of_negatives = false;  ///< for a loss: acts only where the advantage is negative
};

/// Stores values of own keys. Values at their defaults are not stored, so equal settings compare equal.
class OwnValues {
 public:
  double of(const OwnKey& key) const {
    const auto found = values_.find(key.name);
    return found == values_.end() ? key.standard : found->second;
  }
  /// Returns the value of an integer key, or the index of a word.
  std::int64_t integer_of(const OwnKey& key) const { return static_cast<std::int64_t>(of(key)); }
  void set(const OwnKey& key, double value) {
    if (value == key.standard) values_.erase(key.name);
    else values_[key.name] = value;
  }
  friend bool operator==(const OwnValues&, const OwnValues&) = default;

 private:
  std::map<std::string, double> values_;
};

/// Gives the value that null has in a key while a choice is selected. For a mode: the value of a key that the recipe
/// does not set.
struct KeyDefault {
  std::string_view key, value;  ///< `value` is YAML
  /// If not empty, the default applies only while the key of this name has the choice's own value. A recipe that
  /// overrides a mode's format or method then does not inherit the settings that belong to it.
  std::string_view with = {};
};

/// Lists the values that a key may have with a choice. Null, which means a default, is always allowed.
struct Limit {
  std::string_view key;
  std::vector<std::string_view> values;  ///< as recipes print them; {"null"}: the key must not be set
  std::string_view reason;               ///< the reason and what to do
};

/// Maps another trainer's name for a key to the key of this program (config/neighbors.h).
struct Neighbor {
  std::string_view name;  ///< as the other trainer writes it, without dashes; may be a full dotted name or
                          ///< a section.* for all of its keys
  std::string_view ours;  ///< key or keys of this program, as text; "" if none exists
  std::string_view note;  ///< different units, or the alternative; may be empty
};

/// Describes one word of a recipe. Each concept's own type derives from this and adds its functions.
struct Choice {
  std::string_view word;
  std::string_view what;        ///< one line
  std::string_view paper = {};  ///< "" if none exists
  std::vector<KeyDefault> defaults = {};
  std::vector<Limit> limits = {};
  std::vector<OwnKey> keys = {};
  /// Lists pairs of own keys by name; the first of a pair must not exceed the second.
  std::vector<std::pair<std::string_view, std::string_view>> ascending = {};
  /// Lists the shared keys that this choice uses. Such a key has an effect only with choices that list it.
  std::vector<std::string_view> uses = {};
  std::vector<Neighbor> neighbors = {};  ///< other trainers' names for this choice
  bool needs_updates = false;            ///< for a loss: with one update a step its gradient equals the default loss's
};

/// Lists all words of one key in display order. The choices must outlive the list.
struct Choices {
  std::vector<const Choice*> all;
  std::string standard;  ///< default word; empty: the key may be null
  /// Returns the choice of that word, or nullptr.
  const Choice* find(std::string_view word) const {
    for (const Choice* choice : all) {
      if (choice->word == word) return choice;
    }
    return nullptr;
  }
};

/// Holds everything that a recipe can name. Readers cast a list's choices to the type named beside it.
struct Catalog {
  Choices losses;         ///< algorithm.name: learner::PolicyLoss
  Choices corrections;    ///< rollout_correction.method: learner::Correction
  Choices modes;          ///< mode
  Choices generators;     ///< task of data.train_generator, data.val_generator, sft.demonstrations: tasks::Generator
  Choices verifiers;      ///< reward.verifier: tasks::VerifierChoice
  Choices kl_estimators;  ///< algorithm.kl_loss_type: learner::KlEstimator
  Choices estimators;     ///< algorithm.adv_estimator: rollout::AdvantageEstimator
};

}  // namespace qrl::config
