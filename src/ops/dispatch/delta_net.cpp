#include "ops/delta_net.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/dispatch/families.h"
#include "ops/kernels/delta_net.h"
#include "ops/kernels/kernels.h"
#include "ops/scratch.h"

namespace qrl::ops {

namespace {

bool is_allowed(std::int64_t dim) { return dim > 0 && dim <= kMaxDeltaDim && dim % kDeltaDimMultiple == 0; }

void check(const DeltaShape& shape) {
  QRL_INVARIANT(shape.num_key_heads > 0 && shape.num_value_heads % shape.num_key_heads == 0 &&
                    is_allowed(shape.key_dim) && is_allowed(shape.value_dim) && shape.conv_width >= 2 &&
                    shape.conv_width <= kMaxConvWidth,
                "delta rule", "value heads a multiple of key heads, dims of 16 … 256 in steps of 16, 2 to 4 taps",
                std::to_string(shape.num_value_heads) + " and " + std::to_string(shape.num_key_heads) + " heads of " +
                    std::to_string(shape.value_dim) + " and " + std::to_string(shape.key_dim) + ", " +
                    std::to_string(shape.conv_width) + " taps");
}

/// Lays out a sequence's state: the ring of rows, then a key head's number of tokens in S for each key head, then the
/// heads' states.
struct StateLayout {
  std::int64_t ring_floats, counts_floats, head_floats;
  explicit StateLayout(const DeltaShape& shape)
      : ring_floats(shape.conv_width * shape.channels()),
        counts_floats((shape.num_key_heads + kDeltaDimMultiple - 1) / kDeltaDimMultiple * kDeltaDimMultiple),
        head_floats(DeltaHeadState(shape).size) {}
};

/// Points to the parts of a sequence's state that belong to a key head.
struct GroupState {
  float* ring;
  std::int32_t* num_in_s;  ///< number of tokens whose updates S has; the next token's update is stored beside S
  float* heads;
  GroupState(const DeltaShape& shape, std::int64_t key_head, std::byte* state) {
    const StateLayout layout(shape);
    ring = reinterpret_cast<float*>(state);
    num_in_s = reinterpret_cast<std::int32_t*>(ring + layout.ring_floats) + key_head;
    heads =
        ring + layout.ring_floats + layout.counts_floats + DeltaGroup(shape, key_head).first_head * layout.head_floats;
  }
};

/// Copies the group's channels of a run's last rows into the ring, in which a token's row is at its position modulo
/// conv_width.
void keep_rows(const DeltaShape& shape, const DeltaGroup& group, const DeltaRun& run, const float* projections,
               float* ring) {
  for (std::int64_t r = std::max<std::int64_t>(0, run.rows.size() - shape.conv_width); r < run.rows.size(); ++r) {
    const float* from = projections + (run.rows.begin + r) * shape.row_width();
    float* to = ring + (run.position + r) % shape.conv_width * shape.channels();
    std::copy_n(from + group.q_column, group.key_dim, to + group.q_column);
    std::copy_n(from + group.k_column, group.key_dim, to + group.k_column);
    std::copy_n(from + group.v_column, group.num_heads * group.value_dim, to + group.v_column);
  }
}

/// Computes a run in one key head. `taps` and `memory` are scratch.
void advance(const DeltaShape& shape, const DeltaWeights& weights, const DeltaRun& run, std::int64_t key_head,
             const float* projections, const float* gates_in, float* out, const float* taps, float* memory) {
  const GroupState state(shape, key_head, run.state);
  const bool begins = run.position == 0;
  const std::int64_t before = shape.conv_width - 1;
  QRL_INVARIANT(begins || *state.num_in_s == run.position || *state.num_in_s == run.position - 1, "delta rule",
                "a state of the tokens before position " + std::to_string(run.position),
                std::to_string(*state.num_in_s) + " tokens and an update");
  const void* rows[kMaxConvWidth - 1 + kDeltaChunk];
  for (std::int64_t start = 0; start < run.rows.size(); start += kDeltaChunk) {
    const std::int64_t count = std::min(kDeltaChunk, run.rows.size() - start);
    for (std::int64_t i = 0; i < before + count; ++i) {
      const std::int64_t row = start + i - before, position = run.position + row;
      if (row >= 0) rows[i] = projections + (run.rows.begin + row) * shape.row_width();
      else rows[i] = position >= 0 ? state.ring + position % shape.conv_width * shape.channels() : nullptr;
    }
    const std::int64_t first = run.rows.begin + start;
    kernels().delta_net->forward({.shape = &shape,
                                  .weights = &weights,
                                  .key_head = key_head,
                                  .num_rows = count,
                                  .rows = rows,
                                  .is_bf16 = false,
                                  .gates_in = gates_in + first * 2 * shape.num_value_heads,
                                  .taps = taps},
                                 {.states = state.heads,
                                  .begins = begins && start == 0,
                                  .applies_update = start > 0 || *state.num_in_s != run.position,
                                  .out = {out + first * shape.out_width(), false}},
                                 memory);
  }
  *state.num_in_s = static_cast<std::int32_t>(run.position + run.rows.size() - 1);
  keep_rows(shape, DeltaGroup(shape, key_head), run, projections, state.ring);
}

/// Describes packed sequences by family, and where kept states are. State 0 is of zeros.
class PackedLayout {
 public:
  explicit PackedLayout(const PackedDelta& packed)
      : families(families_of(packed.sequence_starts, packed.num_sequences, packed.continues_prefix, "delta rule")) {
    for (const Family& family : families.all) {
      const bool is_continued = family.end_sequence > family.first_sequence + 1;
      const std::int64_t after_prefix = is_continued ? num_states_++ : 0;
      for (std::int64_t s = family.first_sequence; s < family.end_sequence; ++s) {
        const std::int64_t length = packed.sequence_starts[s + 1] - packed.sequence_starts[s];
        first_.push_back(s > family.first_sequence ? after_prefix : 0);
        later_.push_back(num_states_);
        num_states_ += std::max<std::int64_t>(0, (length - 1) / kDeltaChunk);
      }
    }
  }
  std::int64_t num_states() const { return num_states_; }
  /// Returns the index of the state before a chunk.
  std::int64_t state_before(std::int64_t sequence, std::int64_t chunk) const {
    const auto at = static_cast<std::size_t>(sequence);
    return chunk == 0 ? first_[at] : later_[at] + chunk - 1;
  }

