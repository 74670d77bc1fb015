// Matrix products in every format against the CPU's, on the same codes: by the plain kernel and by what is chosen for
// the device.
#include "dequantize.h"
#include "dequantized_products.h"
#include "device.h"
#include "device_speed.h"
#include "ops/linear.h"
#include "product_sweep.h"
#include "weights.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;
using quant::Format;

struct Shape {
  std::int64_t rows, in, out;
};
constexpr Shape kShapes[] = {{1, 7, 3}, {5, 96, 130}, {33, 257, 64}, {70, 384, 65}};

/// y [rows, out] of the CPU, which reads the same codes.
std::vector<float> on_cpu(const std::vector<float>& x, const ops::PackedLinear& w, std::int64_t rows) {
  ops::Activations codes(w.format, rows, w.in);
  base::Team alone = base::Team::solo();
  ops::encode(alone, x.data(), {0, rows}, codes);
  std::vector<float> y(static_cast<std::size_t>(rows * w.out));
  ops::linear(alone, codes, w, {0, rows}, false, y.data());
  return y;
}

int int4_in_row(Format format, const std::uint8_t* codes, std::int64_t i) {
  std::uint32_t word = 0;
  std::memcpy(&word, codes + i / 8 * 4, sizeof word);
  return int4_at(word_order(format), word, static_cast<int>(i % 8));
}

ops::PackedLinear packed(Format format, const Shape& shape) {
  const std::vector<float> weight = normal_values(shape.out * shape.in, 0.3F, 31);
  ops::PackedLinear w = ops::make_packed_linear(format, shape.out, shape.in, false);
  base::Team alone = base::Team::solo();
  REQUIRE(ops::pack_rows(alone, weight.data(), shape.out, 0, w));
  return w;
}

/// x encoded, W uploaded, room for y: a product to be made in several ways.
struct Product {
  Product(Format format, const Shape& shape_, const std::vector<float>& x)
      : shape(shape_),
        host(packed(format, shape_)),
        w(upload(host, stream)),
        codes(format, shape.rows, shape.in),
        partials(static_cast<std::size_t>(kStreamPartialBytes)),
        counters(target::Memory::zeroed(static_cast<std::size_t>(kStreamCounters) * 4)) {
    const OnDevice<float> x_there(x);
    target::encode({x_there.data(), codes.rows}, shape.rows, stream);
    stream.wait();
  }

  /// fp32 [rows, out] by make(task); the columns beyond `out` are left out.
  template <class Make>
  std::vector<float> run(Make make) const {
    const std::int64_t stride = w.view.at.rows;
    const OnDevice<float> y(std::vector<float>(static_cast<std::size_t>(shape.rows * stride), -77.0F));
    make(target::ProductTask{codes.rows, shape.rows, w.view, y.data(), stride, true});
    stream.wait();
    const std::vector<float> all = y.read();
    std::vector<float> values;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const auto first = all.begin() + row * stride;
      values.insert(values.end(), first, first + shape.out);
    }
    return values;
  }
  std::vector<float> plain() const {
    return run([&](const target::ProductTask& task) { target::plain_product(task, stream); });
  }
  std::vector<float> streamed(const StreamPlan& plan) const {
    return run([&](const target::ProductTask& task) {
      target::streamed_product(task, plan, {partials.as<std::uint32_t>(), counters.as<std::uint32_t>()}, stream);
    });
  }

  /// The first number that is further from the exact sum of decoded products (fp64) than `share` of Σ |product|.
  std::string first_beyond_exact(const std::vector<float>& y, double share) const {
    const std::vector<float> x = codes.decoded();
    std::vector<float> weight(static_cast<std::size_t>(shape.out * shape.in));
    ops::unpack_rows(host, 0, shape.out, weight.data());
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      for (std::int64_t n = 0; n < shape.out; ++n) {
        double sum = 0, size = 0;
        for (std::int64_t i = 0; i < shape.in; ++i) {
          const double product = static_cast<double>(x[static_cast<std::size_t>(row * shape.in + i)]) *
                                 static_cast<double>(weight[static_cast<std::size_t>(n * shape.in + i)]);
          sum += product;
          size += std::fabs(product);
        }
        const auto got = static_cast<double>(y[static_cast<std::size_t>(row * shape.out + n)]);
        if (!(std::fabs(got - sum) <= share * size))
          return "[" + std::to_string(row) + ", " + std::to_string(n) + "] " + std::to_string(got) + ", not " +
                 std::to_string(sum);
      }
    }
    return "";
  }

  Shape shape;
  target::Stream stream;
  ops::PackedLinear host;
  Uploaded w;
  Encoded codes;
  target::Memory partials, counters;
};

