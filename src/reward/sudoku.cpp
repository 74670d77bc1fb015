#include "reward/sudoku.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "puzzle/sudoku.h"

namespace qrl::reward {

namespace {

constexpr std::size_t kMaxGolds = 64;      ///< solutions that partial credit looks at
constexpr std::int64_t kMaxTrials = 4000;  ///< of the solver in a verdict: below 2 ms
constexpr std::int64_t kMaxLoadTrials = 5'000'000;

struct Gold {
  puzzle::SudokuGrid puzzle;
  std::optional<puzzle::SudokuGrid> solution;
};

std::optional<Gold> read_gold(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("puzzle") || !json["puzzle"].is_string()) return std::nullopt;
  const auto puzzle = puzzle::read_sudoku(json["puzzle"].get_ref<const std::string&>());
  if (!puzzle || !puzzle::is_consistent(*puzzle)) return std::nullopt;
  Gold gold{*puzzle, std::nullopt};
  for (const auto& [key, value] : json.items()) {
    if (key == "puzzle") continue;
    if (key != "solution" || !value.is_string()) return std::nullopt;
    gold.solution = puzzle::read_sudoku(value.get_ref<const std::string&>());
    if (!gold.solution || !puzzle::is_solved(*gold.solution) || !puzzle::keeps_clues(*puzzle, *gold.solution)) {
      return std::nullopt;
    }
  }
  return gold;
}

bool is_cell(char c) noexcept { return c >= '0' && c <= '9'; }

/// The digits of a text in which else only separators, drawn lines and LaTeX's matrices stand; nothing when there is
/// anything more.
std::optional<std::string> digits_alone(std::string_view text) {
  constexpr std::string_view kSilent = " \t\r\n|,;+-_=[](){}&\\*#\"'`";
  constexpr std::string_view kMarkup[] = {"\\begin{bmatrix}", "\\end{bmatrix}", "\\begin{matrix}", "\\end{matrix}",
                                          "\\begin{pmatrix}", "\\end{pmatrix}", "\\end{array}",    "\\hline"};
  std::string digits;
  while (!text.empty()) {
    const char c = text.front();
    const auto* markup = std::find_if(std::begin(kMarkup), std::end(kMarkup),
                                      [text](std::string_view word) { return text.starts_with(word); });
    std::size_t width = 1;
    if (is_cell(c)) digits += c;
    else if (markup != std::end(kMarkup)) width = markup->size();
    else if (text.starts_with("\\begin{array}{")) width = std::min(text.find('}', 15), text.size() - 1) + 1;
    else if (text.size() >= 3 && text.starts_with("\xe2") && (text[1] == '\x94' || text[1] == '\x95'))
      width = 3;  // ─ … ╿
    else if (kSilent.find(c) == std::string_view::npos) return std::nullopt;
    text.remove_prefix(width);
  }
  return digits;
}

/// Without a label ("Row 3:", "Solution:", "grid =", "2.") before its cells and a control token behind them.
std::string_view without_label(std::string_view line) noexcept {
  line = line.substr(0, line.find("<|"));
  constexpr std::size_t kLongest = 32;  // of a label
  if (const std::size_t end = line.find_first_of(":="); end < kLongest) return line.substr(end + 1);
  const std::size_t point = line.find_first_of(".)");
  const bool numbered =
      point <= 3 && point > 0 && is_cell(line[point - 1]) && point + 1 < line.size() && line[point + 1] == ' ';
  return numbered ? line.substr(point + 1) : line;
}

/// A line's cells: the digits of what stands there alone, or behind a label.
std::optional<std::string> cells_of(std::string_view line, std::size_t size) {
  auto digits = digits_alone(line);
  const auto fits = [size](const std::optional<std::string>& d) {
    return d && (d->size() == size || d->size() == size * size || d->empty());
  };
  if (fits(digits)) return digits;
  auto labelled = digits_alone(without_label(line));
  return fits(labelled) ? labelled : digits;
}

/// The last grid among the lines of a text: as many rows in a row as it has, or one line with all of it.
std::optional<puzzle::SudokuGrid> last_grid(std::string_view text, int size) {
  const auto num_cells = static_cast<std::size_t>(size) * static_cast<std::size_t>(size);
  std::vector<std::string> rows;  // of the grid that ends here, last row first
  while (!text.empty()) {
    const std::size_t cut = text.rfind('\n');
    const std::string_view line = cut == std::string_view::npos ? text : text.substr(cut + 1);
    text = cut == std::string_view::npos ? std::string_view() : text.substr(0, cut);
    if (line.size() > 1000) {
      rows.clear();
      continue;
    }
    const auto digits = cells_of(line, static_cast<std::size_t>(size));
    if (digits && digits->size() == num_cells) return puzzle::read_sudoku(*digits);
    if (digits && digits->size() == static_cast<std::size_t>(size)) {
      rows.push_back(*digits);
      if (rows.size() < static_cast<std::size_t>(size)) continue;
      std::string all;
      for (auto row = rows.rbegin(); row != rows.rend(); ++row) all += *row;
      return puzzle::read_sudoku(all);
    }
    const bool drawn = digits && digits->empty();  // a border or an empty line does not end the grid
    if (!drawn) rows.clear();
  }
  return std::nullopt;
}

struct Answer {
  std::string text;
  std::optional<puzzle::SudokuGrid> grid;
};

std::optional<Answer> find_answer(std::string_view response, int size) {
  if (const auto marked = extract_answer(response)) {
    Answer answer{shown(marked->text), std::nullopt};
    if (marked->text.size() <= 4096) {
      if (const auto digits = digits_alone(marked->text)) answer.grid = puzzle::read_sudoku(*digits);
      if (!answer.grid || answer.grid->size != size) answer.grid = last_grid(marked->text, size);
    }
    return answer;
  }
  if (response.size() > kMaxScanned_bytes) response.remove_prefix(response.size() - kMaxScanned_bytes);
  const auto grid = last_grid(response, size);
  if (!grid) return std::nullopt;
  return Answer{puzzle::sudoku_digits(*grid), grid};
}

double share_of_empty_cells(const puzzle::SudokuGrid& puzzle, const puzzle::SudokuGrid& grid,
                            const puzzle::SudokuGrid& solution) noexcept {
  int empty = 0;
  int right = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(puzzle.num_cells()); ++k) {
    if (puzzle.cells[k] != 0) continue;
    ++empty;
    right += grid.cells[k] == solution.cells[k] ? 1 : 0;
  }
  return empty == 0 ? 0 : static_cast<double>(right) / empty;
}

