#include "report/measures.h"

#include <algorithm>
#include <cmath>

namespace qrl::report {

namespace {

constexpr std::string_view kHeldOut = "val/", kScore = "/score", kOutcomes = "outcome_fraction";
constexpr double kMost = 0.5;  // share of judged responses whose verdict says whether they are correct

/// Holds a metric's name in parts: val/SOURCE/FIGURE.
struct HeldOut {
  enum Kind { share, score, part, other } kind = other;
  std::string_view source, figure;
};

std::optional<HeldOut> held_out(std::string_view name) {
  if (!name.starts_with(kHeldOut)) return std::nullopt;
  name.remove_prefix(kHeldOut.size());
  const std::size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view before = name.substr(0, slash), last = name.substr(slash + 1);
  const auto as = [&](HeldOut::Kind kind, std::string_view source) {
    return HeldOut{kind, source, name.substr(source.size() + 1)};
  };
  if (last.starts_with("maj@") || last.starts_with("pass@")) return as(HeldOut::share, before);
  if (!last.starts_with("mean@")) return as(HeldOut::other, before);
  if (before.ends_with(kScore)) return as(HeldOut::score, before.substr(0, before.size() - kScore.size()));
  const std::string_view above = before.substr(0, std::min(before.rfind('/'), before.size()));
  if (above.ends_with(kScore)) return as(HeldOut::part, above.substr(0, above.size() - kScore.size()));
  return as(HeldOut::share, before);
}

}  // namespace

void Measures::add(const Metrics& row) {
  for (const auto& [name, value] : row) {
    if (!std::isfinite(value) || !name.ends_with(kOutcomes)) continue;
    const auto parts = held_out(name);
    if (parts && parts->figure == kOutcomes) held_out_by_score_.try_emplace(std::string(parts->source), value < kMost);
    if (name == "reward/outcome_fraction" && !training_by_score_) training_by_score_ = value < kMost;
  }
}

bool Measures::held_out_by_score(std::string_view source) const {
  const auto known = held_out_by_score_.find(source);
  return known != held_out_by_score_.end() && known->second;
}

bool Measures::is_held_out_score(std::string_view name) const {
  const auto parts = split_held_out_score(name);
  return parts && parts->second.starts_with("mean@") != held_out_by_score(parts->first);
}

bool Measures::counts(std::string_view name) const {
  if (name == "reward/correct_fraction" || name == "reward/wrong_fraction" || name == "reward/no_answer_fraction")
    return !training_by_score();
  const auto parts = held_out(name);
  if (!parts || parts->kind == HeldOut::other) return true;
  return (parts->kind == HeldOut::share) != held_out_by_score(parts->source);
}

Measures read_measures(const std::filesystem::path& file) {
  Measures measures;
  for (const Row& row : read_rows(file).rows) measures.add(row.metrics);
  return measures;
}

std::optional<std::pair<std::string_view, std::string_view>> split_held_out_score(std::string_view name) {
  const auto parts = held_out(name);
  if (!parts || (parts->kind != HeldOut::share && parts->kind != HeldOut::score)) return std::nullopt;
  if (parts->figure.find("mean@") == std::string_view::npos) return std::nullopt;
  return std::pair(parts->source, parts->figure);
}

}  // namespace qrl::report
