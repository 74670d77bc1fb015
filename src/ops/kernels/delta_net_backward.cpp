// The backward pass of gated DeltaNet over one chunk, in the parallel form. c is the running sum of g from the chunk's
// beginning, S the state before the chunk, S' that after it, and D_ij = exp(c_i − c_j):
//   (I + A) Δ = β (V − e^c K S),  A_ij = β_i k_i·k_j D_ij for i > j;
//   O = e^c Q S + P Δ,  P_ij = q_i·k_j D_ij for i ≥ j;  S' = e^{c_end} S + (e^{c_end − c} K)ᵀ Δ.
#include "ops/kernels/delta_rows.h"
#include "ops/kernels/kernels.h"
#include "ops/kernels/small_matmuls.h"

namespace qrl::ops::QRL_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kChunk = kDeltaChunk;
using Matmuls = SmallMatmuls<F32Dot>;

/// A row-major matrix. Its rows are a multiple of kDeltaDimMultiple; rows beyond the chunk's tokens are 0.
struct Matrix {
  float* data;
  std::int64_t columns;
  float* row(std::int64_t r) const { return data + r * columns; }
  Left<F32Dot> left() const { return {data, columns, 1}; }
  Left<F32Dot> turned_left() const { return {data, 1, columns}; }
  Right<F32Dot> right() const { return {data, columns}; }
};

void multiply(Left<F32Dot> a, const Matrix& b, std::int64_t rows, std::int64_t depth, bool adds, const Matrix& c) {
  Matmuls().multiply(a, b.right(), rows, c.columns, depth, adds, c.data, c.columns);
}

/// Writes the transpose of `rows` rows.
void turn(const Matrix& from, std::int64_t rows, const Matrix& to) {
  for (std::int64_t r = 0; r < rows; r += kLanes) {
    for (std::int64_t i = 0; i < from.columns; i += kLanes) {
      VecI block[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) block[lane] = load_words(from.row(r + lane) + i);
      transpose(block);
      for (int lane = 0; lane < kLanes; ++lane) store_words(to.row(i + lane) + r, block[lane]);
    }
  }
}

float dot(const float* a, const float* b, std::int64_t n) {
  VecF sum = {};
  for (std::int64_t i = 0; i < n; i += kLanes) sum = fma(load(a + i, All{}), load(b + i, All{}), sum);
  return reduce_add(sum);
}

void add_scaled_row(const float* x, float factor, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; i += kLanes)
    store(y + i, fma(splat(factor), load(x + i, All{}), load(y + i, All{})), All{});
}

void scale_row(const float* x, float factor, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; i += kLanes) store(y + i, load(x + i, All{}) * factor, All{});
}

void fill(float* data, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) store(data + i, VecF{}, All{});
}

constexpr std::int64_t kSolveRows = kDeltaDimMultiple;

/// Solves (I − B) X = R for strictly lower B, rows of kSolveRows at a time: those above by a matmul, those within one
/// by one. X replaces R.
void solve(const Matrix& b, std::int64_t rows, const Matrix& x) {
  for (std::int64_t first = 0; first < rows; first += kSolveRows) {
    multiply({b.row(first), b.columns, 1}, x, kSolveRows, first, true, {x.row(first), x.columns});
    for (std::int64_t i = first + 1; i < first + kSolveRows; ++i) {
      for (std::int64_t j = first; j < i; ++j) add_scaled_row(x.row(j), b.row(i)[j], x.columns, x.row(i));
    }
  }
}

/// Solves (I − Bᵀ) X = R likewise, from the last row on.
void solve_turned(const Matrix& b, std::int64_t rows, const Matrix& x) {
  for (std::int64_t first = rows - kSolveRows; first >= 0; first -= kSolveRows) {
    const std::int64_t end = first + kSolveRows;
    multiply({b.row(end) + first, 1, b.columns}, {x.row(end), x.columns}, kSolveRows, rows - end, true,
             {x.row(first), x.columns});
    for (std::int64_t i = end - 2; i >= first; --i) {
      for (std::int64_t j = i + 1; j < end; ++j) add_scaled_row(x.row(j), b.row(j)[i], x.columns, x.row(i));
    }
  }
}

