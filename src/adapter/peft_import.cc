#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>

#include "adapter/crystallise.h"
#include "adapter/peft.h"
#include "adapter/peft_config.h"
#include "adapter/peft_rows.h"
#include "adapter/safetensors.h"
#include "base/limits.h"

namespace retort::adapter {
namespace {

// Not fmt::join: g++ 12 warns falsely of an overflow in it.
template <class Range>
std::string joined(const Range& values) {
  std::string text;
  for (const auto& value : values) text += fmt::format("{}{}", text.empty() ? "" : ", ", value);
  return text;
}

using base::Code;
using base::Path;
using base::Result;
using engine::Target;

enum class Part { kA, kB, kMagnitude };

struct Suffix {
  std::string_view text;
  Part part;
};
constexpr Suffix kSuffixes[] = {{".lora_A.weight", Part::kA},
                                {".lora_B.weight", Part::kB},
                                {".lora_magnitude_vector", Part::kMagnitude},
                                {".lora_magnitude_vector.weight", Part::kMagnitude}};

/// Parts of a tensor's name that say what it is, and why it is refused. First match wins.
constexpr std::pair<std::string_view, std::string_view> kRefusals[] = {
    {"lora_embedding_", "adapters of the embedding are not supported"},
    {"trainable_tokens", "trained token rows are not supported"},
    {"lora_B.bias", "a trained bias (lora_bias) is not supported"},
    {"modules_to_save", "whole replaced matrices (modules_to_save) are not supported"},
    {"lora_down", "not PEFT's naming; convert it to lora_A and lora_B"},
    {"lora_up", "not PEFT's naming; convert it to lora_A and lora_B"},
    {".alpha", "not PEFT's naming; convert it to lora_A and lora_B"},
    {".bias", "trained biases are not supported"}};

struct Place {
  int layer = 0;
  Target target = Target::kQ;
};

bool strip_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

std::optional<Target> target_of(std::string_view name) {
  for (int t = 0; t <= engine::kLayerTargets; ++t) {
    if (engine::target_name(static_cast<Target>(t)) == name) return static_cast<Target>(t);
  }
  return std::nullopt;
}

/// "model.layers.3.self_attn.q_proj" or "lm_head", with the wrappers that multimodal models add.
std::optional<Place> parse_path(std::string_view path) {
  while (strip_prefix(path, "model.") || strip_prefix(path, "language_model.")) {
  }
  if (path == "lm_head") return Place{0, Target::kOutput};
  if (!strip_prefix(path, "layers.")) return std::nullopt;
  Place place;
  const char* const end = path.data() + path.size();
  const auto [stop, error] = std::from_chars(path.data(), end, place.layer);
  if (error != std::errc() || place.layer < 0) return std::nullopt;
  path = {stop, static_cast<size_t>(end - stop)};
  const bool attention = strip_prefix(path, ".self_attn.");
  if (!attention && !strip_prefix(path, ".mlp.")) return std::nullopt;
  const auto target = target_of(path);
  if (!target || *target == Target::kOutput) return std::nullopt;
  if (attention != (*target <= Target::kO)) return std::nullopt;
  place.target = *target;
  return place;
}

/// The tensors of one module, as found.
struct Found {
  std::string path;  // as PEFT names the module
  Place place;
  const TensorView* parts[3] = {};

  const TensorView* part(Part p) const { return parts[static_cast<size_t>(p)]; }
};

tl::unexpected<base::Error> refusal(const std::string& name) {
  for (const auto& [piece, reason] : kRefusals) {
    if (name.find(piece) != std::string::npos) {
      return make_error(Code::kUnsupported, "{}: {}", name, reason);
    }
  }
  if (name.ends_with(".weight") && name.find("lora_") == std::string::npos) {
    return make_error(Code::kUnsupported, "{}: whole replaced matrices are not supported", name);
  }
  return make_error(Code::kUnsupported,
                    "{}: not a tensor of an adapted layer; expected names like "
                    "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight",
                    name);
}

class Importer {
 public:
  Importer(const PeftConfig& peft, const engine::Config& config, std::vector<std::string>* warnings)
      : peft_(peft), config_(config), warnings_(warnings) {}

