// Entry: parses the command line, runs one command, and maps its error to an exit code.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/command.h"
#include "app/interrupt.h"

namespace retort::app {
namespace {

constexpr int kUsage = 2;

int run(int argc, char** argv) {
  CLI::App app{
      "Distils verified reasoning into small adapters of a small quantised model, and serves "
      "them.\n"
      "Exit codes: 0 done, 1 failed, 2 bad usage or input, 3 partly done."};
  app.name("retort");
  app.require_subcommand(1);
  app.set_version_flag("--version", "retort 0.1.0");
  const std::vector<std::unique_ptr<Command>> commands = all_commands();
  std::vector<CLI::App*> parsers;
  for (const auto& command : commands) {
    CLI::App* parser =
        app.add_subcommand(std::string(command->name()), std::string(command->summary()));
    parser->footer("Examples:\n" + std::string(command->examples()));
    command->declare(*parser);
    parsers.push_back(parser);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!parsers[i]->parsed()) continue;
    const base::Result<int> result = commands[i]->run();
    if (result) return *result;
    fmt::print(stderr, "retort: {}\n", result.error().message);
    return base::exit_code(result.error().code);
  }
  return kUsage;
}

}  // namespace
}  // namespace retort::app

int main(int argc, char** argv) {
  retort::app::watch_interrupts();
  return retort::app::run(argc, argv);
}
