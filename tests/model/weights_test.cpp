#include "model/weights.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/threads.h"
#include "model/tensor_files.h"
#include "state/safetensors.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/weights.h"

using namespace qrl;
using namespace qrl::model;
using qrl::test::init_weights;
using qrl::test::load_hf;
using qrl::test::LoadedModel;
using Json = nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path kGolden = qrl::test::shipped_data() / "golden";

void write_bytes(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

/// Returns the message of the refusal, or "" if `read` succeeds.
template <class Read>
std::string read_refusal(const Read& read) {
  try {
    read();
  } catch (const base::Error& error) {
    CHECK(error.kind() == base::ErrorKind::input);
    return error.what();
  }
  return {};
}

std::string load_refusal(const fs::path& dir) {
  return read_refusal([&] { load_hf(dir); });
}

ModelConfig tiny_config() {
  ModelConfig config = load_hf(kGolden / "hf_qwen3").config;
  config.vocab_size = 7;
  config.hidden_size = 5;
  config.intermediate_size = 3;
  config.num_hidden_layers = 1;
  return config;
}

bool same_bytes(const base::Buffer& a, const base::Buffer& b) {
  return a.shape() == b.shape() && a.view().dtype == b.view().dtype &&
         std::memcmp(a.view().data, b.view().data, a.num_bytes()) == 0;
}

}  // namespace

TEST_CASE("safetensors index: malformed ones behave as their manifest declares") {
  const auto shared = qrl::test::shared_data();
  if (!shared) return qrl::test::skip("shared data not found (QRL_TEST_DATA)");
  std::ifstream manifest(*shared / "malformed" / "manifest.jsonl");
  int seen = 0;
  for (std::string line; std::getline(manifest, line);) {
    const Json row = Json::parse(line);
    if (row["kind"] != "index") continue;
    ++seen;
    const std::string file = row["file"];
    INFO(file);
    const bool accepted = read_refusal([&] { describe_index(*shared / "malformed" / file); }).empty();
    if (row["expect"] == "accept") CHECK(accepted);
    if (row["expect"] == "reject") CHECK(!accepted);
  }
  CHECK(seen >= 2);
}

TEST_CASE("model folders: transformers' are read, single or in shards, fp32, bf16 or fp16") {
  for (const std::string name :
       {"hf_qwen3",          "hf_qwen3_untied", "hf_qwen2",       "hf_llama",         "hf_llama_scaled",
        "hf_qwen3_yarn",     "hf_llama_bias",   "hf_qwen3_bias",  "hf_qwen3_moe",     "hf_qwen3_moe_mixed",
        "hf_mistral",        "hf_llama_linear", "hf_granite",     "hf_granite_bias",  "hf_smollm3",
        "hf_smollm3_bias",   "hf_olmo2",        "hf_olmo2_tied",  "hf_phi3",          "hf_phi3_plain",
        "hf_mistral_window", "hf_qwen2_window", "hf_phi3_window", "hf_gemma3",        "hf_gemma3_bf16",
        "hf_olmo3",          "hf_olmo3_plain",  "hf_qwen3_5",     "hf_qwen3_5_groups"}) {
    INFO(name);
    const LoadedModel model = load_hf(kGolden / name);
    const auto specs = weight_specs(model.config);
    CHECK(model.weights.size() == specs.size());
    for (const WeightSpec& spec : specs) {
      REQUIRE(model.weights.contains(spec.name));
      CHECK(model.weights.at(spec.name).shape() == spec.shape);
      // The gradients in the golden file list transformers' parameters.
      CHECK(state::SafetensorsFile(kGolden / name / "golden.safetensors").entry("grad." + spec.name).shape ==
            spec.shape);
    }
  }
  CHECK(load_hf(kGolden / "hf_qwen3_untied").config.dtype == base::DType::bf16);
  CHECK(load_hf(kGolden / "hf_qwen3_untied").config.eos_token_ids == std::vector<types::TokenId>{2, 256});
  CHECK(load_hf(kGolden / "hf_qwen2").config.head_dim == 6);
}

