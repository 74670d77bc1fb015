#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "state/json.h"

namespace qrl::model {

struct ModelConfig;

/// Reads a JSON object's values. Errors are input errors that name the file and the key.
class ConfigReader {
 public:
  ConfigReader(std::string_view text, std::string where)
      : where_(std::move(where)), root_(state::parse_json(text, where_)) {
    QRL_REQUIRE(root_.is_object(), where_, "a JSON object", state::shown_value(root_));
  }

  const nlohmann::json& root() const { return root_; }
  std::string at(const std::string& key) const { return where_ + ": " + base::quoted(key); }

  const nlohmann::json* find(const std::string& key) const {
    const auto found = root_.find(key);
    return found == root_.end() || found->is_null() ? nullptr : &*found;
  }

  const nlohmann::json& get(const std::string& key, const std::string& expected) const {
    const nlohmann::json* value = find(key);
    QRL_REQUIRE(value != nullptr, at(key), expected, root_.contains(key) ? "null" : "no such key",
                "nothing that changes the model is assumed");
    return *value;
  }

  std::int64_t size(const std::string& key, std::int64_t max) const {
    const std::string expected = "an integer from 1 to " + std::to_string(max);
    const nlohmann::json& value = get(key, expected);
    QRL_REQUIRE(value.is_number_unsigned() && value.get<std::uint64_t>() >= 1 &&
                    value.get<std::uint64_t>() <= static_cast<std::uint64_t>(max),
                at(key), expected, state::shown_value(value));
    return value.get<std::int64_t>();
  }

  bool boolean(const std::string& key) const {
    const nlohmann::json& value = get(key, "true or false");
    QRL_REQUIRE(value.is_boolean(), at(key), "true or false", state::shown_value(value));
    return value.get<bool>();
  }

  /// Throws an input error unless the key is absent, null or `only`. Numbers are compared by value.
  void require_only(const std::string& key, const nlohmann::json& only) const {
    const nlohmann::json* value = find(key);
    QRL_REQUIRE(value == nullptr || *value == only, at(key), only.dump() + " (nothing else is supported)",
                state::shown_value(*value));
  }

 private:
  std::string where_;
  nlohmann::json root_;
};

/// Returns the shortest decimal of a float: 1e-06, not 9.99999997e-07.
double shortest_decimal(float value);

/// Reads the keys of a mixture of experts into a config whose other sizes are already read (config_experts.cpp).
void read_experts(const ConfigReader& reader, ModelConfig& config);

/// Writes the experts' keys, as transformers 4 and 5 and vLLM read them.
void write_experts(const ModelConfig& config, nlohmann::json& root);

/// Returns ", 128 experts of 768, 8 a token, in 48 layers, 3345600000 parameters act", or "" for a dense model.
std::string describe_experts(const ModelConfig& config);

}  // namespace qrl::model
