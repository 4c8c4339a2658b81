// A recipe: everything `retort distil` needs to know, from a TOML file and the command line.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/disk.h"
#include "base/result.h"
#include "train/options.h"

namespace retort::loop {

struct Recipe {
  std::string name;  // of the task and of the adapter
  base::Path base;   // GGUF file; empty: the default student

  struct Teacher {
    std::string kind;         // "symbolic", or "file" for records that exist
    std::string family;       // of the symbolic teacher
    base::Path records_file;  // of "file"
    int64_t records = 800;    // training records to draw
    uint64_t seed = 1;
    bool trust = false;  // train on records that nothing verified
  } teacher;

  train::Options train;

  struct Evaluation {
    int64_t held_out = 200;
    int64_t extrapolation = 100;
    int64_t validation = 40;        // problems that choose the checkpoint
    int64_t validations = 4;        // how often, over the second half of the run
    int64_t shots = 5;              // of the few-shot baseline
    bool base = true;               // measure the base too
    std::vector<std::string> arms;  // extra runs for the table: "lora", "answer-only"
  } eval;
};

/// kInvalidInput with file, line and key for a fault: unknown keys, wrong types, missing parts.
[[nodiscard]] base::Result<Recipe> load_recipe(const base::Path& path);
/// From memory; `name` stands for the file in messages.
[[nodiscard]] base::Result<Recipe> parse_recipe(std::string_view text, std::string_view name);

}  // namespace retort::loop