/// Hands out a scratch block's matrices; without a block, only counts their floats.
class Memory {
 public:
  explicit Memory(float* data) : data_(data) {}
  Matrix matrix(std::int64_t rows, std::int64_t columns) {
    float* data = data_ != nullptr ? data_ + used_ : nullptr;
    used_ += rows * columns;
    return {data, columns};
  }
  std::int64_t used() const { return used_; }

 private:
  float* data_;
  std::int64_t used_ = 0;
};

/// Holds a chunk's values that all value heads of the key head share, and their gradients.
struct Keys {
  Matrix before_q, before_k;  ///< convolution before SiLU
  Matrix q, k, k_turned, dq, dk;
  Matrix qk, kk;  ///< q_i·k_j, k_i·k_j
  float inverse_q[kChunk], inverse_k[kChunk];
  Keys(Memory& memory, std::int64_t dk_dim)
      : before_q(memory.matrix(kChunk, dk_dim)),
        before_k(memory.matrix(kChunk, dk_dim)),
        q(memory.matrix(kChunk, dk_dim)),
        k(memory.matrix(kChunk, dk_dim)),
        k_turned(memory.matrix(dk_dim, kChunk)),
        dq(memory.matrix(kChunk, dk_dim)),
        dk(memory.matrix(kChunk, dk_dim)),
        qk(memory.matrix(kChunk, kChunk)),
        kk(memory.matrix(kChunk, kChunk)) {}
};

/// Holds a chunk's values of one value head, and their gradients.
struct Head {
  Matrix before_v, v, residual, delta, o, d_o, dv, d_delta;  ///< [chunk, dv]; residual: v − e^c K S
  Matrix delta_turned, state_turned, d_state_turned;         ///< [dv, chunk], [dv, dk], [dv, dk]
  Matrix minus_a, p, da, dp;                                 ///< [chunk, chunk]; da: of −A, before D and β
  Matrix of_state, scaled;                                   ///< [chunk, the larger of dk and dv]
  float c[kChunk], grown[kChunk], left[kChunk];              ///< running sums of g, e^c, e^{c_end − c}
  float d_beta[kChunk], dc[kChunk];
  Head(Memory& memory, std::int64_t dk, std::int64_t dv_dim)
      : before_v(memory.matrix(kChunk, dv_dim)),
        v(memory.matrix(kChunk, dv_dim)),
        residual(memory.matrix(kChunk, dv_dim)),
        delta(memory.matrix(kChunk, dv_dim)),
        o(memory.matrix(kChunk, dv_dim)),
        d_o(memory.matrix(kChunk, dv_dim)),
        dv(memory.matrix(kChunk, dv_dim)),
        d_delta(memory.matrix(kChunk, dv_dim)),
        delta_turned(memory.matrix(dv_dim, kChunk)),
        state_turned(memory.matrix(dv_dim, dk)),
        d_state_turned(memory.matrix(dv_dim, dk)),
        minus_a(memory.matrix(kChunk, kChunk)),
        p(memory.matrix(kChunk, kChunk)),
        da(memory.matrix(kChunk, kChunk)),
        dp(memory.matrix(kChunk, kChunk)),
        of_state(memory.matrix(kChunk, dk > dv_dim ? dk : dv_dim)),
        scaled(memory.matrix(kChunk, dk)) {}
  Matrix of_state_as(std::int64_t columns) const { return {of_state.data, columns}; }
};

/// Computes one chunk of one key head.
template <class T>
class Chunk {
 public:
  Chunk(const DeltaRows<T>& rows, const DeltaStepGradients& step, float* scratch)
      : rows_(rows),
        segment_(rows.segment),
        shape_(*rows.segment.shape),
        group_(shape_, segment_.key_head),
        step_(step),
        n_(segment_.num_rows),
        padded_(padded_rows(n_, kDeltaDimMultiple)),
        dk_(shape_.key_dim),
        dv_(shape_.value_dim),
        memory_(scratch),
        keys_(memory_, dk_),
        head_(memory_, dk_, dv_) {}

