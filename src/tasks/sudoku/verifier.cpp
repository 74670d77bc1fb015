#include "tasks/sudoku/verifier.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"
#include "reward/answer.h"
#include "state/json.h"
#include "tasks/sudoku/grid.h"

namespace qrl::tasks {

namespace {

constexpr std::size_t kMaxGolds = 64;          ///< solutions compared for partial credit
constexpr std::int64_t kVerdictTrials = 4000;  ///< solver trials per verdict, in less than 2 ms
constexpr std::int64_t kMaxLoadTrials = 5'000'000;

struct SudokuGold final : types::Gold {
  SudokuGrid puzzle;
  std::optional<SudokuGrid> solution;
};

std::shared_ptr<const SudokuGold> read_gold(std::string_view text) {
  const nlohmann::json json = state::json_or_null(text);
  if (!json.is_object() || !json.contains("puzzle") || !json["puzzle"].is_string()) return nullptr;
  const auto puzzle = read_sudoku(json["puzzle"].get_ref<const std::string&>());
  if (!puzzle || !is_consistent(*puzzle)) return nullptr;
  auto gold = std::make_shared<SudokuGold>();
  gold->puzzle = *puzzle;
  for (const auto& [key, value] : json.items()) {
    if (key == "puzzle") continue;
    if (key != "solution" || !value.is_string()) return nullptr;
    gold->solution = read_sudoku(value.get_ref<const std::string&>());
    if (!gold->solution || !is_solved(*gold->solution) || !keeps_clues(*puzzle, *gold->solution)) return nullptr;
  }
  return gold;
}

bool is_cell(char c) noexcept { return c >= '0' && c <= '9'; }

/// Returns the digits of a text that otherwise has only separators, drawn lines and LaTeX matrices. Returns none for
/// other texts.
std::optional<std::string> digits_alone(std::string_view text) {
  constexpr std::string_view kSilent = " \t\r\n|,;+-_=[](){}&\\*#$\"'`";
  constexpr std::string_view kMarkup[] = {"\\begin{bmatrix}", "\\end{bmatrix}", "\\begin{matrix}", "\\end{matrix}",
                                          "\\begin{pmatrix}", "\\end{pmatrix}", "\\end{array}",    "\\hline"};
  std::string digits;
  while (!text.empty()) {
    const char c = text.front();
    const auto* markup =
        c != '\\' ? std::end(kMarkup)
                  : std::ranges::find_if(kMarkup, [text](std::string_view word) { return text.starts_with(word); });
    std::size_t width = 1;
    if (is_cell(c)) {
      digits += c;
    } else if (markup != std::end(kMarkup)) {
      width = markup->size();
    } else if (text.starts_with("\\begin{array}{")) {
      width = std::min(text.find('}', 15), text.size() - 1) + 1;
    } else if (text.size() >= 3 && text.starts_with("\xe2") && (text[1] == '\x94' || text[1] == '\x95')) {
      width = 3;  // ─ … ╿
    } else if (kSilent.find(c) == std::string_view::npos) {
      return std::nullopt;
    }
    text.remove_prefix(width);
  }
  return digits;
}

bool names_no_row(std::string_view label) {
  constexpr std::string_view kOthers[] = {"column", "col ", "box", "block", "region", "subgrid", "square", "cell"};
  const std::string lower = base::lower_case(label);
  return std::ranges::any_of(kOthers, [&](std::string_view word) { return lower.find(word) != std::string::npos; });
}

/// Returns a label's row number (3 for "Row 3", "R3", "3rd row", "3." and "third row"), else 0.
int number_of_label(std::string_view label) {
  constexpr std::string_view kOrdinals[] = {"first", "second",  "third",  "fourth", "fifth",
                                            "sixth", "seventh", "eighth", "ninth"};
  std::string lower;
  for (const char c : label) {
    if (base::is_alphanumeric(c)) lower += base::lower(c);
  }
  std::string_view rest = lower;
  for (int k = 0; k < 9; ++k) {
    if (rest.starts_with(kOrdinals[k]) && rest.substr(kOrdinals[k].size()).starts_with("row")) return k + 1;
  }
  for (const std::string_view word : {"row", "line", "r"}) {
    if (!rest.starts_with(word)) continue;
    rest.remove_prefix(word.size());
    break;
  }
  const bool two = rest.size() > 1 && is_cell(rest[1]);
  return rest.empty() || !is_cell(rest[0]) || two ? 0 : rest[0] - '0';
}

/// Returns the text after a line's label ("Row 3:", "Solution:", "grid =", "2.", "2 |", "| R2 |"). Returns none if the
/// line has no label, or another label ("Column 2:").
std::optional<std::string_view> behind_label(std::string_view line) {
  constexpr std::size_t kLongest = 32;
  if (const std::size_t end = line.find_first_of(":="); end < kLongest)
    return names_no_row(line.substr(0, end)) ? std::nullopt : std::optional(line.substr(end + 1));
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  if (line.starts_with('|')) {
    const std::size_t end = line.find('|', 1);
    const bool is_label =
        end < kLongest && !names_no_row(line.substr(0, end)) && number_of_label(line.substr(0, end)) > 0;
    return is_label ? std::optional(line.substr(end)) : std::nullopt;
  }
  const std::size_t number = std::min(line.find_first_not_of("0123456789"), line.size());
  const std::size_t sign = std::min(line.find_first_not_of(' ', number), line.size());
  if (number == 0 || number > 2 || sign + 1 >= line.size()) return std::nullopt;
  const bool is_listed = sign == number && (line[sign] == '.' || line[sign] == ')') && line[sign + 1] == ' ';
  return is_listed || line[sign] == '|' ? std::optional(line.substr(sign + 1)) : std::nullopt;
}

struct Line {
  std::string digits;
  bool is_labelled = false;
  int number = 0;  ///< 0: no label
};

/// Parses a line of cells, with or without a label. A border or empty line gives a line without cells. Returns none for
/// other lines.
std::optional<Line> line_of(std::string_view text, std::size_t size) {
  text = text.substr(0, text.find("<|"));
  const auto num_digits = static_cast<std::size_t>(std::ranges::count_if(text, is_cell));
  if (num_digits > 0 && num_digits < size) return std::nullopt;
  if (num_digits > 0) text = text.substr(0, text.find_last_not_of(" \t\r.!") + 1);
  const auto fits = [size](const std::optional<std::string>& d) {
    return d && (d->size() == size || d->size() == size * size || d->empty());
  };
  if (auto digits = digits_alone(text); fits(digits)) return Line{std::move(*digits)};
  // A sentence may contain a whole grid: "The solution is 3142243142131324."
  const std::size_t first = text.find_first_of("0123456789");
  const std::string_view word = text.substr(std::min(first, text.size()), size * size);
  if (num_digits == size * size && std::ranges::all_of(word, [](char c) { return is_cell(c) && c != '0'; }))
    return Line{std::string(word)};
  const auto cells = num_digits > 0 ? behind_label(text) : std::nullopt;
  if (!cells) return std::nullopt;
  auto digits = digits_alone(*cells);
  const int number = number_of_label(text.substr(0, static_cast<std::size_t>(cells->data() - text.data())));
  return fits(digits) && !digits->empty() ? std::optional(Line{std::move(*digits), true, number}) : std::nullopt;
}

/// Collects rows from a text's last row upward. Borders and empty lines end a group of rows.
class Rows {
 public:
  explicit Rows(std::size_t size) : size_(size) {}

