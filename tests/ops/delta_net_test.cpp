// Tests gated DeltaNet against its recurrence in fp64, token by token, on every instruction set. Gradients are compared
// with central differences of that recurrence.
#include "ops/delta_net.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/bf16.h"
#include "base/buffer.h"
#include "base/rng.h"
#include "base/threads.h"
#include "ops/emulation/kernel_paths.h"
#include "ops/reference.h"
#include "support/catch.h"

namespace qrl::ops {

namespace {

using Values = std::vector<double>;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
std::vector<float> floats(const Values& values) { return {values.begin(), values.end()}; }

/// Holds packed sequences and a layer's parameters in fp64, each exactly a float.
struct Problem {
  DeltaShape shape;
  std::vector<std::int32_t> starts{0};
  std::vector<std::uint8_t> continues;
  Values projections, gates_in, taps, a_log, dt_bias, gain, weights;  ///< weights: of the outputs in the loss

  Problem(const DeltaShape& of, const std::vector<std::int32_t>& lengths, std::vector<std::uint8_t> continued = {})
      : shape(of), continues(std::move(continued)) {
    for (const std::int32_t length : lengths) starts.push_back(starts.back() + length);
    auto make = [stream = 0U](std::int64_t count, float sigma) mutable {
      const std::vector<float> values = test::normal_values(count, sigma, 900 + stream++);
      return Values(values.begin(), values.end());
    };
    projections = make(rows() * shape.row_width(), 1);
    gates_in = make(rows() * 2 * shape.num_value_heads, 1);
    taps = make(shape.channels() * shape.conv_width, 0.5F);
    a_log = make(shape.num_value_heads, 0.5F);
    // Every second head, from the first on, remembers more than a chunk.
    for (std::size_t head = 0; head < a_log.size(); head += 2) a_log[head] = static_cast<float>(a_log[head] - 3.5);
    dt_bias = make(shape.num_value_heads, 0.5F);
    gain = make(shape.value_dim, 0.2F);
    for (double& value : gain) value = static_cast<float>(value + 1);
    weights = make(rows() * shape.out_width(), 1);
  }
  std::int64_t rows() const { return starts.back(); }
  std::int64_t num_sequences() const { return static_cast<std::int64_t>(starts.size()) - 1; }
};

double silu(double x) { return x / (1 + std::exp(-x)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Runs the recurrence of one value head over a sequence whose rows are given, prefix first. Returns the state.
Values run_head(const Problem& p, std::int64_t head, const std::vector<std::int64_t>& rows, std::size_t first,
                Values& out) {
  const DeltaShape& s = p.shape;
  const std::int64_t key_head = head / (s.num_value_heads / s.num_key_heads), dk = s.key_dim, dv = s.value_dim;
  Values state(at(dk * dv));
  const auto channel = [&](std::size_t row, std::int64_t column) {
    double sum = 0;
    for (std::int64_t t = 0; t < s.conv_width; ++t) {
      const std::int64_t from = static_cast<std::int64_t>(row) + t + 1 - s.conv_width;
      if (from >= 0)
        sum += p.taps[at(column * s.conv_width + t)] * p.projections[at(rows[at(from)] * s.row_width() + column)];
    }
    return silu(sum);
  };
  for (std::size_t r = 0; r < rows.size(); ++r) {
    Values q, k, v;
    for (std::int64_t i = 0; i < dk; ++i) q.push_back(channel(r, key_head * dk + i));
    for (std::int64_t i = 0; i < dk; ++i) k.push_back(channel(r, (s.num_key_heads + key_head) * dk + i));
    for (std::int64_t i = 0; i < dv; ++i) v.push_back(channel(r, 2 * s.num_key_heads * dk + head * dv + i));
    for (Values* vector : {&q, &k}) {
      double squares = 1e-6;
      for (const double x : *vector) squares += x * x;
      for (double& x : *vector) x /= std::sqrt(squares);
    }
    const double* gates = &p.gates_in[at(rows[r] * 2 * s.num_value_heads)];
    const double beta = sigmoid(gates[head]), a = gates[s.num_value_heads + head] + p.dt_bias[at(head)];
    const double decay = std::exp(-std::exp(p.a_log[at(head)]) * std::log1p(std::exp(a)));
    for (double& x : state) x *= decay;
    Values o(at(dv));
    double squares = 0;
    for (std::int64_t j = 0; j < dv; ++j) {
      double of_k = 0;
      for (std::int64_t i = 0; i < dk; ++i) of_k += state[at(i * dv + j)] * k[at(i)];
      const double delta = beta * (v[at(j)] - of_k);
      for (std::int64_t i = 0; i < dk; ++i) {
        state[at(i * dv + j)] += k[at(i)] * delta;
        o[at(j)] += state[at(i * dv + j)] * q[at(i)] / std::sqrt(static_cast<double>(dk));
      }
      squares += o[at(j)] * o[at(j)];
    }
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(dv) + s.eps);
    for (std::int64_t j = 0; j < dv && r >= first; ++j) {
      const double z = p.projections[at(rows[r] * s.row_width() + s.channels() + head * dv + j)];
      out[at(rows[r] * s.out_width() + head * dv + j)] = o[at(j)] * inverse * p.gain[at(j)] * silu(z);
    }
  }
  return state;
}

Values reference(const Problem& p) {
  Values out(at(p.rows() * p.shape.out_width()));
  std::int64_t prefix = 0;
  for (std::int64_t s = 0; s < p.num_sequences(); ++s) {
    const bool continues = !p.continues.empty() && p.continues[at(s)] != 0;
    if (!continues) prefix = s;
    std::vector<std::int64_t> rows;
    for (std::int64_t r = p.starts[at(prefix)]; continues && r < p.starts[at(prefix + 1)]; ++r) rows.push_back(r);
    const std::size_t first = rows.size();
    for (std::int64_t r = p.starts[at(s)]; r < p.starts[at(s + 1)]; ++r) rows.push_back(r);
    for (std::int64_t head = 0; head < p.shape.num_value_heads; ++head) run_head(p, head, rows, first, out);
  }
  return out;
}

/// Holds a problem's numbers as the operations take them.
struct Inputs {
  std::vector<float> projections, gates_in, taps, a_log, dt_bias, gain;
  PackedDelta packed;
  explicit Inputs(const Problem& p)
      : projections(floats(p.projections)),
        gates_in(floats(p.gates_in)),
        taps(floats(p.taps)),
        a_log(floats(p.a_log)),
        dt_bias(floats(p.dt_bias)),
        gain(floats(p.gain)) {
    packed = {.shape = p.shape,
              .weights = {taps.data(), a_log.data(), dt_bias.data(), gain.data()},
              .sequence_starts = p.starts.data(),
              .num_sequences = p.num_sequences(),
              .continues_prefix = p.continues.empty() ? nullptr : p.continues.data(),
              .projections = {projections.data(), false},
              .gates_in = gates_in.data()};
  }
};

struct Trained {
  std::vector<float> out, kept, d_projections, d_gates_in, d_taps, d_a_log, d_dt_bias, d_gain;
};

Trained train(const Problem& p) {
  Inputs in(p);
  Trained got;
  const DeltaShape& s = p.shape;
  got.out.assign(p.weights.size(), NAN);
  got.kept.assign(at(num_kept_states(in.packed) * s.num_value_heads * s.key_dim * s.value_dim), NAN);
  packed_delta(in.packed, {got.out.data(), false}, got.kept.data());
  got.d_projections.assign(in.projections.size(), NAN);
  got.d_gates_in.assign(in.gates_in.size(), NAN);
  got.d_taps.resize(in.taps.size());
  got.d_a_log.resize(in.a_log.size());
  got.d_dt_bias.resize(in.dt_bias.size());
  got.d_gain.resize(in.gain.size());
  std::vector<float> d_out = floats(p.weights);
  packed_delta_backward(in.packed, got.kept.data(), {d_out.data(), false},
                        {got.d_projections.data(), got.d_gates_in.data(), got.d_taps.data(), got.d_a_log.data(),
                         got.d_dt_bias.data(), got.d_gain.data()});
  return got;
}

double loss(const Problem& p) {
  const Values out = reference(p);
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * p.weights[i];
  return sum;
}

/// Compares up to `count` elements of a gradient with central differences of the fp64 loss.
void check_gradient(const char* name, const Problem& p, Values Problem::*of, const std::vector<float>& got,
                    std::size_t count) {
  CAPTURE(name);
  base::RandomStream random(5, base::RandomPurpose::test, 77);
  double largest = 0;
  for (const float value : got) largest = std::max(largest, std::fabs(static_cast<double>(value)));
  REQUIRE(largest > 0);
  for (std::size_t n = 0; n < std::min(count, got.size()); ++n) {
    const std::size_t i = got.size() <= count ? n : static_cast<std::size_t>(random.uniform() * got.size());
    Problem moved = p;
    const double step = 1e-5;
    (moved.*of)[i] += step;
    const double above = loss(moved);
    (moved.*of)[i] -= 2 * step;
    const double want = (above - loss(moved)) / (2 * step);
    CAPTURE(i, want, got[i]);
    CHECK(test::close(got[i], want, 5e-5 * largest, 1e-4));
  }
}

DeltaShape shape_of(std::int64_t key_heads, std::int64_t value_heads, std::int64_t dk, std::int64_t dv,
                    std::int64_t taps = 4) {
  return {key_heads, value_heads, dk, dv, taps, 1e-6F};
}

/// Runs one sequence through delta_net, divided into calls of the given lengths.
class Sequence {
 public:
  explicit Sequence(const Problem& p)
      : in_(p), state_(base::DType::f32, {delta_state_bytes(p.shape) / 4}), out_(p.weights.size(), NAN) {
    std::fill_n(state_.as<float>(), state_.shape()[0], NAN);
  }
  void run(std::int64_t position, std::int64_t count, std::int64_t threads = 1) {
    const DeltaRun run{{position, position + count},
                       static_cast<std::int32_t>(position),
                       reinterpret_cast<std::byte*>(state_.as<float>())};
    base::parallel(static_cast<int>(threads), [&](base::Team& team) {
      delta_net(team, in_.packed.shape, in_.packed.weights, {&run, 1},
                static_cast<const float*>(in_.packed.projections.data), in_.packed.gates_in, out_.data());
    });
  }
  const std::vector<float>& out() const { return out_; }

 private:
  Inputs in_;
  base::Buffer state_;
  std::vector<float> out_;
};

}  // namespace

TEST_CASE("delta rule: packed sequences equal the recurrence in fp64") {
  const std::vector<DeltaShape> shapes = {shape_of(1, 1, 16, 16), shape_of(2, 4, 32, 16), shape_of(1, 3, 16, 48, 3),
                                          shape_of(2, 2, 128, 128, 2)};
  const std::vector<std::vector<std::int32_t>> packs = {{1}, {2, 0, 3}, {65, 64, 7}, {130}};
  for (const DeltaShape& shape : shapes) {
    for (const auto& lengths : packs) {
      CAPTURE(shape.num_value_heads, shape.key_dim, shape.value_dim, lengths);
      const Problem problem(shape, lengths);
      const Values want = reference(problem);
      test::on_every_path([&](const std::string& path) {
        CAPTURE(path);
        test::check_close(train(problem).out, want, [](std::size_t) { return 2e-5; });
      });
    }
  }
}

TEST_CASE("delta rule: outputs and state of 4,096 tokens stay within 1e-4 of fp64") {
  const Problem problem(shape_of(1, 1, 64, 64), {4096 + 1});  // a state is kept before each chunk, also the last
  const Values want = reference(problem);
  std::vector<std::int64_t> rows(4096);
  std::iota(rows.begin(), rows.end(), 0);
  Values ignored(want.size());
  const Values state = run_head(problem, 0, rows, rows.size(), ignored);
  test::on_every_path([&](const std::string& path) {
    CAPTURE(path);
    const Trained got = train(problem);
    test::check_close(got.out, want, [](std::size_t) { return 1e-4; });
    test::check_close({got.kept.end() - 64 * 64, got.kept.end()}, state, [](std::size_t) { return 1e-4; });
  });
}

TEST_CASE("delta rule: a layer and its gradients equal fla-core's") {
  std::ifstream file(test::shipped_data() / "golden" / "ops" / "delta_net.json");
  REQUIRE(file.good());
  const nlohmann::json golden = nlohmann::json::parse(file);
  Problem problem(shape_of(golden["key_heads"], golden["value_heads"], golden["key_dim"], golden["value_dim"],
                           golden["conv_width"]),
                  {golden["length"].get<std::int32_t>()});
  problem.shape.eps = golden["eps"];
  const auto values = [&](const char* name) { return golden.at(name).get<Values>(); };
  problem.projections = values("projections");
  problem.gates_in = values("gates_in");
  problem.taps = values("taps");
  problem.a_log = values("a_log");
  problem.dt_bias = values("dt_bias");
  problem.gain = values("gain");
  problem.weights = values("d_out");
  test::on_every_path([&](const std::string& path) {
    CAPTURE(path);
    const Trained got = train(problem);
    const auto check = [&](const char* name, const std::vector<float>& own) {
      CAPTURE(name);
      const Values want = values(name);
      double largest = 0;
      for (const double value : want) largest = std::max(largest, std::fabs(value));
      test::check_close(own, want, [&](std::size_t) { return 2e-5 * largest; });
    };
    check("out", got.out);
    check("d_projections", got.d_projections);
    check("d_gates_in", got.d_gates_in);
    check("d_taps", got.d_taps);
    check("d_a_log", got.d_a_log);
    check("d_dt_bias", got.d_dt_bias);
    check("d_gain", got.d_gain);
  });
}

TEST_CASE("delta rule: a continuation has the bits of the whole sequence, in a pack and alone") {
  const DeltaShape shape = shape_of(2, 4, 16, 32);
  for (const auto& [prefix, rest] : std::vector<std::pair<int, int>>{{1, 5}, {2, 70}, {64, 3}, {67, 64}, {0, 4}}) {
    CAPTURE(prefix, rest);
    const Problem whole(shape, {prefix + rest});
    Problem pack(shape, {prefix, rest, rest}, {0, 1, 1});
    // Both continuations have the rows of the whole sequence.
    const auto copy = [&](Values Problem::*of, std::int64_t width) {
      Values& to = pack.*of;
      std::copy_n((whole.*of).begin(), (prefix + rest) * width, to.begin());
      std::copy_n((whole.*of).begin() + prefix * width, rest * width, to.begin() + (prefix + rest) * width);
    };
    copy(&Problem::projections, shape.row_width());
    copy(&Problem::gates_in, 2 * shape.num_value_heads);
    test::on_every_path([&](const std::string& path) {
      CAPTURE(path);
      const std::vector<float> want = train(whole).out, got = train(pack).out;
      const std::int64_t width = shape.out_width();
      for (const std::int64_t first : {prefix, prefix + rest}) {
        test::check_same_bits({got.begin() + first * width, got.begin() + (first + rest) * width},
                              {want.begin() + prefix * width, want.end()});
      }
    });
  }
}

TEST_CASE("delta rule: gradients equal differences of the recurrence in fp64") {
  const std::vector<std::pair<std::vector<std::int32_t>, std::vector<std::uint8_t>>> packs = {
      {{3}, {}}, {{70, 2}, {}}, {{5, 4, 66, 1}, {0, 1, 1, 0}}, {{1, 0, 6}, {0, 1, 1}}};
  for (const DeltaShape& shape : {shape_of(1, 2, 16, 32), shape_of(2, 2, 32, 16, 3)}) {
    for (const auto& [lengths, continues] : packs) {
      CAPTURE(shape.key_dim, lengths);
      const Problem problem(shape, lengths, continues);
      test::on_every_path([&](const std::string& path) {
        CAPTURE(path);
        const Trained got = train(problem);
        check_gradient("projections", problem, &Problem::projections, got.d_projections, 24);
        check_gradient("gates", problem, &Problem::gates_in, got.d_gates_in, 12);
        check_gradient("taps", problem, &Problem::taps, got.d_taps, 12);
        check_gradient("a_log", problem, &Problem::a_log, got.d_a_log, 2);
        check_gradient("dt_bias", problem, &Problem::dt_bias, got.d_dt_bias, 2);
        check_gradient("gain", problem, &Problem::gain, got.d_gain, 6);
      });
    }
  }
}

TEST_CASE("delta rule: calls of any length and any team have the bits of a packed sequence") {
  const Problem problem(shape_of(2, 6, 32, 16), {150});
  test::on_every_path([&](const std::string& path) {
    CAPTURE(path);
    const std::vector<float> want = train(problem).out;
    for (const std::vector<std::int64_t>& calls :
         std::vector<std::vector<std::int64_t>>{{150}, {1, 1, 1, 1, 146}, {64, 64, 22}, {3, 2, 100, 45}}) {
      CAPTURE(calls);
      for (const std::int64_t threads : {1, 3}) {
        Sequence sequence(problem);
        std::int64_t position = 0;
        for (const std::int64_t count : calls) {
          sequence.run(position, count, threads);
          position += count;
        }
        test::check_same_bits(sequence.out(), want);
      }
    }
  });
}

TEST_CASE("delta rule: a row that comes again replaces the row that the state has seen last") {
  const Problem problem(shape_of(1, 2, 16, 16), {12});
  test::on_every_path([&](const std::string& path) {
    CAPTURE(path);
    Sequence once(problem), again(problem);
    for (std::int64_t position = 0; position < 12; ++position) once.run(position, 1);
    again.run(0, 5);
    again.run(5, 1);
    again.run(5, 1);
    again.run(6, 1);
    again.run(6, 6);
    test::check_same_bits(again.out(), once.out());
  });
}

TEST_CASE("delta rule: gradients do not depend on the number of threads") {
  const Problem problem(shape_of(2, 4, 16, 16), {40, 70, 9, 1}, {0, 1, 0, 1});
  const Trained one = train(problem);
  base::set_num_threads(3);
  const Trained three = train(problem);
  base::set_num_threads(1);
  test::check_same_bits(three.d_projections, one.d_projections);
  test::check_same_bits(three.d_taps, one.d_taps);
  test::check_same_bits(three.d_gain, one.d_gain);
}

}  // namespace qrl::ops
