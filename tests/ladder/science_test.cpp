// Tests docs/science: the numbers in the pages' tables equal those of results.md, which scripts/science/compare_modes
// writes.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/files.h"

namespace {

namespace fs = std::filesystem;
using Cells = std::vector<std::string>;

/// Returns the cells of a table's row; empty for any other line.
Cells cells_of(const std::string& line) {
  Cells cells;
  if (!line.starts_with("| ")) return cells;
  std::istringstream rest(line.substr(1));
  for (std::string cell; std::getline(rest, cell, '|');) {
    const std::size_t first = cell.find_first_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') + 1 - first));
  }
  return cells;
}

/// Returns the rows of results.md; the last cell of each is its section: a variant, or "Claims".
std::vector<Cells> results_of(const fs::path& file) {
  std::istringstream text(qrl::test::read_file(file));
  std::vector<Cells> rows;
  std::string section;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("## ")) section = line.substr(3);
    Cells cells = cells_of(line);
    if (cells.empty()) continue;
    cells.push_back(section);
    rows.push_back(cells);
  }
  return rows;
}

/// Returns a page's rows that hold results (a cell with "±"), without links and without the column "seen here".
std::vector<Cells> results_in_page(const fs::path& file) {
  std::istringstream text(qrl::test::read_file(file));
  std::vector<Cells> rows;
  Cells header;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("|-")) continue;
    const Cells cells = cells_of(line);
    if (cells.empty()) header.clear();
    else if (header.empty()) header = cells;
    if (line.find("±") == std::string::npos || cells.empty()) continue;
    Cells kept;
    for (std::size_t i = 0; i < cells.size(); ++i)
      if (cells[i].find("](") == std::string::npos && header.at(i) != "seen here") kept.push_back(cells[i]);
    rows.push_back(kept);
  }
  return rows;
}

}  // namespace

TEST_CASE("docs/science: each row of results in a page has the cells of one row of results.md") {
  const fs::path folder = QRL_SOURCE_DIR "/docs/science";
  const std::vector<Cells> results = results_of(folder / "results.md");
  std::size_t num_rows = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".md" || entry.path().filename() == "results.md") continue;
    for (const Cells& row : results_in_page(entry.path())) {
      INFO(entry.path().filename().string() << ": " << row.front() << " | " << row.at(1) << " | …");
      ++num_rows;
      CHECK(std::any_of(results.begin(), results.end(), [&row](const Cells& result) {
        return std::all_of(row.begin(), row.end(), [&result](const std::string& cell) {
          return std::find(result.begin(), result.end(), cell) != result.end();
        });
      }));
    }
  }
  CHECK(num_rows > 100);
}
