#include "decoder/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace qrl::decoder {

namespace {

/// Sampled tokens per sequence for which `submit` reserves memory, so that ticks do not allocate.
constexpr std::int32_t kReservedTokens = 1024;

}  // namespace

Scheduler::Scheduler(const DecoderOptions& options, PagePool& pool, DecoderStats& stats, std::int64_t reach,
                     PagePool* states)
    : options_(options), pool_(pool), stats_(stats), states_(states), reach_(reach) {}

void Scheduler::submit(RequestId id, Request request, bool waits) {
  Group& group = *groups_.emplace_back(std::make_unique<Group>());
  group.id = id;
  group.request = std::move(request);
  const types::SamplingParams& params = group.request.params;
  group.sample_params = sample_params_of(params);
  group.waits_for_ticks = waits;
  group.field = base::RandomField(group.request.key.seed, base::RandomPurpose::sampling);
  group.num_unfinished = group.num_unstarted = group.request.num_samples;
  if (options_.prefix_sharing && group.request.num_samples > 1) {
    group.num_prefix_tokens = static_cast<std::int64_t>(group.request.prompt_tokens.size()) - 1;
  }
  const auto reserved = static_cast<std::size_t>(std::min(params.max_new_tokens, kReservedTokens));
  group.sequences.resize(static_cast<std::size_t>(group.request.num_samples));
  for (std::size_t i = 0; i < group.sequences.size(); ++i) {
    Sequence& sequence = group.sequences[i];
    sequence.group = &group;
    sequence.sample_idx = group.request.first_sample + static_cast<std::int32_t>(i);
    sequence.max_tokens = params.max_new_tokens;
    sequence.parked = group.request.by_turns;
    sequence.completion.tokens.reserve(reserved);
    sequence.completion.sampler_logprobs.reserve(reserved);
    sequence.completion.versions.reserve(reserved);
    if (sequence.parked) parked_.push_back(&sequence);
    else waiting_.push_back(&sequence);
  }
  if (waits) ++num_waiting_for_ticks_;
}

std::span<Sequence* const> Scheduler::choose() {
  chosen_.clear();
  rows_left_ = options_.max_num_batched_tokens;
  choose_decoding();
  choose_started();
  start_waiting();
  stats_.peak_kv_pages = std::max(stats_.peak_kv_pages, pool_.num_used());
  return chosen_;
}

void Scheduler::take_rows(Sequence& sequence) {
  sequence.num_rows = std::min(rows_left_, sequence.num_pending());
  if (states_ != nullptr && sequence.leads) {
    // The state of a prefix may have seen one token more: ops::DeltaRun can compute the last token's row again.
    sequence.num_rows = std::min(sequence.num_rows, sequence.num_prompt_tokens() - sequence.num_cached);
    const bool is_behind = sequence.num_cached + sequence.num_rows >= sequence.group->num_prefix_tokens;
    if (is_behind) sequence.leaves_to = sequence.group->prefix_state;
  }
  rows_left_ -= sequence.num_rows;
  chosen_.push_back(&sequence);
}

// Only decoding sequences can need a new page. To get it, a sequence may preempt sequences that started later and are
// not chosen yet.
void Scheduler::choose_decoding() {
  for (std::size_t i = 0; i < running_.size() && rows_left_ > 0; ++i) {
    if (running_[i]->num_pending() > 1 || running_[i]->all_sampled()) continue;
    if (!hold_next_page(i)) return;
    take_rows(*running_[i]);
  }
}

void Scheduler::choose_started() {
  for (std::size_t i = 0; i < running_.size() && rows_left_ > 0; ++i) {
    if (running_[i]->num_pending() > 1) take_rows(*running_[i]);
  }
}

// Must run last: if a copy were planned earlier, later allocations could free its source page.
void Scheduler::start_waiting() {
  auto next = waiting_.begin();
  while (next != waiting_.end() && rows_left_ > 0 &&
         static_cast<std::int64_t>(running_.size()) < options_.max_num_seqs) {
    Sequence& sequence = **next;
    if (sequence.pages.empty() && sequence.group->prefix == PrefixState::filling) {
      ++next;
      continue;
    }
    if (!make_room_for(sequence)) return;
    next = waiting_.erase(next);
    start(sequence);
    take_rows(sequence);
  }
}

