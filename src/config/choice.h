// Owns what a recipe's words are made of: a choice describes one word of a key such as algorithm.name, a catalog holds
// the lists of choices. Plain data: what a choice computes belongs to the folder that defines it.
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

/// A key that exists for one choice alone, or for several that share it. Its value is a number within a range, an
/// integer between two, true or false, or one of some words.
struct OwnKey {
  /// The whole name, "algorithm.WORD.KEY"; of a generator of tasks the name within its sections, "max_number".
  std::string name;
  struct Switch {};
  using Words = std::vector<std::string>;
  struct Integers {
    std::int64_t low = 0, high = 1'000'000'000;  ///< both included; the largest integer of keys, as a rule
  };
  std::variant<Range, Switch, Words, Integers> type;
  double standard;  ///< default; of a switch 0 or 1, of words an index
  std::string meaning;
  bool of_negatives = false;  ///< of a loss: it acts where an advantage is negative alone
};

/// Values of own keys. Those at their defaults are not stored, so that equal settings compare equal.
class OwnValues {
 public:
  double of(const OwnKey& key) const {
    const auto found = values_.find(key.name);
    return found == values_.end() ? key.standard : found->second;
  }
  /// Of a key of integers, or the index of a word.
  std::int64_t integer_of(const OwnKey& key) const { return static_cast<std::int64_t>(of(key)); }
  void set(const OwnKey& key, double value) {
    if (value == key.standard) values_.erase(key.name);
    else values_[key.name] = value;
  }
  friend bool operator==(const OwnValues&, const OwnValues&) = default;

 private:
  std::map<std::string, double> values_;
};

/// What null stands for in a key while a choice is selected; of a mode, the value of a key that nothing else sets.
struct KeyDefault {
  std::string_view key, value;  ///< value as YAML
  /// Not empty: only while the key of that name has the choice's own value. A recipe that takes another format or
  /// method does not inherit what belongs to the mode's.
  std::string_view with = {};
};

/// The values that a key may have beside a choice; null, which stands for a default, always may be one.
struct Limit {
  std::string_view key;
  std::vector<std::string_view> values;  ///< as recipes print them; {"null"}: the key must not be set
  std::string_view reason;               ///< why, and what to do
};

/// What another trainer calls by a key's name, and the key for it here (config/neighbors.h).
struct Neighbor {
  std::string_view name;  ///< as others write it, without dashes; also a whole dotted name, or
                          ///< a section.* for all of its keys
  std::string_view ours;  ///< our key or keys, as text; "" when there is none
  std::string_view note;  ///< units that differ, or what is done instead; may be empty
};

/// One word of a recipe. A concept's own type derives from this and adds its functions.
struct Choice {
  std::string_view word;
  std::string_view what;        ///< one line
  std::string_view paper = {};  ///< "" when there is none
  std::vector<KeyDefault> defaults = {};
  std::vector<Limit> limits = {};
  std::vector<OwnKey> keys = {};
  /// Pairs of own keys by name, of which the first may not be above the second.
  std::vector<std::pair<std::string_view, std::string_view>> ascending = {};
  /// Keys of every recipe that have an effect only with choices that name them here.
  std::vector<std::string_view> uses = {};
  std::vector<Neighbor> neighbors = {};  ///< other trainers' names that mean this choice
  bool needs_updates = false;            ///< of a loss: at one update a step its gradient is the default loss's
};

/// All words of one key, in the order in which they are listed. The choices outlive the list.
struct Choices {
  std::vector<const Choice*> all;
  std::string standard;  ///< default word; empty: the key may be null
  /// The choice of that word, or nullptr.
  const Choice* find(std::string_view word) const {
    for (const Choice* choice : all) {
      if (choice->word == word) return choice;
    }
    return nullptr;
  }
};

/// What a recipe can name. A list's choices have the type that its user casts them to.
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
