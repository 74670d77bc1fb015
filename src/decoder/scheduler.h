// Owns which sequences a tick works on and which pages they hold. Knows nothing of tensors, weights or sampling: a test
// drives it with a fake forward.
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

/// Continuous batching over requests, which may come at any time between ticks.
///
/// A tick takes one row of every decoding sequence first (they are what keeps the batch full), then fills what is left
/// of max_num_batched_tokens with chunks of prompts: of sequences already started, then of new ones in order.
///
/// Shared prompts: a group's first sample (the leader) computes the prompt; when all but its last token is cached, the
/// group holds those pages, and each other sample starts at the last prompt token with the full pages shared and the
/// slots before it of a partly filled page copied into a page of its own. So a shared page is never written: samples
/// write from the last prompt token on, and the leader, which goes on in the partly filled page, writes only behind
/// the slots that are copied. Prompts of one token, or of a multiple of page_size, need no rule of their own.
///
/// Out of pages: prompts held for groups of which nobody runs go first, then the sequence started last gives all its
/// pages back and waits, at the head of the queue, to recompute prompt and sampled tokens. A sequence starts only
/// when pages for all its present tokens are free and one more for each running sequence, so that it is not soon sent
/// back. The sequence started first is never sent back, so every tick moves and the last request is reached.
///
/// A tick may be chosen while the one before is under way (`advance` was called, its samples are not known): its
/// sequences count on with a token to come. One that then turns out to have ended may have a row more in the tick
/// chosen meanwhile. Its pages can be given to others at once, as ticks are computed in order.
class Scheduler {
 public:
  /// `options`, `pool` and `stats` must outlive it. It counts preemptions, shared_prompt_tokens and peak_kv_pages.
  Scheduler(const DecoderOptions& options, PagePool& pool, DecoderStats& stats);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues all samples of `request`, behind those that wait. Each sequence must fit the pool at its longest (the
  /// caller's check).
  void submit(RequestId id, Request request);

  bool done() const { return waiting_.empty() && running_.empty(); }
  /// Whether an unfinished request has top-k or top-p.
  bool any_cuts() const { return num_cutting_ > 0; }

  /// The sequences of the next tick with num_rows, pages and copy set: at most max_num_batched_tokens rows; none when
  /// all that could go on wait for the tick under way. Valid until the next call.
  std::span<Sequence* const> choose();

  /// The tick is under way: the chosen rows count as cached, and the sequences that sample have a token to come each
  /// (the caller, who appends it, counts it down).
  void advance();

  /// Sequences that the caller found to be finished, each once: they give their pages back.
  void retire(std::span<Sequence* const> finished);

  /// Requests whose samples have all finished, in the order of their end, each once. One that a tick under way still
  /// has a row of comes when that tick was counted down.
  std::vector<FinishedRequest> take_finished();

  /// Forgets all requests. Pages are not given back: the caller makes the pool anew.
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
  std::vector<std::unique_ptr<Group>> groups_;  // in the order of submission
  std::vector<Group*> finished_;                // of those, in the order of their end
  std::int64_t num_cutting_ = 0;
  std::deque<Sequence*> waiting_;
  std::vector<Sequence*> running_;  // in the order they started
  std::vector<Sequence*> chosen_;
  std::int64_t rows_left_ = 0;  // of this tick
};

}  // namespace qrl::decoder
