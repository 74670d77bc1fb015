#include "report/rows.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "state/file.h"
#include "state/json.h"

namespace qrl::report {

namespace {

void add_changes(const nlohmann::json& changes, std::int64_t step, std::vector<std::string>& lines) {
  if (!changes.is_object()) return;
  for (const auto& [key, pair] : changes.items()) {
    if (!pair.is_array() || pair.size() != 2) continue;
    const auto shown = [](const nlohmann::json& value) {
      return value.is_string() ? value.get<std::string>()
                               : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    };
    lines.push_back("step " + std::to_string(step) + ": " + key + " " + shown(pair[0]) + " -> " + shown(pair[1]));
  }
}

void add_row(std::string_view line, Rows& rows) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const nlohmann::json json = state::json_or_null(line);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) {
    ++rows.num_unreadable;
    return;
  }
  Row row{json["step"].get<std::int64_t>(), {}};
  for (const auto& [name, value] : json.items()) {
    if (name == "step") continue;
    if (name == "changed_on_resume") add_changes(value, row.step, rows.changes);
    else if (value.is_number()) row.metrics[name] = value.get<double>();
    else if (value.is_null()) row.metrics[name] = kNan;
  }
  if (!row.metrics.empty()) rows.rows.push_back(std::move(row));
}

}  // namespace

Rows parse_rows(std::string_view text) {
  Rows rows;
  rows.num_bytes = text.size();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    add_row(text.substr(at, end - at), rows);
    at = end + 1;
  }
  return rows;
}

Rows read_rows(const std::filesystem::path& file, std::uint64_t from) {
  state::require_no_special_file(file);
  std::ifstream in(file, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(from));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const std::size_t end = text.rfind('\n');
  return end == std::string::npos ? Rows{} : parse_rows(std::string_view(text).substr(0, end + 1));
}

bool NameOrder::operator()(std::string_view a, std::string_view b) const {
  constexpr std::string_view kDigits = "0123456789";
  const std::string_view whole_a = a, whole_b = b;
  while (!a.empty() && !b.empty()) {
    const std::size_t digits_a = std::min(a.find_first_not_of(kDigits), a.size());
    const std::size_t digits_b = std::min(b.find_first_not_of(kDigits), b.size());
    if (digits_a != digits_b && digits_a > 0 && digits_b > 0) return digits_a < digits_b;
    const std::size_t size = std::max<std::size_t>(std::min(digits_a, digits_b), 1);
    if (const int order = a.substr(0, size).compare(b.substr(0, size)); order != 0) return order < 0;
    a.remove_prefix(size);
    b.remove_prefix(size);
  }
  return whole_a.size() < whole_b.size();
}

double value_of(const Metrics& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? kNan : found->second;
}

std::string valid_utf8(std::string_view text) {
  if (base::is_utf8(text)) return std::string(text);
  std::string valid;
  while (!text.empty()) {
    const std::size_t length = base::character_bytes(text);
    if (length == 0) valid += "\xEF\xBF\xBD";
    else valid += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return valid;
}

}  // namespace qrl::report