constexpr Format kStreamed[] = {Format::bf16,         Format::int8, Format::fp8_tensor, Format::fp8_channel,
                                Format::fp8_block128, Format::int4, Format::int4_int8,  Format::int4_fp8};

/// Relative to Σ |product|: roundings of fp32 sums, of the scales' products, and of the decoded values compared with.
constexpr double kSumShare = 1e-6;

}  // namespace

TEST_CASE("repacked matrices hold the host's codes in order") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const Format format : kWeightFormats) {
    const Shape shape{1, 257, 130};
    const ops::PackedLinear w = packed(format, shape);
    std::vector<float> want(static_cast<std::size_t>(shape.out * shape.in));
    ops::unpack_rows(w, 0, shape.out, want.data());
    const Uploaded there = upload(w, stream);
    std::vector<std::uint8_t> bytes(there.codes.num_bytes());
    target::copy_to_host(bytes.data(), there.codes.data(), bytes.size(), stream);
    std::vector<float> scales(there.scales.num_bytes() / sizeof(float));
    target::copy_to_host(scales.data(), there.scales.data(), there.scales.num_bytes(), stream);
    stream.wait();
    const MatrixLayout& at = there.view.at;
    const quant::FormatSpec& what = quant::spec(format);
    std::vector<float> got;
    for (std::int64_t row = 0; row < shape.out; ++row) {
      const std::uint8_t* codes = bytes.data() + row * at.row_bytes;
      for (std::int64_t i = 0; i < shape.in; ++i) {
        float value = 0;
        if (what.weights == quant::Code::bf16)
          value = float_of_bf16(static_cast<std::uint16_t>(codes[2 * i] | codes[2 * i + 1] << 8));
        else if (what.weights == quant::Code::int8) value = static_cast<std::int8_t>(codes[i]);
        else if (what.weights == quant::Code::fp8_e4m3) value = float_of_fp8(codes[i]);
        else value = static_cast<float>(int4_in_row(format, codes, i));
        const std::int64_t run = at.num_scales <= 1 ? 0 : i / what.scale_inputs;
        if (!scales.empty()) value *= scales[static_cast<std::size_t>(run * at.rows + row)];
        got.push_back(value);
      }
    }
    INFO(quant::name(format));
    CHECK(first_beyond(got, want, 0, 0) == "");
  }
}

TEST_CASE(
    "products are the CPU's in every format: fp32 to 2e-5 of the largest, int8 to a few roundings, bf16 to 2^-8") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const target::Stream stream;
  const std::unique_ptr<target::Products> chosen = target::make_products(*device);
  for (const Format format : kWeightFormats) {
    for (const Shape& shape : kShapes) {
      const ops::PackedLinear w = packed(format, shape);
      const std::vector<float> x = normal_values(shape.rows * shape.in, 1, 41);
      const std::vector<float> want = on_cpu(x, w, shape.rows);
      float largest = 0;
      for (const float value : want) largest = std::max(largest, std::fabs(value));
      const Uploaded there = upload(w, stream);
      const OnDevice<float> x_there(x);
      const std::int64_t stride = there.view.at.rows;
      const auto count = static_cast<std::size_t>(shape.rows * stride);
      const auto of_rows = [&](const auto& y, const auto& value_of) {
        std::vector<float> values;
        for (std::int64_t row = 0; row < shape.rows; ++row) {
          for (std::int64_t n = 0; n < shape.out; ++n)
            values.push_back(value_of(y[static_cast<std::size_t>(row * stride + n)]));
        }
        return values;
      };
      INFO(quant::name(format) << ", " << shape.rows << " rows, " << shape.in << " to " << shape.out);
      in_both_orders([&] {
        const Encoded codes(format, shape.rows, shape.in);
        target::encode({x_there.data(), codes.rows}, shape.rows, stream);
        const OnDevice<float> y(count);
        target::plain_product({codes.rows, shape.rows, there.view, y.data(), stride, true}, stream);
        stream.wait();
        CHECK(first_beyond(of_rows(y.read(), [](float v) { return v; }), want, 2e-5 * largest, 2e-6) == "");
        const OnDevice<std::uint16_t> y_bf16(count);
        chosen->multiply({codes.rows, shape.rows, there.view, y_bf16.data(), stride, false}, stream);
        stream.wait();
        CHECK(first_beyond(of_rows(y_bf16.read(), float_of_bf16), want,
                           product_error(format, shape.rows, want, 2e-5 * largest), 0x1p-8) == "");
      });
    }
  }
}

