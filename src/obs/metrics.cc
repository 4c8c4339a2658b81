#include "obs/metrics.h"

#include "base/check.h"

namespace retort::obs {

base::Result<Metrics> Metrics::open(const base::Path& path) {
  TRY_ASSIGN(base::AppendFile file, base::AppendFile::open(path));
  return Metrics(std::move(file));
}

base::Result<void> Metrics::write(const base::Json& row) {
  CHECK(row.is_object(), "type={}", row.type_name());
  return file_.append(base::dump_json(row) + "\n");
}

}  // namespace retort::obs