  Result<AdapterWeights> run(const std::vector<TensorView>& tensors) {
    for (const TensorView& tensor : tensors) TRY(sort_in(tensor));
    if (found_.empty()) {
      return make_error(Code::kInvalidInput, "it adapts no module that this base has");
    }
    AdapterWeights adapter;
    adapter.rank = peft_.rank;
    adapter.alpha = static_cast<float>(peft_.alpha);
    adapter.dora = peft_.dora;
    adapter.rslora = peft_.rslora;
    for (const auto& [index, found] : found_) {
      auto module = build(found);
      if (!module) return in_context(found.path, std::move(module).error());
      adapter.modules.push_back(*std::move(module));
    }
    TRY(check_weights(adapter, SlotBase::of(config_, {})));
    if (warnings_ != nullptr) report_differences();
    return adapter;
  }

 private:
  Result<void> sort_in(const TensorView& tensor) {
    std::string_view path = tensor.name;
    strip_prefix(path, "base_model.model.");
    // A tied output matrix is saved beside its adapter; it is the base's own.
    if (path.ends_with(".base_layer.weight")) return {};
    const auto suffix = std::find_if(std::begin(kSuffixes), std::end(kSuffixes),
                                     [&](const Suffix& s) { return path.ends_with(s.text); });
    if (suffix == std::end(kSuffixes)) return refusal(tensor.name);
    path.remove_suffix(suffix->text.size());
    const auto place = parse_path(path);
    if (!place) return refusal(tensor.name);
    if (place->layer >= config_.layers) {
      return make_error(Code::kMismatch, "{}: the base has {} layers", tensor.name, config_.layers);
    }
    Found& found = found_[engine::matrix_index(place->layer, place->target, config_.layers)];
    found.path = path;
    found.place = *place;
    const TensorView*& slot = found.parts[static_cast<size_t>(suffix->part)];
    if (slot != nullptr) {
      return make_error(Code::kInvalidInput, "{}: the same layer is also given by {}", tensor.name,
                        slot->name);
    }
    slot = &tensor;
    return {};
  }

  Result<ModuleWeights> build(const Found& found) const {
    const TensorView *a = found.part(Part::kA), *b = found.part(Part::kB);
    const TensorView* m = found.part(Part::kMagnitude);
    if (a == nullptr || b == nullptr) {
      return make_error(Code::kInvalidInput, "{} is missing", a == nullptr ? "lora_A" : "lora_B");
    }
    if (peft_.dora != (m != nullptr)) {
      return make_error(Code::kInvalidInput, "use_dora is {}, but the magnitude vector is {}",
                        peft_.dora ? "true" : "false", m == nullptr ? "missing" : "there");
    }
    ModuleWeights module;
    module.layer = found.place.layer;
    module.target = found.place.target;
    std::tie(module.out, module.in) = config_.shape(module.target);
    module.rank = peft_.rank_of(found.path);
    TRY(check_shape("lora_A", *a, {module.rank, module.in}));
    TRY(check_shape("lora_B", *b, {module.out, module.rank}));
    module.scale =
        static_cast<float>(peft_scale(peft_.alpha_of(found.path), module.rank, peft_.rslora));
    module.a = a->floats();
    module.b = rows_from_peft(b->floats(), module, config_);
    if (m == nullptr) return module;
    TRY(check_shape("the magnitude vector", *m, {module.out}));
    module.m = rows_from_peft(m->floats(), module, config_);
    return module;
  }

  static Result<void> check_shape(std::string_view what, const TensorView& tensor,
                                  const std::vector<int64_t>& expected) {
    if (tensor.shape == expected) return {};
    return make_error(Code::kMismatch, "{} is [{}]; the base and the rank ask for [{}]", what,
                      joined(tensor.shape), joined(expected));
  }