TEST_CASE(
    "streamed products are the exact sums to 1e-6 of their terms' sizes for any number of rows, int8 bit for bit") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const DeviceLimits limits{static_cast<std::int64_t>(device->shared_bytes), 132};
  for (const Format format : kStreamed) {
    for (const std::int64_t rows : {1, 2, 7, 16, 17, 33, 64, 65, 257}) {
      const Shape shape{rows, rows == 7 ? 7 : 385, rows > 64 ? 65 : 130};
      const Product product(format, shape, normal_values(rows * shape.in, 1, 43));
      const StreamPlan plan = plan_stream(format, product.w.view.at, rows, limits);
      INFO(quant::name(format) << ", " << rows << " rows, " << shape.in << " to " << shape.out);
      const std::vector<float> y = product.streamed(plan);
      CHECK(product.first_beyond_exact(y, kSumShare) == "");
      if (format == Format::int8) CHECK(y == product.plain());
    }
  }
}

TEST_CASE("streamed products have the same bits in every plan and every company") {
  if (!find_device()) return;
  const Shape shape{19, 1600, 70};  // thirteen runs in three splits, the last of five
  for (const Format format : kStreamed) {
    const std::vector<float> x = normal_values(shape.rows * shape.in, 1, 47);
    const Product product(format, shape, x);
    REQUIRE(num_splits(product.w.view.at) == 3);
    const std::vector<float> want = product.streamed({kStreamTiles[0], false});
    CHECK(product.first_beyond_exact(want, kSumShare) == "");
    for (const StreamTile& tile : kStreamTiles) {
      for (const bool apart : {false, true}) {
        INFO(quant::name(format) << ", " << tile.rows << " rows a tile" << (apart ? ", splits apart" : ""));
        if (apart) in_both_orders([&] { CHECK(product.streamed({tile, apart}) == want); });
        else CHECK(product.streamed({tile, apart}) == want);
      }
    }
    const std::int64_t row = 17;
    const Product alone(format, {1, shape.in, shape.out},
                        {x.begin() + row * shape.in, x.begin() + (row + 1) * shape.in});
    CHECK(alone.streamed({kStreamTiles[0], true}) ==
          std::vector<float>(want.begin() + row * shape.out, want.begin() + (row + 1) * shape.out));
  }
}

TEST_CASE("streamed products of a row with a NaN or an infinity are NaN, the other rows as they were") {
  if (!find_device()) return;
  const Shape shape{3, 300, 64};
  for (const Format format : kStreamed) {
    std::vector<float> x = normal_values(shape.rows * shape.in, 1, 53);
    const std::vector<float> want = Product(format, shape, x).streamed({kStreamTiles[0], false});
    x[5] = std::nanf("");
    x[static_cast<std::size_t>(2 * shape.in + 290)] = INFINITY;
    const std::vector<float> got = Product(format, shape, x).streamed({kStreamTiles[0], false});
    INFO(quant::name(format));
    for (std::int64_t i = 0; i < shape.rows * shape.out; ++i) {
      const auto at = static_cast<std::size_t>(i);
      if (i / shape.out == 1) CHECK(got[at] == want[at]);
      else CHECK_FALSE(std::isfinite(got[at]));
    }
  }
}

TEST_CASE("streamed products decode every e4m3 code exactly, of weights and of activations") {
  if (!find_device()) return;
  const target::Stream stream;
  const std::int64_t width = 256;
  const MatrixLayout at = matrix_layout(Format::fp8_channel, 1, width);
  const target::Memory partials(static_cast<std::size_t>(kStreamPartialBytes)),
      counters = target::Memory::zeroed(static_cast<std::size_t>(kStreamCounters) * 4);
  const OnDevice<float> ones(std::vector<float>(256, 1.0F));
  std::vector<std::uint8_t> every, unit(static_cast<std::size_t>(width * width), 0);
  for (int code = 0; code < 256; ++code) {
    every.push_back((code & 0x7f) == 0x7f ? 0 : static_cast<std::uint8_t>(code));
    unit[static_cast<std::size_t>(code * width + code)] = 0x38;  // 1
  }
  const auto multiply = [&](const std::vector<std::uint8_t>& x, std::int64_t rows, const std::vector<std::uint8_t>& w) {
    std::vector<std::uint8_t> padded(
        static_cast<std::size_t>(round_up(static_cast<std::int64_t>(w.size()) / width, 64) * width));
    std::copy(w.begin(), w.end(), padded.begin());
    MatrixLayout of_w = at;
    of_w.rows = static_cast<std::int64_t>(padded.size()) / width;
    const OnDevice<std::uint8_t> x_there(x), w_there(padded);
    const OnDevice<float> y(static_cast<std::size_t>(rows * of_w.rows));
    target::streamed_product({{quant::Code::fp8_e4m3, x_there.data(), ones.data(), width, width, width},
                              rows,
                              {Format::fp8_channel, of_w, w_there.data(), ones.data()},
                              y.data(),
                              of_w.rows,
                              true},
                             {kStreamTiles[3], false}, {partials.as<std::uint32_t>(), counters.as<std::uint32_t>()},
                             stream);
    stream.wait();
    return y.read();
  };
  const std::vector<float> of_w = multiply(unit, width, every), of_x = multiply(every, 1, unit);
  for (std::int64_t i = 0; i < width; ++i) {
    const float want = float_of_fp8(every[static_cast<std::size_t>(i)]);
    CHECK(of_w[static_cast<std::size_t>(i * 64)] == want);
    CHECK(of_x[static_cast<std::size_t>(i)] == want);
  }
}

