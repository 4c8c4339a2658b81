#include "app/runtime.h"

#include <CLI/CLI.hpp>

namespace retort::app {

void ModelOptions::declare(CLI::App& app) {
  app.add_option("--base", base,
                 "GGUF file of the base model (default: the one that set-up installed)");
  app.add_option("--threads", threads, "threads to use (default: all CPUs of this process)")
      ->check(CLI::Range(1, limits::kThreadsMax));
}

base::Path ModelOptions::base_path() const {
  return base.empty() ? base::cache_directory() / "models/smollm2-135m-instruct-q4_1.gguf"
                      : base::Path(base);
}

base::Result<std::unique_ptr<Runtime>> Runtime::open(const ModelOptions& options) {
  auto team = std::make_unique<base::Team>(options.threads > 0 ? options.threads
                                                               : base::Team::default_threads());
  auto model = engine::Model::open(options.base_path(), *team);
  if (!model) {
    if (options.base.empty() && model.error().code == base::Code::kNotFound) {
      model.error().message += "; run scripts/setup, or name a model with --base FILE";
    }
    return tl::unexpected(std::move(model).error());
  }
  TRY_ASSIGN(adapter::Registry registry, adapter::Registry::open());
  TRY_ASSIGN(auto arena, adapter::SlotArena::open(
                             adapter::SlotBase::of(model->config(), model->fingerprint())));
  return std::make_unique<Runtime>(std::move(team), *std::move(model), std::move(registry),
                                   std::move(arena));
}

}  // namespace retort::app