bool Scheduler::make_room_for(const Sequence& sequence) {
  Group& group = *sequence.group;
  for (;;) {
    const std::int64_t shared = group.prefix == PrefixState::ready ? group.num_prefix_tokens / options_.page_size : 0;
    const std::int64_t held = sequence.pages.empty() ? shared : static_cast<std::int64_t>(sequence.pages.size());
    const std::int64_t wanted = pages_of(sequence.num_tokens()) - held + static_cast<std::int64_t>(running_.size());
    const bool lacks_states = states_ != nullptr && states_->num_free() < states_wanted(sequence);
    if (pool_.num_free() >= wanted && !lacks_states) return true;
    if (lacks_states && forget_started_prefix(&group)) continue;
    if (forget_idle_prefix(&group) || free_idle_sequence(&sequence)) continue;
    if (!running_.empty() || group.prefix != PrefixState::ready) return false;
    forget_prefix(group);  // nothing runs, so the group's own prefix occupies the pages
  }
}

bool Scheduler::will_lead(const Sequence& sequence) const {
  const Group& group = *sequence.group;
  if (!sequence.pages.empty() || group.prefix != PrefixState::absent || group.num_prefix_tokens == 0) return false;
  const std::int64_t num_others = group.num_unstarted - (sequence.has_started ? 0 : 1);
  return states_ == nullptr || num_others > 0;
}

std::int64_t Scheduler::states_wanted(const Sequence& sequence) const {
  return (sequence.state < 0 ? 1 : 0) + (will_lead(sequence) ? 1 : 0);
}

StateSlot Scheduler::take_state() { return states_ == nullptr ? -1 : states_->allocate(); }

void Scheduler::free_state(StateSlot& slot) {
  if (slot >= 0) states_->free(slot);
  slot = -1;
}

void Scheduler::start(Sequence& sequence) {
  Group& group = *sequence.group;
  const bool leads = will_lead(sequence);
  ++group.num_running;
  if (!std::exchange(sequence.has_started, true)) --group.num_unstarted;
  if (sequence.state < 0) sequence.state = take_state();
  running_.push_back(&sequence);
  sequence.runs = true;
  sequence.pages.reserve(static_cast<std::size_t>(pages_of(options_.max_model_len)));  // so that ticks do not allocate
  if (!sequence.pages.empty()) {
    // The sequence was parked, and its pages were not needed meanwhile.
  } else if (group.prefix == PrefixState::ready) {
    const auto num_full = static_cast<std::size_t>(group.num_prefix_tokens / options_.page_size);
    sequence.num_dropped = group.num_dropped;
    for (std::size_t i = 0; i < num_full; ++i) {
      if (std::cmp_greater_equal(i, group.num_dropped)) pool_.add_ref(group.prefix_pages[i]);
      sequence.pages.push_back(group.prefix_pages[i]);
    }
    const std::int64_t num_slots = group.num_prefix_tokens % options_.page_size;
    if (num_slots > 0) {
      sequence.pages.push_back(pool_.allocate());
      sequence.copy = {group.prefix_pages[num_full], sequence.pages.back(), num_slots};
    }
    sequence.num_cached = group.num_prefix_tokens;
    sequence.starts_from = group.prefix_state;
    stats_.shared_prompt_tokens += group.num_prefix_tokens;
  } else if (leads) {
    group.prefix = PrefixState::filling;
    group.prefix_state = take_state();
    sequence.leads = true;
  }
  const auto num_pages = static_cast<std::size_t>(pages_of(sequence.num_tokens()));
  while (sequence.pages.size() < num_pages) sequence.pages.push_back(pool_.allocate());
}

/// Allocates the pages that a sequence needs for its next token. Returns false if this preempted the sequence itself.
bool Scheduler::hold_next_page(std::size_t running_idx) {
  Sequence& sequence = *running_[running_idx];
  while (static_cast<std::int64_t>(sequence.pages.size()) < pages_of(sequence.num_tokens())) {
    if (pool_.num_free() > 0) {
      sequence.pages.push_back(pool_.allocate());
    } else if (forget_idle_prefix(nullptr) || free_idle_sequence(nullptr)) {
      continue;
    } else if (running_.size() > 1) {
      const bool is_last = running_idx + 1 == running_.size();
      preempt_last();
      if (is_last) return false;
    } else {
      forget_prefix(*sequence.group);
      QRL_INVARIANT(pool_.num_free() > 0, "scheduler", "a pool that holds a sequence of maximum length",
                    "no free page");
    }
  }
  return true;
}