TEST_CASE("the plan of a product is the smallest tile that the device has room for, splits apart while tiles are few") {
  const auto layout = [](std::int64_t out, std::int64_t in) { return matrix_layout(Format::int4, out, in); };
  // Splits: by the matrix alone.
  CHECK(num_splits(layout(4096, 4096)) == 4);
  CHECK(num_splits(layout(6144, 4096)) == 2);
  CHECK(num_splits(layout(28672, 4096)) == 1);
  CHECK(num_splits(layout(64, 100'000)) == kMaxSplits);
  CHECK(num_splits(layout(64, 1024)) == 2);
  CHECK(num_splits(layout(64, 256)) == 1);
  const DeviceLimits h100{227 << 10, 132}, a100{163 << 10, 108}, ada{99 << 10, 128};
  const auto rows_of = [&](Format format, std::int64_t rows, const DeviceLimits& device) {
    return plan_stream(format, layout(4096, 4096), rows, device).tile.rows;
  };
  for (const Format format : kStreamed) {
    for (const auto& [rows, want] : {std::pair(1, 8), {8, 8}, {9, 16}, {17, 32}, {33, 64}, {2048, 64}})
      CHECK(rows_of(format, rows, h100) == want);
    CHECK(rows_of(format, 16, ada) == 16);
    for (const std::int64_t rows : {1, 20, 500}) {
      for (const DeviceLimits& device : {h100, a100, ada}) {
        const StreamPlan plan = plan_stream(format, layout(4096, 4096), rows, device);
        const int stages = num_stages(plan.tile, quant::spec(format).weight_bits);
        CHECK(stream_bytes(plan.tile, format).all(stages, true) <= device.shared_bytes);
      }
    }
  }
  CHECK(plan_stream(Format::int4, layout(4096, 4096), 64, h100).splits_apart);
  CHECK(plan_stream(Format::int4, layout(4096, 4096), 192, h100).splits_apart);
  CHECK_FALSE(plan_stream(Format::int4, layout(4096, 4096), 320, h100).splits_apart);
  CHECK_FALSE(plan_stream(Format::int4, layout(28672, 4096), 1, h100).splits_apart);
}

TEST_CASE("the kernel of a product: libraries where they have one, streamed where rows are few") {
  const auto of = [](Format format, std::int64_t rows, bool y_is_f32, bool is_hopper) {
    return choose_product(format, rows, y_is_f32, is_hopper);
  };
  for (const bool is_hopper : {false, true}) CHECK(of(Format::bf16, 5, true, is_hopper) == ProductKernel::cublaslt);
  for (const Format format : kStreamed) {
    if (format == Format::bf16) continue;
    CHECK(of(format, 100, false, false) == ProductKernel::streamed);
    CHECK(of(format, 100, true, true) == ProductKernel::streamed);
    CHECK(of(format, 1, false, true) == ProductKernel::streamed);
  }
  CHECK(of(Format::int8, kStreamedInt8Rows, false, true) == ProductKernel::streamed);
  CHECK(of(Format::int8, kStreamedInt8Rows + 1, false, true) == ProductKernel::cutlass_int8);
  // Here a row of fp8 changes its bits with the number of rows, as one of bf16 may.
  for (const Format format : {Format::fp8_tensor, Format::fp8_channel}) {
    CHECK(of(format, kStreamedFp8Rows, false, true) == ProductKernel::streamed);
    CHECK(of(format, kStreamedFp8Rows + 1, false, true) == ProductKernel::cutlass_fp8);
    CHECK(of(format, padded_rows(kStreamedFp8Rows), false, true) == ProductKernel::streamed);  // as ticks are filled up
  }
  CHECK(of(Format::fp8_block128, 300, false, true) == ProductKernel::streamed);
  CHECK(of(Format::int4, 300, false, true) == ProductKernel::streamed);
  // With sums of a row alone nothing but exact ones are a library's.
  for (const Format format : kStreamed) {
    for (const std::int64_t rows : {1, 17, 1000}) {
      const bool is_exact = format == Format::int8 && rows > kStreamedInt8Rows;
      CHECK(choose_product(format, rows, false, true, true) ==
            (is_exact ? ProductKernel::cutlass_int8 : ProductKernel::streamed));
      CHECK(choose_product(format, rows, true, true, true) == ProductKernel::streamed);
      CHECK(choose_product(format, rows, false, false, true) == ProductKernel::streamed);
    }
  }
}

TEST_CASE(
    "a row's product is the same bits in every company, by whatever kernel, where sums are to be the row's alone") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const target::Stream stream;
  const std::unique_ptr<target::Products> products = target::make_products(*device, true);
  for (const Format format : kWeightFormats) {
    for (const bool is_f32 : {false, true}) {
      const Shape shape{70, 900, 130};
      const std::vector<float> x = normal_values(shape.rows * shape.in, 1, 59);
      const Product all(format, shape, x);
      const auto bits = [&](std::int64_t first, std::int64_t count) {
        const std::int64_t stride = all.w.view.at.rows;
        target::EncodedRows rows = all.codes.rows;
        const int bytes = rows.code == quant::Code::bf16 ? 2 : 1;
        rows.codes = static_cast<std::uint8_t*>(rows.codes) + first * rows.stride * bytes;
        if (rows.scales != nullptr) rows.scales += first * rows.num_scales();
        const OnDevice<std::uint32_t> y(static_cast<std::size_t>(count * stride));
        products->multiply({rows, count, all.w.view, y.data(), stride, is_f32}, stream);
        stream.wait();
        std::vector<std::uint32_t> words = y.read();
        words.resize(static_cast<std::size_t>(count * stride * (is_f32 ? 2 : 1) / 2));
        return words;
      };
      const std::vector<std::uint32_t> want = bits(0, shape.rows);
      const std::size_t words_a_row = want.size() / static_cast<std::size_t>(shape.rows);
      for (const std::int64_t count : {1, 8, 15, 16, 17, 33, 64, 65}) {
        const std::int64_t first = shape.rows - count;
        INFO(quant::name(format) << ", " << count << " rows" << (is_f32 ? ", fp32" : ""));
        CHECK((bits(first, count) ==
               std::vector<std::uint32_t>(want.begin() + first * static_cast<std::int64_t>(words_a_row), want.end())));
      }
    }
  }
}

TEST_CASE("a product's ways are those that leave its bits, the rule's first, and fit the device") {
  const DeviceLimits h100{227 << 10, 132}, ada{99 << 10, 128};
  const MatrixLayout square = matrix_layout(Format::int8, 4096, 4096);
  const auto check = [&](Format format, std::int64_t rows, bool y_is_f32, const ProductRules& rules) {
    const DeviceLimits& device = rules.is_hopper ? h100 : ada;
    const MatrixLayout at = matrix_layout(format, 4096, 4096);
    const std::vector<ProductChoice> ways = product_choices(format, at, rows, y_is_f32, rules, device);
    INFO(quant::name(format) << ", " << rows << " rows");
    const ProductKernel rule = choose_product(format, rows, y_is_f32, rules.is_hopper, rules.row_only_sums);
    CHECK(ways[0].kernel == rule);
    if (rule == ProductKernel::streamed) CHECK(ways[0].plan == plan_stream(format, at, rows, device));
    const bool in_any_order = format == Format::int8;
    for (std::size_t i = 0; i < ways.size(); ++i) {
      CHECK(std::count(ways.begin(), ways.end(), ways[i]) == 1);
      if (!in_any_order) CHECK(ways[i].kernel == rule);
      if (ways[i].kernel != ProductKernel::streamed) continue;
      CHECK(has_room(ways[i].plan.tile, format, device));
      CHECK(ways[i].plan.tile.rows < std::max<std::int64_t>(2 * rows, 9));
      if (ways[i].plan.splits_apart) CHECK(may_part(ways[i].plan.tile, format, at, rows));
    }
    const bool is_swept =
        rows <= kSweptRows && (rule == ProductKernel::streamed || rule == ProductKernel::cutlass_int8);
    CHECK((ways.size() > 1) == is_swept);
  };
  for (const Format format : kWeightFormats) {
    for (const std::int64_t rows : {1, 8, 24, 64, 128, 129, 4096}) {
      for (const bool y_is_f32 : {false, true}) {
        for (const ProductRules& rules : {ProductRules{false, false}, {false, true}, {true, false}, {true, true}})
          check(format, rows, y_is_f32, rules);
      }
    }
  }
  // int8 of one row: one tile, splits apart and not, CUTLASS. Of 64: four tiles.
  CHECK(product_choices(Format::int8, square, 1, false, {true}, h100).size() == 3);
  CHECK(product_choices(Format::int8, square, 64, false, {true}, h100).size() == 9);
}

TEST_CASE("products of many rows with int4 and fp8_block128 are of operands rounded to bf16, and no further off") {
  const std::optional<target::DeviceFacts> device = find_device();
  if (!device) return;
  const std::unique_ptr<target::Products> products = target::make_products(*device),
                                          bitwise = target::make_products(*device, true);
  for (const Format format : {Format::int4, Format::fp8_block128}) {
    const Shape shape{kDequantizedRows, 300, 65}, fewer{kDequantizedRows - 64, 300, 65};
    const Product product(format, shape, normal_values(shape.rows * shape.in, 1, 61)),
        of_fewer(format, fewer, normal_values(fewer.rows * fewer.in, 1, 61));
    const auto by = [](target::Products& made, const Product& of) {
      return of.run([&](const target::ProductTask& task) { made.multiply(task, of.stream); });
    };
    INFO(quant::name(format));
    const std::vector<float> y = by(*products, product);
    // Of the weights 2^-9 each, of fp8_block128's activations, too.
    CHECK(product.first_beyond_exact(y, kSumShare + (format == Format::int4 ? 0x1p-9 : 0x1p-8 + 0x1p-18)) == "");
    CHECK(product.first_beyond_exact(y, kSumShare) != "");
    CHECK(of_fewer.first_beyond_exact(by(*products, of_fewer), kSumShare) == "");
    CHECK(product.first_beyond_exact(by(*bitwise, product), kSumShare) == "");
    for (const std::int64_t rows : {kDequantizedRows - 1, kDequantizedRows}) {
      CHECK((choose_product(format, rows, false, true) == ProductKernel::dequantized) == (rows == kDequantizedRows));
      CHECK(choose_product(format, rows, false, true, true) == ProductKernel::streamed);
    }
    // Activations in several parts.
    target::DequantizedProducts in_parts(100), whole;
    const auto dequantized = [&](target::DequantizedProducts& made) {
      return product.run([&](const target::ProductTask& task) {
        made.multiply(
            task, [&](const target::ProductTask& bf16) { target::plain_product(bf16, product.stream); },
            product.stream);
      });
    };
    CHECK(dequantized(in_parts) == dequantized(whole));
  }
  for (const Format format : {Format::int4_int8, Format::int4_fp8, Format::fp8_channel, Format::int8, Format::bf16})
    CHECK(choose_product(format, 4096, false, true) != ProductKernel::dequantized);
}

TEST_CASE("matrices and rows are dequantized to the bf16 that each value is nearest to, zeros behind them") {
  if (!find_device()) return;
  for (const Format format : {Format::int4, Format::fp8_block128}) {
    const Product product(format, {37, 1157, 70}, normal_values(37 * 1157, 1, 67));
    const MatrixLayout& at = product.w.view.at;
    const OnDevice<std::uint16_t> matrix(
        std::vector<std::uint16_t>(static_cast<std::size_t>(at.rows * at.width), 0x5a5a));
    target::dequantize_matrix(product.w.view, matrix.data(), product.stream);
    product.stream.wait();
    std::vector<float> weight(static_cast<std::size_t>(at.out * at.in));
    ops::unpack_rows(product.host, 0, at.out, weight.data());
    const auto check = [&](const std::vector<std::uint16_t>& got, const std::vector<float>& want, std::int64_t rows,
                           std::int64_t width, std::int64_t stride) {
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < stride; ++i) {
          const float value = i < width ? want[static_cast<std::size_t>(row * width + i)] : 0.0F;
          if (float_of_bf16(got[static_cast<std::size_t>(row * stride + i)]) != float_of_bf16(bf16_of(value)))
            FAIL(quant::name(format) << " [" << row << ", " << i << "], not " << value);
        }
      }
    };
    check(matrix.read(), weight, at.out, at.in, at.width);
    if (format == Format::int4) continue;
    const target::EncodedRows& x = product.codes.rows;
    const OnDevice<std::uint16_t> rows(std::vector<std::uint16_t>(static_cast<std::size_t>(37 * x.stride), 0x5a5a));
    target::dequantize_rows(x, 37, rows.data(), product.stream);
    product.stream.wait();
    check(rows.read(), product.codes.decoded(), 37, x.width, x.stride);
  }
}

