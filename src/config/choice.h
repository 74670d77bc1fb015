// Owns a recipe's words: a choice describes one word of a key such as algorithm.name, a catalog lists all. The
// functions of a choice belong to its folder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace qrl::config {

struct Range {
  std::string text;
  std::function<bool(double)> holds;
};
Range any();
Range positive();
Range at_least_0();
Range at_least_1();
Range above_1_or_off();     ///< (1, ∞), and 0 for none
Range from_0_to_1();        ///< [0, 1]
Range above_0_to_1();       ///< (0, 1]
Range percentile();         ///< (0, 100]
Range inside_0_to_1();      ///< (0, 1)
Range from_0_to_below_1();  ///< [0, 1)

/// Describes a key of one or several choices: a range of numbers or integers, a flag or a list of words.
struct OwnKey {
  /// The full name "algorithm.WORD.KEY"; for a task generator, the name in its section ("max_number").
  std::string name;
  struct Switch {};
  using Words = std::vector<std::string>;
  struct Integers {
    std::int64_t low = 0, high = 1'000'000'000;  ///< both inclusive; the default is the limit of most keys
  };
  std::variant<Range, Switch, Words, Integers> type;
  double standard;  ///< of a flag 0 or 1, of words an index
  std::string meaning;
  bool of_negatives = false;  ///< of a loss: acts only on negative advantages
};

/// Stores own keys' values, except defaults, so that equal settings compare equal.
class OwnValues {
 public:
  double of(const OwnKey& key) const {
    const auto found = values_.find(key.name);
    return found == values_.end() ? key.standard : found->second;
  }
  /// Returns an integer, or a word's index.
  std::int64_t integer_of(const OwnKey& key) const { return static_cast<std::int64_t>(of(key)); }
  void set(const OwnKey& key, double value) {
    if (value == key.standard) values_.erase(key.name);
    else values_[key.name] = value;
  }
  friend bool operator==(const OwnValues&, const OwnValues&) = default;

 private:
  std::map<std::string, double> values_;
};

/// Gives null's value in a key with a choice; for a mode, that of a key not set.
struct KeyDefault {
  std::string_view key, value;  ///< `value` is YAML
  /// If set, the default applies only while this key has the choice's own value. Overriding a mode's format or method
  /// then drops the settings that belong to it.
  std::string_view with = {};
};

/// Lists a key's values allowed with a choice, besides null, its default.
struct Limit {
  std::string_view key;
  std::vector<std::string_view> values;  ///< as recipes print them; {"null"}: the key must not be set
  std::string_view reason;               ///< reason and advice
};

/// Maps another trainer's key name to ours (config/keys/other_trainers.h).
struct Neighbor {
  std::string_view name;  ///< as the other trainer writes it, without dashes; may be a full dotted name or
                          ///< a section.* for all of its keys
  std::string_view ours;  ///< our key or keys, as text; "": none
  std::string_view note;  ///< units or alternative; may be empty
};

/// Describes one word of a recipe; each concept's type adds its functions.
struct Choice {
  std::string_view word;
  std::string_view what;        ///< one line
  std::string_view paper = {};  ///< "" if none exists
  std::vector<KeyDefault> defaults = {};
  std::vector<Limit> limits = {};
  std::vector<OwnKey> keys = {};
  /// Pairs of own keys; the first must not exceed the second.
  std::vector<std::pair<std::string_view, std::string_view>> ascending = {};
  /// Shared keys that have an effect only with choices listing them.
  std::vector<std::string_view> uses = {};
  std::vector<Neighbor> neighbors = {};  ///< other trainers' names
  bool needs_updates = false;            ///< of a loss: with one update a step its gradient is the default loss's
};

/// Lists a key's words in display order; the choices must outlive it.
struct Choices {
  std::vector<const Choice*> all;
  std::string standard;  ///< default word; empty: the key may be null
  /// Returns the choice, or nullptr.
  const Choice* find(std::string_view word) const {
    for (const Choice* choice : all) {
      if (choice->word == word) return choice;
    }
    return nullptr;
  }
};

/// Holds all that a recipe can name, cast to the type beside each list.
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
