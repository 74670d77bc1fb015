// Owns which kernel computes a bf16 GEMM of few rows on Hopper, by shape: a table that was timed once on a GPU and
// committed. The program reads it and never writes it: ways to make a bf16 GEMM have different bits, so a choice by
// time would make runs differ. `qrl-bench products --candidates` prints the table's rows.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cuda/runtime/layout.h"

namespace qrl::cuda {

/// A way: streamed_gemm, or the n-th of so many algorithms that cuBLASLt proposes, the one it holds fastest first.
inline constexpr int kStreamedWay = -1, kCublasLtAlgorithms = 8;
/// GEMMs of more rows are cuBLASLt's first proposal.
inline constexpr std::int64_t kBf16TableRows = 16;

struct Bf16Row {
  std::int64_t outputs = 0, inputs = 0;  ///< of the matrix in memory (layout.h), padded
  std::int64_t rows = 0;                 ///< of the GEMM, as padded_rows has them
  bool y_is_f32 = false;
  int way = 0;
};

/// The version of cuBLASLt whose proposals the ways count. With another one the table is not used, and the log says so.
inline constexpr std::string_view kBf16TableLibrary = "";
/// A shape that is not in it is made by cuBLASLt's first proposal. Empty: no GPU has been met.
inline constexpr std::array<Bf16Row, 0> kBf16Table{};

constexpr bool is_valid(std::span<const Bf16Row> table) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    const Bf16Row& row = table[i];
    if (row.outputs <= 0 || row.outputs % kOutputTile != 0 || row.inputs <= 0 || row.inputs % kInputChunk != 0)
      return false;
    if ((row.rows != 8 && row.rows != kBf16TableRows) || row.way < kStreamedWay || row.way >= kCublasLtAlgorithms)
      return false;
    for (const Bf16Row& before : table.first(i)) {
      if (before.outputs == row.outputs && before.inputs == row.inputs && before.rows == row.rows &&
          before.y_is_f32 == row.y_is_f32)
        return false;
    }
  }
  return true;
}
static_assert(is_valid(kBf16Table), "a row of the table is out of range, or there twice");

/// The shape's row; null: it has none.
inline const Bf16Row* find_bf16(std::span<const Bf16Row> table, std::int64_t outputs, std::int64_t inputs,
                                std::int64_t num_rows, bool y_is_f32) {
  const auto is_shape = [&](const Bf16Row& row) {
    return row.outputs == outputs && row.inputs == inputs && row.rows == padded_rows(num_rows) &&
           row.y_is_f32 == y_is_f32;
  };
  const auto found = std::find_if(table.begin(), table.end(), is_shape);
  return found == table.end() ? nullptr : &*found;
}

/// The way that a shape's row should have: the fastest, if it is faster than cuBLASLt's first proposal by more than
/// times scatter; 0 otherwise, which needs no row.
inline int fastest_way(double streamed_s, std::span<const double> cublaslt_s) {
  constexpr double kScatter = 0.03;
  int way = 0;
  double best_s = cublaslt_s[0] * (1 - kScatter);
  for (std::size_t n = 1; n < cublaslt_s.size(); ++n) {
    if (!(cublaslt_s[n] < best_s)) continue;
    way = static_cast<int>(n);
    best_s = cublaslt_s[n];
  }
  return streamed_s < best_s ? kStreamedWay : way;
}

/// The lines of this file that hold the table.
inline std::string bf16_table_text(std::string_view library, std::span<const Bf16Row> rows) {
  std::string text = "inline constexpr std::string_view kBf16TableLibrary = \"" + std::string(library) + "\";\n" +
                     "inline constexpr std::array<Bf16Row, " + std::to_string(rows.size()) + "> kBf16Table{";
  if (rows.empty()) return text + "};\n";
  text += "{\n";
  for (const Bf16Row& row : rows) {
    text += "    {" + std::to_string(row.outputs) + ", " + std::to_string(row.inputs) + ", " +
            std::to_string(row.rows) + (row.y_is_f32 ? ", true, " : ", false, ") +
            (row.way == kStreamedWay ? "kStreamedWay" : std::to_string(row.way)) + "},\n";
  }
  return text + "}};\n";
}

}  // namespace qrl::cuda
