// Tests rotary positions, key and value pages against the CPU's ops on the same values.
#include <algorithm>
#include <numeric>

#include "device.h"
#include "ops/paged_attention.h"
#include "ops/transformer.h"

namespace {

using namespace qrl;
using namespace qrl::cuda;
using namespace qrl::cuda::test;
using quant::KvFormat;

struct Case {
  std::int64_t num_heads, num_kv_heads, head_dim, page_size, num_positions;
};
/// Odd head sizes and page sizes.
constexpr Case kCases[] = {
    {6, 2, 10, 7, 40}, {3, 1, 32, 16, 150}, {9, 1, 64, 16, 33}, {2, 2, 128, 5, 260}, {4, 2, 256, 16, 20}};

/// Holds keys and values on the device and on the CPU, one sequence in scattered pages.
struct Pages {
  Pages(const Case& shape_, KvFormat format_)
      : shape(shape_),
        heads{shape.num_heads, shape.num_kv_heads, shape.head_dim},
        format(format_),
        at(kv_layout(format, shape.num_kv_heads, shape.page_size, shape.head_dim)),
        num_pages(ceil_div(shape.num_positions, shape.page_size) + 3),
        table(static_cast<std::size_t>(num_pages)),
        key_scales(static_cast<std::size_t>(shape.num_kv_heads)),
        value_scales(key_scales.size()),
        keys(static_cast<std::size_t>(at.slots(num_pages) * at.slot_bytes())),
        values(static_cast<std::size_t>(at.slots(num_pages) * at.slot_bytes())),
        key_slot_scales(static_cast<std::size_t>(at.slots(num_pages))),
        value_slot_scales(static_cast<std::size_t>(at.slots(num_pages))) {
    std::iota(table.begin(), table.end(), 0);
    base::RandomStream random(9, base::RandomPurpose::test, 0);
    random.shuffle(std::span(table));
    for (std::size_t i = 0; i < key_scales.size(); ++i) {
      key_scales[i] = 0.01F * static_cast<float>(i + 1);
      value_scales[i] = 0.02F / static_cast<float>(i + 1);
    }
    const auto page_bytes = static_cast<std::size_t>(ops::kv_page_bytes(heads, format, shape.page_size));
    for (base::Buffer* side : {&cpu_keys, &cpu_values})
      *side = base::Buffer(base::DType::u8, {num_pages, static_cast<std::int64_t>(page_bytes)});
    cpu = {format,
           num_pages,
           shape.page_size,
           static_cast<std::byte*>(cpu_keys.view().data),
           static_cast<std::byte*>(cpu_values.view().data),
           nullptr,
           nullptr};
    if (format == KvFormat::fp8_e4m3) {
      cpu.key_scales = key_scales.data();
      cpu.value_scales = value_scales.data();
    }
    key_head_scales = std::make_unique<OnDevice<float>>(key_scales);
    value_head_scales = std::make_unique<OnDevice<float>>(value_scales);
  }
  target::KvPages there() const {
    return {format,
            at,
            shape.head_dim,
            keys.data(),
            values.data(),
            key_slot_scales.data(),
            value_slot_scales.data(),
            key_head_scales->data(),
            value_head_scales->data()};
  }
  Case shape;
  ops::HeadShape heads;
  KvFormat format;
  KvLayout at;
  std::int64_t num_pages;
  std::vector<std::int32_t> table;
  std::vector<float> key_scales, value_scales;
  OnDevice<std::uint8_t> keys, values;
  OnDevice<float> key_slot_scales, value_slot_scales;
  std::unique_ptr<OnDevice<float>> key_head_scales, value_head_scales;
  base::Buffer cpu_keys, cpu_values;
  ops::KvPages cpu;
};

/// Returns one dequantized slot of the device.
std::vector<float> read_slot(const Pages& pages, std::int64_t page, std::int64_t slot, std::int64_t head, bool is_key) {
  const std::vector<std::uint8_t> bytes = (is_key ? pages.keys : pages.values).read();
  const std::int64_t idx = pages.at.slot(page, head, slot);
  float scale = 1;
  if (pages.format == KvFormat::int8)
    scale = (is_key ? pages.key_slot_scales : pages.value_slot_scales).read()[static_cast<std::size_t>(idx)];
  if (pages.format == KvFormat::fp8_e4m3)
    scale = (is_key ? pages.key_scales : pages.value_scales)[static_cast<std::size_t>(head)];
  const std::uint8_t* quantized = bytes.data() + pages.at.byte_at(idx);
  std::vector<float> row;
  for (std::int64_t e = 0; e < pages.shape.head_dim; ++e) {
    if (pages.format == KvFormat::bf16)
      row.push_back(float_of_bf16(static_cast<std::uint16_t>(quantized[2 * e] | quantized[2 * e + 1] << 8)));
    else if (pages.format == KvFormat::int8)
      row.push_back(static_cast<float>(static_cast<std::int8_t>(quantized[e])) * scale);
    else row.push_back(float_of_fp8(quantized[e]) * scale);
  }
  return row;
}

}  // namespace

