#include "engine/arch/arch.h"
#include "engine/arch/members.h"

namespace retort::engine::arch {

std::span<const Architecture* const> all() {
  static const Architecture* const members[] = {&llama(), &qwen2(), &qwen3()};
  return members;
}

base::Result<Config> read_config(const Gguf& gguf) {
  TRY_ASSIGN(const std::string_view name, gguf.string("general.architecture"));
  std::string names;
  for (const Architecture* member : all()) {
    if (member->name() == name) {
      Config config;
      config.architecture = name;
      config.name = gguf.find_string("general.name").value_or("");
      TRY(member->read(gguf, config));
      return config;
    }
    names += fmt::format("{}{}", names.empty() ? "" : ", ", member->name());
  }
  return base::make_error(base::Code::kUnsupported,
                          "{}: architecture '{}' is not supported; supported are {}",
                          gguf.path().string(), name, names);
}

}  // namespace retort::engine::arch
