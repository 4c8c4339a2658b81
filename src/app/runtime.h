// What most commands stand on: the threads, the model, the registry, the arena and what is
// resident.
#pragma once

#include <memory>
#include <string>

#include "adapter/arena.h"
#include "adapter/registry.h"
#include "adapter/resident.h"
#include "base/result.h"
#include "base/team.h"
#include "engine/model.h"

namespace CLI {
class App;
}

namespace retort::app {

/// --base and --threads.
struct ModelOptions {
  std::string base;
  int threads = 0;  // 0: all that the process may use

  void declare(CLI::App& app);
  /// The file named, or the default student that set-up installed.
  base::Path base_path() const;
};

class Runtime {
 public:
  [[nodiscard]] static base::Result<std::unique_ptr<Runtime>> open(const ModelOptions& options);

  Runtime(std::unique_ptr<base::Team> team, engine::Model model, adapter::Registry registry,
          std::unique_ptr<adapter::SlotArena> arena)
      : team_(std::move(team)),
        model_(std::move(model)),
        registry_(std::move(registry)),
        arena_(std::move(arena)),
        residents_(model_, registry_, *arena_, *team_) {}

  base::Team& team() { return *team_; }
  const engine::Model& model() const { return model_; }
  adapter::Registry& registry() { return registry_; }
  adapter::SlotArena& arena() { return *arena_; }
  adapter::Residents& residents() { return residents_; }

 private:
  std::unique_ptr<base::Team> team_;
  engine::Model model_;
  adapter::Registry registry_;
  std::unique_ptr<adapter::SlotArena> arena_;
  adapter::Residents residents_;
};

}  // namespace retort::app
