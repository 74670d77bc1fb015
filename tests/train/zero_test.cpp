// Tests trainer.zero_stage 1 under mpirun and --ranks: the same training, checkpoints in shards, and the case of a rank
// that cannot write its own.
#include <fstream>
#include <map>

#include "state/safetensors.h"
#include "support/catch.h"
#include "train/support.h"

namespace qrl {

namespace fs = std::filesystem;

namespace {

const std::string kSharded = " --set trainer.zero_stage=1 ";

std::string steps(int count) { return " --set trainer.total_training_steps=" + std::to_string(count) + " "; }

/// Returns every tensor of model*.safetensors or optimizer*.safetensors, in any number of files.
std::map<std::string, std::vector<float>> tensors_of(const fs::path& checkpoint, const std::string& stem) {
  std::map<std::string, std::vector<float>> all;
  for (const std::string& name : test::names_in(checkpoint)) {
    if (!name.starts_with(stem) || !name.ends_with(".safetensors")) continue;
    const state::SafetensorsFile file(checkpoint / name);
    for (const auto& [tensor, entry] : file.tensors()) {
      const base::Buffer values = file.read_f32(tensor);
      all[tensor].assign(values.as<float>(), values.as<float>() + values.view().numel());
    }
  }
  return all;
}

std::size_t files_of(const fs::path& checkpoint, const std::string& stem) {
  std::size_t count = 0;
  for (const std::string& name : test::names_in(checkpoint))
    count += name.starts_with(stem) && name.ends_with(".safetensors") ? 1 : 0;
  return count;
}

void run_ranks(const fs::path& folder, const std::string& arguments, int num_ranks) {
  const test::Outcome outcome =
      test::run_command(test::tiny_command(folder, arguments, num_ranks == 1 ? "" : test::mpirun(num_ranks)));
  INFO(arguments);
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
}

/// Compares weights, moments, metric rows and rollouts of step `last`, bit for bit.
void check_same_steps(const fs::path& a, const fs::path& b, int last) {
  const fs::path checkpoint = fs::path("checkpoints") / ("step_" + std::to_string(last));
  for (const char* stem : {"model", "optimizer"}) {
    const auto tensors = tensors_of(a / checkpoint, stem);
    CHECK(tensors.size() > 20);
    CHECK((tensors == tensors_of(b / checkpoint, stem)));
  }
  const auto rows = test::stable_rows(a / "metrics.jsonl");
  CHECK(rows.size() == static_cast<std::size_t>(last + 1));
  CHECK(rows == test::stable_rows(b / "metrics.jsonl"));
  const fs::path rollouts = fs::path("rollouts") / ("step_" + std::to_string(last) + ".jsonl");
  CHECK(test::read_file(a / rollouts) == test::read_file(b / rollouts));
}

/// Returns a script's last line: the command in its own mount namespace, after `change` in it.
std::string in_own_mounts(const std::string& change) {
  return "exec unshare -m bash -c '" + change + R"( && exec "$@"' own_mounts "$@")";
}

bool has_own_mounts() { return std::system("unshare -m true 2> /dev/null") == 0; }

/// Runs `command` on two ranks, the second below a shell script `wrapper` that is written into `dir` and ends in exec
/// "$@".
test::Outcome run_with_second_rank(const fs::path& dir, const std::string& wrapper, const std::string& command) {
  std::ofstream(dir / "second_rank.sh") << wrapper << "\n";
  return test::run_command(test::mpirun(1) + command + " : -np 1 bash " + (dir / "second_rank.sh").string() + command);
}

}  // namespace

TEST_CASE("zero_stage on one process: files equal those of zero_stage 0") {
  const test::TempDir dir;
  run_ranks(dir / "run", kSharded, 1);
  CHECK(test::difference(dir / "run", test::finished_run()) == "");
}

TEST_CASE("sharded ranks: leave the files of unsharded ranks") {
  if (test::mpirun(2).empty()) return test::skip("no MPI");
  const std::string int8 = " --set model.dtype=bfloat16 --set quant.rollout.weights=int8 ",
                    low_bit =
                        int8 + "--set optim.name=muon --set quant.learner.forward=low_bit --set quant.uaq_scale=1.5",
                    profile = int8 + "--set quant.rollout.profile=auto";
  for (const auto& [num_ranks, settings] :
       {std::pair(2, std::string()), std::pair(3, low_bit), std::pair(2, profile)}) {
    CAPTURE(num_ranks);
    const test::TempDir dir;
    run_ranks(dir / "plain", settings, num_ranks);
    run_ranks(dir / "sharded", settings + kSharded, num_ranks);
    check_same_steps(dir / "sharded", dir / "plain", 4);
    CHECK(test::read_file(dir / "sharded/quant_audit.txt") == test::read_file(dir / "plain/quant_audit.txt"));
    const fs::path checkpoint = dir / "sharded/checkpoints/step_4";
    CHECK(files_of(checkpoint, "model") == static_cast<std::size_t>(num_ranks));
    CHECK(files_of(checkpoint, "optimizer") == static_cast<std::size_t>(num_ranks));
    // Exports of both are the same model.
    const auto exported = [&](const std::string& name) {
      const fs::path to = dir / (name + "_hf");
      const test::Outcome outcome =
          test::run_command(QRL_BINARY_DIR "/qrl-train export " + (dir / (name + "/checkpoints/step_4")).string() +
                            " --out " + to.string());
      INFO(outcome.output);
      REQUIRE(outcome.exit_code == 0);
      return test::read_file(to / "model.safetensors");
    };
    CHECK((exported("sharded") == exported("plain")));
  }
}

TEST_CASE("ranks of --ranks: equal mpirun's bits, with and without shards") {
  if (test::mpirun(2).empty()) return test::skip("no MPI");
  const std::string low_bit =
      " --set model.dtype=bfloat16 --set quant.rollout.weights=int8 "
      "--set quant.learner.forward=low_bit --set optim.name=muon ";
  for (const auto& [num_ranks, settings] :
       {std::pair(2, std::string()), std::pair(2, low_bit + kSharded), std::pair(3, kSharded)}) {
    CAPTURE(num_ranks);
    const test::TempDir dir;
    run_ranks(dir / "mpirun", settings, num_ranks);
    run_ranks(dir / "ranks", settings + " --ranks " + std::to_string(num_ranks), 1);
    check_same_steps(dir / "ranks", dir / "mpirun", 4);
    CHECK(test::names_in(dir / "ranks/checkpoints/step_4") == test::names_in(dir / "mpirun/checkpoints/step_4"));
  }
}

TEST_CASE("sharded checkpoints: resume on another number of ranks as unsharded ones do") {
  if (test::mpirun(2).empty()) return test::skip("no MPI");
  const test::TempDir dir;
  run_ranks(dir / "plain", steps(2), 2);
  run_ranks(dir / "sharded", steps(2) + kSharded, 2);
  fs::copy(dir / "sharded", dir / "sharded_alone", fs::copy_options::recursive);
  fs::copy(dir / "plain", dir / "plain_alone", fs::copy_options::recursive);
  run_ranks(dir / "plain", steps(4), 3);
  run_ranks(dir / "sharded", steps(4) + kSharded, 3);
  check_same_steps(dir / "sharded", dir / "plain", 4);
  run_ranks(dir / "plain_alone", steps(4) + kSharded, 1);
  run_ranks(dir / "sharded_alone", steps(4), 1);
  check_same_steps(dir / "sharded_alone", dir / "plain_alone", 4);
}

TEST_CASE("two hosts train with the bits of two ranks on one, over TCP") {
  if (test::mpirun(2).empty()) return test::skip("no MPI");
  const test::TempDir dir;
  const test::Outcome outcome =
      test::run_command(test::tiny_command(dir / "hosts", kSharded, QRL_SOURCE_DIR "/tests/dist/mpirun/two_hosts.sh"));
  if (outcome.exit_code == 4) return test::skip(outcome.output);
  INFO(outcome.output);
  REQUIRE(outcome.exit_code == 0);
  run_ranks(dir / "host", kSharded, 2);
  check_same_steps(dir / "hosts", dir / "host", 4);
}

TEST_CASE("sharded ranks: a failed shard write stops all, commits nothing, and the run resumes from before") {
  if (test::mpirun(2).empty()) return test::skip("no MPI");
  if (!has_own_mounts()) return test::skip("no mount namespace to be had: not root");
  const test::TempDir dir;
  run_ranks(dir / "run", steps(1) + kSharded, 2);
  const auto before = test::names_in(dir / "run/checkpoints");
  const std::string folder = (dir / "run/checkpoints").string();
  const std::string read_only = "mount --bind " + folder + " " + folder + " && mount -o remount,ro,bind " + folder;
  const test::Outcome outcome =
      run_with_second_rank(dir.path(), in_own_mounts(read_only), test::tiny_command(dir / "run", steps(2) + kSharded));
  INFO(outcome.output);
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.output.find("rank 1 failed") != std::string::npos);
  CHECK(outcome.output.find("step_2") != std::string::npos);
  CHECK(test::names_in(dir / "run/checkpoints") == before);
  run_ranks(dir / "run", steps(2) + kSharded, 2);
  CHECK(fs::exists(dir / "run/checkpoints/step_2/optimizer-00002-of-00002.safetensors"));
}