TEST_CASE("model folders: a saved one loads with equal values, config and end tokens") {
  for (const std::string name :
       {"hf_qwen3",         "hf_qwen3_untied", "hf_qwen2",          "hf_llama",        "hf_qwen3_yarn",
        "hf_llama_bias",    "hf_qwen3_bias",   "hf_mistral",        "hf_llama_linear", "hf_granite",
        "hf_granite_bias",  "hf_smollm3",      "hf_smollm3_bias",   "hf_olmo2",        "hf_olmo2_tied",
        "hf_phi3",          "hf_phi3_plain",   "hf_mistral_window", "hf_qwen2_window", "hf_phi3_window",
        "hf_gemma3",        "hf_gemma3_bf16",  "hf_olmo3",          "hf_olmo3_plain",  "hf_qwen3_5",
        "hf_qwen3_5_groups"}) {
    INFO(name);
    const LoadedModel model = load_hf(kGolden / name);
    const qrl::test::TempDir dir;
    save_hf(dir / "out", model.config, views(model.weights));
    const LoadedModel again = load_hf(dir / "out");
    CHECK(again.config == model.config);
    for (const auto& [tensor, buffer] : model.weights) CHECK(same_bytes(buffer, again.weights.at(tensor)));
    const state::SafetensorsFile file(dir / "out/model.safetensors");
    CHECK(file.metadata().at("format") == "pt");
    CHECK(file.entry("model.norm.weight").dtype == model.config.dtype);
    CHECK(file.tensors().size() == model.weights.size());
  }
}

TEST_CASE("model folders: of a folder of text and images the text model is read, under the names of a text model") {
  struct Folder {
    const char *golden, *type, *architecture, *model, *other;
  };
  // The names of published folders, and those that transformers 5 writes.
  const char *gemma = "Gemma3ForConditionalGeneration", *qwen = "Qwen3_5ForConditionalGeneration";
  const base::Buffer image(base::DType::f32, {3});
  for (const Folder& folder :
       {Folder{"hf_gemma3", "gemma3", gemma, "language_model.model.", "vision_tower.x.weight"},
        Folder{"hf_gemma3", "gemma3", gemma, "model.language_model.", "model.multi_modal_projector.x.weight"},
        Folder{"hf_qwen3_5", "qwen3_5", qwen, "model.language_model.", "model.visual.x.weight"},
        Folder{"hf_qwen3_5", "qwen3_5", qwen, "model.language_model.", "mtp.x.weight"}}) {
    INFO(folder.golden << " " << folder.other);
    const LoadedModel text = load_hf(kGolden / folder.golden);
    Json part = Json::parse(qrl::test::read_file(kGolden / folder.golden / "config.json"));
    const Json dtype = part["dtype"], tied = part.value("tie_word_embeddings", true);
    for (const char* key : {"dtype", "architectures", "tie_word_embeddings"}) part.erase(key);
    const Json root = {{"model_type", folder.type},   {"architectures", {folder.architecture}},
                       {"torch_dtype", dtype},        {"text_config", part},
                       {"tie_word_embeddings", tied}, {"vision_config", {{"hidden_size", 8}}}};
    const std::string model = folder.model;
    const qrl::test::TempDir dir;
    std::vector<state::NamedView> tensors = {{folder.other, image.view(), {}}};
    for (const auto& [name, buffer] : text.weights)
      tensors.push_back({model + name.substr(std::string("model.").size()), buffer.view(), {}});
    state::write_safetensors(dir / "model.safetensors", tensors, {{"format", "pt"}});
    write_bytes(dir / "config.json", root.dump());
    const LoadedModel read = load_hf(dir.path());
    ModelConfig config = text.config;
    config.generation_config = read.config.generation_config;
    CHECK(read.config == config);
    for (const auto& [name, buffer] : text.weights) CHECK(same_bytes(buffer, read.weights.at(name)));
  }
}

TEST_CASE("model folders: fp32 weights saved as bf16 are rounded to nearest even") {
  LoadedModel model = load_hf(kGolden / "hf_llama");
  model.config.dtype = base::DType::bf16;
  const qrl::test::TempDir dir;
  save_hf(dir.path(), model.config, views(model.weights));
  const LoadedModel again = load_hf(dir.path());
  const base::Buffer& want = model.weights.at("lm_head.weight");
  const base::Buffer& got = again.weights.at("lm_head.weight");
  bool any_rounded = false;
  for (std::int64_t i = 0; i < want.view().numel(); ++i) {
    REQUIRE(got.as<float>()[i] == base::to_float(base::to_bf16(want.as<float>()[i])));
    any_rounded = any_rounded || got.as<float>()[i] != want.as<float>()[i];
  }
  CHECK(any_rounded);
}

