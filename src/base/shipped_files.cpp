#include "base/shipped_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace qrl::base {

namespace fs = std::filesystem;

std::string shipped_folder(const std::string& in_source, const std::string& installed, const std::string& file) {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  // Tries paths relative to the program in the build folder, to a test program in a subfolder, and to an installed
  // program.
  for (const std::string& place : {"../" + in_source, "../../" + in_source, "../share/qrl-train/" + installed}) {
    const fs::path folder = (program.parent_path() / place).lexically_normal();
    if (fs::exists(folder / file, error)) return folder.string();
  }
  return {};
}

bool is_in_wheel() {
  std::error_code error;
  return fs::exists(fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "launch.py", error);
}

namespace {

constexpr std::string_view kShipped = "recipes:", kYaml = ".yaml";

fs::path shipped_recipes() { return shipped_folder("recipes", "recipes", "countdown_quickstart.yaml"); }

/// Lists the names of all recipes below a folder, sorted.
std::vector<std::string> names_of_recipes(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    const std::string name = entry.path().lexically_relative(folder).string();
    if (name.ends_with(kYaml)) names.push_back(name.substr(0, name.size() - kYaml.size()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Returns the first sentence of the comment that a recipe begins with.
std::string first_sentence(const fs::path& recipe) {
  std::ifstream in(recipe);
  std::string text;
  for (std::string line; std::getline(in, line) && line.starts_with("# ");)
    text += (text.empty() ? "" : " ") + line.substr(2);
  std::size_t end = text.find(". ");
  while (end != std::string::npos && end + 2 < text.size() &&
         std::isupper(static_cast<unsigned char>(text[end + 2])) == 0)
    end = text.find(". ", end + 2);  // of "eq. 4"
  return text.substr(0, end);
}

fs::path require_recipes(const std::string& word) {
  fs::path folder = shipped_recipes();
  QRL_REQUIRE(!folder.empty(), word, "recipes installed with the program", "no recipes folder",
              "give the path of a recipe file, or reinstall qrl-train");
  return folder;
}

}  // namespace

std::string list_of_recipes() {
  const fs::path folder = require_recipes(std::string(kShipped));
  const std::vector<std::string> names = names_of_recipes(folder);
  std::size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string text;
  for (const std::string& name : names) {
    text += std::string(kShipped) + name + std::string(width - name.size() + 2, ' ') +
            first_sentence(folder / (name + std::string(kYaml))) + "\n";
  }
  return text;
}

bool is_shipped_recipe(std::string_view word) { return word.starts_with(kShipped); }

std::string shipped_recipe(std::string_view word) {
  std::string name(word.substr(kShipped.size()));
  if (name.ends_with(kYaml)) name.resize(name.size() - kYaml.size());
  const fs::path folder = require_recipes(std::string(word));
  const std::vector<std::string> names = names_of_recipes(folder);
  if (std::binary_search(names.begin(), names.end(), name)) return (folder / (name + std::string(kYaml))).string();
  const std::string nearest = nearest_name(name, names);
  fail_input(
      std::string(word), "a recipe in " + folder.string(), base::quoted(name),
      nearest.empty() ? "qrl-train recipes: lists them" : "did you mean " + std::string(kShipped) + nearest + "?");
}

std::string shipped_path(const std::string& path) {
  if (!is_shipped_recipe(path)) return path;
  const fs::path folder = shipped_recipes();
  return folder.empty() ? path : (folder / path.substr(kShipped.size())).string();
}

}  // namespace qrl::base
