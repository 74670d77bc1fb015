// Owns the plan of a run: all consequences of a recipe, decided before the run changes a file.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "config/reader.h"
#include "dist/collectives.h"
#include "learner/learner.h"
#include "model/config.h"
#include "tasks/verifier.h"
#include "train/files/run_folder.h"
#include "train/plan/memory_estimate.h"
#include "train/policy/adapters.h"
#include "train/policy/inputs.h"
#include "train/policy/policy.h"
#include "train/prompts/prompts.h"
#include "train/prompts/sft_rows.h"

namespace qrl::train {

struct PlanRequest {
  int num_ranks = 1, num_here = 1;  ///< processes of the run, and those on this machine
  bool is_run = true;  ///< whether this is a run; a --dry-run lists missing parts of this machine instead of throwing
};

/// Holds the consequences of the recipe, the model's config and the machine, without weights and data.
struct RunOutline {
  config::LoadedRecipe loaded;  ///< with automatic values chosen; trainer.total_training_steps 0 with epochs
  model::ModelConfig model;
  std::vector<MemoryPart> memory;   ///< of one process
  std::string memory_fault;         ///< why the machine's memory is too small, or ""
  std::string memory_doubt;         ///< why the memory may be too small, or ""
  std::string gpu_plan;             ///< micro-batches and memory of the learner's GPU; "" on the CPU
  std::string chosen_keys;          ///< keys whose values gpu_plan chose
  std::vector<std::string> absent;  ///< --dry-run: files that a run needs and this machine lacks
  std::string missing_gpu;          ///< --dry-run: why the recipe's GPU is unusable; "" otherwise

  const config::Recipe& recipe() const { return loaded.recipe; }
};

/// Checks the recipe against the model's config and the machine. A run also loads LibTorch's CUDA part, if the recipe
/// uses it. Throws an input error for parts that do not fit or, in a run, are missing. Collective.
RunOutline outline_run(const config::LoadedRecipe& given, const PlanRequest& request, dist::Collectives& world);

/// Holds all that a run reads before its first step. Its recipe has the steps of RL and cold start.
struct RunPlan : RunOutline {
  Policy policy;  ///< before adapters
  learner::LearnerOptions learner;
  learner::LossOptions loss;
  types::SamplingParams train_sampling, eval_sampling;
  std::shared_ptr<const tasks::Verifier> verifier;
  PromptSet prompts;
  std::vector<PromptSet> held_out;
  SftRows sft_rows;  ///< empty without sft.train_files
  Inputs inputs;     ///< for a run; empty in a --dry-run
};

/// Reads weights' shapes, tokenizer, prompts and rows, and checks them against the outline. A run also hashes its
/// inputs. Collective. Throws input errors.
RunPlan plan_run(RunOutline outline, const PlanRequest& request, dist::Collectives& world);

struct RunContext {
  const RunPlan& plan;
  dist::Collectives& world;
  const RunFolder* folder;              ///< null on all ranks but the first
  learner::Learner* teacher = nullptr;  ///< algorithm.teacher, or null
  const AdapterBase* base = nullptr;    ///< the adapters', or null

  const config::Recipe& recipe() const { return plan.recipe(); }
};

}  // namespace qrl::train
