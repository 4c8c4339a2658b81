// The HTML report: one self-contained page, plots as inline SVG, readable in both colour schemes.
#include <fmt/format.h>

#include <algorithm>

#include "loop/report.h"

namespace retort::loop {
namespace {

constexpr double kWidth = 640, kHeight = 220, kLeft = 48, kBottom = 28, kTop = 12, kRight = 16;

constexpr std::string_view kStyle = R"(
:root { color-scheme: light dark; --line: #8884; --a: #2a78d6; --b: #e2762b; --muted: #777; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .3rem .6rem; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, th:nth-child(2), td:nth-child(2) { text-align: left; }
pre { white-space: pre-wrap; background: #8881; padding: .6rem; border-radius: 6px; }
pre { font-size: 14px; }
figure { margin: 1.5rem 0; } figcaption, .muted { color: var(--muted); font-size: 14px; }
svg text { fill: currentColor; font-size: 12px; } .grid { stroke: var(--line); }
.yes { color: #2a8a3e; } .no { color: #c0392b; }
)";

std::string escape(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      out += c;
  }
  return out;
}

/// A frame with axes, and the mapping from data to its pixels.
struct Plot {
  double x_max = 1, y_max = 1;
  std::string svg;

  double x(double value) const { return kLeft + (kWidth - kLeft - kRight) * value / x_max; }
  double y(double value) const {
    return kHeight - kBottom - (kHeight - kBottom - kTop) * std::min(value, y_max) / y_max;
  }

  void axes(std::string_view x_label, bool y_percent) {
    for (int i = 0; i <= 4; ++i) {
      const double value = y_max * i / 4;
      svg += fmt::format(
          R"svg(<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}"/>)svg", kLeft,
          kWidth - kRight, y(value), y(value));
      svg += fmt::format(
          R"svg(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)svg", kLeft - 6,
          y(value) + 4,
          y_percent ? fmt::format("{:.0f} %", 100 * value) : fmt::format("{:.2f}", value));
    }
    svg += fmt::format(R"svg(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{} {:.0f}</text>)svg",
                       kWidth - kRight, kHeight - 8, x_label, x_max);
    svg += fmt::format(R"svg(<text x="{:.1f}" y="{:.1f}">0</text>)svg", kLeft, kHeight - 8);
  }

  std::string figure(std::string_view caption) const {
    return fmt::format(
        "<figure><svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">{}</svg>"
        "<figcaption>{}</figcaption></figure>\n",
        kWidth, kHeight, escape(caption), svg, escape(caption));
  }
};

std::string loss_plot(const Report& r) {
  if (r.training.empty()) return "";
  Plot plot;
  plot.x_max = static_cast<double>(std::max<int64_t>(1, r.training.back().step));
  for (const TrainingPoint& p : r.training) plot.y_max = std::max(plot.y_max, p.loss);
  plot.axes("step", false);
  std::string points;
  for (const TrainingPoint& p : r.training) {
    points += fmt::format("{:.1f},{:.1f} ", plot.x(static_cast<double>(p.step)), plot.y(p.loss));
  }
  plot.svg += fmt::format(
      R"svg(<polyline points="{}" fill="none" stroke="var(--a)" stroke-width="1.5"/>)svg", points);
  for (const ValidationPoint& p : r.validation) {
    plot.svg += fmt::format(R"svg(<circle cx="{:.1f}" cy="{:.1f}" r="4" fill="var(--b)">)svg"
                            "<title>validation {:.0f} %</title></circle>",
                            plot.x(static_cast<double>(p.step)), plot.y(plot.y_max * p.accuracy),
                            100 * p.accuracy);
  }
  return plot.figure(
      "Training loss per supervised token (line), and accuracy on validation problems (dots, from "
      "0 at "
      "the bottom to 100 % at the top)");
}

std::string accuracy_plot(const Report& r) {
  std::string svg;
  double y = kTop;
  const double left = 230;
  const double width = kWidth - left - 70;
  for (const ResultRow& row : r.rows) {
    const auto [low, high] = row.correct.interval();
    const char* color = row.label.starts_with("adapter") ? "var(--a)" : "var(--b)";
    svg += fmt::format(R"svg(<text x="{:.1f}" y="{:.1f}" text-anchor="end">{}</text>)svg", left - 8,
                       y + 13, escape(fmt::format("{} ({})", row.label, row.problems)));
    svg +=
        fmt::format(R"svg(<rect x="{:.1f}" y="{:.1f}" width="{:.1f}" height="16" fill="{}"/>)svg",
                    left, y, std::max(1.0, width * row.correct.value()), color);
    svg += fmt::format(
        R"svg(<line x1="{:.1f}" x2="{:.1f}" y1="{:.1f}" y2="{:.1f}" stroke="currentColor"/>)svg",
        left + width * low, left + width * high, y + 8, y + 8);
    svg += fmt::format(R"svg(<text x="{:.1f}" y="{:.1f}">{:.1f} %</text>)svg",
                       left + width * high + 6, y + 13, 100 * row.correct.value());
    y += 26;
  }
  constexpr std::string_view caption = "Answers that are right, with 95 % intervals";
  return fmt::format(
      "<figure><svg viewBox=\"0 0 {:.0f} {:.0f}\" role=\"img\" aria-label=\"{}\">{}</svg>"
      "<figcaption>{}</figcaption></figure>\n",
      kWidth, y + 4, caption, svg, caption);
}

std::string table(const Report& r) {
  std::string html =
      "<table><tr><th>who</th><th>problems</th><th>n</th><th>correct</th><th>95 % interval</th>"
      "<th>ended by itself</th><th>cut at the limit</th><th>tokens an answer</th></tr>\n";
  for (const ResultRow& row : r.rows) {
    const auto [low, high] = row.correct.interval();
    const bool generated = row.end_of_turn.n > 0;
    html += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.1f} %</td><td>{:.1f} to {:.1f}</td><td>{}</td>"
        "<td>{}</td><td>{}</td></tr>\n",
        escape(row.label), escape(row.problems), row.correct.n, 100 * row.correct.value(),
        100 * low, 100 * high,
        generated ? fmt::format("{:.1f} %", 100 * row.end_of_turn.value()) : "",
        generated ? fmt::format("{:.1f} %", 100 * row.cap_hit.value()) : "",
        generated ? fmt::format("{:.0f}", row.tokens_per_answer) : "");
  }
  return html + "</table>\n";
}

