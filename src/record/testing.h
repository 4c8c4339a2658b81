// Shared by tests only.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "record/record.h"

namespace retort::record {

/// An empty folder of its own for each name.
inline std::filesystem::path temporary_folder(const std::string& name) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("retort-{}-{}", name, getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

inline Record make_record(const std::string& prompt, const std::string& answer) {
  Record record;
  record.draft.task = "sum";
  record.draft.prompt = prompt;
  record.draft.reasoning_chain = "think about " + prompt;
  record.draft.final_answer = answer;
  record.draft.teacher = "test";
  record.draft.source = "here";
  return record;
}

}  // namespace retort::record
