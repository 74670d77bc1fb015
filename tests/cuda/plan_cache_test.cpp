// Tests which plans of a library serve GEMMs of many numbers of rows.
#include "cuda/gemm/plan_cache.h"

#include <set>

#include "base/rng.h"
#include "support/catch.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;

/// Holds the number of rows that a plan was asked for.
struct RowsPlan {
  std::int64_t rows = 0;
};
constexpr PlannedShape kShape{4096, 4096, 4096, 4096, false};

}  // namespace

TEST_CASE("plan cache: a thousand micro-batch lengths need few plans, and each length is checked once") {
  PlanCache<RowsPlan> plans;
  base::RandomStream random(5, base::RandomPurpose::test, 0);
  std::set<std::int64_t> lengths;
  std::int64_t num_made = 0, num_checked = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t rows = 129 + static_cast<std::int64_t>(random.below(8192 - 129));
    for (int again = 0; again < 2; ++again) {
      const RowsPlan& plan = plans.find(
          kShape, rows,
          [&](std::int64_t asked) {
            ++num_made;
            return RowsPlan{asked};
          },
          [&](const RowsPlan& found, std::int64_t exact) {
            ++num_checked;
            CHECK(found.rows - exact < kPlanRows);
            return true;
          });
      CHECK(plan.rows == round_up(rows, 64));
    }
    if (rows % 64 != 0) lengths.insert(rows);
  }
  CHECK(plans.size() == num_made);
  CHECK(num_made <= (8192 - 128) / 64);
  CHECK(num_checked == static_cast<std::int64_t>(lengths.size()));
}

TEST_CASE("plan cache: at most 128 rows use the exact number, as decode ticks are padded") {
  PlanCache<RowsPlan> plans;
  for (std::int64_t rows = 1; rows <= 128; ++rows) {
    for (const std::int64_t asked : {rows, padded_rows(rows)}) {
      const auto never = [](const RowsPlan&, std::int64_t) {
        FAIL("an exact plan was checked");
        return false;
      };
      CHECK(plans
                .find(
                    kShape, asked, [](std::int64_t made) { return RowsPlan{made}; }, never)
                .rows == asked);
    }
  }
  CHECK(plans.size() == 128);
}

TEST_CASE("plan cache: row counts that a shared plan cannot compute get a plan, and each shape has its plans") {
  PlanCache<RowsPlan> plans;
  const auto make = [](std::int64_t rows) { return RowsPlan{rows}; };
  const auto fits = [](const RowsPlan&, std::int64_t rows) { return rows % 2 == 0; };
  CHECK(plans.find(kShape, 150, make, fits).rows == 192);
  CHECK(plans.find(kShape, 151, make, fits).rows == 151);
  CHECK(plans.find(kShape, 151, make, fits).rows == 151);
  CHECK(plans.find(kShape, 192, make, fits).rows == 192);
  CHECK(plans.size() == 2);
  PlannedShape wide = kShape;
  wide.y_is_f32 = true;
  CHECK(plans.find(wide, 150, make, fits).rows == 192);
  CHECK(plans.size() == 3);
  std::int64_t visited = 0;
  plans.visit([&](const RowsPlan&) { ++visited; });
  CHECK(visited == 3);
}