  Families families;

 private:
  std::vector<std::int64_t> first_, later_;  ///< states before a sequence's first chunk, and before its second
  std::int64_t num_states_ = 1;
};

/// Finds the rows of one sequence, and those before it.
class PackedSequence {
 public:
  PackedSequence(const PackedDelta& packed, const Family& family, std::int64_t sequence)
      : packed_(packed),
        start_(packed.sequence_starts[sequence]),
        prefix_start_(packed.sequence_starts[family.first_sequence]),
        prefix_end_(sequence == family.first_sequence ? start_ : packed.sequence_starts[family.first_sequence + 1]),
        length_(packed.sequence_starts[sequence + 1] - start_) {}

  std::int64_t length() const { return length_; }
  std::int64_t row(std::int64_t index) const { return start_ + index; }
  /// Returns the row at an index from −(conv_width − 1) on; −1: none.
  std::int64_t row_or_none(std::int64_t index) const {
    if (index >= 0) return start_ + index;
    return prefix_end_ + index >= prefix_start_ ? prefix_end_ + index : -1;
  }

  /// Calls body(segment, first row) for one chunk.
  template <class Body>
  void with_segment(std::int64_t key_head, std::int64_t begin, const float* taps, const Body& body) const {
    const void* rows[kMaxConvWidth - 1 + kDeltaChunk];
    const std::int64_t before = packed_.shape.conv_width - 1, count = std::min(kDeltaChunk, length_ - begin);
    const std::int64_t row_bytes = packed_.shape.row_width() * (packed_.projections.is_bf16 ? 2 : 4);
    for (std::int64_t i = 0; i < before + count; ++i) {
      const std::int64_t at = row_or_none(begin + i - before);
      rows[i] = at < 0 ? nullptr : static_cast<const std::byte*>(packed_.projections.data) + at * row_bytes;
    }
    body(DeltaSegment{.shape = &packed_.shape,
                      .weights = &packed_.weights,
                      .key_head = key_head,
                      .num_rows = count,
                      .rows = rows,
                      .is_bf16 = packed_.projections.is_bf16,
                      .gates_in = packed_.gates_in + row(begin) * 2 * packed_.shape.num_value_heads,
                      .taps = taps});
  }

