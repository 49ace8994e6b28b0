// html.cpp - see html.h.
#include "decision/report/html.h"

#include <fmt/format.h>

#include <algorithm>

#include "profiler/svg.h"

namespace spillway::decision::html {
using profiler::svg::escape;

std::string section(std::string_view id, std::string_view title, const std::string& lead, const std::string& body) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n{}{}\n</section>\n", id, escape(title),
                     lead.empty() ? "" : fmt::format("<p class=\"lead\">{}</p>\n", lead), body);
}

std::string note(const std::string& text) {
  return fmt::format("<p class=\"note\">{}</p>\n", text);
}

std::string chip(const std::string& decision) {
  const char* sign = decision == "accept" ? "✓" : decision == "tune" ? "◐" : decision == "reject" ? "✕" : "";
  const std::string css = *sign == '\0' ? "other" : decision;
  return fmt::format("<span class=\"chip {}\">{}{}{}</span>", css, sign, *sign == '\0' ? "" : " ",
                     escape(decision.empty() ? "–" : decision));
}

std::string words(const std::string& code) {
  std::string text = code;
  std::replace(text.begin(), text.end(), '_', ' ');
  return escape(text);
}

std::string table(const std::vector<Column>& head, const std::string& rows, std::string_view label) {
  constexpr std::size_t kFew = 5;  // columns that need not be drawn apart over the whole page
  std::string out =
      fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table{}><thead><tr>",
                  escape(label), head.size() <= kFew ? " class=\"few\"" : "");
  for (std::size_t i = 0; i < head.size(); ++i)
    out += fmt::format("<th scope=\"col\"{}>{}</th>", i == 0 || head[i].text ? "" : " class=\"num\"", head[i].title);
  return out + "</tr></thead><tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string figure_box(const std::string& plot, const std::string& caption) {
  return fmt::format("<figure>{}{}</figure>\n", plot,
                     caption.empty() ? "" : fmt::format("<figcaption>{}</figcaption>", caption));
}

std::string details(const std::string& summary, const std::string& body) {
  return fmt::format("<details><summary>{}</summary>\n{}</details>\n", summary, body);
}

std::string legend(const std::vector<Key>& keys) {
  std::string out = "<ul class=\"legend\">";
  for (const Key& key : keys)
    out += fmt::format("<li><span class=\"key {}\"></span>{}</li>", key.css, escape(key.name));
  return out + "</ul>\n";
}

std::string text(const Node& node) {
  const std::string value = node.text();
  return value.empty() ? "<span class=\"none\">–</span>" : escape(value);
}

}  // namespace spillway::decision::html
