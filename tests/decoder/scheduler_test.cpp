// Tests the scheduler and the plan with a fake forward whose "KV" of a position is a hash of all tokens up to it. Each
// row then proves that every slot it would attend to holds its own sequence's past, even if shared or copied.
#include "decoder/scheduler.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "decoder/plan.h"
#include "support/catch.h"
#include "support/models.h"

namespace {

using namespace qrl;
using namespace qrl::decoder;
using types::TokenId;

constexpr std::uint64_t kEmptyHash = 0x9E3779B97F4A7C15U;

std::uint64_t extend(std::uint64_t hash, TokenId token) {
  return (hash ^ static_cast<std::uint64_t>(token + 1)) * 0xD6E8FEB86659FD93U + (hash >> 29);
}

/// Stores one slot per (page, position in page). 0: not written by a sequence of this test.
class FakeKv {
 public:
  FakeKv(std::int64_t num_pages, std::int64_t page_size)
      : page_size_(page_size), slots_(static_cast<std::size_t>(num_pages * page_size)) {}

  void copy(const PageCopy& copy) {
    for (std::int64_t i = 0; i < copy.num_slots; ++i) slot(copy.to, i) = slot(copy.from, i);
  }

  /// Stores the row's KV and returns how many of positions 0 … position hold a wrong value.
  /// With a `reach`, only the last positions count.
  int forward(std::span<const TokenId> tokens, std::int64_t position, const PageId* pages, std::int64_t reach) {
    int num_wrong = 0;
    std::uint64_t hash = kEmptyHash;
    for (std::int64_t i = 0; i <= position; ++i) {
      hash = extend(hash, tokens[static_cast<std::size_t>(i)]);
      if (reach > 0 && i <= position - reach) continue;
      std::uint64_t& kv = slot(pages[i / page_size_], i % page_size_);
      if (i == position) kv = hash;
      num_wrong += kv != hash;
    }
    return num_wrong;
  }

 private:
  std::uint64_t& slot(std::int64_t page, std::int64_t slot_idx) {
    return slots_.at(static_cast<std::size_t>(page * page_size_ + slot_idx));
  }
  std::int64_t page_size_;
  std::vector<std::uint64_t> slots_;
};

/// Stores a state per slot: a hash of the tokens that it has seen, which it can also forget the last of.
class FakeStates {
 public:
  explicit FakeStates(std::int64_t num_slots) : states_(static_cast<std::size_t>(num_slots)) {}

  void copy(const StateCopy& copy) { at(copy.to) = at(copy.from); }
  /// Updates a slot by a row. Returns whether the slot then holds the row's own past.
  bool forward(std::span<const TokenId> tokens, std::int64_t position, StateSlot slot) {
    State& state = at(slot);
    if (position == 0) state = {};
    const bool again = position > 0 && state.num_tokens == position + 1;
    if (!again && state.num_tokens != position) return false;
    state = {position + 1, again ? state.before : state.hash, 0};
    state.hash = extend(state.before, tokens[static_cast<std::size_t>(position)]);
    std::uint64_t hash = kEmptyHash;
    for (std::int64_t i = 0; i <= position; ++i) hash = extend(hash, tokens[static_cast<std::size_t>(i)]);
    return state.hash == hash;
  }