namespace {

/// Says which elements of a head rotate, and over what q and k are normalized.
enum class Turns : std::uint8_t { all, some, none, some_normed_whole };

}  // namespace

TEST_CASE("device KV: keys, values and queries equal the CPU's, in every KV format, for whole and partial rotation") {
  if (!find_device()) return;
  const target::Stream stream;
  std::vector<std::pair<Case, Turns>> cases;
  for (const Case& shape : kCases) {
    for (const Turns turns : {Turns::all, Turns::some, Turns::none, Turns::some_normed_whole})
      cases.emplace_back(shape, turns);
  }
  for (const auto& [shape, turns] : cases) {
    for (const KvFormat format : {KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3}) {
      INFO(quant::name(format) << ", heads of " << shape.head_dim << ", " << shape.num_positions << " positions, case "
                               << static_cast<int>(turns));
      const bool is_whole = turns == Turns::some_normed_whole;
      const std::int64_t num_rows = shape.num_positions, width = shape.head_dim;
      const std::int64_t row_size = (shape.num_heads + 2 * shape.num_kv_heads) * width;
      const std::int64_t stride = round_up(row_size, kOutputTile);
      std::vector<std::uint16_t> qkv;
      for (const float value : normal_values(num_rows * stride, 1, 3)) qkv.push_back(bf16_of(value));
      const std::vector<float> bias = normal_values(row_size, 0.5F, 4),
                               q_gain = normal_values(is_whole ? shape.num_heads * width : width, 1, 5),
                               k_gain = normal_values(is_whole ? shape.num_kv_heads * width : width, 1, 6);
      const std::int64_t rotary_dim = turns == Turns::none ? 0 : turns == Turns::all ? width : width / 4 * 2;
      const base::Buffer table = ops::make_rope_table(num_rows, std::max<std::int64_t>(2, rotary_dim), 10000);
      base::View angles = table.view();
      angles.shape = {num_rows, rotary_dim};
      std::vector<std::int32_t> positions(static_cast<std::size_t>(num_rows));
      std::iota(positions.begin(), positions.end(), 0);

      Pages pages(shape, format);
      std::vector<float> cpu_qkv;
      for (std::int64_t row = 0; row < num_rows; ++row) {
        for (std::int64_t i = 0; i < row_size; ++i)
          cpu_qkv.push_back(float_of_bf16(qkv[static_cast<std::size_t>(row * stride + i)]) +
                            bias[static_cast<std::size_t>(i)]);
      }
      const std::vector<const std::int32_t*> tables(static_cast<std::size_t>(num_rows), pages.table.data());
      const ops::AttentionRows where{positions.data(), tables.data()};
      base::Team alone = base::Team::solo();
      ops::rope_and_store(alone, pages.heads, {q_gain.data(), k_gain.data(), 1e-6F, is_whole}, angles, where,
                          {0, num_rows}, pages.cpu, cpu_qkv.data());

      const OnDevice<std::uint16_t> qkv_there(qkv);
      const OnDevice<float> bias_there(bias), q_gain_there(q_gain), k_gain_there(k_gain),
          table_there(std::vector<float>(table.as<float>(), table.as<float>() + table.shape().numel())),
          inverse(static_cast<std::size_t>(2 * num_rows));
      const OnDevice<std::int32_t> positions_there(positions), table_of_pages(pages.table),
          first_pages(static_cast<std::size_t>(num_rows));
      const target::RowPlaces places{positions_there.data(), first_pages.data(), table_of_pages.data()};
      in_both_orders([&] {
        const OnDevice<float> q(static_cast<std::size_t>(num_rows * shape.num_heads * width));
        if (is_whole)
          target::projection_rms({{qkv_there.data(), stride, false},
                                  bias_there.data(),
                                  shape.num_heads * width,
                                  shape.num_kv_heads * width,
                                  1e-6F,
                                  inverse.data()},
                                 num_rows, stream);
        target::rope_and_store({{qkv_there.data(), stride, false},
                                shape.num_heads,
                                bias_there.data(),
                                q_gain_there.data(),
                                k_gain_there.data(),
                                1e-6F,
                                table_there.data(),
                                places,
                                pages.there(),
                                q.data(),
                                rotary_dim,
                                is_whole ? inverse.data() : nullptr},
                               num_rows, stream);
        stream.wait();
        std::vector<float> q_want;
        for (std::int64_t row = 0; row < num_rows; ++row)
          q_want.insert(q_want.end(), cpu_qkv.begin() + row * row_size,
                        cpu_qkv.begin() + row * row_size + shape.num_heads * width);
        CHECK(first_beyond(q.read(), q_want, 2e-6, 2e-6) == "");
        for (const std::int64_t position : {std::int64_t{0}, num_rows - 1}) {
          const std::int32_t page = pages.table[static_cast<std::size_t>(position / shape.page_size)];
          std::vector<float> key(static_cast<std::size_t>(width)), value(key.size());
          ops::read_slot(pages.heads, pages.cpu, page, position % shape.page_size, shape.num_kv_heads - 1, key.data(),
                         value.data());
          // One step of a quantized value where a value lies at a tie.
          const double step = format == KvFormat::fp8_e4m3 ? 0.13 : format == KvFormat::int8 ? 0.04 : 0x1p-7;
          CHECK(first_beyond(read_slot(pages, page, position % shape.page_size, shape.num_kv_heads - 1, true), key,
                             step, step) == "");
          CHECK(first_beyond(read_slot(pages, page, position % shape.page_size, shape.num_kv_heads - 1, false), value,
                             1e-6, 1e-6) == "");
        }
      });
    }
  }
}

