#include "compare/rows.h"

#define ZLIB_CONST  // inputs are const
#include <zlib.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "config/words.h"
#include "report/sessions.h"
#include "state/file.h"
#include "state/folder.h"
#include "state/json.h"

namespace qrl::compare {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 256 << 20;
constexpr std::string_view kPlanLine = "# plan ";
constexpr int kGzip = 15 + 16;  // zlib's window bits, with a gzip header
constexpr std::string_view kExport = "export/";
constexpr std::size_t kNumNames = 6;  // plan, arm, seed, isa, program, step

std::string gzipped(const std::string& text) {
  z_stream stream{};
  QRL_INVARIANT(deflateInit2(&stream, 9, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) == Z_OK, "zlib", "a stream", "none");
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<const Bytef*>(text.data());
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int code = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  QRL_INVARIANT(code == Z_STREAM_END, "zlib", "the end of the stream", std::to_string(code));
  return out;
}

/// Reads a plain or gzipped file.
std::string read_rows_file(const fs::path& file) {
  const std::string where = state::shown(file);
  (void)state::File::open(file);  // has the errors of absent files
  const gzFile in = gzopen(file.c_str(), "rb");
  QRL_REQUIRE(in != nullptr, where, "a readable file", "none");
  std::string text, block(1 << 16, '\0');
  int count = 0;
  while ((count = gzread(in, block.data(), static_cast<unsigned>(block.size()))) > 0 && text.size() < kMostBytes)
    text.append(block, 0, static_cast<std::size_t>(count));
  const bool is_whole = gzclose(in) == Z_OK && count == 0;
  QRL_REQUIRE(is_whole, where, "rows of qrl-train compare", "a damaged or cut gzip file");
  return text;
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "";
  std::array<char, 32> text{};
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), value).ptr};
}

std::string header_of(const Plan& plan) { return "plan,arm,seed,isa,program,step," + base::joined(plan.columns, ","); }

bool same(const ArmRun& a, const ArmRun& b) {
  return a.isa == b.isa && a.program == b.program &&
         std::ranges::equal(a.rows, b.rows, [](const report::Row& x, const report::Row& y) {
           return x.step == y.step && x.metrics == y.metrics;
         });
}

/// Adds a line of a row file. `where`: "FILE:LINE".
void add_line(std::string_view line, const Plan& plan, const std::string& hash, const std::string& where,
              ArmRuns& runs) {
  const std::vector<std::string_view> cells = config::split(line, ",");
  QRL_REQUIRE(cells.size() == kNumNames + plan.columns.size(), where,
              std::to_string(kNumNames + plan.columns.size()) + " cells", std::to_string(cells.size()));
  QRL_REQUIRE(cells[0] == hash, where, "rows of plan " + hash, "plan " + base::quoted(cells[0]));
  const auto seed = base::number_in<std::int64_t>(cells[2]), step = base::number_in<std::int64_t>(cells[5]);
  const auto arm = std::ranges::find(plan.arms, cells[1], &Arm::name);
  QRL_REQUIRE(seed && step && arm != plan.arms.end() && std::ranges::count(arm->seeds, *seed) == 1, where,
              "an arm, a seed and a step of the plan", base::quoted(line));
  ArmRun& run = runs[{arm->name, *seed}];
  QRL_REQUIRE(run.rows.empty() || (run.isa == cells[3] && run.program == cells[4] && run.rows.back().step + 1 == *step),
              where, "the next step, of one program and instruction set", base::quoted(line));
  run.isa = cells[3];
  run.program = cells[4];
  report::Row row{*step, {}};
  for (std::size_t i = 0; i < plan.columns.size(); ++i) {
    const std::string_view cell = cells[kNumNames + i];
    const auto value = base::number_in<double>(cell);
    QRL_REQUIRE(cell.empty() || (value && std::isfinite(*value)), where, "a number or nothing", base::quoted(cell));
    if (value) row.metrics[plan.columns[i]] = *value;
  }
  run.rows.push_back(std::move(row));
}

}  // namespace

ArmRun read_arm_run(const Plan& plan, const fs::path& dir) {
  ArmRun run;
  for (const report::Session& session : report::read_sessions(dir / "sessions.jsonl")) {
    QRL_REQUIRE(run.isa.empty() || (run.isa == session.isa && run.program == session.program), state::shown(dir),
                "sessions of one program and instruction set",
                run.program + ", " + run.isa + ", then " + session.program + ", " + session.isa,
                "set QRL_ISA=" + run.isa + ", or delete the folder to run it again");
    run.isa = session.isa;
    run.program = session.program;
  }
  for (const report::Row& row : report::read_rows(dir / "metrics.jsonl").rows) {
    report::Row kept{row.step, {}};
    for (const std::string& name : plan.columns)
      if (const double value = report::value_of(row.metrics, name); std::isfinite(value)) kept.metrics[name] = value;
    run.rows.push_back(std::move(kept));
  }
  QRL_REQUIRE(!run.rows.empty() && run.rows.back().step == plan.steps, state::shown(dir),
              "rows of " + std::to_string(plan.steps) + " steps",
              run.rows.empty() ? "none" : "step " + std::to_string(run.rows.back().step) + " last",
              "delete the folder");
  const fs::path exported = dir / "export_score.json";
  if (!fs::exists(exported)) return run;
  const nlohmann::json json = state::json_or_null(state::read_text(exported, 1 << 20));
  if (!json.is_object() || json.value("step", std::int64_t{-1}) != run.rows.back().step) return run;
  for (const auto& [source, score] : json.at("scores").items())
    if (const std::string name = std::string(kExport) + source; std::ranges::count(plan.columns, name) > 0)
      run.rows.back().metrics[name] = score.get<double>();
  return run;
}