 private:
  struct State {
    std::int64_t num_tokens = 0;
    std::uint64_t before = kEmptyHash, hash = kEmptyHash;  // of all tokens but the last, of all
  };
  State& at(StateSlot slot) { return states_.at(static_cast<std::size_t>(slot)); }
  std::vector<State> states_;
};

struct Case {
  DecoderOptions options;
  std::vector<Request> requests;
  std::vector<std::vector<std::size_t>> lengths;  // of each request's samples
  std::vector<std::size_t> ticks_before;          // before each request's submission; ascending
  std::size_t num_ticks_ahead = 0;                // in flight when the next is chosen
  std::int64_t reach = 0;                         // of rows; 0: all positions
  std::int64_t num_states = 0;                    // slots of states; 0: none
};

Request scheduled(std::uint64_t prompt_id, std::vector<TokenId> prompt, std::int32_t num_samples,
                  std::int32_t max_new_tokens) {
  Request request;
  request.prompt_id = prompt_id;
  request.prompt_tokens = std::move(prompt);
  request.num_samples = num_samples;
  request.params.max_new_tokens = max_new_tokens;
  return request;
}

model::ModelConfig any_config() { return qrl::test::model_config(model::Family::qwen3, {0, 32, 1, 2, 1, 16, 64}); }

Case random_case(base::RandomStream& random) {
  Case c;
  std::int64_t longest = 1;
  std::size_t num_ticks = 0;
  c.num_ticks_ahead = random.below(2);
  const bool all_at_once = random.below(2) == 0;
  const std::int64_t num_requests = random.between(1, 5);
  c.options.page_size = random.between(1, random.below(2) == 0 ? 4 : 20);
  for (std::int64_t i = 0; i < num_requests; ++i) {
    // Half of the prompts end exactly at a page boundary, or one token before or after it.
    std::int64_t prompt_tokens = random.between(1, 30);
    if (random.below(2) == 0) {
      prompt_tokens = std::max<std::int64_t>(1, c.options.page_size * random.between(1, 3) + random.between(-1, 1));
    }
    std::vector<TokenId> prompt;
    for (std::int64_t t = 0; t < prompt_tokens; ++t) prompt.push_back(static_cast<TokenId>(random.below(3)));
    const auto num_samples = static_cast<std::int32_t>(random.between(1, 5));
    const auto max_new_tokens = static_cast<std::int32_t>(random.between(1, 25));
    c.requests.push_back(scheduled(static_cast<std::uint64_t>(i), std::move(prompt), num_samples, max_new_tokens));
    c.requests.back().first_sample = static_cast<std::int32_t>(random.below(3));
    auto& lengths = c.lengths.emplace_back();
    for (std::int32_t s = 0; s < num_samples; ++s) {
      // Half of the responses have the maximum length: their end is known in advance.
      lengths.push_back(
          static_cast<std::size_t>(random.below(2) == 0 ? max_new_tokens : random.between(1, max_new_tokens)));
    }
    if (!all_at_once) num_ticks += random.below(20);
    c.ticks_before.push_back(num_ticks);
    longest = std::max(longest, prompt_tokens + max_new_tokens);
  }
  const std::int64_t least_pages = (longest - 1 + c.options.page_size - 1) / c.options.page_size;
  c.options.max_model_len = longest;
  c.options.kv_pages = std::max<std::int64_t>(1, least_pages) + (random.below(3) == 0 ? 0 : random.between(0, 20));
  c.options.max_num_seqs = random.between(1, 12);
  c.options.max_num_batched_tokens = random.between(1, random.below(2) == 0 ? 8 : 64);
  c.options.prefix_sharing = random.below(4) != 0;
  return c;
}

struct CaseOutcome {
  DecoderStats stats;
  std::int64_t copied_slots = 0;
  std::int64_t num_parts = 0;
  std::int64_t num_dropped = 0;  // samples after an end
  std::int64_t num_waits = 0;    // how often no tick could be chosen until one in flight was finished
  std::int64_t num_idle = 0;     // ticks without a request, before others arrived
  std::int64_t num_starts = 0;   // sequences that started from a copied state
};

struct StartedTick {
  std::vector<Sequence*> sampled_sequences;
  std::vector<TokenId> drawn;
};

/// Runs a part's copies and rows of states. `used` receives the part of each slot that is written, and of each that is
/// read. Returns the number of rows that do not see their own past.
int run_states(const Plan& plan, const PlanPart& part, const std::vector<std::vector<TokenId>>& tokens_of_row,
               FakeStates& states, std::map<StateSlot, std::int64_t>& used) {
  int num_wrong = 0;
  const auto use = [&](StateSlot slot) {
    num_wrong += used.emplace(slot, part.rows.begin).first->second != part.rows.begin;
  };
  for (std::int64_t i = part.starts.begin; i < part.starts.end; ++i) {
    use(plan.starts[static_cast<std::size_t>(i)].to);
    states.copy(plan.starts[static_cast<std::size_t>(i)]);
  }
  for (auto i = static_cast<std::size_t>(part.rows.begin); i < static_cast<std::size_t>(part.rows.end); ++i) {
    use(plan.states_N[i]);
    num_wrong += !states.forward(tokens_of_row[i], plan.positions_N[i], plan.states_N[i]);
  }
  for (std::int64_t i = part.leaves.begin; i < part.leaves.end; ++i) {
    use(plan.leaves[static_cast<std::size_t>(i)].to);
    states.copy(plan.leaves[static_cast<std::size_t>(i)]);
  }
  return num_wrong;
}

/// Runs a case to its end and checks all invariants in each tick.
CaseOutcome run(const Case& c, base::RandomStream& random) {
  CaseOutcome outcome;
  PagePool pool(c.options.kv_pages);
  PagePool slots(c.num_states);
  FakeStates states(c.num_states);
  Scheduler scheduler(c.options, pool, outcome.stats, c.reach, c.num_states == 0 ? nullptr : &slots);
  Plan plan(any_config());
  FakeKv kv(c.options.kv_pages, c.options.page_size);
  std::vector<FinishedRequest> finished_requests;
  const auto take_finished = [&] {
    std::ranges::move(scheduler.take_finished(), std::back_inserter(finished_requests));
  };

  std::deque<StartedTick> under_way;
  const auto finish_oldest = [&] {
    std::vector<Sequence*> finished;
    for (std::size_t i = 0; i < under_way.front().drawn.size(); ++i) {
      Sequence& sequence = *under_way.front().sampled_sequences[i];
      --sequence.num_in_flight;
      if (sequence.finished) {
        ++outcome.num_dropped;
        continue;
      }
      sequence.completion.tokens.push_back(under_way.front().drawn[i]);
      const Group& group = *sequence.group;
      const auto sample = static_cast<std::size_t>(sequence.sample_idx - group.request.first_sample);
      sequence.finished = sequence.completion.tokens.size() == c.lengths[static_cast<std::size_t>(group.id)][sample];
      if (sequence.finished) finished.push_back(&sequence);
    }
    under_way.pop_front();
    scheduler.retire(finished);
    if (random.below(2) == 0) take_finished();
  };
  std::size_t num_ticks = 0, num_submitted = 0;
  while (num_submitted < c.requests.size() || !scheduler.done()) {
    REQUIRE(num_ticks < 100000);
    for (; num_submitted < c.requests.size() && c.ticks_before[num_submitted] <= num_ticks; ++num_submitted)
      scheduler.submit(static_cast<RequestId>(num_submitted), c.requests[num_submitted]);
    ++num_ticks;
    if (scheduler.done()) {
      ++outcome.num_idle;
      continue;
    }
    const auto chosen = scheduler.choose();
    if (chosen.empty()) {
      REQUIRE(!under_way.empty());
      ++outcome.num_waits;
      finish_oldest();
      continue;
    }
    const auto known = [&](TokenId token) {
      return token >= 0 ? token : under_way.back().drawn.at(static_cast<std::size_t>(-1 - token));
    };
    plan.build(chosen, 2);
    REQUIRE(plan.num_rows() >= 1);
    REQUIRE(plan.num_rows() <= c.options.max_num_batched_tokens);
    REQUIRE(static_cast<std::int64_t>(chosen.size()) <= c.options.max_num_seqs);

    // A sequence writes only into pages that it holds exclusively, or that its group shares with it (the leader's).
    std::map<PageId, int> writers;
    for (const Sequence* sequence : chosen) {
      const std::int64_t first = sequence->num_cached, last = first + sequence->num_rows - 1;
      REQUIRE(sequence->num_rows >= 1);
      REQUIRE(last < static_cast<std::int64_t>(sequence->pages.size()) * c.options.page_size);
      for (std::int64_t page = first / c.options.page_size; page <= last / c.options.page_size; ++page) {
        REQUIRE(++writers[sequence->pages[static_cast<std::size_t>(page)]] == 1);
      }
    }
    std::int64_t num_rows = 0, num_samples = 0, num_copies = 0;
    for (const PlanPart& part : plan.parts) {  // the parts together cover everything
      REQUIRE(part.rows.begin == num_rows);
      REQUIRE(part.samples.begin == num_samples);
      REQUIRE(part.copies.begin == num_copies);
      num_rows = part.rows.end, num_samples = part.samples.end, num_copies = part.copies.end;
    }
    REQUIRE(num_rows == plan.num_rows());
    REQUIRE(num_samples == static_cast<std::int64_t>(plan.sample_rows.size()));
    REQUIRE(num_copies == static_cast<std::int64_t>(plan.copies.size()));
    outcome.num_parts = std::max(outcome.num_parts, static_cast<std::int64_t>(plan.parts.size()));

    // Runs the parts in either order, because they may run concurrently.
    const bool backwards = random.below(2) == 0;
    std::vector<PlanPart> parts = plan.parts;
    if (backwards) std::ranges::reverse(parts);
    std::vector<std::vector<TokenId>> tokens_of_row(static_cast<std::size_t>(plan.num_rows()));
    std::size_t row = 0;
    for (const Sequence* sequence : chosen) {
      std::vector<TokenId> tokens;
      for (std::int64_t i = 0; i < sequence->num_tokens(); ++i) tokens.push_back(known(sequence->token(i)));
      for (std::int64_t i = 0; i < sequence->num_rows; ++i) tokens_of_row[row++] = tokens;
    }
    int num_wrong = 0;
    std::map<StateSlot, std::int64_t> used;
    for (const PlanPart& part : parts) {
      if (c.num_states > 0) num_wrong += run_states(plan, part, tokens_of_row, states, used);
      for (std::int64_t i = part.copies.begin; i < part.copies.end; ++i) {
        kv.copy(plan.copies[static_cast<std::size_t>(i)]);
        outcome.copied_slots += plan.copies[static_cast<std::size_t>(i)].num_slots;
      }
      for (auto i = static_cast<std::size_t>(part.rows.begin); i < static_cast<std::size_t>(part.rows.end); ++i) {
        REQUIRE(known(plan.tokens_N[i]) == tokens_of_row[i][static_cast<std::size_t>(plan.positions_N[i])]);
        num_wrong += kv.forward(tokens_of_row[i], plan.positions_N[i], plan.page_tables_N[i], c.reach);
      }
    }
    REQUIRE(num_wrong == 0);
    for (const StateCopy& copy : plan.starts) REQUIRE(!used.contains(copy.from));  // parts may run concurrently
    outcome.num_starts += std::ssize(plan.starts);

    StartedTick tick;
    for (std::size_t i = 0; i < plan.sampled_sequences.size(); ++i) {
      const Sequence& sequence = *plan.sampled_sequences[i];
      REQUIRE(plan.positions_N[static_cast<std::size_t>(plan.sample_rows[i])] == sequence.num_tokens() - 1);
      REQUIRE(sequence.num_sampled() < sequence.group->request.params.max_new_tokens);
      tick.sampled_sequences.push_back(plan.sampled_sequences[i]);
      tick.drawn.push_back(static_cast<TokenId>(random.below(3)));
    }
    under_way.push_back(std::move(tick));
    scheduler.advance();
    if (under_way.size() > c.num_ticks_ahead) finish_oldest();
  }
  while (!under_way.empty()) finish_oldest();
  take_finished();
  REQUIRE(finished_requests.size() == c.requests.size());
  std::ranges::sort(finished_requests, {}, &FinishedRequest::id);
  for (std::size_t i = 0; i < c.requests.size(); ++i) {
    REQUIRE(finished_requests[i].id == static_cast<RequestId>(i));
    REQUIRE(finished_requests[i].completions.size() == c.lengths[i].size());
    for (std::size_t s = 0; s < c.lengths[i].size(); ++s)
      REQUIRE(finished_requests[i].completions[s].tokens.size() == c.lengths[i][s]);
  }
  REQUIRE(pool.num_free() == pool.num_pages());
  REQUIRE(slots.num_free() == slots.num_pages());
  return outcome;
}

}  // namespace