TEST_CASE("memory for dequantized operands is what an estimate says, and none where nothing is dequantized") {
  if (!find_device()) return;
  const ModelShape shape{67, 200, 2, 3, 1, 40, 300, 1e-6F};
  for (const Format format : kWeightFormats) {
    target::DequantizedProducts products;
    const bool dequantizes = format == Format::int4 || format == Format::fp8_block128;
    // qkv, o, gate_up, down.
    for (const auto& [out, in] :
         {std::pair<std::int64_t, std::int64_t>{200, 200}, {200, 120}, {600, 200}, {200, 300}}) {
      if (dequantizes) products.reserve({format, matrix_layout(format, out, in), nullptr, nullptr});
    }
    INFO(quant::name(format));
    CHECK((products.num_bytes() > 0) == dequantizes);
    CHECK(dequantized_bytes(format, shape, kDequantizedRows, false) == products.num_bytes());
    CHECK(dequantized_bytes(format, shape, kDequantizedRows - 63, false) == products.num_bytes());  // filled up to 512
    CHECK(padded_rows(kDequantizedRows - 63) == kDequantizedRows);
    CHECK(dequantized_bytes(format, shape, kDequantizedRows - 64, false) == 0);
    CHECK(dequantized_bytes(format, shape, 4096, true) == 0);
  }
}

