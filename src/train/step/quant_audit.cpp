#include "train/step/quant_audit.h"

#include <array>
#include <cstdio>
#include <map>
#include <sstream>

#include "train/plan/formats.h"

namespace qrl::train {

namespace {

constexpr const char* kSame = "; same storage";

}  // namespace

std::vector<std::string> quant_audit(const learner::Learner& learner, const model::Snapshot& read_by_sampler) {
  const model::Snapshot* published = learner.published();
  std::vector<model::SnapshotTensor> theirs;
  if (published != nullptr) theirs = published->tensors();
  const std::vector<model::SnapshotTensor> ours = read_by_sampler.tensors();
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (ours[i].is_gain) continue;
    const bool in_place = learner.reads_in_place(ours[i].name);
    const bool same = in_place && i < theirs.size() && theirs[i].data == ours[i].data;
    const std::string mode(name(learner.forward_mode()));
    const bool is_adapter = ours[i].name.find(".lora_") != std::string::npos;
    const std::string reads = in_place ? mode
                              : is_adapter && learner.forward_mode() != config::LearnerForward::bf16
                                  ? "its fp32 masters, rounded as the sampler's"
                              : learner.forward_mode() == config::LearnerForward::bf16
                                  ? "its fp32 masters in model.dtype"
                                  : mode + ", from decoded copies";
    lines.push_back(ours[i].name + ": sampler " + ours[i].what + "; learner " + reads +
                    (same ? kSame : "; storage of its own"));
  }
  return lines;
}

std::string audit_summary(const std::vector<std::string>& audit) {
  std::map<std::string, int> kinds;
  std::int64_t same = 0;
  for (const std::string& line : audit) {
    const std::size_t colon = line.find(": sampler ") + 10;
    const bool is_layer = line.starts_with("layers.") && line.find(".lora_") > colon;
    if (is_layer) ++kinds[line.substr(colon, line.find(" [", colon) - colon)];
    same += line.ends_with(kSame) ? 1 : 0;
  }
  std::string summary = "linear layers of the sampler:";
  for (const auto& [format, count] : kinds) summary += " " + std::to_string(count) + " × " + format + ",";
  summary.back() = ';';
  const std::string learner = same == 0 ? " the learner's forward pass computes with its own weights"
                                        : " the learner's forward pass reads " + std::to_string(same) +
                                              " of the sampler's " + std::to_string(audit.size()) + " tensors";
  return summary + learner + " (quant_audit.txt lists each)";
}

std::vector<std::string> format_error_report(const learner::Learner& learner, const model::Snapshot& published,
                                             dist::Collectives& world) {
  if (!learner.is_sharded() && !world.is_first()) return {};
  std::string mine;  // one line per matrix; empty if this rank does not hold its master
  for (const model::WeightError& weight :
       published.format_errors([&](const std::string& weight) { return learner.state().master(weight); })) {
    if (!weight.weight.empty()) {
      std::array<char, 128> figures{};
      std::snprintf(figures.data(), figures.size(), ": max error %.3g, RMS %.3g, SNR %.1f dB, cosine %.6f",
                    weight.error.max_abs, weight.error.rms, weight.error.snr_db, weight.error.cosine);
      mine += weight.weight + " as " + std::string(quant::name(weight.format)) + figures.data();
    }
    mine += "\n";
  }
  std::vector<std::string> lines;
  for (const std::string& theirs : learner.is_sharded() ? world.all_gather(mine) : std::vector{mine}) {
    std::istringstream text(theirs);
    std::string line;
    for (std::size_t i = 0; std::getline(text, line); ++i) {
      if (i == lines.size()) lines.emplace_back();
      if (!line.empty()) lines[i] = line;
    }
  }
  return lines;
}

}  // namespace qrl::train
