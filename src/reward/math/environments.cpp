#include "reward/math/environments.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace qrl::reward::math {

namespace {

using T = TokenType;

/// What stands between two & or line breaks of an environment. Cells are told of by the tokens of the environment
/// itself, not by those of brackets and environments within it.
struct Cell {
  std::size_t begin = 0, end = 0;  ///< its tokens; the & or line break before it is at begin − 1
  bool begins_row = false;
  bool relation = false;  ///< holds one
};

struct Environment {
  std::size_t begin = 0;    ///< its token of type begin
  std::size_t depth = 0;    ///< brackets open in the cell that is read
  std::vector<Cell> cells;  ///< the last one is being read
};

/// A sign between two sides; ⇒ begins a formula of its own.
bool is_relation(const Token& token) noexcept { return token.type == T::relation && token.code != 't'; }

bool is_operation(const Token& token) noexcept {
  return token.type == T::op && std::string_view("+-*/PM").find(token.code) != std::string_view::npos;
}

bool is_layout(std::string_view name) noexcept {
  constexpr std::string_view kBeginnings[] = {"align", "split", "gather", "eqnarray", "multline"};
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [name](std::string_view beginning) { return name.starts_with(beginning); });
}

bool is_transparent(std::string_view name) noexcept { return name == "equation" || name == "equation*"; }

class Rows {
 public:
  explicit Rows(std::vector<Token>& tokens) : tokens_(tokens), dropped_(tokens.size(), 0) {}

  void run() {
    for (std::size_t k = 0; k < tokens_.size(); ++k) read(k);
    std::size_t kept = 0;
    for (std::size_t k = 0; k < tokens_.size(); ++k) {
      if (dropped_[k] == 0) tokens_[kept++] = tokens_[k];
    }
    tokens_.resize(kept);
  }

 private:
  void read(std::size_t k) {
    const Token& token = tokens_[k];
    if (token.type == T::begin) {
      open_.push_back({k, 0, {{k + 1, k + 1, true, false}}});
      return;
    }
    if (open_.empty()) return;
    Environment& environment = open_.back();
    Cell& cell = environment.cells.back();
    switch (token.type) {
      case T::open:
        ++environment.depth;
        break;
      case T::close:
        if (environment.depth > 0) --environment.depth;
        break;
      case T::relation:
        cell.relation = cell.relation || (environment.depth == 0 && is_relation(token));
        break;
      case T::cell:
      case T::newline:
        cell.end = k;
        environment.depth = 0;
        environment.cells.push_back({k + 1, k + 1, token.type == T::newline, false});
        break;
      case T::finish:
        cell.end = k;
        close(environment, k);
        open_.pop_back();
        break;
      default:
        break;
    }
  }

  void close(const Environment& environment, std::size_t finish) {
    Token& begin = tokens_[environment.begin];
    const std::vector<Cell>& cells = environment.cells;
    if (is_transparent(begin.text) && cells.size() == 1) {
      dropped_[environment.begin] = dropped_[finish] = 1;
      return;
    }
    const bool layout = is_layout(begin.text) || is_transparent(begin.text);
    const bool array = begin.text == "array" || begin.text == "tabular";
    if (!layout && !array && begin.text != "cases") return;
    aligned_ = false;
    for (std::size_t k = 1; k < cells.size(); ++k) {
      aligned_ = aligned_ || (!cells[k].begins_row && stands_by(cells, k, is_relation));
    }
    const bool braced = drop_open_brace(environment.begin, finish);
    if (array && !aligned_ && !braced) return;  // a matrix
    begin.text = "cases";
    for (const Cell& cell : cells) {  // x = 5; \\ y = 6
      if (cell.end > cell.begin && tokens_[cell.end - 1].type == T::separator) dropped_[cell.end - 1] = 1;
    }
    if (layout || aligned_ || !array) drop_layout(cells);
  }