TEST_CASE("bf16 of few rows is made the way that the table has for its shape, by cuBLASLt's first where it has none") {
  const DeviceLimits h100{227 << 10, 132};
  const std::vector<Bf16Row> table = {
      {4096, 4096, 8, false, kStreamedWay}, {4096, 4096, 16, false, 3}, {152064, 4096, 8, true, 7}};
  REQUIRE(is_valid(table));
  const auto ways = [&](std::int64_t out, std::int64_t rows, bool y_is_f32, bool row_only_sums = false) {
    return product_choices(Format::bf16, matrix_layout(Format::bf16, out, 4096), rows, y_is_f32,
                           {true, row_only_sums, table}, h100);
  };
  const auto is_cublaslt = [](const std::vector<ProductChoice>& made, int algorithm) {
    return made.size() == 1 && made[0].kernel == ProductKernel::cublaslt && made[0].algorithm == algorithm;
  };
  const auto all_streamed = [](const std::vector<ProductChoice>& made) {
    return std::ranges::all_of(made, [](const auto& way) { return way.kernel == ProductKernel::streamed; });
  };
  for (const std::int64_t rows : {1, 5, 8}) CHECK(all_streamed(ways(4096, rows, false)));
  for (const std::int64_t rows : {9, 16}) CHECK(is_cublaslt(ways(4096, rows, false), 3));
  CHECK(is_cublaslt(ways(4096, 17, false), 0));
  CHECK(is_cublaslt(ways(4096, 8, true), 0));
  CHECK(is_cublaslt(ways(152064, 8, true), 7));
  CHECK(is_cublaslt(ways(6144, 8, false), 0));
  CHECK(all_streamed(ways(152064, 8, true, true)));  // rollout.bitwise does not look there
}

