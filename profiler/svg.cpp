// svg.cpp - see svg.h.
#include "profiler/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace spillway::profiler::svg {
namespace {

constexpr const char* kReplacement = "\xEF\xBF\xBD";

// Bytes of the UTF-8 character at the text's begin; 0: there is none (RFC 3629: no overlong form, no surrogate).
std::size_t utf8_length(std::string_view t) {
  const auto byte = [&](std::size_t i) { return i < t.size() ? static_cast<unsigned char>(t[i]) : 0u; };
  const auto more = [&](std::size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return more(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0, surrogate = first == 0xED && byte(1) > 0x9F;
    return more(1) && more(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90, beyond = first == 0xF4 && byte(1) > 0x8F;
    return more(1) && more(2) && more(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

const char* name_of(Anchor anchor) {
  return anchor == Anchor::start ? "start" : anchor == Anchor::middle ? "middle" : "end";
}

std::string with_title(const std::string& title) {
  return title.empty() ? "/>" : fmt::format("><title>{}</title></", title);
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text[0];
    if (length == 0 || (length == 1 && (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) && c != '\n' && c != '\t'))
      out += kReplacement;
    else if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (c == '\'')
      out += "&#39;";
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return out;
}

Scale::Scale(double low, double high, bool logarithmic) : low_(low), high_(high), logarithmic_(logarithmic) {
  if (!std::isfinite(low) || !std::isfinite(high) || low >= high || (logarithmic && low <= 0))
    throw std::invalid_argument(fmt::format("a scale from {} to {}", low, high));
}
Scale Scale::linear(double low, double high) {
  return {low, high, false};
}
Scale Scale::logarithmic(double low, double high) {
  return {low, high, true};
}

double Scale::at(double value) const {
  return logarithmic_ ? std::log(value / low_) / std::log(high_ / low_) : (value - low_) / (high_ - low_);
}

std::vector<double> Scale::ticks(int most) const {
  most = std::max(most, 2);
  std::vector<double> ticks;
  if (logarithmic_) {
    const int first = static_cast<int>(std::ceil(std::log10(low_) - 1e-9));
    const int last = static_cast<int>(std::floor(std::log10(high_) + 1e-9));
    const int every = std::max(1, (last - first) / most + 1);
    for (int e = first; e <= last; e += every) ticks.push_back(std::pow(10.0, e));
    return ticks;
  }
  double power = std::pow(10.0, std::floor(std::log10((high_ - low_) / most)));
  for (const double factor : {1., 2., 5., 10., 20., 50.}) {
    const double step = power * factor;
    const double first = std::ceil(low_ / step - 1e-9), last = std::floor(high_ / step + 1e-9);
    if (last - first + 1 > most) continue;
    for (double i = first; i <= last; ++i) ticks.push_back(i == 0 ? 0 : i * step);
    break;
  }
  return ticks;
}

std::string tick_text(double value) {
  if (value != 0 && (std::abs(value) >= 1e6 || std::abs(value) < 1e-4)) return fmt::format("{:.3g}", value);
  std::string text = fmt::format("{:.6g}", value);
  const std::size_t digits = std::min(text.find('.'), text.size());
  const std::size_t first = text[0] == '-' ? 1 : 0;
  if (digits - first > 3 && text.find('e') == std::string::npos)
    for (std::size_t i = digits - 3; i > first; i = i > 3 ? i - 3 : 0) text.insert(i, "\xE2\x80\xAF");
  return text;
}

std::string coordinate(double value) {
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

Plot::Plot(std::string_view label, int height, Scale x, Scale y)
    : label_(escape(label)), height_(height), x_(x), y_(y) {}

std::string Plot::percent(double x) const {
  return coordinate(100 * x_.at(x)) + "%";
}
std::string Plot::pixel(double y) const {
  return coordinate(path_y(y));
}

void Plot::axis_x(const std::vector<double>& ticks, std::string_view title) {
  constexpr double kAtEdge = 0.985;  // a number there would stand out of the page
  // Every second number goes on a narrow page.
  bool minor = false;
  for (const double tick : ticks) {
    grid_ += fmt::format(R"(<line class="grid" x1="{0}" x2="{0}" y1="0" y2="{1}"/>)", percent(tick), height_);
    grid_ += fmt::format(R"(<text class="tick{}" x="{}" y="{}" text-anchor="{}">{}</text>)", minor ? " minor" : "",
                         percent(tick), height_ + 18, name_of(x_.at(tick) > kAtEdge ? Anchor::end : Anchor::middle),
                         tick_text(tick));
    minor = !minor;
  }
  if (!title.empty())
    grid_ +=
        fmt::format(R"(<text class="axis" x="100%" y="{}" text-anchor="end">{}</text>)", height_ + 36, escape(title));
}

void Plot::axis_y(const std::vector<double>& ticks, std::string_view title) {
  flush_ = false;
  for (const double tick : ticks) {
    grid_ += fmt::format(R"(<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>)", pixel(tick));
    grid_ += fmt::format(R"(<text class="tick" x="-8" y="{}" dy="4" text-anchor="end">{}</text>)", pixel(tick),
                         tick_text(tick));
  }
  if (!title.empty())
    grid_ += fmt::format(R"(<text class="axis" x="0" y="-10" text-anchor="start">{}</text>)", escape(title));
}

void Plot::dot(double x, double y, double radius, std::string_view css, const std::string& title) {
  marks_ += fmt::format(R"(<circle class="{}" cx="{}" cy="{}" r="{}"{})", css, percent(x), pixel(y), coordinate(radius),
                        with_title(title));
  if (!title.empty()) marks_ += "circle>";
}

void Plot::line(double x0, double y0, double x1, double y1, std::string_view css) {
  marks_ += fmt::format(R"(<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>)", css, percent(x0), pixel(y0),
                        percent(x1), pixel(y1));
}

void Plot::box(double x0, double y0, double x1, double y1, std::string_view css, const std::string& title) {
  const double left = std::min(x_.at(x0), x_.at(x1)), right = std::max(x_.at(x0), x_.at(x1));
  const double top = std::min(path_y(y0), path_y(y1)), bottom = std::max(path_y(y0), path_y(y1));
  marks_ += fmt::format(R"(<rect class="{}" x="{}%" y="{}" width="{}%" height="{}"{})", css, coordinate(100 * left),
                        coordinate(top), coordinate(100 * (right - left)), coordinate(bottom - top), with_title(title));
  if (!title.empty()) marks_ += "rect>";
}

void Plot::text(double x, double y, double dx, double dy, Anchor anchor, std::string_view css,
                const std::string& markup) {
  marks_ += fmt::format(R"(<text class="{}" x="{}" y="{}" dx="{}" dy="{}" text-anchor="{}">{}</text>)", css, percent(x),
                        pixel(y), coordinate(dx), coordinate(dy), name_of(anchor), markup);
}

void Plot::path(const std::string& d, std::string_view css) {
  marks_ += fmt::format(R"(<svg class="stretch" width="100%" height="{0}" viewBox="0 0 {1} {0}" )"
                        R"(preserveAspectRatio="none"><path class="{2}" d="{3}"/></svg>)",
                        height_, kPathWidth, css, d);
}

std::string Plot::svg() const {
  return fmt::format(R"(<svg class="plot{}" role="img" aria-label="{}" height="{}">{}{}</svg>)", flush_ ? " flush" : "",
                     label_, height_, grid_, marks_);
}

}  // namespace spillway::profiler::svg