TEST_CASE("scheduler: 10,000 random schedules conserve pages and show each row its own past") {
  std::int64_t preemptions = 0, shared = 0, copied = 0, split = 0, dropped = 0, waits = 0, idle = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    CAPTURE(i);
    base::RandomStream random(7, base::RandomPurpose::test, i);
    const Case c = random_case(random);
    const CaseOutcome outcome = run(c, random);
    preemptions += outcome.stats.preemptions;
    shared += outcome.stats.shared_prompt_tokens;
    copied += outcome.copied_slots;
    split += outcome.num_parts > 1;
    dropped += outcome.num_dropped;
    waits += outcome.num_waits;
    idle += outcome.num_idle;
    if (c.num_ticks_ahead == 0) REQUIRE((outcome.num_dropped == 0 && outcome.num_waits == 0));
    if (!c.options.prefix_sharing) REQUIRE(outcome.stats.shared_prompt_tokens == 0);
    REQUIRE(outcome.stats.peak_kv_pages <= c.options.kv_pages);
  }
  // The schedules must have covered the cases under test.
  CHECK(preemptions > 1000);
  CHECK(shared > 10000);
  CHECK(copied > 1000);
  CHECK(split > 100);
  CHECK(dropped > 1000);
  CHECK(waits > 1000);
  CHECK(idle > 1000);
}