TEST_CASE("a table of bf16 products is checked, chosen beyond times' scatter, and printed as it is committed") {
  for (const Bf16Row& bad : {Bf16Row{4095, 4096, 8, false, 0},
                             {4096, 100, 8, false, 0},
                             {4096, 4096, 1, false, 0},
                             {4096, 4096, 8, false, 8},
                             {4096, 4096, 8, false, -2}})
    CHECK_FALSE(is_valid(std::span(&bad, 1)));
  const std::vector<Bf16Row> twice = {{4096, 4096, 8, false, 1}, {4096, 4096, 8, false, 2}};
  CHECK_FALSE(is_valid(twice));

  const std::vector<double> times = {1.0, 0.98, 0.9};
  CHECK(fastest_way(2.0, times) == 2);
  CHECK(fastest_way(0.89, times) == kStreamedWay);
  CHECK(fastest_way(2.0, std::span(times).first(2)) == 0);
  CHECK(fastest_way(0.98, std::span(times).first(1)) == 0);

  CHECK(bf16_table_text("", {}) ==
        "inline constexpr std::string_view kBf16TableLibrary = \"\";\n"
        "inline constexpr std::array<Bf16Row, 0> kBf16Table{};\n");
  const std::vector<Bf16Row> rows = {{4096, 4096, 8, false, kStreamedWay}, {152064, 4096, 16, true, 7}};
  CHECK(bf16_table_text("13.1.0", rows) ==
        "inline constexpr std::string_view kBf16TableLibrary = \"13.1.0\";\n"
        "inline constexpr std::array<Bf16Row, 2> kBf16Table{{\n"
        "    {4096, 4096, 8, false, kStreamedWay},\n"
        "    {152064, 4096, 16, true, 7},\n"
        "}};\n");
}