double partial_credit(const Gold& gold, const puzzle::SudokuGrid& grid) {
  double best = gold.solution ? share_of_empty_cells(gold.puzzle, grid, *gold.solution) : 0;
  for (const auto& solution : puzzle::solve_sudoku(gold.puzzle, kMaxGolds, kMaxTrials).grids) {
    best = std::max(best, share_of_empty_cells(gold.puzzle, grid, solution));
  }
  return best;
}

}  // namespace

void SudokuVerifier::check_ground_truth(std::string_view ground_truth, const std::string& where) const {
  const auto gold = read_gold(ground_truth);
  QRL_REQUIRE(gold, where,
              "a sudoku ground truth such as {\"puzzle\":\"3102200002100320\"} (16 or 81 digits, 0 for an empty cell; "
              "\"solution\" may be there too and must solve it)",
              base::quoted(ground_truth));
  const bool solvable = gold->solution || !puzzle::solve_sudoku(gold->puzzle, 1, kMaxLoadTrials).grids.empty();
  QRL_REQUIRE(solvable, where, "a sudoku with a solution", base::quoted(ground_truth, 120));
}

Verdict SudokuVerifier::judge(std::string_view response, std::string_view ground_truth) const noexcept try {
  const auto gold = read_gold(ground_truth);
  if (!gold) return {Outcome::no_answer, "gold", true};
  const auto answer = find_answer(response, gold->puzzle.size);
  if (!answer) return {Outcome::no_answer, "no answer"};
  const auto verdict = [&answer](Outcome outcome, std::string_view reason, double credit = 0) {
    return Verdict{outcome, reason, false, credit, answer->text};
  };
  if (!answer->grid || answer->grid->size != gold->puzzle.size) return verdict(Outcome::no_answer, "no grid");
  if (!puzzle::keeps_clues(gold->puzzle, *answer->grid)) return verdict(Outcome::wrong, "clues changed");
  if (puzzle::is_solved(*answer->grid)) return verdict(Outcome::correct, "correct", 1);
  return verdict(Outcome::wrong, "not solved", partial_credit(*gold, *answer->grid));
} catch (...) {
  return {Outcome::no_answer, "out of memory", true};
}

}  // namespace qrl::reward