  /// Whether the & before a cell stands directly before or behind a token of that kind.
  template <typename Is>
  bool stands_by(const std::vector<Cell>& cells, std::size_t k, const Is& is) const noexcept {
    const auto filled = [](const Cell& cell) { return cell.end > cell.begin; };
    return (filled(cells[k]) && is(tokens_[cells[k].begin])) ||
           (filled(cells[k - 1]) && is(tokens_[cells[k - 1].end - 1]));
  }

  /// Drops the brace that stands before an environment where nothing closes it right behind it: \left\{ … \right.
  bool drop_open_brace(std::size_t begin, std::size_t finish) noexcept {
    std::size_t behind = finish + 1;
    const auto is = [this](std::size_t k, T type, char code) {
      return k < tokens_.size() && tokens_[k].type == type && tokens_[k].code == code;
    };
    while (begin > 0 && is(begin - 1, T::open, '{') && is(behind, T::close, '}')) --begin, ++behind;
    if (begin == 0 || !is(begin - 1, T::open, 'S') || is(behind, T::close, 'S')) return false;
    dropped_[begin - 1] = 1;
    return true;
  }

  void drop_layout(const std::vector<Cell>& cells) noexcept {
    const bool one_row = std::none_of(cells.begin() + 1, cells.end(), [](const Cell& cell) { return cell.begins_row; });
    Row row;
    for (std::size_t begin = 0; begin < cells.size();) {
      std::size_t end = begin + 1;
      while (end < cells.size() && !cells[end].begins_row) ++end;
      row = drop_in_row(cells, begin, end, row, one_row);
      begin = end;
    }
  }

  struct Row {
    bool left = false;   ///< something stood before its first &
    bool whole = false;  ///< it is one entry, which the next row may continue
  };

  Row drop_in_row(const std::vector<Cell>& cells, std::size_t begin, std::size_t end, Row above,
                  bool one_row) noexcept {
    const auto filled = [&cells](std::size_t k) { return cells[k].end > cells[k].begin; };
    std::size_t first = begin;
    while (first < end && !filled(first)) ++first;
    if (first == end) return above;
    Row row{first == begin, true};
    const Token& sign = tokens_[cells[first].begin];
    const bool continues =
        begin > 0 && above.whole && (is_relation(sign) || (first > begin && above.left && is_operation(sign)));
    if (continues) {
      dropped_[cells[begin].begin - 1] = 1;
      row.left = above.left;
    }
    std::size_t last = end - 1;  // cell with something in it that holds a relation
    while (last > first && !cells[last].relation) --last;
    bool relation = cells[first].relation;
    std::size_t before = first;  // the cell with something in it before the next one
    for (std::size_t k = begin + 1; k < end; ++k) {
      std::uint8_t& dropped = dropped_[cells[k].begin - 1];
      if (k <= first || !filled(k)) {
        dropped = 1;
        continue;
      }
      const Token &sign_before = tokens_[cells[before].end - 1], &sign_behind = tokens_[cells[k].begin];
      const bool one_side = !relation || last < k;
      if (is_relation(sign_before) || is_relation(sign_behind)) {
        dropped = aligned_ ? 1 : 0;
      } else if (aligned_ && one_side && (is_operation(sign_before) || is_operation(sign_behind))) {
        dropped = 1;
      } else if (one_row && relation && !cells[k].relation && k + 1 < end && stands_by(cells, k + 1, is_relation)) {
        tokens_[cells[k].begin - 1].type = T::newline;  // x &= 5 & y &= 6
      }
      if (dropped == 0) row.whole = false;
      relation = relation || cells[k].relation;
      before = k;
    }
    return row;
  }

  std::vector<Token>& tokens_;
  std::vector<std::uint8_t> dropped_;
  std::vector<Environment> open_;
  bool aligned_ = false;  ///< an & of the environment that is closed stands beside a relation
};

}  // namespace

void make_rows_cases(std::vector<Token>& tokens) {
  const bool any = std::any_of(tokens.begin(), tokens.end(), [](const Token& token) { return token.type == T::begin; });
  if (any) Rows(tokens).run();
}

}  // namespace qrl::reward::math
