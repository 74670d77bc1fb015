// Tests the engine's use of device memory, where all of the device's memory is known: in the emulation.
#if defined(QRL_CUDA_EMULATED)
#include <algorithm>
#include <functional>

#include "cuda/engine/kv_memory.h"
#include "cuda/engine/sequence_scorer.h"
#include "engine_fixtures.h"

namespace {

using namespace qrl;
using namespace qrl::cuda::test;
using decoder::Decoder;

constexpr std::size_t kMib = std::size_t{1} << 20;

/// Leaves this much of the device's memory free during its lifetime.
std::vector<target::Memory> leave(std::size_t num_bytes) {
  std::vector<target::Memory> others;
  const std::size_t whole = (target::free_bytes() - num_bytes) / (2 * kMib) * 2 * kMib;
  if (whole > 0) others.emplace_back(whole);
  while (target::free_bytes() > num_bytes)  // less than is rounded up
    others.emplace_back(std::min(target::free_bytes() - num_bytes, kMib / 2));
  return others;
}

}  // namespace

TEST_CASE("device memory: free memory determines the number of KV pages, and no token") {
  const target::DeviceFacts device = target::use_device(0);
  const model::ModelConfig config = decoder::test::tiny_config();
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::int8);
  const Prompts given = prompts();
  const auto make = [&](const DecoderOptions& options) {
    return decoder::make_device_backend(config, options, make_engine(config, options));
  };
  const auto used_bytes = [&](std::int64_t kv_pages) {
    const auto backend = make(options_of(KvFormat::int8, kv_pages));
    backend->load(*snapshot);
    CHECK(backend->begin() == kv_pages);
    return static_cast<double>(device.total_bytes - target::free_bytes());
  };
  const auto kRounding = static_cast<double>(target::PageMemory::rounding_bytes(KvFormat::int8));
  const double page_bytes = (used_bytes(200) - used_bytes(100)) / 100;
  const auto share_for = [&](double num_pages) {
    return (used_bytes(100) + (num_pages - 100) * page_bytes + kRounding +
            static_cast<double>(device.kept_back_bytes + cuda::kGraphBytes)) /
           static_cast<double>(device.total_bytes);
  };
  struct Run {
    std::vector<types::Completion> sampled;
    decoder::DecoderStats stats;
  };
  const auto run = [&](double memory_utilization) {
    DecoderOptions options = options_of(KvFormat::int8, 200);
    options.gpu_memory_utilization = memory_utilization;
    Decoder decoder(config, options, make(options));
    decoder.load(*snapshot);
    auto sampled = decoder.complete(given.requests, sampling(), {7, 2});
    return Run{std::move(sampled), decoder.stats()};
  };
  const Run all = run(1), few = run(share_for(20.5));  // `all` gets kv_pages pages, `few` fewer
  CHECK(all.stats.preemptions == 0);
  CHECK(few.stats.preemptions > 0);
  CHECK(few.stats.peak_kv_pages <= 20);
  REQUIRE(few.sampled.size() == all.sampled.size());
  for (std::size_t i = 0; i < few.sampled.size(); ++i) CHECK(few.sampled[i].tokens == all.sampled[i].tokens);
  // A longest sequence needs 16.
  CHECK_THROWS_WITH(run(share_for(15.5)), Catch::Matchers::Contains("rollout.gpu_memory_utilization"));
}

TEST_CASE("KV pages: as many as fit in free memory, however allocations are rounded") {
  model::ModelConfig config = decoder::test::tiny_config();
  config.num_hidden_layers = 4;
  const std::size_t kept_bytes = target::use_device(0).kept_back_bytes + cuda::kGraphBytes;
  const auto others = leave(kept_bytes + 44 * kMib);
  for (const KvFormat kv_format : {KvFormat::bf16, KvFormat::int8}) {
    DecoderOptions options = options_of(kv_format, 1 << 20);
    options.gpu_memory_utilization = 1;
    const auto engine = make_engine(config, options);
    const std::int64_t num_pages = engine->allocate_kv();
    CHECK(num_pages > 1000);
    CHECK(num_pages < options.kv_pages);
    CHECK(target::free_bytes() >= kept_bytes);
    CHECK(target::free_bytes() < kept_bytes + 10 * kMib);
  }
}

