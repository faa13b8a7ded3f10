// Nested boxes for drawings: computes their sizes and positions, and writes them as SVG.
#pragma once

#include <string>
#include <vector>

namespace rondo::tools {

/// A frame around parts, or a leaf of a fixed size. Lengths are in pixels.
struct Shape {
  std::string style;      ///< class in the style sheet
  std::string title = {}; ///< in a frame's first line, or in a leaf's middle
  std::string note = {};  ///< after a frame's title, or under a leaf's
  std::string tip = {};   ///< tooltip
  int object = -1;        ///< index of the object that it shows
  double w = 0, h = 0;    ///< given for a leaf; arrange() sets them for a frame
  bool dark = false;      ///< a leaf with light text
  bool new_row = false;   ///< begins a new row in its frame
  double widest = 0;      ///< most width of a frame's rows; 0: one row for all parts
  std::vector<Shape> parts = {};
  double x = 0, y = 0; ///< of the upper left corner, in the drawing

  bool frame() const { return !parts.empty() || !(w > 0); }
};

/// Computes the sizes of frames. Parts are put in rows; frames in a row get the same height.
void arrange(Shape& shape);
/// Sets the positions of a shape and its parts.
void place(Shape& shape, double x, double y);

/// SVG of all frames, parents first; of all leaves.
std::string framesSvg(const Shape& shape);
std::string leavesSvg(const Shape& shape);

/// SVG of a text; `anchor` is start, middle or end.
std::string textSvg(double x, double y, const std::string& style, const std::string& anchor,
                    const std::string& text);
std::string rectSvg(double x, double y, double w, double h, const std::string& style,
                    const std::string& tip = {});
/// Replaces '&' and '<' by XML entities.
std::string escaped(const std::string& text);
/// A length with at most one digit after the point.
std::string px(double length);
/// Approximate width of a text of 11 pixels' height.
double widthOf(const std::string& text);

} // namespace rondo::tools