TEST_CASE("device KV: percentiles equal those of sorted sizes, and NaN if one is not finite") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const Case& shape : kCases) {
    INFO("heads of " << shape.head_dim << ", " << shape.num_positions << " positions");
    Pages pages(shape, KvFormat::bf16);  // zero; padding and slots without a position stay zero
    std::vector<std::uint16_t> sides[2];
    std::vector<float> sizes[2];  // of the last head, in descending order
    for (const int side : {0, 1}) {
      const std::vector<float> sampled =
          normal_values(shape.num_positions * shape.num_kv_heads * shape.head_dim, 2, static_cast<std::uint64_t>(side));
      sides[side].resize(static_cast<std::size_t>(pages.at.slots(pages.num_pages) * pages.at.padded_dim));
      std::size_t next = 0;
      for (std::int64_t t = 0; t < shape.num_positions; ++t) {
        for (std::int64_t head = 0; head < shape.num_kv_heads; ++head) {
          const std::int64_t slot =
              pages.at.slot(pages.table[static_cast<std::size_t>(t / shape.page_size)], head, t % shape.page_size);
          for (std::int64_t e = 0; e < shape.head_dim; ++e) {
            const std::uint16_t code = bf16_of(sampled[next++]);
            sides[side][static_cast<std::size_t>(slot * pages.at.padded_dim + e)] = code;
            if (head == shape.num_kv_heads - 1) sizes[side].push_back(std::fabs(float_of_bf16(code)));
          }
        }
      }
      std::ranges::sort(sizes[side], std::greater<>());
    }
    const auto put = [&] {
      target::copy_to_device(pages.keys.data(), sides[0].data(), 2 * sides[0].size(), stream);
      target::copy_to_device(pages.values.data(), sides[1].data(), 2 * sides[1].size(), stream);
    };
    const auto percentiles = [&](std::uint32_t num_above) {
      const OnDevice<float> found(static_cast<std::size_t>(2 * shape.num_kv_heads));
      target::kv_percentiles({pages.keys.data(), pages.values.data(), pages.at, pages.num_pages, num_above,
                              found.data(), found.data() + shape.num_kv_heads},
                             stream);
      stream.wait();
      return found.read();
    };
    put();
    const auto last = static_cast<std::size_t>(shape.num_kv_heads - 1);
    in_both_orders([&] {
      for (const std::uint32_t num_above : {0U, 1U, static_cast<std::uint32_t>(sizes[0].size() / 2)}) {
        const std::vector<float> found = percentiles(num_above);
        CHECK(found[last] == sizes[0][num_above]);
        CHECK(found[static_cast<std::size_t>(shape.num_kv_heads) + last] == sizes[1][num_above]);
      }
    });
    for (const float broken : {INFINITY, NAN}) {
      sides[1][static_cast<std::size_t>(pages.at.slot(pages.table[0], 0, 0) * pages.at.padded_dim + 1)] =
          bf16_of(broken);
      put();
      const std::vector<float> found = percentiles(0);
      CHECK(found[0] > 0);
      CHECK(std::isnan(found[static_cast<std::size_t>(shape.num_kv_heads)]));
    }
  }
}