// If the preempted sequence's last token is in flight, `retire` removes the sequence before the next choose().
void Scheduler::preempt_last() {
  Sequence& sequence = *running_.back();
  running_.pop_back();
  if (sequence.leads) forget_prefix(*sequence.group);
  sequence.leads = false;
  sequence.num_cached = 0;
  sequence.runs = false;
  --sequence.group->num_running;
  free_memory(sequence);
  waiting_.push_front(&sequence);
  ++stats_.preemptions;
}

void Scheduler::advance() {
  std::int32_t num_samples = 0;
  for (Sequence* sequence : chosen_) {
    Group& group = *sequence->group;
    if (sequence->samples_next()) {
      ++sequence->num_in_flight;
      sequence->in_flight_output = num_samples++;
    }
    sequence->num_cached += sequence->num_rows;
    sequence->num_rows = 0;
    sequence->copy = {};
    sequence->starts_from = sequence->leaves_to = -1;
    if (sequence->leads && sequence->num_cached >= group.num_prefix_tokens) {
      const std::int64_t num_pages = pages_of(group.num_prefix_tokens);
      group.prefix_pages.assign(sequence->pages.begin(), sequence->pages.begin() + num_pages);
      group.num_dropped = std::max(sequence->num_dropped, unread_pages(group.num_prefix_tokens));
      for (std::int64_t i = group.num_dropped; i < num_pages; ++i)
        pool_.add_ref(group.prefix_pages[static_cast<std::size_t>(i)]);
      group.prefix = PrefixState::ready;
      sequence->leads = false;
    }
    drop_pages(*sequence);
  }
}

std::int64_t Scheduler::unread_pages(std::int64_t position) const {
  return reach_ == 0 ? 0 : std::max<std::int64_t>(0, position - reach_ + 1) / options_.page_size;
}

void Scheduler::drop_pages(Sequence& sequence) {
  // `resume` may need the last row again.
  const std::int64_t unread = unread_pages(sequence.num_cached - 1);
  for (; sequence.num_dropped < unread; ++sequence.num_dropped)
    pool_.free(sequence.pages[static_cast<std::size_t>(sequence.num_dropped)]);
}

/// Removes sequences that have ended, or whose turn has, from the queues.
void Scheduler::leave_queues(std::span<Sequence* const> sequences) {
  const auto leaves = [](const Sequence* sequence) { return sequence->finished || sequence->parked; };
  const std::size_t num_running = std::erase_if(running_, leaves);
  // A sequence that was preempted while its last token was in flight is in waiting_.
  if (num_running < sequences.size()) std::erase_if(waiting_, leaves);
  for (Sequence* sequence : sequences) {
    if (std::exchange(sequence->runs, false)) --sequence->group->num_running;
  }
}

void Scheduler::park(std::span<Sequence* const> sequences) {
  if (sequences.empty()) return;
  leave_queues(sequences);
  parked_.insert(parked_.end(), sequences.begin(), sequences.end());
}

std::vector<Sequence*> Scheduler::take_turns() {
  std::vector<Sequence*> turns;
  for (Sequence* sequence : parked_) {
    if (!sequence->has_turn || sequence->num_in_flight > 0) continue;
    sequence->has_turn = false;
    turns.push_back(sequence);
  }
  return turns;
}

Sequence& Scheduler::parked_sequence(RequestId id, std::size_t idx) {
  const auto group = std::ranges::lower_bound(groups_, id, {}, [](const auto& one) { return one->id; });
  QRL_INVARIANT(group != groups_.end() && (*group)->id == id && (*group)->sequences.at(idx).parked, "scheduler",
                "a parked sequence", "request " + std::to_string(id) + ", sample " + std::to_string(idx));
  return (*group)->sequences[idx];
}

void Scheduler::resume(Sequence& sequence, std::span<const types::TokenId> tokens, std::int64_t max_tokens) {
  std::erase(parked_, &sequence);
  sequence.parked = false;
  types::Completion& completion = sequence.completion;
  const std::int64_t version = completion.versions.empty() ? 0 : completion.versions.back();
  if (!tokens.empty() && completion.sampled.empty()) completion.sampled.assign(completion.tokens.size(), 1);
  completion.tokens.insert(completion.tokens.end(), tokens.begin(), tokens.end());
  completion.sampler_logprobs.resize(completion.tokens.size(), 0.0F);
  completion.versions.resize(completion.tokens.size(), version);
  if (!completion.sampled.empty()) completion.sampled.resize(completion.tokens.size(), 0);
  if (!completion.kept.empty()) completion.kept.fill(completion.tokens.size());
  sequence.text_tail.clear();
  sequence.max_tokens = std::min<std::int64_t>(max_tokens, sequence.group->request.params.max_new_tokens);
  QRL_INVARIANT(std::cmp_less(completion.tokens.size(), sequence.max_tokens), "scheduler", "room for a token",
                std::to_string(completion.tokens.size()) + " of " + std::to_string(sequence.max_tokens));
  // A tick in flight may have computed the last token's row. The next token then needs that row again.
  if (sequence.num_pending() == 0) --sequence.num_cached;
  waiting_.push_back(&sequence);
}

