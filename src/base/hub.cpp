#include "base/hub.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "base/ascii.h"
#include "base/error.h"
#include "base/text.h"

namespace qrl::base {

namespace fs = std::filesystem;

namespace {

struct HubName {
  std::string owner, name, revision;
};

HubName parse(std::string_view text) {
  HubName hub;
  const std::size_t slash = text.find('/'), at = text.find('@');
  hub.owner = text.substr(0, slash);
  hub.name = text.substr(slash + 1, at == std::string_view::npos ? at : at - slash - 1);
  hub.revision = at == std::string_view::npos ? "main" : std::string(text.substr(at + 1));
  return hub;
}

bool is_word(std::string_view text) {
  const auto fits = [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; };
  return !text.empty() && text.front() != '.' && text.find("..") == std::string_view::npos &&
         std::all_of(text.begin(), text.end(), fits);
}

fs::path repository(const HubName& hub) {
  const fs::path cache = hub_cache();
  return cache.empty() ? fs::path() : cache / ("models--" + hub.owner + "--" + hub.name);
}

std::string commit_of(const HubName& hub) {
  const fs::path folder = repository(hub);
  std::error_code error;
  if (folder.empty() || !fs::is_directory(folder, error)) return {};
  std::string commit = hub.revision;
  if (std::ifstream reference(folder / "refs" / hub.revision); reference.is_open()) {
    if (!(reference >> commit) || !is_word(commit)) return {};
  }
  return fs::is_directory(folder / "snapshots" / commit, error) ? commit : "";
}

}  // namespace

bool is_hub_name(std::string_view text) {
  const std::size_t slash = text.find('/'), at = text.find('@');
  if (slash == std::string_view::npos || at < slash) return false;
  const HubName hub = parse(text);
  return is_word(hub.owner) && is_word(hub.name) && is_word(hub.revision);
}

fs::path hub_cache() {
  const auto value_of = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value == nullptr ? "" : value);
  };
  if (fs::path cache = value_of("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (const fs::path home = value_of("HF_HOME"); !home.empty()) return home / "hub";
  if (const fs::path cache = value_of("XDG_CACHE_HOME"); !cache.empty()) return cache / "huggingface" / "hub";
  const fs::path home = value_of("HOME");
  return home.empty() ? home : home / ".cache" / "huggingface" / "hub";
}

std::optional<std::string> pinned_hub_name(std::string_view name) {
  const HubName hub = parse(name);
  const std::string commit = commit_of(hub);
  return commit.empty() ? std::nullopt : std::optional(hub.owner + "/" + hub.name + "@" + commit);
}

std::string local_model(const std::string& path) {
  std::error_code error;
  if (fs::exists(path, error) || !is_hub_name(path)) return path;
  const HubName hub = parse(path);
  const std::string commit = commit_of(hub);
  return commit.empty() ? path : (repository(hub) / "snapshots" / commit).string();
}

fs::path model_folder(const std::string& model_path) {
  std::error_code error;
  if (fs::is_directory(model_path, error) || !is_hub_name(model_path)) return model_path;
  const HubName hub = parse(model_path);
  const std::string commit = commit_of(hub), name = hub.owner + "/" + hub.name;
  const bool is_main = hub.revision == "main";
  QRL_REQUIRE(
      !commit.empty(), "model.path",
      "a folder, or a model in the Hugging Face cache " + base::quoted(hub_cache().string()),
      "no such folder or cached model: " + base::quoted(model_path),
      "qrl-train does not download models: run hf download " + name + (is_main ? "" : " --revision " + hub.revision));
  return repository(hub) / "snapshots" / commit;
}

}  // namespace qrl::base
