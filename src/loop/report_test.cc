// Oracles: the report that went in, and the text of its strings, which has to stand in the page and
// never as markup.
#include "loop/report.h"

#include <gtest/gtest.h>

namespace retort::loop {
namespace {

Report make_report() {
  Report r;
  r.name = "galois";
  r.base = "model.gguf";
  r.version = "3";
  r.command = "retort distil recipes/galois.toml";
  r.records = 800, r.records_declared = 2, r.records_refused = 1;
  r.records_hash = "0123abcd";
  r.parameters = 4'000'000, r.steps = 200, r.best_step = 150;
  r.train_seconds = 12.5, r.tokens_per_s = 900.25, r.supervised_tokens_per_s = 400.5;
  r.peak_rss_mb = 812.5;
  r.perplexity_base = 21.5, r.perplexity_adapter = 22.25;
  r.rows = {{"base, zero-shot", "held-out", {3, 200}, {180, 200}, {20, 200}, 44.5},
            {"adapter", "held-out", {196, 200}, {200, 200}, {0, 200}, 61.25},
            {"adapter", "extrapolation", {70, 100}, {99, 100}, {1, 100}, 90}};
  r.training = {{1, 2.5, 1e-4, 800}, {2, 1.25, 2e-4, 820}};
  r.validation = {{100, 0.5}, {150, 0.975}};
  r.samples = {{"1 < 2 & \"so\"", "4", "<b>3</b>", "Answer: 4", false, true}};
  return r;
}

TEST(Report, ComesBackFromItsJson) {
  const Report report = make_report();
  const base::Json json = to_json(report);
  const auto text = base::parse_json(base::dump_json(json, 1));
  ASSERT_TRUE(text) << text.error().message;
  const auto again = report_from_json(*text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(to_json(*again), json);
  EXPECT_EQ(again->samples[0].base_text, report.samples[0].base_text);
  EXPECT_EQ(again->rows[1].correct.successes, 196);
  EXPECT_EQ(again->training[1].learning_rate, 2e-4);
  EXPECT_EQ(again->validation[1].accuracy, 0.975);
}

TEST(Report, FindsARowByLabelAndProblems) {
  const Report report = make_report();
  ASSERT_NE(report.find("adapter", "extrapolation"), nullptr);
  EXPECT_EQ(report.find("adapter", "extrapolation")->correct.successes, 70);
  EXPECT_EQ(report.find("adapter", "elsewhere"), nullptr);
}

TEST(Report, RefusesWhatIsNoReport) {
  base::Json missing = to_json(make_report());
  missing.erase("steps");
  base::Json wrong = to_json(make_report());
  wrong["rows"][0]["label"] = 3;
  base::Json torn = to_json(make_report());
  torn["training"][0] = base::Json::array({1});
  for (const base::Json& json :
       {missing, wrong, torn, base::Json(), base::Json::array(), base::Json("report")}) {
    const auto report = report_from_json(json);
    ASSERT_FALSE(report) << base::dump_json(json);
    EXPECT_EQ(report.error().code, base::Code::kInvalidInput);
  }
}

TEST(Report, PageHoldsTextAndNoForeignMarkup) {
  Report report = make_report();
  const std::string evil = "<script>alert('x')</script>&\"";
  report.name = report.base = report.version = report.command = report.records_hash = evil;
  report.rows[0].label = report.rows[0].problems = evil;
  report.samples[0] = {evil, evil, evil, evil, false, true};
  const std::string page = to_html(std::span(&report, 1));
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("</script"), std::string::npos);
  EXPECT_NE(page.find("&lt;script&gt;alert('x')&lt;/script&gt;&amp;&quot;"), std::string::npos);
}

TEST(Report, PageHoldsEveryReportAndStandsAlone) {
  const Report first = make_report();
  Report second = make_report();
  second.name = "cycles";
  second.training.clear();  // nothing to plot
  second.validation.clear();
  second.samples.clear();
  const std::vector<Report> reports = {first, second};
  const std::string page = to_html(reports);
  for (const char* text :
       {"<h2>galois</h2>", "<h2>cycles</h2>", "98.0 %", "1 &lt; 2 &amp; &quot;so&quot;"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  for (const char* link : {"http:", "https:", "src=", "@import"}) {
    EXPECT_EQ(page.find(link), std::string::npos) << link;
  }
  EXPECT_TRUE(page.ends_with("</body></html>\n"));
}

TEST(Report, TableNamesEveryRow) {
  const std::string text = to_text(make_report());
  for (const char* part :
       {"base, zero-shot", "98.0 %", "extrapolation", "2 of the records were trusted"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace retort::loop