void Scheduler::end(Sequence& sequence) {
  std::erase(parked_, &sequence);
  sequence.parked = false;
  sequence.finished = true;
  Sequence* const one[] = {&sequence};
  retire(one);
}

void Scheduler::retire(std::span<Sequence* const> finished) {
  if (finished.empty()) return;
  leave_queues(finished);
  for (Sequence* sequence : finished) {
    Group& group = *sequence->group;
    free_memory(*sequence);
    if (!std::exchange(sequence->has_started, true)) --group.num_unstarted;
    if (--group.num_unfinished > 0) continue;
    forget_prefix(group);
    if (group.waits_for_ticks) --num_waiting_for_ticks_;
    finished_.push_back(&group);
  }
}

std::vector<FinishedRequest> Scheduler::take_finished() {
  std::vector<FinishedRequest> taken;
  const auto is_in_flight = [](const Sequence& sequence) { return sequence.num_in_flight > 0; };
  const auto take = [&](Group* group) {
    if (std::ranges::any_of(group->sequences, is_in_flight)) return false;
    FinishedRequest& finished = taken.emplace_back();
    finished.id = group->id;
    for (Sequence& sequence : group->sequences) finished.completions.push_back(std::move(sequence.completion));
    group->sequences.clear();
    return true;
  };
  std::erase_if(finished_, take);
  if (!taken.empty()) std::erase_if(groups_, [](const auto& group) { return group->sequences.empty(); });
  return taken;
}

void Scheduler::abandon() {
  chosen_.clear();
  running_.clear();
  waiting_.clear();
  parked_.clear();
  finished_.clear();
  groups_.clear();
  num_waiting_for_ticks_ = 0;
}

void Scheduler::free_pages(std::vector<PageId>& pages, std::int64_t& num_dropped) {
  for (std::size_t i = static_cast<std::size_t>(num_dropped); i < pages.size(); ++i) pool_.free(pages[i]);
  pages.clear();
  num_dropped = 0;
}

void Scheduler::free_memory(Sequence& sequence) {
  free_pages(sequence.pages, sequence.num_dropped);
  free_state(sequence.state);
}

bool Scheduler::forget_started_prefix(const Group* keep) {
  const auto is_read = [&](const Group& group) {
    return std::ranges::any_of(chosen_, [&](const Sequence* one) { return one->starts_from == group.prefix_state; });
  };
  for (const std::unique_ptr<Group>& group : groups_) {
    if (group.get() == keep || group->num_unstarted > 0 || group->prefix != PrefixState::ready || is_read(*group))
      continue;
    forget_prefix(*group);
    return true;
  }
  return false;
}

bool Scheduler::forget_idle_prefix(const Group* keep) {
  for (const std::unique_ptr<Group>& group : groups_) {
    if (group.get() == keep || group->num_running > 0 || group->prefix != PrefixState::ready) continue;
    forget_prefix(*group);
    return true;
  }
  return false;
}

/// Frees the pages of a sequence that waits: of the one parked last, else of the one that waits last.
bool Scheduler::free_idle_sequence(const Sequence* keep) {
  const auto holds = [keep](const Sequence* sequence) { return sequence != keep && !sequence->pages.empty(); };
  const auto parked = std::find_if(parked_.rbegin(), parked_.rend(), holds);
  const auto waiting = std::find_if(waiting_.rbegin(), waiting_.rend(), holds);
  if (parked == parked_.rend() && waiting == waiting_.rend()) return false;
  Sequence& sequence = parked != parked_.rend() ? **parked : **waiting;
  free_memory(sequence);
  sequence.num_cached = 0;
  return true;
}

void Scheduler::forget_prefix(Group& group) {
  free_pages(group.prefix_pages, group.num_dropped);
  free_state(group.prefix_state);
  group.prefix = PrefixState::absent;
}

std::int64_t Scheduler::pages_of(std::int64_t num_tokens) const {
  return (num_tokens + options_.page_size - 1) / options_.page_size;
}

}  // namespace qrl::decoder