  void run() {
    prepare_keys();
    for (std::int64_t head = 0; head < group_.num_heads; ++head) {
      compute_gates(segment_, group_.first_head + head, padded_, gates_);
      recompute(head);
      through_norm(head);
      through_rule(head);
      gates_backward(head);
      conv_backward(group_.v_column + head * dv_, dv_, 2 * dk_ + head * dv_, head_.dv);
    }
    keys_backward();
  }

 private:
  /// Convolves one head's channels, keeps the values before SiLU, and clears rows beyond the chunk.
  void activate(std::int64_t column, std::int64_t dim, std::int64_t tap, const Matrix& before, const Matrix& after) {
    convolve(rows_, column, dim, segment_.taps + tap, group_.channels(), before.data);
    apply_silu(before.data, n_ * dim, after.data);
    fill(after.row(n_), (padded_ - n_) * dim);
  }

  void prepare_keys() {
    activate(group_.q_column, dk_, 0, keys_.before_q, keys_.q);
    activate(group_.k_column, dk_, dk_, keys_.before_k, keys_.k);
    for (std::int64_t r = 0; r < n_; ++r) {
      keys_.inverse_q[r] = normalize(dk_, query_scale(shape_), keys_.q.row(r));
      keys_.inverse_k[r] = normalize(dk_, 1, keys_.k.row(r));
    }
    fill(keys_.dq.data, padded_ * dk_);
    fill(keys_.dk.data, padded_ * dk_);
    turn(keys_.k, padded_, {keys_.k_turned.data, padded_});
    const Matrix k_turned{keys_.k_turned.data, padded_};
    multiply(keys_.q.left(), k_turned, padded_, dk_, false, {keys_.qk.data, padded_});
    multiply(keys_.k.left(), k_turned, padded_, dk_, false, {keys_.kk.data, padded_});
  }

  Matrix square(const Matrix& matrix) const { return {matrix.data, padded_}; }
  Matrix state(std::int64_t head) const { return {const_cast<float*>(step_.kept) + head * dk_ * dv_, dv_}; }
  Matrix d_state(std::int64_t head) const { return {step_.d_states + head * dk_ * dv_, dv_}; }
  Matrix of_values() const { return head_.of_state_as(dv_); }
  Matrix of_keys() const { return head_.of_state_as(dk_); }

  /// Recomputes Δ and o from the state before the chunk.
  void recompute(std::int64_t head) {
    activate(group_.v_column + head * dv_, dv_, 2 * dk_ + head * dv_, head_.before_v, head_.v);
    float sum = 0;
    for (std::int64_t r = 0; r < padded_; ++r) head_.c[r] = sum += gates_.g[r];
    for (std::int64_t r = 0; r < padded_; r += kLanes) {
      const VecF c = load(head_.c + r, All{});
      store(head_.grown + r, exp(c), All{});
      store(head_.left + r, exp(sum - c), All{});
    }
    const Matrix minus_a = square(head_.minus_a), p = square(head_.p);
    for (std::int64_t i = 0; i < padded_; ++i) {
      const VecF c_i = splat(head_.c[i]);
      for (std::int64_t j = 0; j < padded_; j += kLanes) {
        const VecI column = kLaneIndex + static_cast<std::int32_t>(j), row = splat(static_cast<std::int32_t>(i));
        // Exponents of masked entries are positive and may overflow.
        const VecF decay = exp(min(c_i - load(head_.c + j, All{}), VecF{}));
        const VecF below = column < row ? decay : VecF{}, up_to = column <= row ? decay : VecF{};
        store(minus_a.row(i) + j, -gates_.beta[i] * load(square(keys_.kk).row(i) + j, All{}) * below, All{});
        store(p.row(i) + j, load(square(keys_.qk).row(i) + j, All{}) * up_to, All{});
      }
    }
    const Matrix s = state(head), of_s = of_values();
    multiply(keys_.k.left(), s, padded_, dk_, false, of_s);
    for (std::int64_t i = 0; i < padded_; ++i) {
      for (std::int64_t x = 0; x < dv_; x += kLanes) {
        const VecF value = load(head_.v.row(i) + x, All{}) - head_.grown[i] * load(of_s.row(i) + x, All{});
        store(head_.residual.row(i) + x, value, All{});
      }
      scale_row(head_.residual.row(i), gates_.beta[i], dv_, head_.delta.row(i));
    }
    solve(minus_a, padded_, head_.delta);
    multiply(keys_.q.left(), s, padded_, dk_, false, of_s);
    for (std::int64_t i = 0; i < padded_; ++i) scale_row(of_s.row(i), head_.grown[i], dv_, head_.o.row(i));
    multiply(p.left(), head_.delta, padded_, padded_, true, head_.o);
  }

