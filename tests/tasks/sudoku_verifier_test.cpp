#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/catch.h"
#include "tasks/sudoku/grid.h"
#include "tasks/sudoku/verifier.h"
#include "tasks/support.h"

using namespace qrl::tasks;
using nlohmann::json;
using qrl::test::judged;

namespace {

const std::string kPuzzle = "3102200002100320";
const std::string kSolution = "3142243142131324";

Verdict judge_grid(const std::string& response, const std::string& puzzle = kPuzzle) {
  return judged(SudokuVerifier(), response, json{{"puzzle", puzzle}}.dump());
}

}  // namespace

TEST_CASE("sudoku verifier: known answers are judged as labeled") {
  std::ifstream in(qrl::test::shipped_data() / "verifier" / "sudoku_cases_excerpt.jsonl");
  int num_rows = 0;
  int num_right = 0;
  for (std::string line; std::getline(in, line); ++num_rows) {
    const json row = json::parse(line);
    INFO(row["id"]);
    const json gold{{"puzzle", row["puzzle"]}, {"solution", row["solution"]}};
    const Verdict verdict = judged(SudokuVerifier(), row["pred"].get<std::string>(), gold.dump());
    CHECK((verdict.outcome == Outcome::correct) == row["expected"].get<bool>());
    num_right += row["expected"].get<bool>() ? 1 : 0;
  }
  CHECK(num_rows > 40);
  CHECK(num_right > 10);
}

TEST_CASE("sudoku verifier: finds a grid in the forms that models write") {
  for (const char* form :
       {"<answer>3142243142131324</answer>", "3142243142131324", "3142\n2431\n4213\n1324", "3142 2431 4213 1324.",
        "The grid:\n3142\n2431\n4213\n1324.\nThat is it!", "Here:\n3 1 4 2\n2 4 3 1\n4 2 1 3\n1 3 2 4\n",
        "| 3 1 | 4 2 |\n| 2 4 | 3 1 |\n---+---\n| 4 2 | 1 3 |\n| 1 3 | 2 4 |", "\\boxed{3142 2431 4213 1324}",
        "[[3,1,4,2],[2,4,3,1],[4,2,1,3],[1,3,2,4]]", "Solution: 3142243142131324",
        "Row 1: 3 1 4 2\nRow 2: 2 4 3 1\nRow 3: 4 2 1 3\nRow 4: 1 3 2 4",
        "1. 3 1 4 2\n2. 2 4 3 1\n3. 4 2 1 3\n4. 1 3 2 4", "grid = [[3,1,4,2],[2,4,3,1],[4,2,1,3],[1,3,2,4]]",
        "\\begin{bmatrix}3&1&4&2\\\\2&4&3&1\\\\4&2&1&3\\\\1&3&2&4\\end{bmatrix}",
        "\\boxed{\\begin{array}{|c|c|c|c|}\\hline 3&1&4&2\\\\\\hline 2&4&3&1\\\\4&2&1&3\\\\1&3&2&4\\end{array}}",
        "│ 3 │ 1 │ 4 │ 2 │\n├───┼───┤\n│ 2 │ 4 │ 3 │ 1 │\n│ 4 │ 2 │ 1 │ 3 │\n│ 1 │ 3 │ 2 │ 4 │",
        "|    | C1 | C2 | C3 | C4 |\n|----|---|---|---|---|\n| R1 | 3 | 1 | 4 | 2 |\n| R2 | 2 | 4 | 3 | 1 |\n"
        "| R3 | 4 | 2 | 1 | 3 |\n| R4 | 1 | 3 | 2 | 4 |",
        "|   | 1 | 2 | 3 | 4 |\n|---|---|---|---|---|\n| **Row 1** | 3 | 1 | 4 | 2 |\n| **Row 2** | 2 | 4 | 3 | 1 |\n"
        "| **Row 3** | 4 | 2 | 1 | 3 |\n| **Row 4** | 1 | 3 | 2 | 4 |",
        "3142\n2431\n4213\n1324<|im_end|>"}) {
    INFO(form);
    CHECK(judge_grid(form).outcome == Outcome::correct);
  }
  CHECK(judge_grid("1234\n3412\n2143\n4321\nno:\n3142\n2431\n4213\n1324").outcome == Outcome::correct);  // the last one
  CHECK(judge_grid("| C1 | 3 1 4 2 |\n| C2 | 2 4 3 1 |\n| C3 | 4 2 1 3 |\n| C4 | 1 3 2 4 |").outcome !=
        Outcome::correct);
  CHECK(judge_grid("nothing").reason == "no answer");
  CHECK(judge_grid("<answer>12</answer>").reason == "no grid");
  CHECK(judge_grid("<answer>3142243142131324 3142243142131324</answer>").reason == "no grid");
}