TEST_CASE("model folders: weights that differ from config.json are refused by name") {
  const LoadedModel model = load_hf(kGolden / "hf_qwen3");
  const qrl::test::TempDir dir;
  const auto save_and_refuse = [&](const WeightViews& weights) {
    std::vector<state::NamedView> tensors;
    for (const auto& [name, view] : weights) tensors.push_back({name, view});
    state::write_safetensors(dir / "model.safetensors", tensors, {});
    return load_refusal(dir.path());
  };
  write_bytes(dir / "config.json", config_json(model.config));
  REQUIRE(save_and_refuse(views(model.weights)) == "");

  const std::string norm = "model.layers.1.self_attn.k_norm.weight";
  WeightViews missing = views(model.weights);
  missing.erase(norm);
  CHECK(save_and_refuse(missing).find(norm) != std::string::npos);
  WeightViews misshaped = views(model.weights);
  misshaped[norm].shape = base::Shape{5};
  CHECK(save_and_refuse(misshaped).find(norm) != std::string::npos);
  WeightViews transposed = views(model.weights);
  transposed["model.embed_tokens.weight"].shape = base::Shape{33, 259};
  CHECK(save_and_refuse(transposed).find("embed_tokens") != std::string::npos);
  WeightViews extra = views(model.weights);
  extra["model.layers.2.input_layernorm.weight"] = extra["model.norm.weight"];
  CHECK(save_and_refuse(extra).find("model.layers.2.input_layernorm.weight") != std::string::npos);
  const base::Buffer integers(base::DType::i64, {10});
  WeightViews typed = views(model.weights);
  typed[norm] = integers.view();
  CHECK(save_and_refuse(typed).find("I64") != std::string::npos);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    base::Buffer broken(base::DType::f32, {10});
    broken.as<float>()[9] = bad;
    WeightViews infinite = views(model.weights);
    infinite[norm] = broken.view();
    const std::string message = save_and_refuse(infinite);
    CHECK(message.find(norm) != std::string::npos);
    CHECK(message.find("element 9") != std::string::npos);
  }

  // Older transformers wrote this buffer into Llama's files; it follows from config.json.
  const base::Buffer frequencies(base::DType::f32, {5});
  WeightViews buffered = views(model.weights);
  buffered["model.layers.0.self_attn.rotary_emb.inv_freq"] = frequencies.view();
  buffered["model.rotary_emb.inv_freq"] = frequencies.view();
  CHECK(save_and_refuse(buffered) == "");
  CHECK(load_hf(dir.path()).weights.size() == model.weights.size());

  // A tied model's own lm_head is accepted if it equals the embedding, else refused.
  WeightViews headed = views(model.weights);
  headed["lm_head.weight"] = headed["model.embed_tokens.weight"];
  CHECK(save_and_refuse(headed) == "");
  base::Buffer other(base::DType::f32, {259, 33});
  headed["lm_head.weight"] = other.view();
  CHECK(save_and_refuse(headed).find("lm_head.weight") != std::string::npos);
}

TEST_CASE("generation_config.json: overrides the end tokens") {
  const LoadedModel model = load_hf(kGolden / "hf_qwen3");
  const qrl::test::TempDir dir;
  save_hf(dir.path(), model.config, views(model.weights));
  write_bytes(dir / "generation_config.json", R"({"eos_token_id":[7,2]})");
  CHECK(load_hf(dir.path()).config.eos_token_ids == std::vector<types::TokenId>{7, 2});
  write_bytes(dir / "generation_config.json", R"({"do_sample":true})");
  CHECK(load_hf(dir.path()).config.eos_token_ids == std::vector<types::TokenId>{2});
  write_bytes(dir / "generation_config.json", R"({"eos_token_id":259})");
  CHECK(load_refusal(dir.path()).find("generation_config.json") != std::string::npos);
}

