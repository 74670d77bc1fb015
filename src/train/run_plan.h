#pragma once

#include <memory>
#include <string>
#include <vector>

#include "dist/collectives.h"
#include "learner/learner.h"
#include "model/config.h"
#include "rollout/conversations.h"
#include "tasks/verifier.h"
#include "train/files/run_folder.h"
#include "train/plan/memory_estimate.h"
#include "train/policy/adapters.h"
#include "train/policy/inputs.h"
#include "train/policy/policy.h"
#include "train/prompts/prompts.h"
#include "train/prompts/sft_rows.h"
#include "train/recipe/load.h"

namespace qrl::train {

struct PlanRequest {
  int num_ranks = 1, num_here = 1;  ///< processes of the run, and those on this machine
  bool is_run = true;               ///< false: a --dry-run, which lists what this machine lacks instead of throwing
};

/// Holds what follows from recipe, model config and machine, before weights and data are read.
struct RunOutline {
  LoadedRecipe loaded;  ///< recipe without `auto`; with trainer.total_epochs, total_training_steps is still 0
  model::ModelConfig model;
  std::vector<MemoryPart> memory;   ///< memory parts of one process
  std::string memory_fault;         ///< why the machine's memory is too small, or ""
  std::string memory_doubt;         ///< why the memory may be too small, or ""
  std::string gpu_plan;             ///< micro-batches and memory of the learner's GPU; "" on the CPU
  std::string chosen_keys;          ///< keys whose `auto` the GPU plan replaced
  std::vector<std::string> absent;  ///< --dry-run: files that a run needs and this machine lacks
  std::string missing_gpu;          ///< --dry-run: why the recipe's GPU is unusable; "" otherwise

  const Recipe& recipe() const { return loaded.recipe; }
};

/// Returns whether model.path names a model whose config.json this machine lacks.
bool lacks_model(const Recipe& recipe);
/// Lists the files that a run needs and this machine lacks, each with its key. `reads_adapters`: a run reads lora.path.
std::vector<std::string> absent_files(const Recipe& recipe, bool reads_adapters);

/// Checks the recipe against the model's config and the machine. Throws an input error if they do not fit together.
/// With request.is_run, also throws if this machine lacks memory, the recipe's GPU or its libraries, and loads
/// LibTorch's CUDA part for a learner on a GPU. Collective.
RunOutline outline_run(const LoadedRecipe& given, const PlanRequest& request, dist::Collectives& world);

/// Holds the outline and all that a run reads before its first step. Its recipe has the final numbers of RL steps and
/// cold-start updates.
struct RunPlan : RunOutline {
  Policy policy;  ///< policy without the run's adapters
  learner::LearnerOptions learner;
  learner::LossOptions loss;
  types::SamplingParams train_sampling, eval_sampling;
  std::shared_ptr<const tasks::Verifier> verifier;
  std::shared_ptr<const rollout::ConversationSettings> conversations;  ///< null without an environment
  PromptSet prompts;
  std::vector<PromptSet> held_out;
  SftRows sft_rows;  ///< empty without sft.train_files
  Inputs inputs;     ///< empty in a --dry-run
};

/// Reads and checks the tokenizer, prompts, SFT rows and the weights' shapes. With request.is_run, also hashes the
/// inputs. Collective. Throws input errors.
RunPlan plan_run(RunOutline outline, const PlanRequest& request, dist::Collectives& world);

struct RunContext {
  const RunPlan& plan;
  dist::Collectives& world;
  const RunFolder* folder;              ///< null on all ranks but the first
  learner::Learner* teacher = nullptr;  ///< learner of algorithm.teacher, or null
  const AdapterBase* base = nullptr;    ///< base of the adapters, or null

  const Recipe& recipe() const { return plan.recipe(); }
};

}  // namespace qrl::train