TEST_CASE("scheduler: with states, slots are conserved, and each row continues its own state") {
  std::int64_t preemptions = 0, starts = 0, split = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    CAPTURE(i);
    base::RandomStream random(9, base::RandomPurpose::test, i);
    Case c = random_case(random);
    c.num_ticks_ahead = 0;  // as on the CPU
    c.num_states = num_state_slots(c.options.max_num_seqs.value, c.options.prefix_sharing);
    const CaseOutcome outcome = run(c, random);
    preemptions += outcome.stats.preemptions;
    starts += outcome.num_starts;
    split += outcome.num_parts > 1;
    if (!c.options.prefix_sharing) REQUIRE(outcome.num_starts == 0);
  }
  CHECK(preemptions > 500);
  CHECK(starts > 5000);
  CHECK(split > 100);
}

TEST_CASE("scheduler: with a window, pages behind it are free, and each row reads its own past in the window") {
  std::int64_t shared = 0, preemptions = 0, fewer = 0;
  for (std::uint64_t i = 0; i < 5000; ++i) {
    CAPTURE(i);
    base::RandomStream random(8, base::RandomPurpose::test, i);
    Case c = random_case(random);
    const base::RandomStream again = random;
    c.reach = 1 + static_cast<std::int64_t>(i % 23);
    const CaseOutcome outcome = run(c, random);  // all pages are free at the end
    shared += outcome.stats.shared_prompt_tokens;
    preemptions += outcome.stats.preemptions;
    c.reach = 0;
    base::RandomStream same = again;
    fewer += outcome.stats.peak_kv_pages < run(c, same).stats.peak_kv_pages;
  }
  CHECK(shared > 10000);
  CHECK(preemptions > 200);
  CHECK(fewer > 500);

  // A long response holds the pages of its window, not all.
  Case c;
  c.options = {.max_num_seqs = 1, .max_num_batched_tokens = 64, .page_size = 4, .kv_pages = 100, .max_model_len = 300};
  c.requests.push_back(scheduled(0, {1, 2}, 1, 290));
  c.lengths = {{290}};
  c.ticks_before = {0};
  c.reach = 10;
  base::RandomStream random(1, base::RandomPurpose::test, 0);
  CHECK(run(c, random).stats.peak_kv_pages == 4);
}