TEST_CASE("run folder on ranks: if not shared, refused before anything is computed") {
  if (test::mpirun(2).empty()) return test::skip("no MPI");
  if (!has_own_mounts()) return test::skip("no mount namespace to be had: not root");
  const test::TempDir dir;
  fs::create_directory(dir / "run");
  const std::string hide = in_own_mounts("mount -t tmpfs none " + (dir / "run").string());
  const auto start = [&](const std::string& arguments) {
    return run_with_second_rank(dir.path(), hide, test::tiny_command(dir / "run", steps(1) + arguments));
  };
  const test::Outcome refused = start(kSharded);
  INFO(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("rank 1 does not") != std::string::npos);
  CHECK(refused.output.find("zero_stage to 0") != std::string::npos);
  CHECK(start("").exit_code == 0);  // it requires no shared folder
}

TEST_CASE("run folder on ranks: if one rank may not write, refused before anything is computed") {
  if (test::mpirun(2).empty()) return test::skip("no MPI");
  if (!has_own_mounts()) return test::skip("no mount namespace to be had: not root");
  const test::TempDir dir;
  fs::create_directories(dir / "run");
  const std::string folder = (dir / "run").string();
  const test::Outcome refused = run_with_second_rank(
      dir.path(), in_own_mounts("mount --bind " + folder + " " + folder + " && mount -o remount,ro,bind " + folder),
      test::tiny_command(dir / "run", kSharded));
  INFO(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("a folder that every rank can write to, got rank 1") != std::string::npos);
}