  void add(Line row) {
    // Accepts either a single label ahead of the first row, or one label per row.
    const bool continues = !group_ended_ && !groups_.empty();
    if (!continues) groups_.emplace_back();
    group_ended_ = row.is_labelled && continues && !last_labelled_;
    last_labelled_ = row.is_labelled;
    groups_.back().push_back(std::move(row));
    ++num_rows_;
  }
  bool is_full() const { return num_rows_ >= 8 * size_; }
  bool empty() const { return groups_.empty(); }
  void part() { group_ended_ = true; }
  /// Returns whether `row` is part of another grid: it has no label, unlike the rows below it.
  bool ends_before(const Line& row) const { return !groups_.empty() && last_labelled_ && !row.is_labelled; }

  /// Returns the last grid. It consists of consecutive groups that have exactly a grid's number of rows, or of the last
  /// rows of a larger group. Returns size 0 if row labels do not count up.
  std::optional<SudokuGrid> grid() const {
    for (std::size_t first = 0; first < groups_.size(); ++first) {
      if (groups_[first].size() > size_) return grid_from(first);
      std::size_t sum = 0;
      for (std::size_t i = first; i < groups_.size() && sum < size_; ++i) sum += groups_[i].size();
      if (sum == size_) return grid_from(first);
    }
    return grid_from(0);
  }

 private:
  std::optional<SudokuGrid> grid_from(std::size_t first) const {
    std::string all;
    std::size_t num_rows = 0;
    int below = 0;
    bool counts_up = true;
    for (std::size_t i = first; i < groups_.size(); ++i) {
      for (const Line& row : groups_[i]) {
        if (row.number > 0 && below > 0 && row.number + 1 != below) counts_up = false;
        below = row.number;
        all.insert(0, row.digits);
        if (++num_rows == size_) return counts_up ? read_sudoku(all) : SudokuGrid{0, {}};
      }
    }
    return std::nullopt;
  }

