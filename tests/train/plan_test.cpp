// Compares what a dry run reports about disk and resuming with what a run then does.
#include <fstream>
#include <map>
#include <sstream>

#include "state/folder.h"
#include "support/catch.h"
#include "train/plan/disk_estimate.h"
#include "train/policy/policy.h"
#include "train/recipe/catalog.h"
#include "train/recipe/load.h"
#include "train/support.h"

using namespace qrl;
namespace fs = std::filesystem;

namespace {

train::Recipe tiny_recipe(const std::vector<std::string>& settings = {}) {
  return train::load_recipe(train::keys(), test::kTiny, settings, true).recipe;
}

/// Returns the bytes of a checkpoint's tensors.
double bytes_of(const fs::path& checkpoint) {
  double bytes = 0;
  for (const auto& entry : fs::directory_iterator(checkpoint))
    if (entry.path().extension() == ".safetensors") bytes += static_cast<double>(fs::file_size(entry.path()));
  return bytes;
}

std::int64_t num_with(const fs::path& folder, const std::string& prefix) {
  std::int64_t count = 0;
  for (const std::string& name : test::names_in(folder)) count += name.starts_with(prefix) ? 1 : 0;
  return count;
}

test::Outcome dry_run(const fs::path& run, const std::string& arguments = "") {
  return test::run_command(test::tiny_command(run, arguments + " --dry-run"));
}

}  // namespace

TEST_CASE("disk plan: equals what the run's checkpoints take") {
  const train::Recipe recipe = tiny_recipe();
  const train::DiskEstimate disk = train::estimate_disk(recipe, train::model_config(recipe));
  const fs::path checkpoints = test::finished_run() / "checkpoints";
  CHECK(test::close(bytes_of(checkpoints / "step_4"), disk.rl.bytes_each, 0, 0.01));
  CHECK(test::close(bytes_of(checkpoints / "sft_12"), disk.cold_start.bytes_each, 0, 0.01));
  CHECK(disk.rl.most_kept == num_with(checkpoints, "step_"));
  CHECK(disk.cold_start.most_kept == num_with(checkpoints, "sft_"));
  CHECK(disk.most_bytes() == 4 * disk.rl.bytes_each + 3 * disk.cold_start.bytes_each);

  const auto of = [](const std::vector<std::string>& settings) {
    const train::Recipe other = tiny_recipe(settings);
    return train::estimate_disk(other, train::model_config(other));
  };
  CHECK(of({"trainer.save_freq=0"}).rl.most_kept == 1);
  CHECK(of({"trainer.save_freq=0", "sft.steps=0"}).most_bytes() == disk.rl.bytes_each);  // without an older checkpoint
  CHECK(of({"trainer.save_freq=3"}).rl.most_kept == 2);
  CHECK(of({"trainer.keep_best=val/countdown/mean@2"}).rl.most_kept == 4);
  CHECK(of({"sft.steps=0"}).cold_start.most_kept == 0);
  CHECK(of({"optim.name=muon"}).rl.bytes_each < disk.rl.bytes_each);
  CHECK(of({"lora.rank=4"}).rl.bytes_each < disk.rl.bytes_each / 10);
  const test::TempDir dir;
  const test::Outcome plan = dry_run(dir / "run");
  CHECK(plan.exit_code == 0);
  CHECK(test::says(plan, "disk        up to 3 checkpoints of ~"));
  CHECK(test::says(plan, "free in " + dir.path().string() + ": "));
}

TEST_CASE("dry run: says where a start would resume, refuses what it would refuse, and changes nothing") {
  const test::TempDir dir;
  const fs::path run = test::copy_of_finished_run(dir / "run");
  CHECK(test::says(dry_run(dir / "new"),
                   "start       a new run: " + (dir / "new/checkpoints").string() + " has no checkpoint"));
  CHECK(!fs::exists(dir / "new"));
  const std::string last = (run / "checkpoints/step_4").string();
  CHECK(test::says(dry_run(run), "nothing left to do: step 4 of " + last + " is done"));
  const std::string more = "--set trainer.total_training_steps=6";
  CHECK(test::says(dry_run(run, more), "start       resumes after step 4 of " + last));
  // The words equal those of the run's own refusal.
  for (const std::string arguments :
       {"--set optim.lr=1e-4", "--set model.init.seed=5", "--resume never", "--set data.train_generator.size=32"}) {
    const test::Outcome plan = dry_run(run, arguments), start = test::run_command(test::tiny_command(run, arguments));
    INFO(arguments << "\n" << plan.output);
    CHECK(plan.exit_code == 2);
    CHECK(plan.output.starts_with("error: "));
    CHECK(start.exit_code == 2);
    CHECK(start.output.find(plan.output) != std::string::npos);
  }
  CHECK(test::says(dry_run(run, more + " --set optim.lr=1e-4 --allow-change"),
                   "; changed: optim.lr 1.0e-4 (it was made with 0.001)"));
  test::flip_bit(run / "checkpoints/step_4/model.safetensors", 4000);
  const std::vector<std::string> before = test::names_in(run / "checkpoints");
  CHECK(test::says(dry_run(run, more), "resumes after step 3 of "));
  CHECK(test::names_in(run / "checkpoints") == before);
  const test::Outcome from = dry_run(dir / "from", "--set sft.from=" + (run / "checkpoints/sft_12").string());
  CHECK(test::says(from, "start       a new run, after the cold start " + (run / "checkpoints/sft_12").string()));
}