 private:
  const PackedDelta& packed_;
  std::int64_t start_, prefix_start_, prefix_end_, length_;
};

MixedArray at(MixedArray array, std::int64_t element) {
  return {static_cast<std::byte*>(array.data) + element * (array.is_bf16 ? 2 : 4), array.is_bf16};
}

/// Runs body(family index, key head, scratch) for all families and key heads, scheduled dynamically.
template <class Body>
void for_each_group(const PackedDelta& packed, const PackedLayout& layout, std::int64_t scratch_floats,
                    const Body& body) {
  const std::int64_t num_heads = packed.shape.num_key_heads;
  const std::int64_t num_tasks = static_cast<std::int64_t>(layout.families.all.size()) * num_heads;
  std::atomic<std::int64_t> next_task{0};
  base::parallel(0, [&](base::Team&) {
    float* memory = scratch(scratch_floats);
    for (std::int64_t task = next_task++; task < num_tasks; task = next_task++)
      body(static_cast<std::size_t>(task / num_heads), task % num_heads, memory);
  });
}

/// Holds the sizes of a key head's scratch arrays.
struct GroupSizes {
  std::int64_t taps, states, parameters;
  explicit GroupSizes(const DeltaShape& shape) {
    const DeltaGroup group(shape, 0);
    taps = shape.conv_width * group.channels();
    states = group.num_heads * DeltaHeadState(shape).size;
    parameters = taps + group.num_heads * (shape.value_dim + 2);
  }
};

/// Computes the backward pass of one family in one key head. d_parameters: GroupSizes::parameters, added to.
class GroupBackward {
 public:
  GroupBackward(const PackedDelta& packed, const PackedLayout& layout, const float* kept, MixedArray d_out,
                const DeltaGradients& gradients)
      : packed_(packed), layout_(layout), kept_(kept), d_out_(d_out), gradients_(gradients) {}

  std::int64_t scratch_floats() const {
    return GroupSizes(packed_.shape).taps + 2 * group_state_floats() +
           kernels().delta_net->backward_scratch(packed_.shape);
  }

  void run(const Family& family, std::int64_t key_head, float* memory, float* d_parameters) const {
    const DeltaGroup group(packed_.shape, key_head);
    float* taps = memory;
    float* d_end = taps + GroupSizes(packed_.shape).taps;  // of the prefix
    float* d_states = d_end + group_state_floats();
    float* rest = d_states + group_state_floats();
    kernels().delta_net->turn_taps(packed_.shape, packed_.weights, key_head, taps);
    clear_channels(family, group);
    std::fill_n(d_end, group_state_floats(), 0.0F);
    for (std::int64_t s = family.end_sequence - 1; s > family.first_sequence; --s) {
      std::fill_n(d_states, group_state_floats(), 0.0F);
      sequence(family, s, key_head, taps, d_states, d_parameters, rest);
      for (std::int64_t i = 0; i < group_state_floats(); ++i) d_end[i] += d_states[i];
    }
    sequence(family, family.first_sequence, key_head, taps, d_end, d_parameters, rest);
  }

 private:
  std::int64_t head_floats() const { return packed_.shape.key_dim * packed_.shape.value_dim; }
  std::int64_t group_state_floats() const {
    return packed_.shape.num_value_heads / packed_.shape.num_key_heads * head_floats();
  }

  void clear_channels(const Family& family, const DeltaGroup& group) const {
    for (std::int64_t row = packed_.sequence_starts[family.first_sequence];
         row < packed_.sequence_starts[family.end_sequence]; ++row) {
      float* d_row = gradients_.d_projections + row * packed_.shape.row_width();
      std::fill_n(d_row + group.q_column, group.key_dim, 0.0F);
      std::fill_n(d_row + group.k_column, group.key_dim, 0.0F);
      std::fill_n(d_row + group.v_column, group.num_heads * group.value_dim, 0.0F);
    }
  }

