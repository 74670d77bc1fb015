#include "train/files/shared_commit.h"

#include <unistd.h>

#include <chrono>
#include <exception>
#include <vector>

#include "base/error.h"
#include "state/folder.h"

namespace qrl::train {

namespace fs = std::filesystem;

namespace {

std::string first_failure(const std::string& mine, dist::Collectives& world) {
  const std::vector<std::string> all = world.all_gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].empty()) return "rank " + std::to_string(rank) + " failed: " + all[rank];
  }
  return {};
}

std::string text_of_failure(const fs::path& dir, const Fill& fill) try {
  fill(dir);
  return {};
} catch (const std::exception& error) {
  return error.what();
}

void require_none(const std::string& failure, const fs::path& path) {
  if (!failure.empty()) base::fail_internal(path.string(), "a write by every rank", failure);
}

}  // namespace

void commit_together(const fs::path& path, const Fill& fill_share, const Fill& finish, const std::string& facts_json,
                     dist::Collectives& world) {
  if (world.size() == 1) {  // a single process rethrows its own error
    const auto fill = [&](const fs::path& dir) { fill_share(dir), finish(dir); };
    return state::commit_folder(path, fill, facts_json);
  }
  const auto share = [&](const fs::path& dir) { return first_failure(text_of_failure(dir, fill_share), world); };
  if (!world.is_first()) {
    const std::string dir = world.all_gather(std::string()).front();  // empty: the first rank could not create it
    const std::string failure = dir.empty() ? std::string() : share(dir);
    const std::string end = first_failure({}, world);
    require_none(failure.empty() ? end : failure, path);
    return;
  }
  bool announced = false;
  std::exception_ptr error;
  std::string failure;
  try {
    state::commit_folder(
        path,
        [&](const fs::path& dir) {
          announced = true;
          (void)world.all_gather(fs::absolute(dir).string());
          require_none(share(dir), path);
          finish(dir);
        },
        facts_json);
  } catch (const std::exception& caught) {
    error = std::current_exception();
    failure = caught.what();
  }
  if (!announced) (void)world.all_gather(std::string());
  (void)first_failure(failure, world);
  if (error) std::rethrow_exception(error);
}

void require_shared_folder(const fs::path& dir, const std::string& what_to_do, dist::Collectives& world) {
  std::string marks;
  if (world.is_first()) {
    marks = (fs::absolute(dir) / (".seen-by-all-" + std::to_string(getpid()) + "-" +
                                  std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()) + "-"))
                .string();
  }
  marks = world.all_gather(marks).front();
  const fs::path mine = marks + std::to_string(world.rank());
  const std::vector<std::string> failures =
      world.all_gather(text_of_failure(mine, [](const fs::path& mark) { state::replace_file(mark, ""); }));
  // If this path is another folder on some host, the first rank's marker file is missing there.
  std::error_code error;
  const std::vector<std::string> seen = world.all_gather(fs::exists(marks + "0", error) ? "yes" : "");
  fs::remove(mine, error);
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    QRL_REQUIRE(failures[rank].empty(), fs::path(marks).parent_path().string(), "a folder that every rank can write to",
                "rank " + std::to_string(rank) + ": " + failures[rank], what_to_do);
  }
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    QRL_REQUIRE(!seen[rank].empty(), fs::path(marks).parent_path().string(), "a folder that every rank sees",
                "rank " + std::to_string(rank) + " does not see it", what_to_do);
  }
}

}  // namespace qrl::train
