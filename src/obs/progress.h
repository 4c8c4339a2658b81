// A progress line for work that takes seconds or longer.
//
// On a terminal it is one live line (bar, percent, rate, time left and a free field such as
// "loss 0.123"), redrawn at most 10 times a second. Elsewhere, and with NO_COLOR set, it is a plain
// line every 10 s, or every 10 % where that comes first but at most one a second.
//
// Owner: the loop that does the work, on one thread. tick() allocates nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace retort::obs {

struct ProgressOptions {
  bool quiet = false;             // print nothing at all
  int64_t first = 0;              // where the work starts, e.g. the step it resumes from
  int fd = 2;                     // where to write; the caller keeps it open
  int64_t (*now_ms)() = nullptr;  // monotonic clock; null: the system's
};

class Progress {
 public:
  /// `total` units of work, or 0 if that is not known.
  Progress(std::string_view label, int64_t total, const ProgressOptions& options = {});
  /// Work that neither finished nor failed was abandoned: leaves a clean line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` units are complete, counted from 0. Cheap enough for every step.
  void tick(int64_t done, std::string_view field = {});
  /// The last line: "label: done, 1000 in 2m05s, summary". Later calls print nothing.
  void finish(std::string_view summary = {});
  void fail(std::string_view reason);

 private:
  enum class Mode { kQuiet, kPlain, kLive };
  class Line;

  int64_t elapsed_ms() const;
  bool due(int64_t elapsed, int64_t done) const;
  void draw_live(Line& line, int64_t elapsed) const;
  void draw_plain(Line& line, int64_t elapsed) const;
  void add_pace(Line& line, int64_t elapsed) const;
  void end(std::string_view outcome, std::string_view detail);
  void write(const Line& line) const;

  const std::string label_;
  const int64_t total_;
  const ProgressOptions options_;
  Mode mode_;
  int64_t started_ms_;
  int64_t drawn_ms_ = 0;     // since the start
  int64_t drawn_tenth_ = 0;  // tenths of the work at that time
  int64_t done_;
  bool drawn_ = false;
  bool ended_ = false;
};

}  // namespace retort::obs
