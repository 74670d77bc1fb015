#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "decoder/kv/page_pool.h"
#include "decoder/options.h"
#include "decoder/sequence.h"

namespace qrl::decoder {

/// Batches requests continuously; they may arrive between any two ticks.
///
/// Each tick first takes one row of every decoding sequence. Prompt chunks of started sequences, then of new sequences
/// in order, fill the rest of max_num_batched_tokens.
///
/// Shared prompts: a group's first sample, the leader, computes the prompt. The group then holds the pages of all
/// prompt tokens but the last. Each other sample starts at the last token, shares full pages, and copies the slots of a
/// partly filled page. Shared pages are never overwritten.
///
/// If no page is free, `choose` first frees the prefixes of groups without a running sequence. It then preempts the
/// sequence started last, which frees its pages and returns to the queue's head, to be recomputed. A sequence starts
/// only if enough pages are free for its tokens plus one page per running sequence. The sequence started first is never
/// preempted, so every tick progresses.
///
/// With a `reach`, a row reads only that many last positions. Pages before a sequence's reach, and before that of a
/// prefix's end, are freed.
///
/// With Request::by_turns, a sequence is parked before its first turn and after each turn. It keeps its pages, which
/// are freed before any running sequence is preempted. After `resume` the sequence waits behind others; without its
/// pages it is recomputed.
///
/// With `states`, a model has DeltaNet layers, and a running sequence needs a slot of them. Pages and state are held
/// and freed together. A leader also needs a slot in which it leaves its state behind the prompt, so it computes no
/// token after the prompt in the same tick. Other samples start from a copy. If no slot is free, prefixes whose samples
/// have all started are forgotten first.
///
/// After `advance`, another tick may be chosen while the previous tick is in flight. The previous tick's samples then
/// count as pending tokens. If the previous tick ends a sequence, the next tick may hold an extra row of it. The
/// sequence's pages are reusable at once, since ticks run in order.
class Scheduler {
 public:
  /// `options`, `pool`, `stats` and `states` must outlive this object. The scheduler updates preemptions,
  /// shared_prompt_tokens and peak_kv_pages in `stats`. `states`: slots of DeltaStates, two or more; null: none.
  Scheduler(const DecoderOptions& options, PagePool& pool, DecoderStats& stats, std::int64_t reach = 0,
            PagePool* states = nullptr);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// The caller has checked that the longest sample fits the pool. waits: each of the request's ticks must end before
  /// the next starts.
  void submit(RequestId id, Request request, bool waits = false);

  /// Returns whether no sequence waits for a tick or for the end of its turn's answer.
  bool done() const { return !has_work() && parked_.empty(); }
  /// Returns whether a sequence waits for a tick.
  bool has_work() const { return !waiting_.empty() || !running_.empty(); }
  /// Returns whether a request `waits`.
  bool any_waits() const { return num_waiting_for_ticks_ > 0; }

  /// Chooses the next tick's sequences, with at most max_num_batched_tokens rows. Sets their num_rows, pages and copy.
  /// Returns none if all sequences wait for the tick in flight. The result is valid until the next call.
  std::span<Sequence* const> choose();

  /// Marks the chosen tick as started: its rows count as cached, and each sampling sequence gets a pending token. The
  /// caller must later append that token and decrement num_in_flight.
  void advance();

  /// Frees the pages of finished sequences. Each must be passed only once.
  void retire(std::span<Sequence* const> finished);

  /// Parks sequences whose turn has ended. They keep their pages until others need them.
  void park(std::span<Sequence* const> sequences);
  /// Returns sequences parked after a turn since the last call that have no rows in flight.
  std::vector<Sequence*> take_turns();
  /// Returns a parked sequence of a request.
  Sequence& parked_sequence(RequestId id, std::size_t idx);
  /// Appends tokens that are not sampled to a parked sequence, which then waits for ticks.
  void resume(Sequence& sequence, std::span<const types::TokenId> tokens, std::int64_t max_tokens);
  /// Ends a parked sequence as it is.
  void end(Sequence& sequence);

  /// Returns requests finished since the last call that have no rows in flight, in the order in which they ended.
  std::vector<FinishedRequest> take_finished();

  /// Drops all requests. The caller recreates the pool, whose pages are then free.
  void abandon();

 private:
  void take_rows(Sequence& sequence);
  void leave_queues(std::span<Sequence* const> sequences);
  void choose_decoding();
  void choose_started();
  void start_waiting();
  bool make_room_for(const Sequence& sequence);
  /// Returns whether a sequence that starts will compute its group's prefix.
  bool will_lead(const Sequence& sequence) const;
  std::int64_t states_wanted(const Sequence& sequence) const;
  StateSlot take_state();
  void free_state(StateSlot& slot);
  void start(Sequence& sequence);
  bool hold_next_page(std::size_t running_idx);
  void preempt_last();
  void free_pages(std::vector<PageId>& pages, std::int64_t& num_dropped);
  /// Frees a sequence's pages and state.
  void free_memory(Sequence& sequence);
  void drop_pages(Sequence& sequence);
  /// Returns how many pages no row at `position` or later reads.
  std::int64_t unread_pages(std::int64_t position) const;
  bool forget_idle_prefix(const Group* keep);
  /// Forgets a prefix that no sequence waits for, except in this tick.
  bool forget_started_prefix(const Group* keep);
  bool free_idle_sequence(const Sequence* keep);
  void forget_prefix(Group& group);
  std::int64_t pages_of(std::int64_t num_tokens) const;

  const DecoderOptions& options_;
  PagePool& pool_;
  DecoderStats& stats_;
  PagePool* states_;                            // null: no DeltaNet layers
  std::int64_t reach_;                          // 0: rows read all positions
  std::vector<std::unique_ptr<Group>> groups_;  // in order of submission
  std::vector<Group*> finished_;                // in order of their end
  std::int64_t num_waiting_for_ticks_ = 0;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // in order of start
  std::vector<Sequence*> parked_;   // in the order in which they were parked
  std::vector<Sequence*> chosen_;
  std::int64_t rows_left_ = 0;
};

}  // namespace qrl::decoder