TEST_CASE("device KV: copied slots equal the source, and later slots stay") {
  if (!find_device()) return;
  const target::Stream stream;
  for (const KvFormat format : {KvFormat::bf16, KvFormat::int8, KvFormat::fp8_e4m3}) {
    Pages pages({4, 2, 10, 7, 30}, format);
    std::vector<std::uint8_t> bytes = pages.keys.read();
    base::RandomStream random(1, base::RandomPurpose::test, 2);
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
    target::copy_to_device(pages.keys.data(), bytes.data(), bytes.size(), stream);
    const std::vector<float> scales = normal_values(pages.at.slots(pages.num_pages), 1, 8);
    target::copy_to_device(pages.key_slot_scales.data(), scales.data(), scales.size() * sizeof(float), stream);
    const OnDevice<std::int32_t> copies(std::vector<std::int32_t>{2, 5, 3});
    target::copy_slots({copies.data(), pages.there()}, 1, stream);
    stream.wait();
    std::vector<std::uint8_t> want = bytes;
    std::vector<float> want_scales = scales;
    for (std::int64_t head = 0; head < 2; ++head) {
      for (std::int64_t slot = 0; slot < 3; ++slot) {
        const std::int64_t from = pages.at.slot(2, head, slot), to = pages.at.slot(5, head, slot);
        std::copy_n(bytes.begin() + pages.at.byte_at(from), pages.at.slot_bytes(), want.begin() + pages.at.byte_at(to));
        if (format == KvFormat::int8)
          want_scales[static_cast<std::size_t>(to)] = scales[static_cast<std::size_t>(from)];
      }
    }
    CHECK(pages.keys.read() == want);
    CHECK(pages.key_slot_scales.read() == want_scales);
  }
}