TEST_CASE("generation_config.json: written again, with the effective end tokens") {
  LoadedModel model = load_hf(kGolden / "hf_qwen3");
  const qrl::test::TempDir dir, exported;
  save_hf(dir.path(), model.config, views(model.weights));
  const auto written = [&](const char* text, bool other_ends) {
    write_bytes(dir / "generation_config.json", text);
    LoadedModel source = load_hf(dir.path());
    if (other_ends) source.config.eos_token_ids = {3};
    save_hf(exported.path(), source.config, views(source.weights));
    return nlohmann::json::parse(qrl::test::read_file(exported / "generation_config.json"));
  };
  const char* const settings =
      R"({"temperature":0.6,"top_p":0.95,"top_k":20,"repetition_penalty":1.05,"pad_token_id":9,"eos_token_id":[7,2]})";
  const nlohmann::json kept = written(settings, false);
  nlohmann::json expected = nlohmann::json::parse(settings);
  for (const auto& [key, value] : expected.items()) {
    INFO(key);
    CHECK(kept.value(key, nlohmann::json()) == value);
  }
  const nlohmann::json changed = written(settings, true);
  CHECK(changed["eos_token_id"] == 3);
  CHECK(changed["top_k"] == 20);
  CHECK(written(R"({"do_sample":true})", false)["eos_token_id"] == 2);
}

TEST_CASE("model folders: without safetensors the error says what is missing, and pickles are never opened") {
  const qrl::test::TempDir dir;
  CHECK(load_refusal(dir / "absent") != "");
  CHECK(load_refusal(dir.path()).find("config.json") != std::string::npos);
  write_bytes(dir / "config.json", qrl::test::read_file(kGolden / "hf_qwen3/config.json"));
  CHECK(load_refusal(dir.path()).find("model.safetensors") != std::string::npos);
  write_bytes(dir / "pytorch_model.bin", "not opened");
  CHECK(load_refusal(dir.path()).find("save_pretrained") != std::string::npos);
  fs::create_directory(dir / "model.safetensors");
  CHECK(load_refusal(dir.path()).find("folder") != std::string::npos);
}

TEST_CASE("safetensors index: must describe its shards exactly") {
  const qrl::test::TempDir dir;
  const base::Buffer one(base::DType::f32, {1});
  const auto write_index = [&](const Json& map) { write_bytes(dir / "i.json", Json{{"weight_map", map}}.dump()); };
  const auto index_refusal = [&] { return read_refusal([&] { read_index(dir / "i.json"); }); };
  state::write_safetensors(dir / "1.safetensors", {{"a", one.view()}, {"b", one.view()}}, {});
  state::write_safetensors(dir / "2.safetensors", {{"c", one.view()}}, {});
  write_index({{"a", "1.safetensors"}, {"b", "1.safetensors"}, {"c", "2.safetensors"}});
  CHECK(index_refusal() == "");
  CHECK(read_index(dir / "i.json").at("c") == dir / "2.safetensors");
  CHECK(describe_index(dir / "i.json").find("3 tensors in 2 shards") != std::string::npos);

  write_index({{"a", "1.safetensors"}, {"c", "2.safetensors"}});
  CHECK(index_refusal().find("\"b\"") != std::string::npos);
  write_index({{"a", "1.safetensors"}, {"b", "2.safetensors"}, {"c", "2.safetensors"}});
  CHECK(index_refusal().find("\"b\"") != std::string::npos);
  write_index({{"a", "1.safetensors"}, {"b", "1.safetensors"}, {"c", "2.safetensors"}, {"d", "2.safetensors"}});
  CHECK(index_refusal().find("\"d\"") != std::string::npos);
  write_index({{"a", "1.safetensors"}, {"b", "1.safetensors"}, {"c", "3.safetensors"}});
  CHECK(index_refusal().find("3.safetensors") != std::string::npos);
  state::write_safetensors(dir / "2.safetensors", {{"c", one.view()}, {"a", one.view()}}, {});
  write_index({{"a", "1.safetensors"}, {"b", "1.safetensors"}, {"c", "2.safetensors"}});
  CHECK(index_refusal().find("\"a\"") != std::string::npos);  // in both shards

  fs::create_directory(dir / "sub");
  fs::copy_file(dir / "1.safetensors", dir / "sub/1.safetensors");
  fs::create_directory(dir / "d.safetensors");
  fs::create_symlink(dir / "1.safetensors", dir / "link.safetensors");
  const std::string absolute = (dir / "1.safetensors").string();
  for (const std::string& shard :
       std::vector<std::string>{"sub/1.safetensors", "../x.safetensors", "./1.safetensors", absolute, "", ".", "..",
                                "d.safetensors", ".1.safetensors", "1.safetensors/", "1.SAFETENSORS",
                                std::string("1.safetensors\0", 14), "sub\\1.safetensors"}) {
    INFO(shard);
    write_index({{"a", shard}, {"b", shard}});
    CHECK(index_refusal() != "");
  }
  write_index({{"a", "link.safetensors"}, {"b", "link.safetensors"}});
  CHECK(index_refusal() == "");  // Hugging Face's cache consists of links
  write_index({{"a", "pytorch_model-00001-of-00001.bin"}});
  CHECK(index_refusal().find("save_pretrained") != std::string::npos);
  for (const char* text :
       {"", "{}", "[]", "null", R"({"weight_map":{}})", R"({"weight_map":[]})", R"({"weight_map":{"a":5}})",
        R"({"weight_map":{"a":null}})", R"({"weight_map":{"a":["1.safetensors"]}})",
        R"({"weight_map":{"a":"1.safetensors","a":"1.safetensors"}})", R"({"weight_map":"1.safetensors"})",
        R"({"metadata":1,"weight_map":{"a":"link.safetensors","b":"link.safetensors"}})"}) {
    INFO(text);
    write_bytes(dir / "i.json", text);
    CHECK(index_refusal() != "");
  }
}

