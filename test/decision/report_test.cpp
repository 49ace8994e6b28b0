// The report: every number on the page is the record's, no name breaks it, it asks for nothing, and what is missing is
// told on it.
#include "decision/report/report.h"

#include <cmath>
#include <random>

#include "decision/json_file.h"
#include "runtime/error.h"
#include "test/decision/html_page.h"
#include "test/decision/program.h"

using namespace spillway::decision;
using namespace spillway::test;
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

namespace {

// The kept run, with the fixture of 74 in place of its own.
class RunFolderCopy {
 public:
  RunFolderCopy() {
    for (const fs::path& from : {fs::path("results/kept/host_small_768"), fixtures() / "report"})
      for (const auto& entry : fs::directory_iterator(from))
        if (entry.path().extension() == ".json")
          fs::copy_file(entry.path(), path() / entry.path().filename(), fs::copy_options::overwrite_existing);
    for (const auto& entry : fs::directory_iterator(path())) fs::permissions(entry.path(), fs::perms::owner_all);
  }
  fs::path path() const { return folder_.path(); }
  Json json(const std::string& file) const { return read_json(path() / file); }
  void write(const std::string& file, const Json& json) const { std::ofstream(path() / file) << json.dump(); }
  std::string page() const { return render_report(read_document(path())); }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(path())) names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  TemporaryFolder folder_;
};

const char* const k74 = "74_profiling_optimization.json";
const char* const k76 = "76_host_memory.json";

std::string from_uri(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '%') {
      out += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  return out;
}