TEST_CASE("time never chooses between ways whose bits differ") {
  const DeviceLimits h100{227 << 10, 132};
  const std::vector<Bf16Row> table = {{4096, 4096, 8, false, kStreamedWay}, {4096, 4096, 16, false, 3}};
  // Sums that are exact in any order, or one kernel whose bits no plan changes (the cases of streamed products above).
  for (const Format format : kWeightFormats) {
    for (const std::int64_t out : {64, 4096, 28672}) {
      for (std::int64_t rows = 1; rows <= 4096; rows = rows < 160 ? rows + 1 : 2 * rows) {
        for (const bool y_is_f32 : {false, true}) {
          for (const ProductRules& rules :
               {ProductRules{false, false}, {false, true}, {true, false}, {true, true}, {true, false, table}}) {
            const std::vector<ProductChoice> ways =
                product_choices(format, matrix_layout(format, out, 4096), rows, y_is_f32, rules, h100);
            if (ways.size() == 1 || format == Format::int8) continue;
            const auto is_streamed = [](const ProductChoice& way) { return way.kernel == ProductKernel::streamed; };
            if (!std::ranges::all_of(ways, is_streamed)) FAIL(quant::name(format) << ", " << rows << " rows");
          }
        }
      }
    }
  }
  // CUTLASS's tile follows from the shape, too.
  const MatrixLayout qkv = matrix_layout(Format::fp8_channel, 6144, 4096);
  CHECK(cutlass_tile_rows(qkv, 64, 132) == 64);
  CHECK(cutlass_tile_rows(qkv, 256, 132) == 64);  // 96 tiles of 128 rows
  CHECK(cutlass_tile_rows(qkv, 257, 132) == 128);
  CHECK(cutlass_tile_rows(matrix_layout(Format::fp8_channel, 28672, 4096), 65, 132) == 128);
  CHECK(cutlass_tile_rows(matrix_layout(Format::fp8_channel, 28672, 4096), 64, 132) == 64);
}

TEST_CASE("a sweep takes the fastest way, and asks once a shape") {
  if (!find_device()) return;
  const DeviceLimits limits{160 << 10, 132};
  const MatrixLayout at = matrix_layout(Format::int4, 4096, 4096);
  const std::size_t fastest = 2;
  std::vector<ProductChoice> made;
  std::size_t num_timed = 0;
  const target::Stream stream;
  target::ProductSweep sweep({}, limits, [&](const std::function<void()>& launch, const target::Stream&) {
    launch();
    return num_timed++ == fastest ? 1.0 : 2.0;
  });
  const auto choose = [&](quant::Format format, std::int64_t rows) {
    target::ProductTask task{};
    task.num_rows = rows;
    task.w.format = format;
    task.w.at = at;
    return sweep.choose(
        task, [&](const ProductChoice& choice) { made.push_back(choice); }, stream);
  };
  const std::vector<ProductChoice> ways = product_choices(Format::int4, at, 16, false, {}, limits);
  REQUIRE(ways.size() > fastest);
  CHECK(choose(Format::int4, 9) == ways[fastest]);
  CHECK(made == ways);
  for (const std::int64_t rows : {9, 16, 10}) CHECK(choose(Format::int4, rows) == ways[fastest]);  // padded to 16, all
  CHECK(num_timed == ways.size());
  num_timed = fastest + 1;  // all take as long: the rule's
  CHECK(choose(Format::int4, 17) == product_choices(Format::int4, at, 24, false, {}, limits)[0]);
  made.clear();
  choose(Format::bf16, 9);
  choose(Format::int4, 500);
  CHECK(made.empty());
}

TEST_CASE("products are measured: bytes that cannot be spared, and some time") {
  if (!find_device()) return;
  for (const Format format : {Format::int4, Format::fp8_block128}) {
    const ProductSpeeds speeds = target::measure_product_speeds({format, 100, 200, {1, 2}, 0, 1 << 17});
    INFO(quant::name(format));
    CHECK((speeds.copy_bytes_per_s > 0 && speeds.read_bytes_per_s > 0));
    REQUIRE(speeds.product_s.size() == 2);
    CHECK((speeds.product_s[0] > 0 && speeds.product_s[1] > 0));
    const MatrixLayout at = matrix_layout(format, 100, 200);
    CHECK(speeds.num_bytes[0] > at.num_bytes());
    CHECK(speeds.num_bytes[1] - speeds.num_bytes[0] ==
          (2 * 128 + 256 * (quant::spec(format).activations == quant::Code::bf16 ? 2 : 1)));
  }
}
