#include <cmath>

#include "learner/update/optimizer.h"
#include "support/catch.h"

namespace qrl {

TEST_CASE("learning rates: follow their schedules") {
  learner::OptimizerOptions optim;
  optim.lr = 2;
  optim.lr_warmup_steps = 4;
  const auto rate = [&](std::int64_t updates) { return learner::learning_rate(optim, updates, 12); };
  CHECK(rate(0) == 0.5);
  CHECK(rate(3) == 2);
  CHECK(rate(100) == 2);
  optim.lr_scheduler = learner::LrScheduler::linear;
  CHECK(rate(1) == 1);
  CHECK(rate(4) == 2);
  CHECK(rate(8) == 1);
  CHECK(rate(12) == 0);
  CHECK(rate(13) == 0);
  optim.lr_scheduler = learner::LrScheduler::cosine;
  CHECK(rate(4) == 2);
  CHECK(test::close(rate(6), 1 + std::sqrt(0.5), 0, 1e-12));
  CHECK(test::close(rate(12), 0, 1e-12, 0));
}

TEST_CASE("warm-up: a share of all updates overrides a number of updates") {
  learner::OptimizerOptions optim;
  optim.lr = 1;
  optim.lr_warmup_steps = 10;
  optim.lr_warmup_ratio = 0.05;
  CHECK(learner::learning_rate(optim, 0, 100) == 0.2);  // the first of five
  CHECK(learner::learning_rate(optim, 4, 100) == 1);
  CHECK(learner::learning_rate(optim, 0, 30) == 0.5);  // 1.5 rounds to two
  optim.lr_warmup_ratio = 0;
  CHECK(learner::learning_rate(optim, 0, 100) == 1);
}

}  // namespace qrl