  std::size_t size_, num_rows_ = 0;
  std::vector<std::vector<Line>> groups_;  ///< last group first, last row first
  bool group_ended_ = false, last_labelled_ = false;
};

/// Returns a text's last grid: consecutive lines with one row each, or one line with all rows.
std::optional<SudokuGrid> last_grid(std::string_view text, int size) {
  const auto num_rows = static_cast<std::size_t>(size);
  Rows rows(num_rows);
  while (!text.empty()) {
    const std::size_t cut = text.rfind('\n');
    const std::string_view written = cut == std::string_view::npos ? text : text.substr(cut + 1);
    text = cut == std::string_view::npos ? std::string_view() : text.substr(0, cut);
    auto line = written.size() > 1000 ? std::nullopt : line_of(written, num_rows);
    if (line && line->digits.empty()) {
      rows.part();
      continue;
    }
    const bool is_row = line && line->digits.size() == num_rows;
    if (!is_row || rows.ends_before(*line)) {
      if (auto grid = rows.grid()) return grid;
      if (line && !is_row) return read_sudoku(line->digits);
      if (!rows.empty()) rows = Rows(num_rows);
    }
    if (is_row) rows.add(std::move(*line));
    if (rows.is_full()) break;
  }
  return rows.grid();
}

struct Answer {
  std::string text;
  std::optional<SudokuGrid> grid;
};

std::optional<Answer> find_answer(std::string_view response, int size) {
  if (const auto marked = reward::extract_answer(response)) {
    Answer answer{reward::shown(marked->text), std::nullopt};
    if (marked->text.size() <= 4096) {
      if (const auto digits = digits_alone(marked->text)) answer.grid = read_sudoku(*digits);
      if (!answer.grid || answer.grid->size != size) answer.grid = last_grid(marked->text, size);
    }
    return answer;
  }
  if (response.size() > reward::kMaxScanned_bytes) response.remove_prefix(response.size() - reward::kMaxScanned_bytes);
  const auto grid = last_grid(response, size);
  if (!grid) return std::nullopt;
  return Answer{sudoku_digits(*grid), grid};
}

double share_of_empty_cells(const SudokuGrid& puzzle, const SudokuGrid& grid, const SudokuGrid& solution) noexcept {
  int empty = 0;
  int right = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(puzzle.num_cells()); ++k) {
    if (puzzle.cells[k] != 0) continue;
    ++empty;
    right += grid.cells[k] == solution.cells[k] ? 1 : 0;
  }
  return empty == 0 ? 0 : static_cast<double>(right) / empty;
}

double partial_credit(const SudokuGold& gold, const SudokuGrid& grid) {
  double best = gold.solution ? share_of_empty_cells(gold.puzzle, grid, *gold.solution) : 0;
  for (const auto& solution : solve_sudoku(gold.puzzle, kMaxGolds, kVerdictTrials).grids) {
    best = std::max(best, share_of_empty_cells(gold.puzzle, grid, solution));
  }
  return best;
}

}  // namespace

void SudokuVerifier::check_ground_truth(const Question& question, const std::string& where) const {
  const auto gold = read_gold(question.ground_truth);
  QRL_REQUIRE(gold != nullptr, where,
              "a sudoku ground truth such as {\"puzzle\":\"3102200002100320\"} (16 or 81 digits, 0 for an empty cell; "
              "an optional \"solution\" must solve it)",
              base::quoted(question.ground_truth));
  const bool solvable = gold->solution || !solve_sudoku(gold->puzzle, 1, kMaxLoadTrials).grids.empty();
  QRL_REQUIRE(solvable, where, "a sudoku with a solution", base::quoted(question.ground_truth, 120));
}

std::shared_ptr<const types::Gold> SudokuVerifier::prepare(const Question& question) const {
  return read_gold(question.ground_truth);
}

Verdict SudokuVerifier::judge_one(std::string_view response, const types::Gold& gold) const noexcept try {
  const auto& grids = static_cast<const SudokuGold&>(gold);
  const auto answer = find_answer(response, grids.puzzle.size);
  if (!answer) return {Outcome::no_answer, "no answer"};
  const auto verdict = [&answer](Outcome outcome, std::string_view reason, double credit = 0) {
    return Verdict{outcome, reason, false, credit, answer->text};
  };
  if (!answer->grid || answer->grid->size != grids.puzzle.size) return verdict(Outcome::no_answer, "no grid");
  if (!keeps_clues(grids.puzzle, *answer->grid)) return verdict(Outcome::wrong, "clues changed");
  if (is_solved(*answer->grid)) return verdict(Outcome::correct, "correct", 1);
  return verdict(Outcome::wrong, "not solved", partial_credit(grids, *answer->grid));
} catch (...) {
  return {Outcome::no_answer, "out of memory", true};
}

}  // namespace qrl::tasks