TEST_CASE("dry run: names the checkpoints that a run would set aside as damaged") {
  const test::TempDir dir;
  const fs::path checkpoints = dir / "run/checkpoints";
  fs::create_directories(checkpoints / "step_9");
  fs::create_directories(checkpoints / "step_2");
  CHECK(test::says(dry_run(dir / "run"), "start       a new run: all checkpoints in " + checkpoints.string() +
                                             " (step_9, step_2) are damaged and will be set aside"));
  fs::remove(checkpoints / "step_9");
  CHECK(test::says(dry_run(dir / "run"), "start       a new run: the only checkpoint in " + checkpoints.string() +
                                             " (step_2) is damaged and will be set aside"));
}

TEST_CASE("dry run: refuses run folders as a run does, with the same message") {
  const test::TempDir dir;
  std::ofstream(dir / "file") << "text";
  fs::create_directories(dir / "held");
  const state::FolderLock lock(dir / "held");
  for (const std::string name : {"file", "file/run", "held"}) {
    const test::Outcome plan = dry_run(dir / name), start = test::run_command(test::tiny_command(dir / name));
    INFO(name << "\n" << plan.output);
    CHECK(plan.exit_code == 2);
    CHECK(plan.output.starts_with("error: "));
    CHECK(start.exit_code == 2);
    CHECK(start.output.find(plan.output) != std::string::npos);
    CHECK(dry_run(dir / name, "--allow-absent").exit_code == 0);
  }
  CHECK(test::names_in(dir.path()) == std::vector<std::string>{"file", "held"});
}

TEST_CASE("plan of several ranks: printed before the final error, with the memory of all") {
  const test::TempDir dir;
  const test::Outcome plan =
      dry_run(dir / "run", "--ranks 2 --set data.train_generator.task=null --set data.train_files=[/typo.jsonl]");
  CHECK(plan.exit_code == 2);
  CHECK(test::says(plan, "memory per device (2 processes"));
  CHECK(test::says(plan, "  in the 2 processes here "));
  CHECK(test::says(plan,
                   "needed by a run\nerror (rank 0): --dry-run: expected every file and GPU that a run needs, got "
                   "no /typo.jsonl (data.train_files); "));
}

TEST_CASE("KV cache: has room for whole pages of a sequence") {
  const test::TempDir dir;  // 49 tokens need four pages of 16
  CHECK(test::says(dry_run(dir / "run", "--set data.max_prompt_length=25 --set rollout.kv_pages=103"),
                   "KV cache    1648 tokens: room for 25 of the longest sequences"));
}

TEST_CASE("disk space: dry run and run warn if checkpoints need more than is free") {
  const test::TempDir dir;
  const std::string many = "--set sft.steps=1 --set trainer.total_training_steps=1000000000 --set " +
                           std::string("trainer.max_ckpt_to_keep=1000000000"),
                    warning = " are free in " + (dir / "run").string() +
                              ": lower trainer.max_ckpt_to_keep, or set another trainer.default_local_dir\n";
  fs::create_directories(dir / "run");
  CHECK(test::says(dry_run(dir / "run", many), warning));
  const std::string sft =
      test::kProgram + "sft " + test::kTiny + " --set trainer.default_local_dir=" + (dir / "run").string() + " ";
  CHECK(test::says(test::run_command(sft + many), "warning: the checkpoints need up to ~"));
  CHECK(test::run_command(sft + "--set sft.steps=1").output.find("disk space") == std::string::npos);
}