std::vector<std::string> split_at(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

Json at_source(const RunFolderCopy& run, std::map<std::string, Json>& files, const std::string& source) {
  const std::size_t hash = source.find('#');
  const std::string file = from_uri(source.substr(0, hash));
  if (!files.contains(file)) files[file] = run.json(file);
  return files[file].at(Json::json_pointer(from_uri(source.substr(hash + 1))));
}

double computed_again(const std::string& operation, const std::vector<double>& values) {
  double result = operation == "subtract" ? values[0] : 0;
  for (std::size_t i = operation == "subtract"; i < values.size() - (operation == "divide"); ++i)
    result += operation == "subtract" ? -values[i] : values[i];
  return operation == "divide" ? result / values.back() : result;
}

// What is shown, as a number, and half of its last digit.
std::pair<double, double> shown_number(std::string text) {
  for (const char* gone : {"\xE2\x80\xAF"})
    for (std::size_t at; (at = text.find(gone)) != std::string::npos;) text.erase(at, std::string(gone).size());
  if (const std::size_t minus = text.find("\xE2\x88\x92"); minus != std::string::npos) text.replace(minus, 3, "-");
  std::size_t end = 0;
  const double value = std::stod(text, &end);
  const std::size_t point = text.find('.');
  const int decimals = point == std::string::npos || point > end ? 0 : static_cast<int>(end - point - 1);
  return {value, 0.5 * std::pow(10, -decimals)};
}

// Full values of units are scaled to what people read.
double scale_of(const std::string& unit) {
  static const std::map<std::string, double> kScales = {
      {"bytes", 1.0 / 1048576}, {"microseconds", 1e-3}, {"share", 100}, {"flops", 1e-9}};
  return kScales.contains(unit) ? kScales.at(unit) : 1;
}

int check_figures(const RunFolderCopy& run) {
  std::map<std::string, Json> files;
  int figures = 0;
  for (const Tag& tag : tags_of(run.page())) {
    if (!tag.attributes.contains("data-source")) continue;
    ++figures;
    const std::string source = tag.attributes.at("data-source");
    BOOST_TEST_CONTEXT(source << " shown as " << tag.text) {
      const double value = Json::parse(tag.attributes.at("data-value")).get<double>();
      if (!tag.attributes.contains("data-op")) {
        BOOST_TEST(at_source(run, files, source).dump() == tag.attributes.at("data-value"));
      } else {
        std::vector<double> values;
        for (const std::string& one : split_at(source, ' ')) values.push_back(at_source(run, files, one));
        const double again = computed_again(tag.attributes.at("data-op"), values);
        BOOST_TEST(std::abs(again - value) <= 1e-12 * std::max(1.0, std::abs(value)));
      }
      const auto [shown, half] = shown_number(tag.text);
      const double full = value * scale_of(tag.attributes.at("data-unit"));
      BOOST_TEST(std::abs(shown - full) <= half * 1.000001);
    }
  }
  return figures;
}

std::string text_of(const std::vector<Tag>& tags) {
  std::string all;
  for (const Tag& tag : tags) all += tag.text;
  return all;
}

// Nothing on the page makes a browser fetch anything, and every link leads to a place on it.
void check_asks_for_nothing(const std::vector<Tag>& tags) {
  static const std::set<std::string> kKnown = {
      "!doctype", "html",    "head",  "meta", "title",  "style", "body",   "header",     "main",    "footer",
      "nav",      "section", "div",   "p",    "h1",     "h2",    "h3",     "h4",         "a",       "ul",
      "ol",       "li",      "dl",    "dt",   "dd",     "b",     "span",   "code",       "pre",     "br",
      "table",    "thead",   "tbody", "tr",   "th",     "td",    "figure", "figcaption", "details", "summary",
      "svg",      "path",    "line",  "rect", "circle", "text",  "tspan"};
  std::set<std::string> ids, targets;
  bool policy = false;
  for (const Tag& tag : tags) {
    const std::string name = tag.name.starts_with('/') ? tag.name.substr(1) : tag.name;
    BOOST_TEST(kKnown.contains(name), "a tag " << name);
    for (const auto& [key, value] : tag.attributes) {
      BOOST_TEST((key != "src" && key != "srcset" && key != "action" && key != "data" && !key.starts_with("on") &&
                  key != "style"),
                 "an attribute " << key);
      if (key.ends_with("href")) {
        BOOST_TEST(value.starts_with("#"));
        targets.insert(value.substr(1));
      }
      if (key == "id") BOOST_TEST(ids.insert(value).second);
    }
    if (tag.name == "style")
      for (const char* fetches : {"url(", "@import", "@font-face", "image-set"})
        BOOST_TEST(tag.text.find(fetches) == std::string::npos);
    if (tag.name == "meta" && tag.attributes.contains("http-equiv")) {
      BOOST_TEST(tag.attributes.at("http-equiv") == "Content-Security-Policy");
      policy = tag.attributes.at("content").starts_with("default-src 'none'; style-src 'unsafe-inline';");
    }
  }
  BOOST_TEST(policy);
  BOOST_TEST(targets.size() == 11);
  for (const std::string& target : targets) BOOST_TEST(ids.contains(target));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(report_page)

BOOST_AUTO_TEST_CASE(every_figure_is_the_records_value_rounded) {
  BOOST_TEST(check_figures(RunFolderCopy()) > 400);
}

BOOST_AUTO_TEST_CASE(it_asks_for_nothing_and_is_well_formed) {
  check_asks_for_nothing(tags_of(RunFolderCopy().page()));
}

BOOST_AUTO_TEST_CASE(names_from_records_are_text_whatever_is_in_them) {
  const std::string evil =
      "</title></style><script src=\"http://e/x\">alert('1')</script> & <img onerror=\"x\"> %20#/ \"'";
  const RunFolderCopy run;
  Json r76 = run.json(k76), r74 = run.json(k74), memory = run.json("74_memory_hybrid.json"),
       trace = run.json("74_trace_tuned.json");
  r76["candidates"][1]["name"] = evil;
  r76["candidates"][2]["status"] = "oom";
  r76["candidates"][2]["error"] = evil;
  r76["decision"]["reason"] = evil;
  r76["summary"]["best_candidate"] = evil;
  r74["profile"]["top_operators"][0]["name"] = evil;
  r74["bottleneck"]["evidence"] = evil;
  r74["bottleneck"]["thresholds"][evil] = 0.5;
  r74["config"][evil] = evil;
  r74["config"]["tuned"] = evil;
  r74["memory_timelines"] = {{evil, "74_memory_hybrid.json"}};
  memory["peak"]["owners"][0]["owner"] = evil;
  for (Json& event : trace["traceEvents"])
    if (event["ph"] == "X" && event["name"] != "step 2") event["name"] = evil;
  run.write(k76, r76);
  run.write(k74, r74);
  run.write("74_memory_hybrid.json", memory);
  run.write("74_trace_tuned.json", trace);
  const std::vector<Tag> tags = tags_of(run.page());
  check_asks_for_nothing(tags);
  check_figures(run);
  BOOST_TEST(text_of(tags).find(evil) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_text_do_not_break_it) {
  const RunFolderCopy run;
  Json r76 = run.json(k76);
  r76["candidates"][1]["name"] = std::string("a\x01\x1f\x7f b");
  run.write(k76, r76);
  BOOST_TEST(text_of(tags_of(run.page())).find("a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD b") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(every_set_of_missing_records_still_gives_a_page_that_names_them) {
  const std::vector<std::string> records = {"73_host_training.json", k76, "75_memory_budget_decision.json", k74};
  for (unsigned set = 1; set < 16; ++set) {
    const RunFolderCopy run;
    for (std::size_t i = 0; i < records.size(); ++i)
      if ((set >> i & 1u) == 0) fs::remove(run.path() / records[i]);
    BOOST_TEST_CONTEXT("records " << set) {
      const std::vector<Tag> tags = tags_of(run.page());
      check_asks_for_nothing(tags);
      check_figures(run);
      const std::string text = text_of(tags);
      for (std::size_t i = 0; i < records.size(); ++i)
        if ((set >> i & 1u) == 0) BOOST_TEST(text.find(records[i] + " – ") != std::string::npos);
    }
  }
}

BOOST_AUTO_TEST_CASE(missing_timelines_traces_and_sidecars_are_named) {
  const RunFolderCopy run;
  const std::vector<std::string> gone = {"74_memory_offload.json", "74_trace_tuned.json", "76_host_memory_v1.json"};
  for (const std::string& file : gone) fs::remove(run.path() / file);
  const std::string text = text_of(tags_of(run.page()));
  for (const std::string& file : gone) BOOST_TEST(text.find(file + " – ") != std::string::npos);
  BOOST_TEST(check_figures(run) > 300);
}

BOOST_AUTO_TEST_CASE(a_host_run_says_what_it_does_not_confirm_and_a_gpus_does_not) {
  const RunFolderCopy run;
  BOOST_TEST(text_of(tags_of(run.page())).find("They do not confirm a GPU’s times") != std::string::npos);
  Json r74 = run.json(k74);
  r74["evidence_level"] = "single_gpu";
  run.write(k74, r74);
  BOOST_TEST(text_of(tags_of(run.page())).find("do not confirm") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(ceilings_that_were_not_measured_are_told) {
  const RunFolderCopy run;
  Json r74 = run.json(k74);
  for (auto& [key, value] : r74["ceilings"].items()) value = nullptr;
  run.write(k74, r74);
  const std::vector<Tag> tags = tags_of(run.page());
  BOOST_TEST(text_of(tags).find("ceilings were not measured") != std::string::npos);
  for (const Tag& tag : tags) BOOST_TEST((!tag.attributes.contains("class") || tag.attributes.at("class") != "roof"));
}

BOOST_AUTO_TEST_CASE(the_budget_is_drawn_where_it_is_near_and_told_where_it_is_not) {
  const RunFolderCopy run;
  const auto lines = [&] {
    int n = 0;
    for (const Tag& tag : tags_of(run.page()))
      n += tag.name == "line" && tag.attributes.at("class") == "budget" ? 1 : 0;
    return n;
  };
  BOOST_TEST(lines() == 0);
  BOOST_TEST(text_of(tags_of(run.page())).find("lies to the right of this picture") != std::string::npos);
  Json r76 = run.json(k76);
  r76["budget"] = {{"memory_cap_mb", 250.0}, {"memory_cap_bytes", 262144000}, {"min_samples_per_s", 4.0}};
  run.write(k76, r76);
  BOOST_TEST(lines() == 2);
}

BOOST_AUTO_TEST_CASE(the_bars_of_the_steps_split_are_as_long_as_their_times) {
  const RunFolderCopy run;
  const Json r74 = run.json(k74);
  std::vector<double> times;
  for (const char* profile : {"baseline_profile", "profile"})
    for (const auto& [key, ms] : r74[profile]["split"].items())
      if (key != "step_ms" && ms.get<double>() > 0) times.push_back(ms.get<double>());
  std::vector<double> widths;
  for (const Tag& tag : tags_of(run.page()))
    if (tag.name == "rect" && tag.attributes.at("class").starts_with("seg t-"))
      widths.push_back(std::stod(tag.attributes.at("width")));
  BOOST_REQUIRE(widths.size() == times.size());
  const double scale = 100 / (1.02 * r74["profile"]["split"]["step_ms"].get<double>());  // the longer step
  for (std::size_t i = 0; i < times.size(); ++i) BOOST_TEST(std::abs(widths[i] - times[i] * scale) <= 0.0051);
}

BOOST_AUTO_TEST_CASE(a_trace_of_steps_alone_is_drawn_empty) {
  const RunFolderCopy run;
  Json trace = run.json("74_trace_tuned.json"), steps = Json::array();
  for (const Json& event : trace["traceEvents"])
    if (event["ph"] == "M" || event["cat"] == "step") steps.push_back(event);
  trace["traceEvents"] = steps;
  run.write("74_trace_tuned.json", trace);
  BOOST_TEST(text_of(tags_of(run.page())).find("Nothing ran in this step") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_broken_record_is_one_line_and_leaves_no_page) {
  for (const char* file : {k74, k76, "75_memory_budget_decision.json", "73_host_training.json", "74_memory_hybrid.json",
                           "74_trace_baseline.json", "76_host_memory_v1.json"}) {
    const RunFolderCopy run;
    std::string text;
    std::getline(std::ifstream(run.path() / file), text, '\0');
    std::ofstream(run.path() / file) << text.substr(0, text.size() / 2);
    check_refused("report " + run.path().string(), file);
    for (const std::string& name : run.files()) BOOST_TEST(name.find("report") == std::string::npos);
  }
  check_refused("report /nonexistent/run", "/nonexistent/run");
  const TemporaryFolder empty;
  check_refused("report " + empty.path().string(), "no record of 73, 76, 75 or 74");
}

BOOST_AUTO_TEST_CASE(a_record_names_files_of_its_own_folder_only) {
  for (const char* elsewhere : {"../secret.json", "/etc/passwd", "", ".hidden"}) {
    const RunFolderCopy run;
    Json r74 = run.json(k74);
    r74["profile"]["trace_path"] = elsewhere;
    run.write(k74, r74);
    check_refused("report " + run.path().string(), "trace_path");
  }
}

BOOST_AUTO_TEST_CASE(the_program_writes_the_page_over_an_earlier_one_and_nothing_else) {
  const RunFolderCopy run;
  std::vector<std::string> expected = run.files();
  expected.emplace_back("report.html");
  std::sort(expected.begin(), expected.end());
  std::ofstream(run.path() / "report.html") << "an earlier one";
  const Result r = spillway_run("report " + run.path().string());
  BOOST_TEST(r.status == 0);
  BOOST_TEST(r.err.empty());
  BOOST_TEST(run.files() == expected, boost::test_tools::per_element());
  std::string written;
  std::getline(std::ifstream(run.path() / "report.html"), written, '\0');
  BOOST_TEST(written == run.page());
}

// Whatever stands where something else should: a page that is whole, or one Error that names the file.
BOOST_AUTO_TEST_CASE(values_of_any_other_kind_give_a_page_or_one_error) {
  const RunFolderCopy run;
  const std::vector<std::string> files = {k74,
                                          k76,
                                          "75_memory_budget_decision.json",
                                          "73_host_training.json",
                                          "74_memory_hybrid.json",
                                          "74_trace_tuned.json",
                                          "76_host_memory_v1.json"};
  const std::vector<Json> others = {nullptr, -1, 0,   1e300,         -1e300,         1e-300,         "text",
                                    true,    "", 0.5, Json::array(), Json::object(), Json{{"a", 1}}, {1, 2}};
  std::mt19937 random(7);
  const auto any = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  int pages = 0, errors = 0;
  for (int round = 0; round < 250; ++round) {
    const std::string file = files[any(files.size())];
    const Json whole = run.json(file);
    Json changed = whole;
    Json* at = &changed;
    for (int depth = 0; at->is_structured() && !at->empty() && (depth == 0 || any(4) != 0); ++depth) {
      auto it = at->begin();
      std::advance(it, any(at->size()));
      at = &*it;
    }
    const std::string was = at->dump().substr(0, 40);
    *at = others[any(others.size())];
    run.write(file, changed);
    BOOST_TEST_CONTEXT(round << ": " << file << ", " << was << " becomes " << at->dump()) {
      try {
        check_asks_for_nothing(tags_of(run.page()));
        ++pages;
      } catch (const spillway::Error& e) {
        BOOST_TEST(std::string(e.what()).find(".json") != std::string::npos, e.what());
        ++errors;
      }
    }
    run.write(file, whole);
  }
  BOOST_TEST(pages > 50);
  BOOST_TEST(errors > 20);
}

BOOST_AUTO_TEST_CASE(a_long_run_stays_a_small_page_and_keeps_its_peak) {
  const RunFolderCopy run;
  constexpr int kPoints = 40000, kPeak = 23456;
  Json memory = run.json("74_memory_hybrid.json");
  const std::int64_t low = 100 << 20, high = 400 << 20;
  memory["points"] = Json::array();
  for (int i = 0; i < kPoints; ++i) {
    const std::int64_t bytes = i == kPeak ? high : low + (i * 7919LL % 1000) * 4096;
    memory["points"].push_back({{"at_us", i},
                                {"kind", "allocate"},
                                {"owner", "x"},
                                {"bytes", 1},
                                {"allocated", bytes},
                                {"reserved", high},
                                {"by_category", {bytes, 0, 0, 0, 0, 0, 0}}});
  }
  memory["peak"]["index"] = kPeak;
  memory["peak"]["allocated_bytes"] = high;
  run.write("74_memory_hybrid.json", memory);
  Json trace = run.json("74_trace_tuned.json");
  for (int i = 0; i < kPoints; ++i)
    trace["traceEvents"].push_back({{"ph", "X"},
                                    {"pid", 2},
                                    {"tid", 4},
                                    {"ts", i * 10.0},
                                    {"dur", 4.0},
                                    {"name", "k"},
                                    {"cat", "kernel"},
                                    {"args", {{"phase", i % 2 == 0 ? "forward" : "backward"}}}});
  run.write("74_trace_tuned.json", trace);
  const std::string page = run.page();
  BOOST_TEST(page.size() < 2'000'000u);

  // Every timeline has one scale, which ends 12 % above the most that any of them holds: the spike reaches 1 / 1.12.
  const double y = 190 * (1 - 1 / 1.12);
  int reached = 0;
  for (const Tag& tag : tags_of(page))
    if (tag.name == "path" && tag.attributes.at("class") == "area m0" &&
        tag.attributes.at("d").find(fmt::format("V{:.1f}", y)) != std::string::npos)
      ++reached;
  BOOST_TEST(reached == 1);
}

BOOST_AUTO_TEST_SUITE_END()
