// Oracles: the entries that were put; a process killed at random moments; files damaged by hand.
#include "adapter/registry.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

namespace retort::adapter {
namespace {

using base::Path;

class RegistryTest : public testing::Test {
 protected:
  RegistryTest() {
    root_ = std::filesystem::temp_directory_path() / fmt::format("retort-registry-{}", getpid());
    std::filesystem::remove_all(root_);
  }
  ~RegistryTest() override { std::filesystem::remove_all(root_); }
  Registry open() const { return Registry::open(root_).value(); }
  static RegistryEntry filled(RegistryEntry entry) {
    entry.base = base::hash_text("base");
    entry.content = base::hash_text(entry.name + std::to_string(entry.version));
    entry.created_s = 1'700'000'000 + entry.version;
    entry.evaluation = R"({"accuracy": 0.97})";
    return entry;
  }
  static RegistryEntry add(Registry& registry, std::string_view name) {
    const RegistryEntry entry = filled(registry.reserve(name).value());
    EXPECT_TRUE(registry.put(entry));
    return entry;
  }

  Path root_;
};

TEST_F(RegistryTest, PutsFindsAndLists) {
  Registry registry = open();
  const RegistryEntry one = add(registry, "galois"), two = add(registry, "galois");
  add(registry, "cycles");
  EXPECT_EQ(one.version, 1);
  EXPECT_EQ(two.version, 2);
  EXPECT_TRUE(std::filesystem::is_directory(two.adapter_directory));
  const Registry again = open();
  const RegistryEntry found = again.find("galois").value();
  EXPECT_EQ(found.version, 2);
  EXPECT_EQ(found.adapter_directory, two.adapter_directory);
  EXPECT_EQ(found.slot_file, two.slot_file);
  EXPECT_EQ(found.base, two.base);
  EXPECT_EQ(found.content, two.content);
  EXPECT_EQ(found.created_s, two.created_s);
  EXPECT_EQ(found.evaluation, two.evaluation);
  EXPECT_EQ(again.find("galois@1")->content, one.content);
  const auto list = again.list().value();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].name, "cycles");
  const auto missing = again.find("galois@7");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, base::Code::kNotFound);
  EXPECT_NE(missing.error().message.find("galois@2"), std::string::npos);
}

TEST_F(RegistryTest, AReservedVersionIsNotSeenAndNotReused) {
  Registry registry = open();
  EXPECT_EQ(registry.reserve("a")->version, 1);
  EXPECT_FALSE(registry.find("a"));
  EXPECT_TRUE(registry.list()->empty());
  EXPECT_EQ(add(registry, "a").version, 2);
  ASSERT_TRUE(registry.remove("a@2"));
  EXPECT_EQ(add(registry, "a").version, 3);
}

TEST_F(RegistryTest, ReplacesAVersion) {
  Registry registry = open();
  RegistryEntry entry = add(registry, "a");
  entry.content = base::hash_text("other");
  entry.adapter_directory = "/elsewhere/a";
  ASSERT_TRUE(registry.put(entry));
  EXPECT_EQ(registry.list()->size(), 1u);
  EXPECT_EQ(registry.find("a")->content, entry.content);
  EXPECT_EQ(registry.find("a")->adapter_directory, "/elsewhere/a");
}

TEST_F(RegistryTest, RemovesEntriesAndTheirFolders) {
  Registry registry = open();
  const RegistryEntry one = add(registry, "a"), two = add(registry, "a");
  ASSERT_TRUE(registry.remove("a@1"));
  EXPECT_FALSE(std::filesystem::exists(one.adapter_directory));
  EXPECT_TRUE(std::filesystem::exists(two.adapter_directory));
  EXPECT_EQ(registry.remove("a")->size(), 1u);
  EXPECT_FALSE(registry.remove("a"));
}

TEST_F(RegistryTest, LeavesForeignFoldersAlone) {
  Registry registry = open();
  RegistryEntry entry = filled(registry.reserve("a").value());
  entry.adapter_directory = root_ / "mine";
  std::filesystem::create_directories(entry.adapter_directory);
  ASSERT_TRUE(registry.put(entry));
  ASSERT_TRUE(registry.remove("a"));
  EXPECT_TRUE(std::filesystem::exists(entry.adapter_directory));
}

