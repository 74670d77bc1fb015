#include "model/block.h"

namespace qrl::model {

std::string norm_before(const std::string& weight) {
  std::string norm;
  visit_known_matrices([&](const BlockMatrix& matrix) {
    if (matrix.norm.empty()) return;
    for (const BlockModule& module : matrix.modules) {
      const std::string end = std::string(module.name) + ".weight";
      if (weight.ends_with(end))
        norm = weight.substr(0, weight.size() - end.size()) + std::string(matrix.norm) + ".weight";
    }
  });
  return norm;
}

}  // namespace qrl::model