TEST_CASE("model folders: one file together with an index is refused as ambiguous") {
  const qrl::test::TempDir dir;
  fs::copy(kGolden / "hf_qwen3_untied", dir.path(), fs::copy_options::recursive);
  CHECK(load_refusal(dir.path()) == "");
  state::write_safetensors(dir / "model.safetensors", {}, {});
  CHECK(load_refusal(dir.path()).find("both") != std::string::npos);
}

TEST_CASE("new model: weights follow the promised distribution, for any number of threads") {
  ModelConfig config = load_hf(kGolden / "hf_llama").config;
  config.num_hidden_layers = 8;
  const Weights weights = init_weights(config, 5);
  CHECK(weights.size() == weight_specs(config).size());
  const auto deviation = [&](const std::string& suffix) {
    double sum = 0, squares = 0, count = 0;
    for (const auto& [name, buffer] : weights) {
      if (!name.ends_with(suffix)) continue;
      for (std::int64_t i = 0; i < buffer.view().numel(); ++i, ++count) {
        sum += buffer.as<float>()[i];
        squares += static_cast<double>(buffer.as<float>()[i]) * buffer.as<float>()[i];
      }
    }
    CHECK(std::fabs(sum / count) < 5 * 0.02 / std::sqrt(count));
    return std::sqrt(squares / count);
  };
  // Five standard errors of a deviation from n draws, σ/√(2n), n ≥ 6475.
  CHECK(qrl::test::close(deviation("q_proj.weight"), 0.02, 0, 0.05));
  CHECK(qrl::test::close(deviation("embed_tokens.weight"), 0.02, 0, 0.05));
  CHECK(qrl::test::close(deviation("lm_head.weight"), 0.02, 0, 0.05));
  CHECK(qrl::test::close(deviation("o_proj.weight"), 0.02 / 4, 0, 0.05));  // √(2·8) = 4
  CHECK(qrl::test::close(deviation("down_proj.weight"), 0.02 / 4, 0, 0.05));
  const base::Buffer& norm = weights.at("model.norm.weight");
  CHECK(std::all_of(norm.as<float>(), norm.as<float>() + 25, [](float gain) { return gain == 1.0F; }));
  ModelConfig biased = load_hf(kGolden / "hf_qwen2").config;
  const base::Buffer bias = std::move(init_weights(biased, 5).at("model.layers.0.self_attn.q_proj.bias"));
  CHECK(std::all_of(bias.as<float>(), bias.as<float>() + 36, [](float value) { return value == 0.0F; }));

  const int threads = base::num_threads();
  base::set_num_threads(threads == 1 ? 2 : 1);
  const Weights again = init_weights(config, 5);
  base::set_num_threads(threads);
  for (const auto& [name, buffer] : weights) CHECK(same_bytes(buffer, again.at(name)));
  const std::string q = "model.layers.0.self_attn.q_proj.weight";
  CHECK(!same_bytes(weights.at(q), init_weights(config, 6).at(q)));
  CHECK(
      !same_bytes(weights.at("model.layers.0.mlp.gate_proj.weight"), weights.at("model.layers.0.mlp.up_proj.weight")));
}