  void sequence(const Family& family, std::int64_t index, std::int64_t key_head, const float* taps, float* d_states,
                float* d_parameters, float* memory) const {
    const DeltaShape& shape = packed_.shape;
    const PackedSequence own(packed_, family, index);
    const std::int64_t first_head = DeltaGroup(shape, key_head).first_head, before = shape.conv_width - 1;
    for (std::int64_t begin = (own.length() - 1) / kDeltaChunk * kDeltaChunk; begin >= 0; begin -= kDeltaChunk) {
      const std::int64_t state = layout_.state_before(index, begin / kDeltaChunk);
      own.with_segment(key_head, begin, taps, [&](const DeltaSegment& segment) {
        float* d_rows[kMaxConvWidth - 1 + kDeltaChunk];
        for (std::int64_t i = 0; i < before + segment.num_rows; ++i) {
          const std::int64_t row = own.row_or_none(begin + i - before);
          d_rows[i] = row < 0 ? nullptr : gradients_.d_projections + row * shape.row_width();
        }
        kernels().delta_net->backward(segment,
                                      {.kept = kept_ + (state * shape.num_value_heads + first_head) * head_floats(),
                                       .d_out = at(d_out_, own.row(begin) * shape.out_width()),
                                       .d_states = d_states,
                                       .d_rows = d_rows,
                                       .d_gates_in = gradients_.d_gates_in + own.row(begin) * 2 * shape.num_value_heads,
                                       .d_parameters = d_parameters},
                                      memory);
      });
    }
  }

