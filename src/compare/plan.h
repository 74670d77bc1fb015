// Owns the plan of a comparison: arms, seeds, endpoints and contrasts, declared before the first run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace qrl::compare {

struct Arm {
  std::string name;
  std::vector<std::string> set;     ///< KEY=VALUE over the base recipe, sorted
  std::vector<std::int64_t> seeds;  ///< ascending
  std::int64_t samples = 0;         ///< other than 0: other sampling draws, while data and generators keep the seed
  std::string recipe;               ///< hash of the resolved recipe and of what it reads, for one seed
};

struct Endpoint {
  std::string name, metric;
  std::vector<std::int64_t> steps;  ///< ascending; empty: the run's last step
  bool is_range = false;            ///< whether steps without a value are skipped
  bool higher_is_better = true;
};

enum class Kind : std::uint8_t {
  difference,  ///< better or worse by exact sign flips
  equality,    ///< equal within the margin by two one-sided sign-flip tests
  not_worse,   ///< not worse by the margin, by the one-sided half of equality
  ratio,       ///< better or worse by a paired t test of logarithms
};
std::string_view name_of(Kind kind);

struct Contrast {
  std::string first, second, endpoint, family;
  Kind kind = Kind::difference;
  double margin = 0;  ///< for equality and not_worse
  std::string name() const { return first + " - " + second; }
};

struct Plan {
  std::filesystem::path base;  ///< recipe; not part of the hash
  std::int64_t steps = 0;      ///< of every run
  std::vector<Arm> arms;
  std::vector<Endpoint> endpoints;
  std::vector<Contrast> contrasts;
  std::vector<std::string> columns;  ///< metrics to store, including those of the endpoints; sorted
  std::string isa;                   ///< instruction set of all runs; "": each machine's own
  double alpha = 0.05;
  bool keep_models = false;

  const Arm& arm(std::string_view name) const;
  const Endpoint& endpoint(std::string_view name) const;
  /// Returns the seeds that both arms have, ascending.
  std::vector<std::int64_t> pairs(const Contrast& contrast) const;
  /// Returns canonical JSON without `base`.
  std::string json() const;
  /// Returns 16 hexadecimal digits that change with what is run or tested.
  std::string hash() const;
};

/// Reads a plan file. Throws one input error with all faults.
Plan read_plan(const std::filesystem::path& file);
/// Reads the text of Plan::json. Throws an input error with `where`.
Plan plan_of_json(const std::string& text, const std::string& where);

struct PlanWords {
  std::string base;
  std::vector<std::string> arms;  ///< NAME=KEY=VALUE[,KEY=VALUE]; NAME= is the base recipe
  std::string seeds = "8", endpoint, better = "higher";
  double margin = 0;  ///< 0: no contrast of equality
};
/// Makes a plan whose contrasts compare each arm with the first. Throws input errors.
Plan plan_of_words(const PlanWords& words);

/// Reads "40,50,60" or "41-60"; returns nothing for other texts. Sets `is_range` for the second form, if given.
std::optional<std::vector<std::int64_t>> numbers_in(std::string_view text, bool* is_range = nullptr);

}  // namespace qrl::compare