TEST_CASE("sudoku verifier: digits in surrounding words are no row") {
  const std::string grid = "3 1 4 2\n2 4 3 1\n4 2 1 3\n1 3 2 4";
  for (const std::string& text :
       {"1 2 3 4\n" + grid, "The digits: 1 2 3 4\n" + grid, "Each row holds:\n\n1 2 3 4\n\n" + grid,
        "    1 2 3 4\n  +---------\n" + grid, "Row 1 misses 2 and 4\nRow 2: 1 3 4 2\n" + grid,
        "It is 2024\n1234\n" + grid, "3 1 0 2\n2 0 0 0\n0 2 1 0\n0 3 2 0\n" + grid, "1. 2 3 4\n" + grid,
        grid + "\nDigits used: 1 2 3 4", grid + "\n\n1 2 3 4", grid + "\n\n1 2 3 4\n\n4 3 2 1\n",
        grid + "\n---\n1 2 3 4\nEach of them once.",
        grid + "\nCheck:\nColumn 1: 3 2 4 1\nColumn 2: 1 4 2 3\nColumn 3: 4 3 1 2\nColumn 4: 2 1 3 4",
        grid + "\n\nBoxes: 3 1 2 4\n4 2 3 1\n4 2 1 3\n1 3 2 4",
        std::string("1 | 3 1 4 2\n2 | 2 4 3 1\n3 | 4 2 1 3\n4 | 1 3 2 4"),
        std::string("Solution: 3 1 4 2\n2 4 3 1\n4 2 1 3\n1 3 2 4"),
        std::string("3 1 | 4 2\n2 4 | 3 1\n\n4 2 | 1 3\n1 3 | 2 4\n\n1 2 3 4"),
        std::string("3142243142131324\n1 2 3 4")}) {
    INFO(text);
    CHECK(judge_grid(text).outcome == Outcome::correct);
  }
  // The last complete grid is judged, right or wrong; incomplete rows are no grid.
  const std::string wrong = "3 1 4 2\n2 4 3 1\n4 2 1 3\n1 3 4 2";
  CHECK(judge_grid(grid + "\n\n" + wrong).outcome != Outcome::correct);
  CHECK(judge_grid(grid + "\nno:\n" + wrong + "\n\n1 2 3 4").outcome != Outcome::correct);
  CHECK(judge_grid(grid + "\nRow 1: 3 1 4 2\nRow 2: 2 4 3 1\nRow 3: 4 2 1 3\nRow 4: 1 3 4 2").outcome !=
        Outcome::correct);
  CHECK(judge_grid("3 1 4 2\n2 4 3 1\n4 2 1 3\nso the last is\n1 3 2 4").outcome != Outcome::correct);
}

TEST_CASE("sudoku verifier: row labels must count up") {
  const std::vector<std::string> rows = {"3 1 4 2", "2 4 3 1", "4 2 1 3", "1 3 2 4"};
  const auto labelled = [&](const std::vector<const char*>& labels) {
    std::string text;
    for (std::size_t k = 0; k < rows.size(); ++k) text += labels[k] + rows[k] + "\n";
    return judge_grid(text);
  };
  for (const std::vector<const char*>& labels : {std::vector<const char*>{"Row 1: ", "Row 2: ", "Row 4: ", "Row 3: "},
                                                 {"R1: ", "R2: ", "R2: ", "R3: "},
                                                 {"4. ", "3. ", "2. ", "1. "},
                                                 {"2 | ", "1 | ", "3 | ", "4 | "},
                                                 {"First row: ", "second row: ", "fourth row: ", "third row: "}}) {
    INFO(labels[0]);
    CHECK(labelled(labels).reason == "no grid");
  }
  for (const std::vector<const char*>& labels : {std::vector<const char*>{"Row 0: ", "Row 1: ", "Row 2: ", "Row 3: "},
                                                 {"**Row 1**: ", "**Row 2**: ", "**Row 3**: ", "**Row 4**: "},
                                                 {"1st row: ", "2nd row: ", "3rd row: ", "4th row: "},
                                                 {"Solution 2: ", "", "", ""}}) {
    INFO(labels[0]);
    CHECK(labelled(labels).outcome == Outcome::correct);
  }
}

TEST_CASE("sudoku verifier: full credit for any valid completion, partial credit only with kept clues") {
  const std::string several = "0000000000000000";
  CHECK(judge_grid("1234341221434321", several).outcome == Outcome::correct);
  CHECK(judge_grid("3142243142131324", several).outcome == Outcome::correct);
  const Verdict changed = judge_grid("1142243142131324");
  CHECK(changed.reason == "clues changed");
  CHECK(changed.credit == 0);
  const Verdict near = judge_grid("3142243142111324");
  CHECK(near.reason == "not solved");
  CHECK(near.credit == 7.0 / 8);
  const Verdict echo = judge_grid(kPuzzle);
  CHECK(echo.credit == 0);
  CHECK(judge_grid(kSolution).credit == 1);
}

TEST_CASE("sudoku verifier: gold grids are checked at load") {
  const SudokuVerifier verifier;
  CHECK_NOTHROW(verifier.check_ground_truth({R"({"puzzle":"3102200002100320"})"}, "f:1"));
  CHECK_NOTHROW(verifier.check_ground_truth({R"({"puzzle":"3102200002100320","solution":"3142243142131324"})"}, "f:1"));
  for (const char* bad :
       {"", "3102200002100320", R"({"puzzle":"31022000021003"})", R"({"puzzle":"3302200002100320"})",
        R"({"puzzle":"3102200002100320","solution":"3142243142131321"})", R"({"puzzle":"3102200002100320","x":1})",
        R"({"puzzle":"1230000400000000"})", R"({"puzzle":5})"}) {
    INFO(bad);
    CHECK_THROWS_AS(verifier.check_ground_truth({bad}, "f:1"), qrl::base::Error);
  }
  CHECK(judged(SudokuVerifier(), "3142243142131324", "no").reason == "gold");
}

TEST_CASE("sudoku solver: finds every solution, and stops at the limit") {
  const auto grid = read_sudoku("0000000000000000");
  REQUIRE(grid);
  const auto all = solve_sudoku(*grid, 1000, 1'000'000);
  CHECK(all.grids.size() == 288);  // the number of 4×4 sudokus
  CHECK(all.complete);
  CHECK_FALSE(solve_sudoku(*grid, 2, 1'000'000).complete);
  CHECK_FALSE(solve_sudoku(*grid, 1000, 10).complete);
  const auto unique = read_sudoku(kPuzzle);
  const auto one = solve_sudoku(*unique, 10, 1'000'000);
  REQUIRE(one.grids.size() == 1);
  CHECK(sudoku_digits(one.grids.front()) == kSolution);
}