PlanRows read_plan_rows(std::span<const fs::path> files) {
  std::optional<PlanRows> all;
  std::string hash;
  for (const fs::path& file : files) {
    const std::string where = state::shown(file), text = read_rows_file(file);
    const std::vector<std::string_view> lines = config::split(text, "\n");
    QRL_REQUIRE(lines.size() > 2 && lines[0].starts_with(kPlanLine), where, "rows of qrl-train compare",
                "a file without a plan");
    Plan plan = plan_of_json(std::string(lines[0].substr(kPlanLine.size())), where + ":1");
    if (!all) hash = plan.hash(), all.emplace(PlanRows{plan, {}});
    QRL_REQUIRE(plan.hash() == hash, where, "rows of plan " + hash, "rows of plan " + plan.hash(),
                "a changed plan is another comparison");
    QRL_REQUIRE(lines[1] == header_of(plan), where + ":2", base::quoted(header_of(plan)), base::quoted(lines[1]));
    ArmRuns runs;
    for (std::size_t i = 2; i < lines.size(); ++i)
      if (!lines[i].empty()) add_line(lines[i], plan, hash, where + ":" + std::to_string(i + 1), runs);
    for (auto& [key, run] : runs) {
      QRL_REQUIRE(
          run.rows.front().step <= 1 && run.rows.back().step == plan.steps, where,
          "steps 1 to " + std::to_string(plan.steps) + " of arm " + key.first + ", seed " + std::to_string(key.second),
          "steps " + std::to_string(run.rows.front().step) + " to " + std::to_string(run.rows.back().step));
      const auto [known, is_new] = all->runs.try_emplace(key, run);
      QRL_REQUIRE(is_new || same(known->second, run), where, "the same rows in all files",
                  "other rows of arm " + key.first + ", seed " + std::to_string(key.second), "keep one of the files");
    }
  }
  return std::move(*all);
}

void write_plan_rows(const fs::path& file, const Plan& plan, const ArmRuns& runs) {
  const std::string hash = plan.hash();
  std::string text = std::string(kPlanLine) + plan.json() + "\n" + header_of(plan) + "\n";
  for (const auto& [key, run] : runs) {
    for (const report::Row& row : run.rows) {
      text += hash + "," + key.first + "," + std::to_string(key.second) + "," + run.isa + "," + run.program + "," +
              std::to_string(row.step);
      for (const std::string& name : plan.columns) text += "," + number_text(report::value_of(row.metrics, name));
      text += "\n";
    }
  }
  state::replace_file(file, gzipped(text));
}

void require_comparable(const Plan& plan, const ArmRuns& runs) {
  for (const auto& [key, run] : runs)
    QRL_REQUIRE(run.program == runs.begin()->second.program,
                "arm " + key.first + ", seed " + std::to_string(key.second), "runs of " + runs.begin()->second.program,
                run.program, "use one program for all runs");
  for (const Contrast& contrast : plan.contrasts) {
    for (const std::int64_t seed : plan.pairs(contrast)) {
      const auto first = runs.find({contrast.first, seed}), second = runs.find({contrast.second, seed});
      if (first == runs.end() || second == runs.end()) continue;
      QRL_REQUIRE(first->second.isa == second->second.isa, contrast.name() + ", seed " + std::to_string(seed),
                  "one instruction set in a pair", first->second.isa + " and " + second->second.isa,
                  "delete one run, and set QRL_ISA or the plan's isa");
    }
  }
}

double endpoint_of(const Endpoint& endpoint, const ArmRun& run) {
  double sum = 0;
  std::int64_t count = 0;
  for (const report::Row& row : run.rows) {
    const bool is_named =
        endpoint.steps.empty() ? &row == &run.rows.back() : std::ranges::binary_search(endpoint.steps, row.step);
    const double value = report::value_of(row.metrics, endpoint.metric);
    if (!is_named || (endpoint.is_range && !std::isfinite(value))) continue;
    sum += value;
    ++count;
  }
  const auto wanted = static_cast<std::int64_t>(std::max<std::size_t>(endpoint.steps.size(), 1));
  return count == wanted || (endpoint.is_range && count > 0) ? sum / static_cast<double>(count) : report::kNan;
}

std::int64_t first_step_with_signal(const ArmRun& run) {
  for (const report::Row& row : run.rows)
    if (report::value_of(row.metrics, "data/flat_group_fraction") < 1) return row.step;
  return 0;
}

}  // namespace qrl::compare
