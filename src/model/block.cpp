#include "model/block.h"

namespace qrl::model {

std::string norm_before(const std::string& weight) {
  std::string norm;
  const auto note = [&](std::string_view module, std::string_view its_norm) {
    const std::string end = std::string(module) + ".weight";
    if (!its_norm.empty() && weight.ends_with(end))
      norm = weight.substr(0, weight.size() - end.size()) + std::string(its_norm) + ".weight";
  };
  const auto note_matrix = [&](const BlockMatrix& matrix, const auto&) {
    for (const BlockModule& module : matrix.modules) note(module.name, matrix.norm);
  };
  ModelConfig any;
  any.num_hidden_layers = 1;
  visit_matrices(any, 0, note_matrix);
  any.num_experts = 1;
  visit_matrices(any, 0, note_matrix,
                 [&](const BlockExperts& experts, const auto&) { note(experts.tensor, experts.matrix.norm); });
  return norm;
}

}  // namespace qrl::model