  /// Computes gradients of o, z and the gain.
  void through_norm(std::int64_t head) {
    if (step_.d_out.is_bf16) through_norm(head, static_cast<const std::uint16_t*>(step_.d_out.data));
    else through_norm(head, static_cast<const float*>(step_.d_out.data));
  }
  template <class Out>
  void through_norm(std::int64_t head, const Out* d_out) {
    const std::int64_t first_row = shape_.conv_width - 1;
    const float* gain = segment_.weights->gain_V;
    float* d_gain = step_.d_parameters + shape_.conv_width * group_.channels() + head * dv_;
    for (std::int64_t r = 0; r < n_; ++r) {
      const float* o = head_.o.row(r);
      const float inverse = inverse_rms(o, dv_, shape_.eps);
      const T* z = rows_.at(r) + group_.z_column + head * dv_;
      const Out* d = d_out + r * shape_.out_width() + (group_.first_head + head) * dv_;
      float *dz = step_.d_rows[first_row + r] + group_.z_column + head * dv_, *d_o = head_.d_o.row(r);
      VecF products = {};
      for (std::int64_t i = 0; i < dv_; i += kLanes) {
        const VecF gate = load(z + i, All{}), share = Silu::share(gate), d_i = load(d + i, All{});
        const VecF hat = load(o + i, All{}) * inverse, gain_i = load(gain + i, All{});
        store(dz + i, d_i * hat * gain_i * (share * Silu::rest(gate, share)), All{});
        const VecF d_scaled = d_i * (gate * share);
        store(d_gain + i, fma(d_scaled, hat, load(d_gain + i, All{})), All{});
        const VecF d_hat = d_scaled * gain_i;
        products = fma(d_hat, hat, products);
        store(d_o + i, d_hat, All{});
      }
      const float mean = reduce_add(products) / static_cast<float>(dv_);
      for (std::int64_t i = 0; i < dv_; i += kLanes)
        store(d_o + i, (load(d_o + i, All{}) - load(o + i, All{}) * inverse * mean) * inverse, All{});
    }
    fill(head_.d_o.row(n_), (padded_ - n_) * dv_);
  }

  /// Computes gradients of q, k, v, β and c, and of the state before the chunk.
  void through_rule(std::int64_t head) {
    const Matrix minus_a = square(head_.minus_a), p = square(head_.p), da = square(head_.da), dp = square(head_.dp);
    for (std::int64_t r = 0; r < padded_; ++r) scale_row(keys_.k.row(r), head_.left[r], dk_, head_.scaled.row(r));
    multiply(p.turned_left(), head_.d_o, padded_, padded_, false, head_.d_delta);
    multiply(head_.scaled.left(), d_state(head), padded_, dk_, true, head_.d_delta);

    const Matrix delta_turned{head_.delta_turned.data, padded_};
    turn(head_.delta, padded_, delta_turned);
    multiply(head_.d_o.left(), delta_turned, padded_, dv_, false, dp);
    solve_turned(minus_a, padded_, head_.d_delta);
    multiply(head_.d_delta.left(), delta_turned, padded_, dv_, false, da);
    for (std::int64_t i = 0; i < padded_; ++i) {
      head_.d_beta[i] = dot(head_.d_delta.row(i), head_.residual.row(i), dv_);
      scale_row(head_.d_delta.row(i), gates_.beta[i], dv_, head_.dv.row(i));
      head_.dc[i] = 0;
    }
    through_products(minus_a, p, da, dp);
    through_state(head);
    for (std::int64_t r = 0; r < n_; ++r) {
      float *dv = head_.dv.row(r), *before = head_.before_v.row(r);
      silu_backward(before, dv_, dv);
    }
  }