TEST_CASE("model folders: truncated and mutated ones are refused or read, never crash") {
  const ModelConfig config = tiny_config();
  const qrl::test::TempDir dir;
  save_hf(dir.path(), config, views(init_weights(config, 1)));
  for (const std::string name : {"config.json", "generation_config.json", "model.safetensors"}) {
    const std::string good = qrl::test::read_file(dir / name);
    int refused = 0, runs = 0;
    const std::size_t end = good.ends_with('\n') ? good.size() - 1 : good.size();  // JSON needs no last newline
    for (std::size_t at = 0; at < end; at += 1 + good.size() / 300) {
      write_bytes(dir / name, good.substr(0, at));
      refused += load_refusal(dir.path()).empty() ? 0 : 1;
      std::string flipped = good;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
      write_bytes(dir / name, flipped);
      load_refusal(dir.path());
      ++runs;
    }
    CHECK(refused == runs);  // no prefix of a valid file is valid
    write_bytes(dir / name, good);
  }
  CHECK(load_refusal(dir.path()) == "");
}

TEST_CASE("streamed save: gives the same files and reads each weight once") {
  LoadedModel model = load_hf(kGolden / "hf_qwen3_untied");
  for (const base::DType dtype : {base::DType::f32, base::DType::bf16}) {
    const qrl::test::TempDir dir;
    model.config.dtype = dtype;
    save_hf(dir / "whole", model.config, views(model.weights), 20'000);
    std::vector<std::string> read;
    const WeightSource source([&](const WeightSpec& spec, float* to) {
      read.push_back(spec.name);
      const base::Buffer& from = model.weights.at(spec.name);
      std::copy_n(from.as<float>(), spec.shape.numel(), to);
    });
    save_hf(dir / "read", model.config, source, 20'000);
    std::vector<std::string> names;
    for (const WeightSpec& spec : weight_specs(model.config)) names.push_back(spec.name);
    CHECK(read == names);
    std::size_t num_files = 0;
    for (const auto& entry : fs::directory_iterator(dir / "whole")) {
      CHECK(qrl::test::read_file(dir / "read" / entry.path().filename()) == qrl::test::read_file(entry.path()));
      ++num_files;
    }
    CHECK(num_files > 4);
  }
}

TEST_CASE("model folders: a large model is saved in shards with an index, and loads equal") {
  const LoadedModel model = load_hf(kGolden / "hf_qwen3");
  const qrl::test::TempDir dir;
  save_hf(dir / "out", model.config, views(model.weights), 20'000);
  CHECK_FALSE(fs::exists(dir / "out/model.safetensors"));
  CHECK(fs::exists(dir / "out/model-00001-of-00005.safetensors"));
  const LoadedModel again = load_hf(dir / "out");
  for (const auto& [tensor, buffer] : model.weights) CHECK(same_bytes(buffer, again.weights.at(tensor)));
  std::uint64_t total_bytes = 0;
  std::set<fs::path> files;
  for (const auto& [name, file] : read_index(dir / "out/model.safetensors.index.json")) files.insert(file);
  for (const fs::path& file : files) {
    const state::SafetensorsFile shard(file);
    CHECK(shard.metadata().at("format") == "pt");
    std::uint64_t bytes = 0;
    for (const auto& [name, entry] : shard.tensors()) bytes += static_cast<std::uint64_t>(entry.shape.numel()) * 4;
    CHECK((bytes <= 20'000 || shard.tensors().size() == 1));
    total_bytes += bytes;
  }
  std::ifstream index(dir / "out/model.safetensors.index.json");
  CHECK(nlohmann::json::parse(index)["metadata"]["total_size"] == total_bytes);
}