TEST_CASE("forward pass: a pass of few ticks frees what one of many ticks needed") {
  const model::ModelConfig config = decoder::test::tiny_config();
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::bf16);
  auto made = make_engine(config, options_of(KvFormat::bf16));
  cuda::DecodeEngine& engine = *made;
  const auto backend = decoder::make_device_backend(config, options_of(KvFormat::bf16), std::move(made));
  backend->load(*snapshot);
  backend->begin();
  const std::vector<std::int32_t> zero = {0}, one = {1};
  const OnDevice<float> x(std::vector<float>(static_cast<std::size_t>(8 * config.hidden_size), 1.0F));
  const std::vector<float*> after_layer(static_cast<std::size_t>(config.num_hidden_layers), x.data());
  const cuda::Tick tick{one, zero, zero, zero, {}};
  const auto used_after = [&](std::size_t num_ticks) {
    engine.sequences().forward(std::vector<cuda::Tick>(num_ticks, tick), 1, after_layer, {});
    return target::use_device(0).total_bytes - target::free_bytes();
  };
  const std::size_t of_one = used_after(1), of_many = used_after(8);
  CHECK(of_many > of_one);
  CHECK(used_after(1) == of_one);
  CHECK(used_after(8) == of_many);
}

TEST_CASE("device memory: running out names the device, the request and what to lower") {
  using Catch::Matchers::Contains;
  const model::ModelConfig config = decoder::test::tiny_config();
  const auto snapshot = decoder::test::publish(config, decoder::test::tiny_weights(config), Format::bf16);
  const auto is_named = [](const std::function<void()>& work, const std::string& key, const std::string& what) {
    try {
      work();
      FAIL(what << " found memory");
    } catch (const base::Error& error) {
      CHECK_THAT(error.what(), Contains(key + ": expected memory for " + what) &&
                                   Contains("MiB more on host, device 0") && Contains("got 0 MiB free") &&
                                   (Contains("lower ") || Contains("choose ")));
    }
  };
  const DecoderOptions options = options_of(KvFormat::fp8_e4m3);
  {
    const auto others = leave(0);
    is_named([&] { (void)make_engine(config, options); }, "rollout.device: cuda", "the rows of a tick");
    CHECK_THROWS_WITH(target::Memory(8 * kMib),
                      Contains("expected 8 MiB of memory on host, device 0, got 0 MiB free") &&
                          Contains("lower rollout.gpu_memory_utilization"));
  }
  const auto calibrated = decoder::make_device_backend(config, options, make_engine(config, options));
  calibrated->load(*snapshot);
  const std::vector<std::vector<types::TokenId>> some = {random_tokens(8, 1)};
  {
    const auto others = leave(0);
    is_named([&] { (void)calibrated->calibrate_kv(some, {}); }, "rollout.device: cuda", "the weights");
  }
  calibrated->calibrate_kv(some, {});
  {
    const auto others = leave(0);
    is_named([&] { (void)calibrated->calibrate_kv(some, {}); }, "rollout.gpu_memory_utilization",
             "a layer's keys and values to calibrate on");
  }

  auto engine = make_engine(config, options_of(KvFormat::bf16));
  cuda::DecodeEngine& tested = *engine;
  const auto backend = decoder::make_device_backend(config, options_of(KvFormat::bf16), std::move(engine));
  backend->load(*snapshot);
  CHECK(backend->begin() == 200);
  tested.release_kv();
  {
    const auto others = leave(0);
    CHECK_THROWS_WITH(tested.allocate_kv(), Contains("rollout.kv_pages") && Contains("that host has left"));
  }
  (void)tested.allocate_kv();
  const std::vector<std::int32_t> zero = {0}, one = {1};
  const OnDevice<float> x(std::vector<float>(static_cast<std::size_t>(config.hidden_size), 1.0F));
  tested.run({one, zero, zero, zero, {}}, {}, {});
  {
    const auto others = leave(0);
    std::vector<float> logits(static_cast<std::size_t>(config.vocab_size));
    is_named([&] { (void)tested.logits(zero, logits); }, "rollout.gpu_memory_utilization", "whole rows of logits");
    cuda::TokenScore score;
    is_named(
        [&] {
          (void)tested.sequences().score(x.data(), {zero, one, 1}, std::span(&score, 1), {});
        },
        "rollout.gpu_memory_utilization", "the log-probs of given tokens");
    const std::vector<float*> after_layer(static_cast<std::size_t>(config.num_hidden_layers), x.data());
    const cuda::Tick tick{one, zero, zero, zero, {}};
    is_named([&] { (void)tested.sequences().forward(std::span(&tick, 1), 1, after_layer, {}); }, "rollout.bitwise",
             "a layer's keys and values of a micro-batch");
  }
}
#endif
