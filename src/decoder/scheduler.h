// Owns which sequences a tick computes and which pages they hold. Uses no tensors, so tests can fake the forward pass.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "decoder/decoder.h"
#include "decoder/page_pool.h"
#include "decoder/sequence.h"

namespace qrl::decoder {

/// Continuous batching over requests, which may arrive between any two ticks.
///
/// A tick first takes one row of every decoding sequence, since these keep the batch full. It fills the rest of
/// max_num_batched_tokens with chunks of prompts: first of started sequences, then of new ones in order.
///
/// Shared prompts: a group's first sample, the leader, computes the prompt. Once all but the last prompt token is
/// cached, the group holds those pages. Each other sample starts at the last prompt token: it shares the full pages,
/// and copies the slots of a partly filled one into its own page. A shared page is never overwritten: samples write
/// from the last prompt token on, and the leader writes only after the copied slots. Prompts of one token, or of a
/// multiple of page_size, need no special case.
///
/// Out of pages: prefixes of groups without a running sequence are freed first. Then the sequence started last frees
/// all its pages and returns to the head of the queue, to be recomputed. A sequence starts only if pages are free for
/// all its tokens and one more per running sequence; this avoids early preemption. The sequence started first is never
/// preempted, so every tick makes progress.
///
/// A tick may be chosen while the previous one is in flight (after `advance`, with unknown samples): its sequences then
/// count a pending token. A sequence that turns out to have ended may have one extra row in the newer tick. Its pages
/// can be reused at once, because ticks are computed in order.
class Scheduler {
 public:
  /// `options`, `pool` and `stats` must outlive this. Updates preemptions, shared_prompt_tokens and peak_kv_pages.
  Scheduler(const DecoderOptions& options, PagePool& pool, DecoderStats& stats);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues all samples of `request` after the waiting ones. The caller has checked that each sequence fits the pool at
  /// its full length.
  void submit(RequestId id, Request request);

  bool done() const { return waiting_.empty() && running_.empty(); }
  bool any_cuts() const { return num_cutting_ > 0; }

  /// Chooses the sequences of the next tick and sets their num_rows, pages and copy, for at most max_num_batched_tokens
  /// rows. Returns none if all sequences wait for the tick in flight. Valid until the next call.
  std::span<Sequence* const> choose();

  /// Marks the chosen tick as started: its rows count as cached, and its sampling sequences get a pending token. The
  /// caller appends the token later and decrements num_in_flight.
  void advance();

  /// Frees the pages of finished sequences, each passed once.
  void retire(std::span<Sequence* const> finished);

  /// Returns requests that finished since the last call, in the order of their end. A request with a row in a tick in
  /// flight is returned after that tick.
  std::vector<FinishedRequest> take_finished();

  /// Drops all requests without freeing their pages; the caller recreates the pool.
  void abandon();

 private:
  void take_rows(Sequence& sequence);
  void choose_decoding();
  void choose_started();
  void start_waiting();
  bool make_room_for(const Sequence& sequence);
  void start(Sequence& sequence);
  bool hold_next_page(std::size_t running_idx);
  void preempt_last();
  void give_back_pages(std::vector<PageId>& pages);
  bool forget_idle_prefix(const Group* keep);
  void forget_prefix(Group& group);
  std::int64_t pages_of(std::int64_t num_tokens) const;

  const DecoderOptions& options_;
  PagePool& pool_;
  DecoderStats& stats_;
  std::vector<std::unique_ptr<Group>> groups_;  // in order of submission
  std::vector<Group*> finished_;                // in order of their end
  std::int64_t num_cutting_ = 0;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // in order of start
  std::vector<Sequence*> chosen_;
  std::int64_t rows_left_ = 0;  // in this tick
};

}  // namespace qrl::decoder
