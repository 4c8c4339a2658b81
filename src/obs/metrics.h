// A metrics file: one JSON object a line, e.g. {"step": 40, "loss": 0.51}. Appends to what is
// there, so that a resumed run goes on in the same file. One thread.
#pragma once

#include "base/disk.h"
#include "base/json.h"

namespace retort::obs {

class Metrics {
 public:
  [[nodiscard]] static base::Result<Metrics> open(const base::Path& path);
  /// `row` is an object. A failed write leaves the file as it was.
  [[nodiscard]] base::Result<void> write(const base::Json& row);

 private:
  explicit Metrics(base::AppendFile file) : file_(std::move(file)) {}
  base::AppendFile file_;
};

}  // namespace retort::obs
