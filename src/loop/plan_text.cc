// How people and programs read a plan.
#include <fmt/format.h>

#include "loop/plan.h"

namespace retort::loop {
namespace {

std::string mebibytes(int64_t bytes) {
  return fmt::format("{:.0f} MB", static_cast<double>(bytes) / (1 << 20));
}

std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  if (seconds < 7200) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

base::Json to_json(const Memory& memory) {
  base::Json json = {{"bytes", memory.bytes()}, {"parts", base::Json::object()}};
  for (const MemoryPart& part : memory.parts) json["parts"][part.what] = part.bytes;
  return json;
}

std::string to_text(std::string_view title, const Memory& memory, int64_t free) {
  std::string text = fmt::format("{}: {}{}\n", title, mebibytes(memory.bytes()),
                                 memory.bytes() > free ? ", MORE THAN THIS MACHINE HAS FREE" : "");
  for (const MemoryPart& part : memory.parts) {
    text += fmt::format("  {:<48} {:>10}\n", part.what, mebibytes(part.bytes));
  }
  return text;
}

}  // namespace

base::Json to_json(const Plan& plan) {
  return {{"base", plan.base.string()},
          {"architecture", plan.architecture},
          {"parameters", plan.parameters},
          {"file_bytes", plan.file_bytes},
          {"threads", plan.threads},
          {"memory_free_bytes", plan.memory_free},
          {"load", {{"memory", to_json(plan.load)}, {"seconds", plan.load_seconds}}},
          {"serve",
           {{"memory", to_json(plan.serve)},
            {"sessions", plan.sessions},
            {"context", plan.context},
            {"decode_tokens_per_s", plan.decode_tokens_per_s},
            {"decode_all_tokens_per_s", plan.decode_all_tokens_per_s},
            {"prefill_tokens_per_s", plan.prefill_tokens_per_s}}},
          {"train",
           {{"memory", to_json(plan.train)},
            {"streamed", plan.streamed},
            {"records", plan.workload.records},
            {"tokens_per_record", plan.workload.rows},
            {"supervised_per_record", plan.workload.targets},
            {"steps", plan.steps},
            {"step_seconds", plan.step_seconds},
            {"seconds", plan.train_seconds}}},
          {"distil",
           {{"memory", to_json(plan.distil)},
            {"evaluate_seconds", plan.evaluate_seconds},
            {"seconds", plan.load_seconds + plan.train_seconds + plan.evaluate_seconds}}}};
}

std::string to_text(const Plan& plan) {
  std::string text = fmt::format(
      "{}: {}, {:.2f} billion weights, {} on disk; {} threads, {} of memory free\n\n",
      plan.base.filename().string(), plan.architecture, static_cast<double>(plan.parameters) / 1e9,
      mebibytes(plan.file_bytes), plan.threads, mebibytes(plan.memory_free));
  text += to_text(fmt::format("Serving {} session(s) of {} tokens", plan.sessions, plan.context),
                  plan.serve, plan.memory_free);
  text +=
      fmt::format("  loads in {}; reads {:.0f} tokens/s, writes {:.1f} tokens/s",
                  duration(plan.load_seconds), plan.prefill_tokens_per_s, plan.decode_tokens_per_s);
  if (plan.sessions > 1)
    text += fmt::format(", {:.1f} over all sessions", plan.decode_all_tokens_per_s);
  text += "\n\n" + to_text("Distilling", plan.distil, plan.memory_free);
  if (plan.streamed) {
    text += "  the weights as floats do not fit the memory, so each pass makes them anew: slower\n";
  }
  const Workload& work = plan.workload;
  text += fmt::format(
      "  {} records of {:.0f} tokens ({:.0f} learnt) in {} steps of {}: training takes {}\n"
      "  measuring the base and the adapter takes another {}\n",
      work.records, work.rows, work.targets, plan.steps, duration(plan.step_seconds),
      duration(plan.train_seconds), duration(plan.evaluate_seconds));
  return text;
}

}  // namespace retort::loop