  /// Takes gradients through the products of q and k, and their decays.
  void through_products(const Matrix& minus_a, const Matrix& p, const Matrix& da, const Matrix& dp) {
    for (std::int64_t i = 0; i < padded_; ++i) {
      const float beta = gates_.beta[i];
      VecF of_row = {}, of_beta = {};
      const VecF c_i = splat(head_.c[i]);
      for (std::int64_t j = 0; j < padded_; j += kLanes) {
        const VecI column = kLaneIndex + static_cast<std::int32_t>(j), row = splat(static_cast<std::int32_t>(i));
        const VecF decay = exp(min(c_i - load(head_.c + j, All{}), VecF{}));
        const VecF below = column < row ? decay : VecF{}, up_to = column <= row ? decay : VecF{};
        const VecF d_a = -load(da.row(i) + j, All{}), d_p = load(dp.row(i) + j, All{});
        const VecF of_c = d_p * load(p.row(i) + j, All{}) - d_a * load(minus_a.row(i) + j, All{});
        of_row += of_c;
        store(head_.dc + j, load(head_.dc + j, All{}) - of_c, All{});
        of_beta = fma(d_a * below, load(square(keys_.kk).row(i) + j, All{}), of_beta);
        store(da.row(i) + j, d_a * beta * below, All{});
        store(dp.row(i) + j, d_p * up_to, All{});
      }
      head_.dc[i] += reduce_add(of_row);
      head_.d_beta[i] += reduce_add(of_beta);
    }
    multiply(dp.left(), keys_.k, padded_, padded_, true, keys_.dq);
    multiply(dp.turned_left(), keys_.q, padded_, padded_, true, keys_.dk);
    multiply(da.left(), keys_.k, padded_, padded_, true, keys_.dk);
    multiply(da.turned_left(), keys_.k, padded_, padded_, true, keys_.dk);
  }

  /// Takes gradients through the products with the state before the chunk, and with that after it.
  void through_state(std::int64_t head) {
    const Matrix s = state(head), ds = d_state(head), of_s = of_keys();
    turn(s, dk_, head_.state_turned);
    turn(ds, dk_, head_.d_state_turned);
    float dc_end = 0;
    multiply(head_.d_o.left(), head_.state_turned, padded_, dv_, false, of_s);
    for (std::int64_t i = 0; i < padded_; ++i) {
      add_scaled_row(of_s.row(i), head_.grown[i], dk_, keys_.dq.row(i));
      head_.dc[i] += head_.grown[i] * dot(of_s.row(i), keys_.q.row(i), dk_);
    }
    multiply(head_.dv.left(), head_.state_turned, padded_, dv_, false, of_s);
    for (std::int64_t i = 0; i < padded_; ++i) {
      add_scaled_row(of_s.row(i), -head_.grown[i], dk_, keys_.dk.row(i));
      head_.dc[i] -= head_.grown[i] * dot(of_s.row(i), keys_.k.row(i), dk_);
    }
    multiply(head_.delta.left(), head_.d_state_turned, padded_, dv_, false, of_s);
    for (std::int64_t i = 0; i < padded_; ++i) {
      add_scaled_row(of_s.row(i), head_.left[i], dk_, keys_.dk.row(i));
      const float change = head_.left[i] * dot(of_s.row(i), keys_.k.row(i), dk_);
      dc_end += change;
      head_.dc[i] -= change;
    }
    const float decay = head_.grown[padded_ - 1];
    dc_end += decay * dot(ds.data, s.data, dk_ * dv_);
    head_.dc[n_ - 1] += dc_end;

    scale_row(ds.data, decay, dk_ * dv_, ds.data);
    for (std::int64_t r = 0; r < padded_; ++r) scale_row(keys_.q.row(r), head_.grown[r], dk_, head_.scaled.row(r));
    multiply(head_.scaled.turned_left(), head_.d_o, dk_, padded_, true, ds);
    for (std::int64_t r = 0; r < padded_; ++r) scale_row(keys_.k.row(r), -head_.grown[r], dk_, head_.scaled.row(r));
    multiply(head_.scaled.turned_left(), head_.dv, dk_, padded_, true, ds);
  }

