// Tests the include rules between folders by reading the sources. src/README.md draws the same ladder for people.
#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "support/catch.h"
#include "support/files.h"

namespace {

namespace fs = std::filesystem;

/// A folder includes itself and the folders of lower layers; folders of one layer never include each other.
const std::map<std::string, int> kLayers = {
    {"base", 1},    {"config", 2},  {"types", 2},   {"quant", 3},   {"dist", 3},  {"state", 3},
    {"ops", 4},     {"report", 4},  {"tasks", 4},   {"reward", 3},  {"data", 5},  {"model", 5},
    {"compare", 5}, {"rollout", 6}, {"decoder", 6}, {"learner", 6}, {"train", 7},
};
/// Maps a header prefix to the folders that may include it.
const std::map<std::string, std::set<std::string>> kOwners = {
    {"torch/", {"learner"}},        {"ATen/", {"learner"}},           {"c10/", {"learner"}},   {"mpi.h", {"mpi"}},
    {"yaml-cpp/", {"config"}},      {"xxhash.h", {"state"}},          {"omp.h", {"base"}},     {"CLI/", {"apps"}},
    {"pcre2.h", {"data", "model"}}, {"unicode/", {"data", "reward"}}, {"zlib.h", {"compare"}},
};
/// CUDA may include these folders of src and these headers of model.
const std::set<std::string> kSeenByCuda = {"base", "quant"}, kHeadersSeenByCuda = {"model/block.h", "model/config.h"};
/// Maps each public header of cuda to the folders that may include it; other cuda headers are private.
const std::map<std::string, std::set<std::string>> kCudaDoors = {{"cuda/engine/decode_engine.h", {"decoder", "apps"}},
                                                                 {"cuda/engine/weight_store.h", {"decoder"}},
                                                                 {"cuda/engine/sequence_scorer.h", {"decoder"}},
                                                                 {"cuda/bench/speed.h", {"apps"}},
                                                                 {"cuda/bench/bench_plan.h", {"apps"}},
                                                                 {"cuda/train/training.h", {"learner"}}};

/// A folder of cuda includes itself and the folders of lower layers; the files beside the folders include any.
const std::map<std::string, int> kCudaLayers = {
    {"runtime", 1}, {"quantize", 2}, {"attention", 2}, {"sample", 2},
    {"train", 2},   {"gemm", 3},     {"engine", 4},    {"bench", 5},
};

constexpr int kMaxLines = 600;

struct Source {
  std::string folder;  ///< a folder of src, or "apps", "cuda" or "support"
  std::string name;    ///< for messages
  std::string text;
};

bool is_cpp(const fs::path& path) {
  static const std::set<std::string> extensions = {".h", ".cpp", ".cu", ".cuh", ".inc"};
  return extensions.count(path.extension().string()) > 0;
}

const fs::path kRoot = QRL_SOURCE_DIR;

std::vector<fs::path> files_under(const std::string& top) {
  std::vector<fs::path> files;
  if (!fs::exists(kRoot / top)) return files;  // cuda/ is added with its first kernel; git keeps no empty folder
  for (const auto& entry : fs::recursive_directory_iterator(kRoot / top)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<Source> sources(const std::vector<std::string>& tops = {"src", "apps", "cuda"}) {
  std::vector<Source> all;
  for (const std::string& top : tops) {
    for (const fs::path& path : files_under(top)) {
      const fs::path relative = path.lexically_relative(kRoot);
      if (!is_cpp(path)) continue;
      all.push_back({top == "src" ? std::next(relative.begin())->string() : fs::path(top).filename().string(),
                     relative.string(), qrl::test::read_file(path)});
    }
  }
  return all;
}

bool may_include(const std::string& from, const std::string& to, const std::string& header) {
  if (from == to) return true;
  if (to == "cuda") {
    const auto door = kCudaDoors.find(header);
    return door != kCudaDoors.end() && door->second.count(from) > 0;
  }
  if (kLayers.count(to) == 0) return false;
  if (from == "apps") return true;
  if (from == "cuda") return kSeenByCuda.count(to) > 0 || kHeadersSeenByCuda.count(header) > 0;
  const auto layer = kLayers.find(from);
  return layer != kLayers.end() && kLayers.at(to) < layer->second;
}

/// Returns the second part of a path, "gemm" of "cuda/gemm/gemms.h"; "" for a file beside the folders.
std::string room_of(const fs::path& path) {
  return std::distance(path.begin(), path.end()) < 3 ? "" : std::next(path.begin())->string();
}

/// Returns whether a file of cuda may include a header of cuda.
bool may_include_in_cuda(const std::string& file, const std::string& header) {
  const std::string from = room_of(file), to = room_of(header);
  if (from == to || from.empty()) return true;
  const auto lower = kCudaLayers.find(to), upper = kCudaLayers.find(from);
  return lower != kCudaLayers.end() && upper != kCudaLayers.end() && lower->second < upper->second;
}

/// Returns one line for every include of `source` that breaks a rule.
std::vector<std::string> include_faults(const Source& source) {
  static const std::regex include(R"re(^\s*#\s*include\s*([<"])([^>"]+)[>"])re");
  std::vector<std::string> faults;
  std::istringstream lines(source.text);
  int line_number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++line_number;
    std::smatch match;
    if (!std::regex_search(line, match, include)) continue;
    const std::string header = match[2];
    const std::string where = source.name + ":" + std::to_string(line_number) + " includes " + header;
    for (const auto& [prefix, owners] : kOwners) {
      if (header.rfind(prefix, 0) == 0 && owners.count(source.folder) == 0)
        faults.push_back(where + ", which only " + *owners.begin() + " may");
    }
    if (match[1] == "<") continue;
    const std::size_t slash = header.find('/');
    // A subcommand includes files of its own folder, and of apps/common, by their plain names.
    if (slash == std::string::npos && source.folder == "apps") continue;
    const std::string folder = header.substr(0, slash);
    if (slash == std::string::npos) {
      faults.push_back(where + " without its folder");
    } else if (!may_include(source.folder, folder, header)) {
      faults.push_back(where + ", but " + source.folder + " may not see " + folder);
    } else if (folder == "cuda" && source.folder == "cuda" && !may_include_in_cuda(source.name, header)) {
      faults.push_back(where + ", which is not in a lower layer");
    }
  }
  return faults;
}

/// Returns the headers of ours that a source includes, as it names them.
std::set<std::string> headers_of(const Source& source) {
  static const std::regex include(R"re((?:^|\n)\s*#\s*include\s*"([^"]+)")re");
  std::set<std::string> headers;
  for (std::sregex_iterator it(source.text.begin(), source.text.end(), include), end; it != end; ++it)
    headers.insert((*it)[1]);
  return headers;
}

/// Returns the files below train whose includes lead to the recipe.
std::set<std::string> readers_of_recipe(const std::vector<Source>& all) {
  std::map<std::string, std::set<std::string>> included;  // by a file's name below src
  for (const Source& source : all) {
    if (kLayers.count(source.folder) > 0)
      included[fs::path(source.name).lexically_relative("src").string()] = headers_of(source);
  }
  std::set<std::string> readers = {"train/recipe/recipe.h"};
  for (std::size_t before = 0; before != readers.size();) {
    before = readers.size();
    for (const auto& [name, headers] : included) {
      if (std::any_of(headers.begin(), headers.end(), [&](const auto& header) { return readers.count(header) > 0; }))
        readers.insert(name);
    }
  }
  std::erase_if(readers, [](const std::string& name) { return name.rfind("train/", 0) == 0; });
  return readers;
}

using Graph = std::map<std::string, std::set<std::string>>;

/// Returns the first `depth` parts of an included path, without an extension; a header and its source are one module.
/// A file of apps, which others include by its plain name, has no folder.
std::string module_of(const fs::path& path, const std::string& folder, int depth) {
  if (folder == "apps") return "apps/" + path.stem().string();
  fs::path module;
  for (const fs::path& part : path) {
    if (depth-- > 0) module /= part;
  }
  return module.replace_extension().string();
}

/// Returns which parts of a folder of src, of cuda, apps and tests/support include which others there.
Graph includes_inside(const std::vector<Source>& all, int depth) {
  Graph graph;
  for (const Source& source : all) {
    fs::path path = source.name;
    for (const char* top : {"src", "tests"}) {
      if (path.begin()->string() == top) path = path.lexically_relative(top);
    }
    const std::string from = module_of(path, source.folder, depth);
    std::set<std::string>& included = graph[from];
    for (const fs::path header : headers_of(source)) {
      const std::string folder = header.has_parent_path() ? header.begin()->string() : "apps";
      const std::string to = module_of(header, folder, depth);
      if (folder == source.folder && to != from) included.insert(to);
    }
  }
  return graph;
}

/// Returns the nodes on circles, and those between two circles: what is left when nodes without includes, or without
/// includers, are taken away one after another.
std::set<std::string> circles(Graph graph) {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (auto node = graph.begin(); node != graph.end();) {
      std::erase_if(node->second, [&](const std::string& to) { return graph.count(to) == 0; });
      const bool is_included = std::any_of(graph.begin(), graph.end(),
                                           [&](const auto& other) { return other.second.count(node->first) > 0; });
      const bool stays = is_included && !node->second.empty();
      has_changed = has_changed || !stays;
      node = stays ? std::next(node) : graph.erase(node);
    }
  }
  std::set<std::string> left;
  for (const auto& [node, included] : graph) left.insert(node);
  return left;
}

std::set<std::string> folders_of_src() {
  std::set<std::string> folders;
  for (const auto& entry : fs::directory_iterator(kRoot / "src")) {
    if (entry.is_directory()) folders.insert(entry.path().filename().string());
  }
  return folders;
}

std::string to_text(const std::map<std::string, int>& layers) {
  std::string text;
  for (const auto& [folder, layer] : layers) text += std::to_string(layer) + " " + folder + ", ";
  return text;
}

/// Reads rows "| 4 | `ops` | what it owns |".
std::map<std::string, int> layers_of_table(const std::string& text) {
  static const std::regex row(R"(\|\s*(\d+)\s*\|\s*`(\w+)`\s*\|)");
  std::map<std::string, int> layers;
  for (std::sregex_iterator it(text.begin(), text.end(), row), end; it != end; ++it) {
    CHECK(layers.emplace((*it)[2], std::stoi((*it)[1])).second);
  }
  return layers;
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

}  // namespace

TEST_CASE("includes: every one goes down the ladder") {
  const std::vector<Source> all = sources();
  REQUIRE(all.size() > 50);
  std::vector<std::string> faults;
  for (const Source& source : all) {
    const std::vector<std::string> found = include_faults(source);
    faults.insert(faults.end(), found.begin(), found.end());
  }
  INFO(joined(faults));
  CHECK(faults.empty());
}

TEST_CASE("includes: ones that break the ladder are found") {
  const auto num_faults = [](const std::string& folder, const std::string& line) {
    return include_faults({folder, folder + "/x.cpp", "// text\n" + line + "\n"}).size();
  };
  CHECK(num_faults("base", "#include \"ops/linear.h\"") == 1);
  CHECK(num_faults("decoder", "#include \"learner/learner.h\"") == 1);
  CHECK(num_faults("config", "  #  include \"types/prompt.h\"") == 1);
  CHECK(num_faults("train", "#include \"nowhere/x.h\"") == 1);
  CHECK(num_faults("ops", "#include \"linear.h\"") == 1);
  CHECK(num_faults("decoder", "#include <torch/torch.h>") == 1);
  CHECK(num_faults("train", "#include <ATen/ATen.h>") == 1);
  CHECK(num_faults("ops", "#include <c10/core/Device.h>") == 1);
  CHECK(num_faults("dist", "#include <mpi.h>") == 1);
  CHECK(num_faults("cuda", "#include \"ops/linear.h\"") == 1);
  CHECK(num_faults("cuda", "#include <torch/torch.h>") == 1);
  CHECK(num_faults("learner", "#include \"cuda/engine/decode_engine.h\"") == 1);
  CHECK(num_faults("ops", "#include \"cuda/engine/decode_engine.h\"") == 1);
  CHECK(num_faults("decoder", "#include \"cuda/runtime/kernels.h\"") == 1);
  CHECK(num_faults("decoder", "#include \"cuda/engine/decode_engine.h\"") == 0);
  CHECK(num_faults("learner", "#include \"cuda/engine/weight_store.h\"") == 1);
  CHECK(num_faults("decoder", "#include \"cuda/bench/speed.h\"") == 1);
  CHECK(num_faults("apps", "#include \"cuda/bench/speed.h\"") == 0);
  CHECK(num_faults("learner", "#include \"cuda/train/training.h\"") == 0);
  CHECK(num_faults("learner", "#include \"cuda/train/training_kernels.h\"") == 1);
  CHECK(num_faults("decoder", "#include \"cuda/train/training.h\"") == 1);
  CHECK(num_faults("train", "#include \"decoder/decoder.h\"") == 0);
  CHECK(num_faults("learner", "#include <torch/torch.h>") == 0);
  CHECK(num_faults("cuda", "#include \"quant/format.h\"") == 0);
  CHECK(num_faults("cuda", "#include \"model/block.h\"") == 0);
  CHECK(num_faults("cuda", "#include \"model/snapshot.h\"") == 1);
  CHECK(num_faults("apps", "#include \"commands.h\"") == 0);
  CHECK(num_faults("cuda", "#include \"check.h\"") == 1);
  CHECK(num_faults("cuda", "#include \"cuda/engine/blocks.h\"") == 0);  // from cuda/x.cpp
  const auto num_upward = [](const std::string& file, const std::string& header) {
    return include_faults({"cuda", "cuda/" + file, "#include \"cuda/" + header + "\"\n"}).size();
  };
  CHECK(num_upward("engine/blocks.h", "gemm/gemms.h") == 0);
  CHECK(num_upward("gemm/gemms.h", "gemm/gemm_plan.h") == 0);
  CHECK(num_upward("gemm/gemm_plan.h", "engine/decode_engine.h") == 1);
  CHECK(num_upward("attention/kv.h", "sample/sample.h") == 1);
  CHECK(num_upward("runtime/runtime.h", "nowhere/x.h") == 1);
  CHECK(num_upward("runtime/runtime.h", "cuda.h") == 1);
}

TEST_CASE("recipe: no part below train sees it, config neither") {
  CHECK(readers_of_recipe(sources()) == std::set<std::string>());
}

TEST_CASE("recipe: parts that see it are found, also through another header") {
  const auto source = [](const std::string& folder, const std::string& name, const std::string& header) {
    return Source{folder, "src/" + name, "// text\n#include \"" + header + "\"\n"};
  };
  const std::vector<Source> all = {source("config", "config/keys/key.h", "train/recipe/recipe.h"),
                                   source("data", "data/row.h", "train/recipe/recipe.h"),
                                   source("data", "data/row.cpp", "data/row.h"),
                                   source("tasks", "tasks/list.cpp", "config/keys/key.h"),
                                   source("tasks", "tasks/list.h", "config/option.h"),
                                   source("train", "train/run.h", "train/recipe/recipe.h")};
  CHECK(readers_of_recipe(all) ==
        std::set<std::string>{"config/keys/key.h", "data/row.cpp", "data/row.h", "tasks/list.cpp"});
}

TEST_CASE("includes inside a folder of src, cuda, apps, tests/support: one way, also between its folders") {
  const std::vector<Source> all = sources({"src", "apps", "cuda", "tests/support"});
  CHECK(circles(includes_inside(all, 9)) == std::set<std::string>());
  CHECK(circles(includes_inside(all, 2)) == std::set<std::string>());
}

TEST_CASE("includes inside a folder: cycles are found") {
  const auto source = [](const std::string& name, const std::string& header) {
    return Source{"data", "src/data/" + name, "// text\n#include \"data/" + header + "\"\n"};
  };
  const std::vector<Source> one_way = {source("a.cpp", "a.h"), source("a.h", "b/x.h"), source("b/x.h", "b/y.h")};
  CHECK(circles(includes_inside(one_way, 9)).empty());
  std::vector<Source> back = one_way;
  back.push_back(source("b/y.cpp", "a.h"));
  CHECK(circles(includes_inside(back, 9)) == std::set<std::string>{"data/a", "data/b/x", "data/b/y"});
  CHECK(circles(includes_inside(back, 2)) == std::set<std::string>{"data/a", "data/b"});
  std::vector<Source> rooms = one_way;  // two files of b, one above a and one below it
  rooms.push_back(source("b/z.cpp", "a.h"));
  CHECK(circles(includes_inside(rooms, 9)).empty());
  CHECK(circles(includes_inside(rooms, 2)) == std::set<std::string>{"data/a", "data/b"});
  const std::vector<Source> cuda = {{"cuda", "cuda/a/x.cu", "#include \"cuda/a/y.cuh\"\n"},
                                    {"cuda", "cuda/a/y.cuh", "#include \"cuda/a/x.h\"\n"}};
  CHECK(circles(includes_inside(cuda, 9)) == std::set<std::string>{"cuda/a/x", "cuda/a/y"});
  const std::vector<Source> apps = {{"apps", "apps/common/x.cpp", "#include \"y.h\"\n"},
                                    {"apps", "apps/common/y.h", "#include \"x.h\"\n"}};
  CHECK(circles(includes_inside(apps, 9)) == std::set<std::string>{"apps/x", "apps/y"});
}

TEST_CASE("src/README.md: names exactly the existing folders, in the ladder's order") {
  std::set<std::string> in_test;
  for (const auto& [folder, layer] : kLayers) in_test.insert(folder);
  CHECK(in_test == folders_of_src());

  const std::string text = qrl::test::read_file(kRoot / "src" / "README.md");
  CHECK(to_text(layers_of_table(text)) == to_text(kLayers));

  // The diagram above it: lines "  3 │   state   dist    quant   │  words".
  static const std::regex line(R"(\n +(\d) │ +([a-z ]+)│)");
  std::map<std::string, int> in_picture;
  for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it) {
    std::istringstream words((*it)[2]);
    for (std::string word; words >> word;) CHECK(in_picture.emplace(word, std::stoi((*it)[1])).second);
  }
  CHECK(to_text(in_picture) == to_text(kLayers));
}

TEST_CASE("cuda/README.md: names exactly the existing folders of cuda, in its layers") {
  std::map<std::string, int> in_tree;
  for (const auto& entry : fs::directory_iterator(kRoot / "cuda")) {
    const auto layer = kCudaLayers.find(entry.path().filename().string());
    if (entry.is_directory())
      in_tree[entry.path().filename().string()] = layer == kCudaLayers.end() ? 0 : layer->second;
  }
  CHECK(to_text(in_tree) == to_text(kCudaLayers));
  const std::string text = qrl::test::read_file(kRoot / "cuda" / "README.md");
  CHECK(to_text(layers_of_table(text)) == to_text(kCudaLayers));
}

TEST_CASE("model families: only the table names one") {
  std::vector<std::string> words;
  const std::string table = qrl::test::read_file(kRoot / "src/model/family_table.cpp");
  static const std::regex row(R"rx(\.model_type = "([^"]+)")rx");
  for (std::sregex_iterator at(table.begin(), table.end(), row), end; at != end; ++at) words.push_back((*at)[1]);
  REQUIRE(words.size() >= 9);
  for (const Source& source : sources()) {
    INFO(source.name);
    if (source.name == "src/model/family_table.cpp") continue;
    CHECK(source.text.find("Family::") == std::string::npos);
    if (source.folder == "config" || source.folder == "data") continue;  // words of chat templates
    for (const std::string& word : words) CHECK(source.text.find("\"" + word + "\"") == std::string::npos);
  }
}

TEST_CASE("files: at most 600 lines") {
  for (const char* top : {"src", "apps", "cuda", "tests", "scripts"}) {
    for (const fs::path& path : files_under(top)) {
      if (!is_cpp(path) && path.extension() != ".py") continue;
      const std::string text = qrl::test::read_file(path);
      INFO(path.lexically_relative(kRoot).string());
      CHECK(std::count(text.begin(), text.end(), '\n') <= kMaxLines);
    }
  }
}

// ctest splits a name at a semicolon and runs a case that does not exist, which passes.
TEST_CASE("test names: no semicolon") {
  static const std::regex name(R"rx(TEST_CASE\("([^"]*)")rx");
  for (const fs::path& path : files_under("tests")) {
    if (!is_cpp(path) || path.filename() == "ladder_test.cpp") continue;
    const std::string text = qrl::test::read_file(path);
    for (std::sregex_iterator it(text.begin(), text.end(), name), end; it != end; ++it) {
      INFO(path.lexically_relative(kRoot).string() << ": " << (*it)[1]);
      CHECK((*it)[1].str().find(';') == std::string::npos);
    }
  }
}

TEST_CASE("headers: open with what they own, or their declarations say it") {
  for (const Source& source : sources()) {
    if (fs::path(source.name).extension() != ".h") continue;
    INFO(source.name);
    const bool has_opener = source.text.rfind("// ", 0) == 0;
    CHECK((has_opener || source.text.find("\n/// ") != std::string::npos));
    CHECK(source.text.find(has_opener ? "\n#pragma once\n" : "#pragma once\n") != std::string::npos);
  }
}
