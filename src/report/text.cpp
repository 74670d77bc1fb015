#include "report/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/text.h"
#include "report/panels.h"
#include "report/recipe_lines.h"
#include "report/rules.h"

namespace qrl::report {

namespace {

using Line = std::vector<std::string>;

std::string counted(std::size_t number, const std::string& what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

struct Series {
  std::vector<double> values;  ///< finite values only
  std::string step;            ///< " (step 3)" if the last value is not of the run's last row, else ""
};

Series series(const RunFiles& run, const std::string& name) {
  Series series;
  for (const Row& row : run.rows.rows) {
    const double value = value_of(row.metrics, name);
    if (!std::isfinite(value)) continue;
    series.values.push_back(value);
    series.step = &row == &run.rows.rows.back() ? "" : " (step " + std::to_string(row.step) + ")";
  }
  return series;
}

std::optional<double> last(const std::vector<double>& values) {
  return values.empty() ? std::nullopt : std::optional(values.back());
}

std::optional<double> last_quarter(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  const std::size_t count = std::max<std::size_t>(1, values.size() / 4);
  double sum = 0;
  for (auto value = values.end() - static_cast<std::ptrdiff_t>(count); value != values.end(); ++value) sum += *value;
  return sum / static_cast<double>(count);
}

std::vector<std::string> metric_names(const std::vector<RunFiles>& runs) {
  std::map<std::string, bool, NameOrder> names;
  for (const RunFiles& run : runs) {
    Measures measures;
    for (const Row& row : run.rows.rows) measures.add(row.metrics);
    for (const Row& row : run.rows.rows) {
      for (const auto& [name, value] : row.metrics) {
        if (std::isfinite(value) && is_shown(name, false) && measures.counts(name)) names[name] = true;
      }
    }
  }
  std::vector<std::string> list;
  list.reserve(names.size());
  for (const auto& [name, there] : names) list.push_back(name);
  return list;
}

std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string aligned(const std::vector<Line>& lines) {
  std::vector<std::size_t> widths(lines.front().size());
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width_of(line[i]));
  }
  std::string text;
  for (const Line& line : lines) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      const std::string pad(widths[i] - width_of(line[i]), ' ');
      text += (i == 0 ? line[i] + pad : "  " + pad + line[i]);
    }
    text += "\n";
  }
  return text;
}

std::string table(const std::vector<RunFiles>& runs) {
  const auto letter = [&](std::size_t i) {
    return runs.size() == 1 ? std::string() : std::string(" ") + static_cast<char>('A' + i);
  };
  std::vector<Line> lines(1, {"metric"});
  for (const char* what : {"last", "quarter"}) {
    for (std::size_t i = 0; i < runs.size(); ++i) lines[0].push_back(what + letter(i));
    if (runs.size() == 2) lines[0].push_back("B - A");
  }
  for (const std::string& name : metric_names(runs)) {
    Line line = {name};
    for (const auto value_from : {last, last_quarter}) {
      std::vector<std::optional<double>> values;
      for (const RunFiles& run : runs) {
        const Series all = series(run, name);
        values.push_back(value_from(all.values));
        const std::string step = value_from == last ? all.step : "";
        line.push_back(values.back() ? base::format("%.6g", *values.back() + 0.0) + step : "–");  // −0 + 0 is 0
      }
      if (runs.size() == 2)
        line.push_back(values[0] && values[1] ? base::format("%+.3g", *values[1] - *values[0]) : "–");
    }
    lines.push_back(std::move(line));
  }
  return lines.size() > 1 ? aligned(lines) : "";
}

/// Returns a table of the keys in which the recipes differ; "" for a single run.
std::string differences(const std::vector<RunFiles>& runs) {
  constexpr std::size_t kMaxValueBytes = 60;
  if (std::ranges::count_if(runs, [](const RunFiles& run) { return !run.recipe_yaml.empty(); }) < 2) return "";
  std::vector<Line> lines(1, {"recipe key"});
  for (std::size_t i = 0; i < runs.size(); ++i) lines[0].emplace_back(1, static_cast<char>('A' + i));
  for (const KeyDifference& one : differing_keys(recipes_of(runs))) {
    Line line = {one.key};
    for (const std::string& value : one.values) {
      line.push_back(value.empty()                    ? "–"
                     : value.size() <= kMaxValueBytes ? value
                                                      : value.substr(0, kMaxValueBytes) + "…");
    }
    lines.push_back(std::move(line));
  }
  return lines.size() > 1 ? aligned(lines) : "the recipes are equal\n";
}

}  // namespace

std::string report_text(const std::vector<RunFiles>& runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const RunFiles& run = runs[i];
    if (runs.size() > 1) text += std::string(1, static_cast<char>('A' + i)) + "  ";
    text += run.dir.string() + ": " + counted(run.rows.rows.size(), "row") + (is_running(run.dir) ? ", running" : "");
    if (!run.sessions.empty() && !is_running(run.dir))
      text += ", " + (run.sessions.back().ended.empty() ? "killed or cut off" : run.sessions.back().ended);
    text += "\n";
    const std::vector<Verdict> verdicts = judge(run.rows);
    for (const Verdict& verdict : verdicts) {
      if (verdict.bad) text += "  " + describe(verdict) + "\n";
    }
    text += "  " + summary(verdicts) + "\n";
  }
  for (const std::string& part : {differences(runs), table(runs)}) {
    if (!part.empty()) text += "\n" + part;
  }
  return base::printable(text);  // texts may come from untrusted files
}

std::string sparkline(std::span<const double> values, std::size_t width) {
  constexpr std::array<const char*, 8> kHeights = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<double> finite;
  std::ranges::copy_if(values, std::back_inserter(finite), [](double x) { return std::isfinite(x); });
  if (finite.empty() || width == 0) return "";
  const std::size_t count = std::min(width, finite.size());
  std::vector<double> means;
  for (std::size_t k = 0; k < count; ++k) {
    const std::size_t first = k * finite.size() / count, end = (k + 1) * finite.size() / count;
    double sum = 0;
    for (std::size_t i = first; i < end; ++i) sum += finite[i];
    means.push_back(sum / static_cast<double>(end - first));
  }
  const auto [low, high] = std::minmax_element(means.begin(), means.end());
  std::string text;
  for (const double mean : means) {
    const double part = *high > *low ? (mean - *low) / (*high - *low) : 0;
    text += kHeights[static_cast<std::size_t>(std::lround(part * 7))];
  }
  return text;
}

}  // namespace qrl::report