  void gates_backward(std::int64_t head) {
    const std::int64_t num_heads = shape_.num_value_heads, h = group_.first_head + head;
    float* d_rates = step_.d_parameters + shape_.conv_width * group_.channels() + group_.num_heads * dv_;
    float dg = 0;
    for (std::int64_t r = n_ - 1; r >= 0; --r) {
      dg += head_.dc[r];
      const float beta = gates_.beta[r], da = -gates_.rate * gates_.softplus_slope[r] * dg;
      float* row = step_.d_gates_in + r * 2 * num_heads;
      row[h] = head_.d_beta[r] * beta * (1 - beta);
      row[num_heads + h] = da;
      d_rates[head] += dg * gates_.g[r];
      d_rates[group_.num_heads + head] += da;
    }
  }

  static void silu_backward(const float* before, std::int64_t dim, float* d) {
    for (std::int64_t i = 0; i < dim; i += kLanes) {
      const VecF x = load(before + i, All{}), share = Silu::share(x);
      store(d + i, load(d + i, All{}) * (share * Silu::rest(x, share)), All{});
    }
  }

  /// Takes the gradient through x · scale/length, where `normed` is the result.
  static void length_backward(const float* normed, float inverse, float scale, std::int64_t dim, float* d) {
    const float along = dot(d, normed, dim) / (scale * scale);
    for (std::int64_t i = 0; i < dim; i += kLanes)
      store(d + i, (load(d + i, All{}) - load(normed + i, All{}) * along) * (inverse * scale), All{});
  }

  void keys_backward() {
    for (std::int64_t r = 0; r < n_; ++r) {
      length_backward(keys_.q.row(r), keys_.inverse_q[r], query_scale(shape_), dk_, keys_.dq.row(r));
      silu_backward(keys_.before_q.row(r), dk_, keys_.dq.row(r));
      length_backward(keys_.k.row(r), keys_.inverse_k[r], 1, dk_, keys_.dk.row(r));
      silu_backward(keys_.before_k.row(r), dk_, keys_.dk.row(r));
    }
    conv_backward(group_.q_column, dk_, 0, keys_.dq);
    conv_backward(group_.k_column, dk_, dk_, keys_.dk);
  }

  /// Adds gradients of the rows that the convolution read, and of its taps, from the gradient of its output.
  void conv_backward(std::int64_t column, std::int64_t dim, std::int64_t tap, const Matrix& d) {
    const std::int64_t width = shape_.conv_width, stride = group_.channels();
    for (std::int64_t r = 0; r < n_; ++r) {
      for (std::int64_t t = 0; t < width; ++t) {
        const T* row = rows_.at(r + t + 1 - width);
        if (row == nullptr) continue;
        float* d_row = step_.d_rows[r + t] + column;
        const float* taps = segment_.taps + t * stride + tap;
        float* d_taps = step_.d_parameters + t * stride + tap;
        for (std::int64_t i = 0; i < dim; i += kLanes) {
          const VecF d_i = load(d.row(r) + i, All{});
          store(d_row + i, fma(d_i, load(taps + i, All{}), load(d_row + i, All{})), All{});
          store(d_taps + i, fma(d_i, load(row + column + i, All{}), load(d_taps + i, All{})), All{});
        }
      }
    }
  }

  DeltaRows<T> rows_;
  const DeltaSegment& segment_;
  const DeltaShape& shape_;
  DeltaGroup group_;
  const DeltaStepGradients& step_;
  std::int64_t n_, padded_, dk_, dv_;
  Memory memory_;
  Keys keys_;
  Head head_;
  DeltaGates gates_;
};

}  // namespace

void delta_backward(const DeltaSegment& segment, const DeltaStepGradients& step, float* scratch) {
  with_rows(segment, [&](const auto& rows) { Chunk(rows, step, scratch).run(); });
}

std::int64_t delta_backward_scratch(const DeltaShape& shape) {
  Memory memory(nullptr);
  const Keys keys(memory, shape.key_dim);
  const Head head(memory, shape.key_dim, shape.value_dim);
  return memory.used();
}

}  // namespace qrl::ops::QRL_ISA_NAMESPACE