std::string sample(const Sample& s) {
  const auto mark = [](bool right) {
    return right ? "<span class=\"yes\">right</span>" : "<span class=\"no\">wrong</span>";
  };
  return fmt::format(
      "<details><summary>{}</summary><p class=\"muted\">expected: {}</p>"
      "<p>base, {}:</p><pre>{}</pre><p>adapter, {}:</p><pre>{}</pre></details>\n",
      escape(s.prompt), escape(s.expected), mark(s.base_correct), escape(s.base_text),
      mark(s.adapter_correct), escape(s.adapter_text));
}

std::string section(const Report& r) {
  std::string html = fmt::format("<h2>{}</h2>\n", escape(r.name));
  html += fmt::format(
      "<p>Adapter <b>{}</b> version {} of <code>{}</code>, made by <code>{}</code>.</p>\n",
      escape(r.name), escape(r.version), escape(r.base), escape(r.command));
  html += table(r) + accuracy_plot(r) + loss_plot(r);
  html += fmt::format(
      "<p>{} records ({} trusted without a check, {} refused), set <code>{}</code>. {} parameters, "
      "{} steps "
      "in {:.0f} s: {:.0f} tokens/s, {:.0f} of them supervised. Best step {}. Peak memory {:.0f} "
      "MB. "
      "Perplexity of neutral text: base {:.2f}, with the adapter {:.2f}.</p>\n",
      r.records, r.records_declared, r.records_refused, escape(r.records_hash), r.parameters,
      r.steps, r.train_seconds, r.tokens_per_s, r.supervised_tokens_per_s, r.best_step,
      r.peak_rss_mb, r.perplexity_base, r.perplexity_adapter);
  if (!r.samples.empty()) html += "<h3>Held-out problems</h3>\n";
  for (const Sample& s : r.samples) html += sample(s);
  return html;
}

}  // namespace

std::string to_html(std::span<const Report> reports) {
  std::string html = fmt::format(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>Retort report</title>"
      "<style>{}</style></head><body>\n<h1>Distillation report</h1>\n",
      kStyle);
  for (const Report& report : reports) html += section(report);
  return html + "</body></html>\n";
}

}  // namespace retort::loop