  void report_differences() const {
    const auto report_unmatched = [&](const char* name, const std::vector<PatternValue>& patterns) {
      for (const PatternValue& value : patterns) {
        if (!any_path([&](const std::string& p) { return value.pattern.matches(p); })) {
          warnings_->push_back(
              fmt::format("{}: \"{}\" matches no adapted layer", name, value.pattern.key()));
        }
      }
    };
    report_unmatched("rank_pattern", peft_.rank_pattern);
    report_unmatched("alpha_pattern", peft_.alpha_pattern);
    for (const std::string& target : peft_.target_modules) {
      if (!any_path(
              [&](const std::string& p) { return p == target || p.ends_with("." + target); })) {
        warnings_->push_back(fmt::format("target_modules: no tensors for \"{}\"", target));
      }
    }
  }

  template <class Predicate>
  bool any_path(Predicate predicate) const {
    return std::any_of(found_.begin(), found_.end(),
                       [&](const auto& entry) { return predicate(entry.second.path); });
  }

  const PeftConfig& peft_;
  const engine::Config& config_;
  std::vector<std::string>* warnings_;
  std::map<int, Found> found_;  // by engine::matrix_index
};

/// The directory itself, or the one subfolder that holds an adapter.
Result<Path> find_adapter(const Path& directory) {
  std::error_code error;
  if (std::filesystem::exists(directory / kPeftConfigFile, error)) return directory;
  std::vector<Path> inside;
  for (auto it = std::filesystem::directory_iterator(directory, error);
       !error && it != std::filesystem::directory_iterator(); it.increment(error)) {
    std::error_code ignored;
    if (std::filesystem::exists(it->path() / kPeftConfigFile, ignored))
      inside.push_back(it->path());
  }
  if (inside.size() == 1) return inside.front();
  return make_error(Code::kNotFound, "{}: {}", directory.string(),
                    inside.empty() ? "no adapter_config.json there"
                                   : "several adapters there; name one of its subfolders");
}

Result<std::string> read_config(const Path& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > static_cast<uintmax_t>(limits::kAdapterConfigBytesMax)) {
    return make_error(Code::kLimit, "{}: {} bytes; at most {}", path.string(), size,
                      limits::kAdapterConfigBytesMax);
  }
  return base::read_file(path);
}

}  // namespace

Result<AdapterWeights> parse_peft(std::string_view adapter_config,
                                  std::span<const std::byte> safetensors,
                                  const engine::Config& config,
                                  std::vector<std::string>* warnings) {
  auto peft = parse_peft_config(adapter_config);
  if (!peft) return in_context(kPeftConfigFile, std::move(peft).error());
  auto tensors = parse_safetensors(safetensors);
  if (!tensors) return in_context(kPeftModelFile, std::move(tensors).error());
  auto adapter = Importer(*peft, config, warnings).run(*tensors);
  if (!adapter) return in_context(kPeftModelFile, std::move(adapter).error());
  return adapter;
}

Result<AdapterWeights> load_peft(const Path& directory, const engine::Config& config,
                                 std::vector<std::string>* warnings) {
  TRY_ASSIGN(const Path folder, find_adapter(directory));
  std::error_code error;
  if (!std::filesystem::exists(folder / kPeftModelFile, error) &&
      std::filesystem::exists(folder / "adapter_model.bin", error)) {
    return make_error(Code::kUnsupported,
                      "{}: adapter_model.bin is a pickle, which can run code; save the adapter "
                      "again as safetensors",
                      folder.string());
  }
  TRY_ASSIGN(const std::string text, read_config(folder / kPeftConfigFile));
  TRY_ASSIGN(const base::MappedFile file, base::MappedFile::open(folder / kPeftModelFile));
  auto adapter = parse_peft(text, file.bytes(), config, warnings);
  if (!adapter) return in_context(folder.string(), std::move(adapter).error());
  return adapter;
}

}  // namespace retort::adapter
