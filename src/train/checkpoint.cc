#include "train/checkpoint.h"

#include <cstring>

namespace retort::train {
namespace {

using base::Code;
using base::make_error;

constexpr std::string_view kMagic = "RETORTCK";
constexpr uint32_t kVersion = 1;

/// The fixed part of the file; floats follow, then the hash.
struct Header {
  char magic[8];
  uint32_t version;
  uint32_t has_best_score;
  uint8_t identity[32];
  int64_t step, best_step;
  double best_score;
  uint64_t values, best;  // numbers of floats
};
static_assert(sizeof(Header) == 88);

std::string_view as_text(const void* data, size_t size) {
  return {static_cast<const char*>(data), size};
}

}  // namespace

base::Result<void> write_checkpoint(const base::Path& path, const Checkpoint& checkpoint) {
  Header header{};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.version = kVersion;
  header.has_best_score = checkpoint.best_score.has_value();
  std::memcpy(header.identity, checkpoint.identity.bytes.data(), sizeof(header.identity));
  header.step = checkpoint.step;
  header.best_step = checkpoint.best_step;
  header.best_score = checkpoint.best_score.value_or(0);
  header.values = checkpoint.values.size();
  header.best = checkpoint.best.size();
  std::string bytes;
  bytes.reserve(sizeof(header) + (header.values + header.best) * sizeof(float) +
                sizeof(base::Hash256));
  bytes += as_text(&header, sizeof(header));
  bytes += as_text(checkpoint.values.data(), checkpoint.values.size() * sizeof(float));
  bytes += as_text(checkpoint.best.data(), checkpoint.best.size() * sizeof(float));
  const base::Hash256 hash = base::hash_text(bytes);
  bytes += as_text(hash.bytes.data(), hash.bytes.size());
  return base::write_file_atomic(path, bytes);
}

base::Result<Checkpoint> read_checkpoint(const base::Path& path) {
  TRY_ASSIGN(const std::string bytes, base::read_file(path));
  constexpr size_t kHash = sizeof(base::Hash256::bytes);
  Header header;
  if (bytes.size() < sizeof(header) + kHash || bytes.compare(0, kMagic.size(), kMagic) != 0) {
    return make_error(Code::kInvalidInput, "{}: not a checkpoint", path.string());
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  const size_t body = bytes.size() - kHash;
  const base::Hash256 hash = base::hash_text(std::string_view(bytes).substr(0, body));
  if (header.version != kVersion) {
    return make_error(Code::kUnsupported, "{}: checkpoint version {}, this build reads {}",
                      path.string(), header.version, kVersion);
  }
  const size_t floats = (body - sizeof(header)) / sizeof(float);
  if (std::memcmp(hash.bytes.data(), bytes.data() + body, kHash) != 0 || header.values > floats ||
      header.best != floats - header.values) {
    return make_error(Code::kInvalidInput, "{}: the checkpoint is damaged", path.string());
  }
  Checkpoint checkpoint{.step = header.step, .best_step = header.best_step};
  std::memcpy(checkpoint.identity.bytes.data(), header.identity, sizeof(header.identity));
  if (header.has_best_score != 0) checkpoint.best_score = header.best_score;
  const auto* values = reinterpret_cast<const std::byte*>(bytes.data()) + sizeof(header);
  checkpoint.values.resize(header.values);
  checkpoint.best.resize(header.best);
  std::memcpy(checkpoint.values.data(), values, header.values * sizeof(float));
  std::memcpy(checkpoint.best.data(), values + header.values * sizeof(float),
              header.best * sizeof(float));
  return checkpoint;
}

}  // namespace retort::train
