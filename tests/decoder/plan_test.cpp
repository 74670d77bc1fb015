#include "decoder/plan.h"

#include <deque>

#include "decoder/fixtures.h"
#include "support/catch.h"

namespace {

using namespace qrl;
using namespace qrl::decoder;
using types::TokenId;

/// Holds sequences that have cached part of their prompt and compute num_rows more.
class PlannedSequences {
 public:
  void add(std::int64_t num_cached, std::int64_t num_rows) {
    const auto token = static_cast<TokenId>(groups_.size());
    Group& group = groups_.emplace_back();
    group.request.prompt_tokens.assign(static_cast<std::size_t>(num_cached + num_rows), token);
    Sequence& sequence = sequences_.emplace_back();
    sequence.group = &group;
    sequence.pages = {0};
    sequence.num_cached = num_cached;
    sequence.num_rows = num_rows;
    chosen_.push_back(&sequence);
  }
  std::span<Sequence* const> chosen() const { return chosen_; }

 private:
  std::deque<Group> groups_;
  std::deque<Sequence> sequences_;
  std::vector<Sequence*> chosen_;
};

}  // namespace

TEST_CASE("tick plan: rows of chosen sequences are contiguous, with their token, position and pages") {
  PlannedSequences sequences;
  sequences.add(3, 2);
  sequences.add(0, 1);
  sequences.chosen()[0]->copy = {7, 8, 2};
  Plan plan(decoder::test::tiny_config());
  for (int build = 0; build < 2; ++build) {  // the second build must see nothing of the first
    plan.build(sequences.chosen(), 2);
    CHECK(plan.tokens_N == std::vector<TokenId>{0, 0, 1});
    CHECK(plan.positions_N == std::vector<std::int32_t>{3, 4, 0});
    CHECK(plan.page_tables_N[0] == sequences.chosen()[0]->pages.data());
    CHECK(plan.page_tables_N[2] == sequences.chosen()[1]->pages.data());
    CHECK(plan.sample_rows == std::vector<std::int32_t>{1, 2});
    REQUIRE(plan.copies.size() == 1);
    CHECK(plan.copies[0].to == 8);
    CHECK(plan.parts.size() == 1);
  }
}

TEST_CASE("tick plan: a row before the newest token samples nothing") {
  PlannedSequences sequences;
  sequences.add(0, 8);
  sequences.chosen()[0]->num_rows = 5;
  Plan plan(decoder::test::tiny_config());
  plan.build(sequences.chosen(), 1);
  CHECK(plan.num_rows() == 5);
  CHECK(plan.sample_rows.empty());
}

TEST_CASE("tick plan: many even sequences are divided over threads, few or uneven ones use all threads") {
  const auto parts_of = [](const PlannedSequences& sequences, int num_threads,
                           model::Family family = model::Family::qwen3) {
    Plan plan(decoder::test::tiny_config(family));
    plan.build(sequences.chosen(), num_threads);
    return plan.parts;
  };
  PlannedSequences even;
  for (int i = 0; i < 60; ++i) even.add(100, 1);
  REQUIRE(parts_of(even, 2).size() == 2);
  CHECK(parts_of(even, 2)[0].rows.size() == 30);
  REQUIRE(parts_of(even, 3).size() == 3);
  CHECK(parts_of(even, 3)[1].rows.begin == 20);
  CHECK(parts_of(even, 3)[2].rows.size() == 20);
  CHECK(parts_of(even, 1).size() == 1);
  CHECK(parts_of(even, 16).size() == 1);  // not split into 4 rows each

  // One thread's rows reach all experts: with 2 of 5 a thread needs three times the rows of a dense layer.
  CHECK(parts_of(even, 2, model::Family::qwen3_moe).size() == 1);
  PlannedSequences more;
  for (int i = 0; i < 96; ++i) more.add(100, 1);
  CHECK(parts_of(more, 2, model::Family::qwen3_moe).size() == 2);

  PlannedSequences uneven;
  uneven.add(0, 200);
  for (int i = 0; i < 20; ++i) uneven.add(100, 1);
  CHECK(parts_of(uneven, 2).size() == 1);

  // Positions count as well: 10 long sequences cost the same as many short ones.
  PlannedSequences long_and_short;
  for (int i = 0; i < 10; ++i) long_and_short.add(4000, 1);
  for (int i = 0; i < 100; ++i) long_and_short.add(1, 1);
  REQUIRE(parts_of(long_and_short, 2).size() == 2);
  CHECK(parts_of(long_and_short, 2)[0].rows.size() == 5);
}

TEST_CASE("tick plan: with cached weights each part runs on one thread, however few rows it has") {
  PlannedSequences one, three;
  one.add(5, 1);
  for (int i = 0; i < 3; ++i) three.add(5, 1);
  Plan plan(decoder::test::tiny_config());
  plan.build(one.chosen(), 2, true);
  CHECK((plan.parts.size() == 1 && plan.each_alone));
  plan.build(three.chosen(), 2, true);
  CHECK((plan.parts.size() == 2 && plan.each_alone));
  plan.build(three.chosen(), 2, false);
  CHECK((plan.parts.size() == 1 && !plan.each_alone));
}
