// Arranges nested boxes and writes them as SVG.
#include "tools/svg_shapes.h"

#include <algorithm>
#include <array>
#include <cstdio>

namespace rondo::tools {

namespace {

constexpr double kEdge = 8, kGap = 6, kCellGap = 3, kHead = 20;

double gapIn(const Shape& frame) {
  return frame.parts.front().style.starts_with("core") ? kCellGap : kGap;
}
double headOf(const Shape& frame) { return frame.title.empty() ? kEdge : kHead + 4; }

/// Calls `function` with the begin and the end of each row of the frame's parts.
template <typename Function>
void rows(Shape& frame, const Function& function) {
  auto& parts = frame.parts;
  for (std::size_t begin = 0, end = 0; begin < parts.size(); begin = end) {
    double width = parts[begin].w;
    for (end = begin + 1; end < parts.size() && !parts[end].new_row; ++end) {
      width += gapIn(frame) + parts[end].w;
      if (frame.widest > 0 && width > frame.widest) break;
    }
    function(begin, end);
  }
}

} // namespace

double widthOf(const std::string& text) { return 6.1 * static_cast<double>(text.size()); }

std::string px(double length) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f", length);
  std::string word = text.data();
  if (word.ends_with(".0")) word.resize(word.size() - 2);
  return word;
}

std::string escaped(const std::string& text) {
  std::string written;
  for (const char c : text) {
    if (c == '&') written += "&amp;";
    else if (c == '<') written += "&lt;";
    else written += c;
  }
  return written;
}

std::string textSvg(double x, double y, const std::string& style, const std::string& anchor,
                    const std::string& text) {
  return "<text class=\"" + style + "\" x=\"" + px(x) + "\" y=\"" + px(y) + "\" text-anchor=\"" +
         anchor + "\">" + escaped(text) + "</text>\n";
}

std::string rectSvg(double x, double y, double w, double h, const std::string& style,
                    const std::string& tip) {
  const std::string end = tip.empty() ? "/>\n" : "><title>" + escaped(tip) + "</title></rect>\n";
  return "<rect class=\"" + style + "\" x=\"" + px(x) + "\" y=\"" + px(y) + "\" width=\"" + px(w) +
         "\" height=\"" + px(h) + "\" rx=\"" + (h < 30 ? "3" : "6") + "\"" + end;
}

void arrange(Shape& shape) {
  if (!shape.frame()) return;
  for (Shape& part : shape.parts) arrange(part);
  double width = 0, height = headOf(shape);
  rows(shape, [&](std::size_t begin, std::size_t end) {
    double row = 0, highest = 0;
    for (std::size_t i = begin; i < end; ++i) {
      row += shape.parts[i].w + (i > begin ? gapIn(shape) : 0);
      highest = std::max(highest, shape.parts[i].h);
    }
    for (std::size_t i = begin; i < end; ++i)
      if (shape.parts[i].frame()) shape.parts[i].h = highest;
    width = std::max(width, row);
    height += highest + (begin > 0 ? gapIn(shape) : 0);
  });
  const double words = 1.15 * widthOf(shape.title) + widthOf(shape.note) + 24; // titles are bold
  shape.w = std::max(width, words) + 2 * kEdge;
  shape.h = height + kEdge;
}

void place(Shape& shape, double x, double y) {
  shape.x = x;
  shape.y = y;
  double top = y + headOf(shape);
  if (!shape.frame()) return;
  rows(shape, [&](std::size_t begin, std::size_t end) {
    double left = x + kEdge, highest = 0;
    for (std::size_t i = begin; i < end; ++i) {
      place(shape.parts[i], left, top);
      left += shape.parts[i].w + gapIn(shape);
      highest = std::max(highest, shape.parts[i].h);
    }
    top += highest + gapIn(shape);
  });
}

std::string framesSvg(const Shape& shape) {
  if (!shape.frame()) return {};
  std::string svg = rectSvg(shape.x, shape.y, shape.w, shape.h, shape.style, shape.tip);
  if (!shape.title.empty())
    svg += textSvg(shape.x + kEdge, shape.y + 16, "head", "start", shape.title);
  if (!shape.note.empty())
    svg += textSvg(shape.x + shape.w - kEdge, shape.y + 16, "note", "end", shape.note);
  for (const Shape& part : shape.parts) svg += framesSvg(part);
  return svg;
}

std::string leavesSvg(const Shape& shape) {
  std::string svg;
  for (const Shape& part : shape.parts) svg += leavesSvg(part);
  if (shape.frame()) return svg;
  svg += rectSvg(shape.x, shape.y, shape.w, shape.h, shape.style, shape.tip);
  const double middle = shape.x + shape.w / 2, low = shape.y + shape.h / 2 + 4;
  if (!shape.title.empty())
    svg += textSvg(middle, shape.note.empty() ? low : low - 7, shape.dark ? "light" : "leaf",
                   "middle", shape.title);
  if (!shape.note.empty())
    svg += textSvg(middle, low + 8, shape.dark ? "pale" : "small", "middle", shape.note);
  return svg;
}

} // namespace rondo::tools
