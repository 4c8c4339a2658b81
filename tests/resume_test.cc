// The real program, killed with SIGKILL at a random step. Oracle: the adapter of an unbroken run.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "app/bench/temporary.h"
#include "base/rng.h"

extern char** environ;

namespace retort {
namespace {

constexpr int kSteps = 8, kValidations = 2;  // each writes a line of metrics
constexpr std::string_view kRecipe = R"(name = "killed"
[teacher]
kind = "symbolic"
family = "affine"
records = 16
seed = 3
[train]
rank = 8
alpha = 16
batch = 2
checkpoint_seconds = 0
[eval]
held_out = 2
extrapolation = 0
validation = 2
validations = 2
base = false
)";

class Resume : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = app::TemporaryFolder::create(0);
    ASSERT_TRUE(folder) << folder.error().message;
    folder_ = std::make_unique<app::TemporaryFolder>(*std::move(folder));
    ASSERT_TRUE(base::write_file_atomic(folder_->path() / "recipe.toml", kRecipe));
  }

  base::Path home(std::string_view run) const { return folder_->path() / run; }

  pid_t start(std::string_view run, int threads) const {
    std::vector<std::string> words = {RETORT_BINARY, "distil",
                                      (folder_->path() / "recipe.toml").string(), "--threads",
                                      std::to_string(threads)};
    std::vector<std::string> variables = {"RETORT_HOME=" + home(run).string()};
    for (char** v = environ; *v != nullptr; ++v) {
      if (!std::string_view(*v).starts_with("RETORT_HOME=")) variables.emplace_back(*v);
    }
    const auto pointers = [](std::vector<std::string>& strings) {
      std::vector<char*> p;
      for (std::string& s : strings) p.push_back(s.data());
      p.push_back(nullptr);
      return p;
    };
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    const std::string log = home(run).string() + ".log";
    posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, RETORT_BINARY, &actions, nullptr, pointers(words).data(),
                          pointers(variables).data()),
              0);
    posix_spawn_file_actions_destroy(&actions);
    return pid;
  }

  static int wait(pid_t pid) {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return status;
  }

  int64_t steps_seen(std::string_view run) const {
    const auto text = base::read_file(home(run) / "runs/killed/main/metrics.jsonl");
    return text ? std::ranges::count(*text, '\n') : 0;
  }

  std::string log(std::string_view run) const {
    return base::read_file(home(run).string() + ".log").value_or("");
  }

  std::string adapter(std::string_view run) const {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(home(run))) {
      if (entry.path().filename() == "adapter_model.safetensors") {
        return base::read_file(entry.path()).value();
      }
    }
    ADD_FAILURE() << "no adapter; the program said:\n" << log(run);
    return {};
  }

  /// Kills the run once it has written so many lines of metrics.
  void kill_after(std::string_view run, int threads, int64_t steps) const {
    const pid_t pid = start(run, threads);
    while (steps_seen(run) < steps && waitpid(pid, nullptr, WNOHANG) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    ASSERT_EQ(kill(pid, SIGKILL), 0) << "it ended by itself:\n" << log(run);
    ASSERT_TRUE(WIFSIGNALED(wait(pid)));
  }

  std::unique_ptr<app::TemporaryFolder> folder_;
};

TEST_F(Resume, AKilledRunEndsInTheBytesOfAnUnbrokenOne) {
  ASSERT_EQ(wait(start("unbroken", 2)), 0) << log("unbroken");
  const std::string expected = adapter("unbroken");
  ASSERT_GT(expected.size(), 1u << 20);
  base::Rng rng(static_cast<uint64_t>(getpid()));
  for (const int threads : {1, 2}) {
    const std::string run = fmt::format("killed-{}", threads);
    const int64_t steps = rng.between(2, kSteps - 1);
    SCOPED_TRACE(fmt::format("{} threads, killed after step {}", threads, steps));
    kill_after(run, threads, steps);
    ASSERT_EQ(wait(start(run, threads)), 0) << log(run);
    EXPECT_EQ(adapter(run), expected);
    // The step at hand may come twice, and so may not those before it.
    EXPECT_LE(steps_seen(run), kSteps + kValidations + 1) << "it began again";
  }
}

}  // namespace
}  // namespace retort