  const PackedDelta& packed_;
  const PackedLayout& layout_;
  const float* kept_;
  MixedArray d_out_;
  const DeltaGradients& gradients_;
};

/// Adds a group's parameters, as DeltaStepGradients has them, to the layer's.
void add_parameters(const DeltaShape& shape, std::int64_t key_head, const float* own, const DeltaGradients& to) {
  const DeltaGroup group(shape, key_head);
  const std::int64_t columns[] = {group.q_column, group.k_column, group.v_column};
  const std::int64_t widths[] = {group.key_dim, group.key_dim, group.num_heads * group.value_dim};
  std::int64_t channel = 0;
  for (int part = 0; part < 3 && to.d_taps_CT != nullptr; ++part) {
    for (std::int64_t i = 0; i < widths[part]; ++i, ++channel) {
      for (std::int64_t t = 0; t < shape.conv_width; ++t)
        to.d_taps_CT[(columns[part] + i) * shape.conv_width + t] += own[t * group.channels() + channel];
    }
  }
  own += shape.conv_width * group.channels();
  for (std::int64_t head = 0; head < group.num_heads && to.d_gain_V != nullptr; ++head) {
    for (std::int64_t i = 0; i < shape.value_dim; ++i) to.d_gain_V[i] += own[head * shape.value_dim + i];
  }
  own += group.num_heads * shape.value_dim;
  for (std::int64_t head = 0; head < group.num_heads; ++head) {
    if (to.d_a_log_H != nullptr) to.d_a_log_H[group.first_head + head] += own[head];
    if (to.d_dt_bias_H != nullptr) to.d_dt_bias_H[group.first_head + head] += own[group.num_heads + head];
  }
}

}  // namespace

std::int64_t delta_state_bytes(const DeltaShape& shape) {
  check(shape);
  const StateLayout layout(shape);
  return (layout.ring_floats + layout.counts_floats + shape.num_value_heads * layout.head_floats) * 4;
}

void delta_net(base::Team& team, const DeltaShape& shape, const DeltaWeights& weights, std::span<const DeltaRun> runs,
               const float* projections, const float* gates_in, float* out) {
  check(shape);
  const auto num_runs = static_cast<std::int64_t>(runs.size());
  const std::int64_t taps_floats = GroupSizes(shape).taps;
  float* taps = scratch(taps_floats + kernels().delta_net->forward_scratch(shape));
  // Runs of a key head are adjacent, so that its taps are turned once.
  const base::Range share = team.slice(shape.num_key_heads * num_runs);
  std::int64_t turned = -1;
  for (std::int64_t task = share.begin; task < share.end; ++task) {
    const std::int64_t key_head = task / num_runs;
    if (key_head != turned) kernels().delta_net->turn_taps(shape, weights, key_head, taps);
    turned = key_head;
    advance(shape, weights, runs[static_cast<std::size_t>(task % num_runs)], key_head, projections, gates_in, out, taps,
            taps + taps_floats);
  }
}

std::int64_t num_kept_states(const PackedDelta& packed) { return PackedLayout(packed).num_states(); }

void packed_delta(const PackedDelta& packed, MixedArray out, float* kept) {
  check(packed.shape);
  const DeltaShape& shape = packed.shape;
  const PackedLayout layout(packed);
  const GroupSizes sizes(shape);
  const std::int64_t state_floats = shape.num_value_heads * shape.key_dim * shape.value_dim;
  if (kept != nullptr) std::fill_n(kept, state_floats, 0.0F);
  const std::int64_t floats = sizes.taps + 2 * sizes.states + kernels().delta_net->forward_scratch(shape);
  for_each_group(packed, layout, floats, [&](std::size_t family_idx, std::int64_t key_head, float* memory) {
    const Family& family = layout.families.all[family_idx];
    float *taps = memory, *of_prefix = taps + sizes.taps, *own_state = of_prefix + sizes.states;
    kernels().delta_net->turn_taps(shape, packed.weights, key_head, taps);
    const std::int64_t first_head = DeltaGroup(shape, key_head).first_head;
    bool has_state = false, has_kept = false;  // whether the prefix has tokens, and whether its state is kept
    for (std::int64_t s = family.first_sequence; s < family.end_sequence; ++s) {
      const PackedSequence sequence(packed, family, s);
      const bool is_prefix = s == family.first_sequence;
      float* states = is_prefix ? of_prefix : own_state;
      if (!is_prefix) std::copy_n(of_prefix, sizes.states, own_state);
      for (std::int64_t begin = 0; begin < sequence.length(); begin += kDeltaChunk) {
        // The first continuation with rows keeps the state that all of them begin with.
        const bool keeps = kept != nullptr && (begin > 0 || !(is_prefix || std::exchange(has_kept, true)));
        const std::int64_t kept_at =
            layout.state_before(s, begin / kDeltaChunk) * state_floats + first_head * shape.key_dim * shape.value_dim;
        sequence.with_segment(key_head, begin, taps, [&](const DeltaSegment& segment) {
          kernels().delta_net->forward(segment,
                                       {.states = states,
                                        .begins = begin == 0 && (is_prefix || !has_state),
                                        .out = at(out, sequence.row(begin) * shape.out_width()),
                                        .kept = keeps ? kept + kept_at : nullptr},
                                       own_state + sizes.states);
        });
      }
      if (is_prefix) has_state = sequence.length() > 0;
    }
  });
}

void packed_delta_backward(const PackedDelta& packed, const float* kept, MixedArray d_out,
                           const DeltaGradients& gradients) {
  check(packed.shape);
  const PackedLayout layout(packed);
  const std::int64_t num_parameters = GroupSizes(packed.shape).parameters, num_heads = packed.shape.num_key_heads;
  const std::size_t num_families = layout.families.all.size();
  std::vector<float> d_parameters(num_families * static_cast<std::size_t>(num_heads * num_parameters));
  const GroupBackward group(packed, layout, kept, d_out, gradients);
  const auto of_group = [&](std::size_t family, std::int64_t key_head) {
    return d_parameters.data() + (static_cast<std::int64_t>(family) * num_heads + key_head) * num_parameters;
  };
  for_each_group(packed, layout, group.scratch_floats(), [&](std::size_t family, std::int64_t key_head, float* memory) {
    group.run(layout.families.all[family], key_head, memory, of_group(family, key_head));
  });
  for (std::size_t family = 0; family < num_families; ++family) {
    for (std::int64_t head = 0; head < num_heads; ++head)
      add_parameters(packed.shape, head, of_group(family, head), gradients);
  }
}

}  // namespace qrl::ops
