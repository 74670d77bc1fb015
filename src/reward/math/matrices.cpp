// Matrices of Evaluator.
#include <algorithm>
#include <string>

#include "reward/math/evaluate.h"

namespace qrl::reward::math {

namespace {

constexpr std::size_t kMaxDeterminant = 4;

}  // namespace

Value Evaluator::determinant(const Node& node) {
  const auto m = matrix(tree_.child(node, 0));
  if (!m || m->rows != m->columns || m->rows == 0 || m->rows > kMaxDeterminant) return opaque("det", node);
  const std::size_t n = m->rows;
  std::vector<std::size_t> columns(n);
  for (std::size_t k = 0; k < n; ++k) columns[k] = k;
  Value result = algebra_.integer(0);
  do {  // the sum over permutations: at most 24
    if (!budget_.spend(static_cast<std::int64_t>(n))) return algebra_.undefined();
    std::size_t inversions = 0;
    Value term = algebra_.integer(1);
    for (std::size_t r = 0; r < n; ++r) {
      term = algebra_.multiply(term, m->entries[r * n + columns[r]]);
      for (std::size_t s = 0; s < r; ++s) inversions += columns[s] > columns[r] ? 1 : 0;
    }
    result = algebra_.add(result, inversions % 2 != 0 ? algebra_.negate(term) : term);
  } while (std::next_permutation(columns.begin(), columns.end()));
  return result;
}

std::optional<MatrixValue> Evaluator::matrix(NodeIdx idx) {
  const Node& node = tree_.at(idx);
  if (!budget_.spend()) return std::nullopt;
  if (node.kind == Kind::matrix || node.kind == Kind::tuple) {
    if (node.kind == Kind::matrix && node.text == "cases") return std::nullopt;
    MatrixValue m;
    const bool tuple = node.kind == Kind::tuple;
    if (tuple && node.count == 2 && (node.open == '[' || node.close == ']')) return std::nullopt;  // an interval
    m.columns = tuple ? 1 : static_cast<std::size_t>(node.columns);
    m.rows = m.columns == 0 ? 0 : static_cast<std::size_t>(node.count) / m.columns;
    for (std::int32_t k = 0; k < node.count; ++k) m.entries.push_back(value(tree_.child(node, k)));
    return m;
  }
  if (node.kind == Kind::product) return matrix_product(node);
  if (node.kind == Kind::power) {
    const Node& exponent = tree_.child_at(node, 1);
    const bool transposed = exponent.kind == Kind::symbol && (exponent.text == "T" || exponent.text == "top");
    auto m = transposed ? matrix(tree_.child(node, 0)) : std::nullopt;
    if (!m) return std::nullopt;
    MatrixValue t{m->columns, m->rows, {}};
    for (std::size_t r = 0; r < t.rows; ++r) {
      for (std::size_t c = 0; c < t.columns; ++c) t.entries.push_back(m->entries[c * m->columns + r]);
    }
    return t;
  }
  if (node.kind != Kind::sum) return std::nullopt;
  std::optional<MatrixValue> total;
  for (std::int32_t k = 0; k < node.count; ++k) {
    auto term = matrix(tree_.child(node, k));
    if (!term || (total && (term->rows != total->rows || term->columns != total->columns))) return std::nullopt;
    for (std::size_t j = 0; j < term->entries.size(); ++j) {
      Value& entry = term->entries[j];
      if (tree_.link(node, k).code == '-') entry = algebra_.negate(entry);
      if (total) entry = algebra_.add(total->entries[j], entry);
    }
    total = std::move(term);
  }
  return total;
}

std::optional<MatrixValue> Evaluator::matrix_product(const Node& node) {
  std::optional<MatrixValue> result;
  Value scale = algebra_.integer(1);
  for (std::int32_t k = 0; k < node.count; ++k) {
    const Link link = tree_.link(node, k);
    if (link.code == '*' || link.code == 0) {
      if (auto m = matrix(link.node)) {
        if (!result) {
          result = std::move(m);
          continue;
        }
        if (result->columns != m->rows) return std::nullopt;
        if (!budget_.spend(static_cast<std::int64_t>(result->rows * m->columns * m->rows))) return std::nullopt;
        MatrixValue next{result->rows, m->columns, {}};
        for (std::size_t r = 0; r < next.rows; ++r) {
          for (std::size_t c = 0; c < next.columns; ++c) {
            Value entry = algebra_.integer(0);
            for (std::size_t j = 0; j < m->rows; ++j) {
              entry = algebra_.add(
                  entry, algebra_.multiply(result->entries[r * result->columns + j], m->entries[j * m->columns + c]));
            }
            next.entries.push_back(entry);
          }
        }
        result = std::move(next);
        continue;
      }
      scale = algebra_.multiply(scale, value(link.node));
    } else if (link.code == '/') {
      scale = algebra_.divide(scale, value(link.node));
    } else {
      return std::nullopt;
    }
  }
  if (!result) return std::nullopt;
  for (Value& entry : result->entries) entry = algebra_.multiply(scale, entry);
  return result;
}

}  // namespace qrl::reward::math