TEST_CASE("scheduler: a group computes its prompt once") {
  for (const std::int64_t prompt_tokens : {1, 2, 7, 8, 9, 16, 17}) {
    CAPTURE(prompt_tokens);
    Case c;
    c.options = {
        .max_num_seqs = 64, .max_num_batched_tokens = 64, .page_size = 8, .kv_pages = 100, .max_model_len = 64};
    c.requests.push_back(scheduled(0, std::vector<TokenId>(static_cast<std::size_t>(prompt_tokens), 1), 5, 5));
    c.lengths = {{3, 1, 4, 1, 5}};
    c.ticks_before = {0};
    base::RandomStream random(1, base::RandomPurpose::test, 0);
    const CaseOutcome outcome = run(c, random);
    CHECK(outcome.stats.shared_prompt_tokens == 4 * (prompt_tokens - 1));
    CHECK(outcome.copied_slots == 4 * ((prompt_tokens - 1) % 8));
    CHECK(outcome.stats.preemptions == 0);
  }
}

TEST_CASE("scheduler: decoding sequences precede prompts, and chunks of prompts fill the rest") {
  Case c;
  c.options = {.max_num_seqs = 4, .max_num_batched_tokens = 10, .page_size = 4, .kv_pages = 100, .max_model_len = 64};
  PagePool pool(100);
  DecoderStats stats;
  Scheduler scheduler(c.options, pool, stats);
  scheduler.submit(0, scheduled(0, std::vector<TokenId>(3, 1), 1, 5));
  scheduler.submit(1, scheduled(1, std::vector<TokenId>(25, 2), 1, 5));
  std::vector<std::vector<std::int64_t>> rows;  // a tick's rows of each sequence
  for (int tick = 0; tick < 4; ++tick) {
    auto& tick_rows = rows.emplace_back(2);
    for (Sequence* sequence : scheduler.choose()) {
      tick_rows[static_cast<std::size_t>(sequence->group->id)] = sequence->num_rows;
    }
    scheduler.advance();
  }
  CHECK(rows == std::vector<std::vector<std::int64_t>>{{3, 7}, {1, 9}, {1, 9}, {1, 1}});
}
