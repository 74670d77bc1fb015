#include "train/catalog.h"

#include "config/modes.h"
#include "learner/objective/list.h"

namespace qrl::train {

config::Catalog catalog() { return {learner::policy_losses(), learner::corrections(), config::modes()}; }

const config::Keys& keys() {
  static const config::Keys all(catalog());
  return all;
}

}  // namespace qrl::train
