#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "commands.h"
#include "data/tokenizer.h"
#include "data/tokenizer/gguf.h"
#include "model/gguf_model.h"
#include "model/weights.h"
#include "output_folder.h"
#include "state/gguf.h"

namespace qrl::app {

namespace {

struct ImportArguments {
  std::string file, out;
};

void write_new(const std::filesystem::path& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  QRL_REQUIRE(out.flush().good(), path.string(), "a file that can be written", "an error of the system");
}

void import_model(const ImportArguments& arguments, dist::Collectives& /*world*/) {
  require_output_folder(arguments.out);
  const auto file = std::make_shared<const state::GgufFile>(arguments.file);
  const model::GgufModel gguf = model::open_gguf(file);
  const data::TokenizerFiles tokenizer = data::gguf_tokenizer(*file);
  write_folder(arguments.out, [&] {
    const std::filesystem::path dir = arguments.out;
    model::save_hf(dir, gguf.config, gguf.weights);
    write_new(dir / "tokenizer.json", tokenizer.tokenizer);
    write_new(dir / "tokenizer_config.json", tokenizer.tokenizer_config);
    write_new(dir / "README.md",
              "Made by `qrl-train import` from " + std::filesystem::path(arguments.file).filename().string() +
                  ", whose tensors are " + model::counts_text(gguf.types) + ". The values were rounded to bfloat16.\n");
    (void)data::Tokenizer::load(dir);  // refuses what cannot be tokenized
  });
  std::printf("wrote %s (%s, bfloat16; tensors of the file: %s)\n", arguments.out.c_str(),
              model::spec_of(gguf.config.family).model_type, model::counts_text(gguf.types).c_str());
}

}  // namespace

void add_import(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand("import", "write a GGUF file as a Hugging Face folder, for model.path");
  command->add_option("FILE", arguments->file, "FILE.gguf, of llama.cpp")->required();
  add_text(*command, "--out", arguments->out, "DIR", "output folder, new or empty")->required();
  set_work(*command, action, arguments, import_model);
}

}  // namespace qrl::app
