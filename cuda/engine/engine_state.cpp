#include "cuda/engine/engine_state.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace qrl::cuda::QRL_CUDA_TARGET {

std::string range_text(std::int64_t count) { return "[0, " + std::to_string(count) + ")"; }

std::string rows_text(std::span<const std::int32_t> rows) {
  constexpr std::size_t kMost = 16;
  std::string text;
  for (const std::int32_t row : rows.first(std::min(rows.size(), kMost)))
    text += (text.empty() ? "" : ", ") + std::to_string(row);
  return rows.size() > kMost ? text + ", …" : text;
}

EngineState::EngineState(const EngineOptions& options_, const DeviceFacts& device_)
    : options(options_),
      device(device_),
      gemms(make_gemms(device_, options_.row_only_sums)),
      weights(options_),
      kv(options_, device_),
      tick(options_),
      blocks(options_, tick, weights, *gemms),
      head(options_, tick.max_rows(), weights, *gemms),
      graphs(options_.graph_bytes) {}

void EngineState::check(const Tick& checked, std::int64_t num_pages, std::int64_t num_sampled_before) const {
  const auto row_count = static_cast<std::int64_t>(checked.tokens_N.size());
  QRL_INVARIANT(weights.uploaded(), "tick", "weights", "none");
  QRL_INVARIANT(
      0 < row_count && row_count <= options.max_rows && checked.positions_N.size() == checked.tokens_N.size() &&
          checked.first_page_N.size() == checked.tokens_N.size(),
      "tick", "1 to " + std::to_string(options.max_rows) + " rows, arrays of one length", std::to_string(row_count));
  const std::int64_t max_pages = ceil_div(options.max_positions, options.page_size);
  QRL_INVARIANT(static_cast<std::int64_t>(checked.page_ids.size()) <= options.max_sequences * max_pages &&
                    static_cast<std::int64_t>(checked.copies.size()) <= options.max_sequences,
                "tick", "pages and copies of at most " + std::to_string(options.max_sequences) + " sequences",
                std::to_string(checked.page_ids.size()) + " and " + std::to_string(checked.copies.size()));
  for (std::size_t row = 0; row < checked.tokens_N.size(); ++row) {
    const std::int64_t token = checked.tokens_N[row], position = checked.positions_N[row],
                       first = checked.first_page_N[row];
    QRL_INVARIANT(-num_sampled_before <= token && token < options.model.vocab_size, "tick, row " + std::to_string(row),
                  "a token in " + range_text(options.model.vocab_size), std::to_string(token));
    QRL_INVARIANT(0 <= position && position < options.max_positions && first >= 0 &&
                      first + position / options.page_size < static_cast<std::int64_t>(checked.page_ids.size()),
                  "tick, row " + std::to_string(row),
                  "a position in " + range_text(options.max_positions) + " with pages", std::to_string(position));
  }
  const auto page_exists = [&](std::int64_t page) { return 0 <= page && page < num_pages; };
  for (const std::int32_t page : checked.page_ids)
    QRL_INVARIANT(page_exists(page), "tick", "pages in " + range_text(num_pages), std::to_string(page));
  for (const SlotCopy& copy : checked.copies) {
    QRL_INVARIANT(page_exists(copy.from) && page_exists(copy.to) && copy.from != copy.to && 0 <= copy.num_slots &&
                      copy.num_slots <= options.page_size,
                  "tick", "copies within pages in " + range_text(num_pages),
                  std::to_string(copy.num_slots) + " slots of page " + std::to_string(copy.from) + " to page " +
                      std::to_string(copy.to));
  }
}

void EngineState::require_on_device(const void* at, const char* where) const {
  const std::string wanted = memory_name(device.number), found = name_of_memory(at);
  QRL_INVARIANT(found == wanted, where, wanted, found);
}

void EngineState::wait() {
  const double start_s = base::now_s();
  stream.wait();
  stats.waited_s += base::now_s() - start_s;
  in_flight = false;
}

void EngineState::synchronize_callers_stream() {
  if (callers_stream) Stream(callers_stream->handle).wait();
  callers_stream.reset();
}

void EngineState::forget_graphs() {
  wait();
  graphs.clear();
  stats.held_graphs = 0;
  stats.graph_bytes = 0;
  gemms->set_recorded(false);
}

void EngineState::drain() {
  synchronize_callers_stream();
  if (in_flight) wait();
  num_rows = 0;
}

}  // namespace qrl::cuda::QRL_CUDA_TARGET
