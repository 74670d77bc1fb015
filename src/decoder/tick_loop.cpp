#include "decoder/tick_loop.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/threads.h"
#include "ops/paged_attention.h"

namespace qrl::decoder {

bool completes_stop_string(std::span<const std::string> stop_strings, std::string_view bytes, std::string& tail) {
  tail += bytes;
  std::size_t longest = 1;
  for (const std::string& stop : stop_strings) {
    if (tail.find(stop) != std::string::npos) return true;
    longest = std::max(longest, stop.size());
  }
  // Keeps the bytes in which a stop string may have begun.
  if (tail.size() >= longest) tail.erase(0, tail.size() - (longest - 1));
  return false;
}

namespace {

/// Returns how many last positions a row may read, if all layers have a window; 0: all. A mixture's pages also hold
/// routes, which are read at the end.
std::int64_t reach_of(const model::ModelConfig& config) {
  const bool all_slide = std::ssize(config.sliding_layers) == config.num_hidden_layers;
  return all_slide && !config.has_experts() ? ops::attention_reach(config.sliding_window) : 0;
}

}  // namespace

TickLoop::TickLoop(const model::ModelConfig& config, const DecoderOptions& options, std::unique_ptr<Backend> backend)
    : options_(options),
      backend_(std::move(backend)),
      num_states_(config.num_delta_layers() == 0 ? 0 : state_slots_of(options)),
      scheduler_(options_, pool_, stats_, reach_of(config), num_states_ == 0 ? nullptr : &states_),
      ticks_{StartedTick(config), StartedTick(config)} {}

RequestId TickLoop::submit(Request request) {
  const bool waits = backend_->needs_host_logits(sample_params_of(request.params));
  scheduler_.submit(next_id_, std::move(request), waits);
  return next_id_++;
}

bool TickLoop::tick(const model::Snapshot& snapshot) {
  if (idle()) return false;
  try {
    if (!has_begun_) begin(snapshot);
    run_tick(snapshot);
  } catch (...) {
    abandon();
    throw;
  }
  if (idle()) has_begun_ = false;
  return true;
}

void TickLoop::abandon() {
  scheduler_.abandon();
  num_under_way_ = 0;
  has_begun_ = false;
}

std::vector<TickLoop::Turn> TickLoop::take_turns() {
  std::vector<Turn> turns;
  for (const Sequence* sequence : scheduler_.take_turns()) {
    const Group& group = *sequence->group;
    turns.push_back({group.id, static_cast<std::size_t>(sequence - group.sequences.data()), &sequence->completion});
  }
  return turns;
}

void TickLoop::end(RequestId id, std::size_t idx) {
  scheduler_.end(scheduler_.parked_sequence(id, idx));
  ++stats_.samples_finished;
  if (idle()) has_begun_ = false;
}

void TickLoop::begin(const model::Snapshot& snapshot) {
  version_ = snapshot.version();
  const std::int64_t scales_version = backend_->kv_scales().version;
  QRL_INVARIANT(options_.kv_format != quant::KvFormat::fp8_e4m3 || scales_version == version_, "decoder",
                "fp8 scales calibrated for version " + std::to_string(version_),
                "version " + std::to_string(scales_version), "calibrate after every publish");
  pool_ = PagePool(backend_->begin());
  states_ = PagePool(num_states_);
  has_begun_ = true;
}

void TickLoop::run_tick(const model::Snapshot& snapshot) {
  // If no tick is in flight, the time since the last tick is not counted.
  if (num_under_way_ == 0) {
    counted_s_ = base::now_s();
    counted_waited_s_ = backend_->device_stats().waited_s;
  }
  if (options_.before_tick) options_.before_tick();
  const int num_ahead = scheduler_.any_waits() ? 0 : backend_->num_ticks_ahead();
  while (num_under_way_ > num_ahead) finish_oldest(snapshot);  // happens only if a request waits
  if (idle()) return;
  const std::span<Sequence* const> chosen = scheduler_.choose();
  num_chosen_ = chosen.size();
  if (!has_work()) return;  // all samples are parked
  if (!chosen.empty()) {
    start(chosen, snapshot);
    scheduler_.advance();
  }
  if (chosen.empty() || num_under_way_ > num_ahead) finish_oldest(snapshot);
}

void TickLoop::start(std::span<Sequence* const> chosen, const model::Snapshot& snapshot) {
  StartedTick& tick = ticks_[static_cast<std::size_t>(num_started_ % 2)];
  tick.plan.build(chosen, base::num_threads(), snapshot.num_bytes() <= kCachedWeightBytes);
  tick.samples.resize(tick.plan.sample_rows.size());
  const std::int64_t num_graphs_before = backend_->device_stats().graph_ticks;
  const std::int64_t num_read_before = backend_->num_experts_read();
  backend_->start(tick.plan, tick.samples);
  tick.num_graphs = backend_->device_stats().graph_ticks - num_graphs_before;
  tick.num_experts_read = backend_->num_experts_read() - num_read_before;
  ++num_started_;
  ++num_under_way_;
}

void TickLoop::finish_oldest(const model::Snapshot& snapshot) {
  QRL_INVARIANT(num_under_way_ > 0, "scheduler", "at least one row when no tick is running", "no rows");
  const StartedTick& tick = ticks_[static_cast<std::size_t>((num_started_ - num_under_way_) % 2)];
  backend_->finish();
  --num_under_way_;
  QRL_INVARIANT(snapshot.version() == version_, "decoder", "weights of version " + std::to_string(version_),
                "version " + std::to_string(snapshot.version()), "publish when no request is unfinished");
  const std::int64_t num_dropped = give_to_sequences(tick);
  count_tick(tick, num_dropped);
  scheduler_.park(turned_);
  scheduler_.retire(finished_);
}

/// Appends samples to their sequences. Returns the number of samples dropped because their sequence had ended.
std::int64_t TickLoop::give_to_sequences(const StartedTick& tick) {
  std::int64_t num_dropped = 0;
  finished_.clear();
  turned_.clear();
  for (std::size_t i = 0; i < tick.samples.size(); ++i) {
    Sequence& sequence = *tick.plan.sampled_sequences[i];
    const ops::SampledToken& sampled = tick.samples[i];
    --sequence.num_in_flight;
    if (sequence.finished || sequence.parked) {
      ++num_dropped;
      continue;
    }
    types::Completion& completion = sequence.completion;
    completion.tokens.push_back(sampled.token);
    completion.sampler_logprobs.push_back(sampled.logprob);
    completion.versions.push_back(version_);
    if (!sampled.kept.empty()) completion.kept.add(sampled.kept);
    if (!completion.sampled.empty()) completion.sampled.push_back(1);
    completion.num_limited += sampled.limited ? 1 : 0;
    const bool ended = ends(sequence, sampled.token);
    completion.stop = ended ? types::StopReason::eos : types::StopReason::length;
    if (!ended && std::cmp_less(completion.tokens.size(), sequence.max_tokens)) continue;
    const Request& request = sequence.group->request;
    sequence.parked = sequence.has_turn = request.by_turns;
    sequence.finished = !request.by_turns;
    (request.by_turns ? turned_ : finished_).push_back(&sequence);
    if (request.params.wants_routes) completion.routes = backend_->routes(sequence.pages, sequence.num_tokens() - 1);
  }
  return num_dropped;
}

bool TickLoop::ends(Sequence& sequence, types::TokenId token) const {
  const types::SamplingParams& params = sequence.group->request.params;
  if (std::ranges::find(params.stop_tokens, token) != params.stop_tokens.end()) return true;
  return !params.stop_strings.empty() &&
         completes_stop_string(params.stop_strings, options_.bytes_of(token), sequence.text_tail);
}

void TickLoop::count_tick(const StartedTick& tick, std::int64_t num_dropped) {
  const double now_s = base::now_s(), tick_s = now_s - std::exchange(counted_s_, now_s);
  const DeviceStats device = backend_->device_stats();
  stats_.held_graphs = device.held_graphs;
  stats_.graph_bytes = device.graph_bytes;
  const double waited_s = device.waited_s;
  const double tick_waited_s = waited_s - std::exchange(counted_waited_s_, waited_s);
  const std::int64_t num_prefill_rows = tick.plan.num_rows() - tick.plan.num_decode_rows;
  const std::int64_t num_decode_tokens = tick.plan.num_decode_rows - num_dropped;
  ++stats_.ticks;
  stats_.samples_finished += std::ssize(finished_);
  stats_.prefill_tokens += num_prefill_rows;
  stats_.decode_tokens += num_decode_tokens;
  (num_prefill_rows == 0 ? stats_.decode_s : stats_.prefill_s) += tick_s;
  if (num_prefill_rows > 0) return;
  stats_.decode_only_tokens += num_decode_tokens;
  ++stats_.decode_ticks;
  stats_.decode_experts += tick.num_experts_read;
  stats_.decode_graph_ticks += tick.num_graphs;
  stats_.decode_waited_s += tick_waited_s;
}

}  // namespace qrl::decoder