TEST_F(RegistryTest, MovesWithItsFolder) {
  {
    Registry registry = open();
    add(registry, "a");
  }
  const Path moved = root_.string() + "-moved";
  std::filesystem::rename(root_, moved);
  EXPECT_EQ(Registry::open(moved)->find("a")->adapter_directory, moved / "adapters/a/1");
  std::filesystem::remove_all(moved);
}

TEST_F(RegistryTest, RefusesBadNames) {
  Registry registry = open();
  for (const char* name : {"", "../x", "A", "a b", ".hidden", "-x", "a/b", "a@1", "\xff"}) {
    EXPECT_FALSE(registry.reserve(name)) << name;
  }
  EXPECT_FALSE(registry.reserve(std::string(65, 'a')));
  for (const char* reference : {"a@", "a@0", "a@-1", "a@1x", "a@99999999999999999999", "@1"}) {
    EXPECT_EQ(registry.find(reference).error().code, base::Code::kInvalidInput) << reference;
  }
  EXPECT_EQ(registry.find("a'; DROP TABLE adapters; --").error().code, base::Code::kInvalidInput);
}

TEST_F(RegistryTest, DamageIsAClearError) {
  const Path path = root_ / "registry.db";
  const auto message = [&] {
    const auto registry = Registry::open(root_);
    return registry ? std::string("opened") : registry.error().message;
  };
  {
    Registry registry = open();
    add(registry, "a");
  }
  const std::string good = base::read_file(path).value();
  std::string bad = good;
  for (size_t i = 100; i < bad.size(); ++i) bad[i] = static_cast<char>(i * 37);
  ASSERT_TRUE(base::write_file_atomic(path, bad));
  EXPECT_NE(message().find("damaged"), std::string::npos) << message();
  ASSERT_TRUE(base::write_file_atomic(path, std::string(8192, 'x')));
  EXPECT_NE(message().find("damaged"), std::string::npos) << message();
  ASSERT_TRUE(base::write_file_atomic(path, good.substr(0, good.size() / 2)));
  EXPECT_NE(message().find("damaged"), std::string::npos) << message();
  bad = good;
  bad[63] = 9;  // user_version in SQLite's header
  ASSERT_TRUE(base::write_file_atomic(path, bad));
  EXPECT_NE(message().find("registry version 9"), std::string::npos) << message();
  bad = good;
  bad[68] = 0;  // application_id
  ASSERT_TRUE(base::write_file_atomic(path, bad));
  EXPECT_NE(message().find("not a registry"), std::string::npos) << message();
  ASSERT_TRUE(base::write_file_atomic(path, good));
  EXPECT_EQ(message(), "opened");
}

TEST_F(RegistryTest, AKillAtAnyMomentLosesNothing) {
  { Registry registry = open(); }
  int64_t newest = 0;
  for (int round = 0; round < 12; ++round) {
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto registry = Registry::open(root_);
      for (;;) {
        const RegistryEntry entry = filled(registry->reserve("a").value());
        if (!registry->put(entry)) _exit(1);
        if (write(ready[1], &entry.version, sizeof(entry.version)) < 0) _exit(1);
      }
    }
    int64_t reported = 0;
    ASSERT_EQ(read(ready[0], &reported, sizeof(reported)), static_cast<ssize_t>(sizeof(reported)));
    usleep(static_cast<useconds_t>(1000 + round * 700));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ready[1]);
    for (int64_t v; read(ready[0], &v, sizeof(v)) == static_cast<ssize_t>(sizeof(v));) reported = v;
    close(ready[0]);
    const auto registry = Registry::open(root_);
    ASSERT_TRUE(registry) << registry.error().message;
    const auto found = registry->find("a");
    ASSERT_TRUE(found);
    EXPECT_GE(found->version, reported);  // what was acknowledged is there
    EXPECT_GT(found->version, newest);
    EXPECT_EQ(found->content, filled(*found).content);
    newest = found->version;
  }
}

}  // namespace
}  // namespace retort::adapter