TEST_CASE("checkpoint path on ranks: refused if it is two different checkpoints") {
  if (test::mpirun(2).empty()) return test::skip("no MPI");
  if (!has_own_mounts()) return test::skip("no mount namespace to be had: not root");
  const test::TempDir dir;
  const std::string one = (dir / "one").string(), two = (dir / "two").string();
  for (const auto& [folder, seed] : {std::pair{one, "1"}, {two, "2"}})
    run_ranks(folder, steps(1) + kSharded + "--set data.seed=0 --set trainer.seed=" + seed, 2);
  const test::Outcome refused = run_with_second_rank(
      dir.path(), in_own_mounts("mount --bind " + two + " " + one),
      test::tiny_command(dir / "run", steps(2) + kSharded + "--set data.seed=0 --set trainer.seed=1 --resume " + one +
                                          "/checkpoints/step_1"));
  INFO(refused.output);
  CHECK(refused.exit_code == 2);
  CHECK(refused.output.find("the same checkpoint on all ranks, got a different checkpoint on rank 1") !=
        std::string::npos);
  CHECK(test::names_in(dir / "run/checkpoints").empty());
}

TEST_CASE("memory plan: shows what sharding saves") {
  if (test::mpirun(2).empty()) return test::skip("no MPI");
  const test::TempDir dir;
  const auto moments = [&](const std::string& arguments, int num_ranks) {
    const test::Outcome outcome =
        test::run_command(test::tiny_command(dir / "run", "--dry-run " + arguments, test::mpirun(num_ranks)));
    INFO(outcome.output);
    REQUIRE(outcome.exit_code == 0);
    const std::string line = "optimizer moments";
    const std::size_t at = outcome.output.find(line);
    REQUIRE(at != std::string::npos);
    return std::stod(outcome.output.substr(at + line.size()));
  };
  const double whole = moments("", 2);
  CHECK(test::close(moments(kSharded, 2), whole / 2, 0, 0.1));
  CHECK(test::close(moments(kSharded, 3), whole / 3, 0, 0.1));
  CHECK(moments(kSharded, 1) == whole);
}

}  // namespace qrl
