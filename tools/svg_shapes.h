// Boxes in boxes, for drawings: their sizes, their places, and the words of SVG.
#pragma once

#include <string>
#include <vector>

namespace rondo::tools {

/// A frame around parts, or a leaf of a fixed size. Lengths are in pixels.
struct Shape {
  std::string style;      ///< class in the style sheet
  std::string title = {}; ///< of a frame in its first line, of a leaf in its middle
  std::string note = {};  ///< behind a frame's title, under a leaf's
  std::string tip = {};   ///< shown under the pointer
  int object = -1;        ///< what it stands for
  double w = 0, h = 0;    ///< of a leaf; of a frame set by arrange()
  bool dark = false;      ///< a leaf with light words
  bool new_row = false;   ///< begins one in its frame
  double widest = 0;      ///< of a frame's rows; 0: one row for all parts
  std::vector<Shape> parts = {};
  double x = 0, y = 0; ///< of the upper left corner, in the drawing

  bool frame() const { return !parts.empty() || !(w > 0); }
};

/// Sets sizes of frames: parts stand in rows, those of a row are equally high if they are frames.
void arrange(Shape& shape);
/// Sets places of a shape and its parts.
void place(Shape& shape, double x, double y);

/// "<rect .../><text>..": frames only, parents first; or leaves only.
std::string framesSvg(const Shape& shape);
std::string leavesSvg(const Shape& shape);

/// A text as SVG has it; `anchor` start, middle or end.
std::string textSvg(double x, double y, const std::string& style, const std::string& anchor,
                    const std::string& text);
std::string rectSvg(double x, double y, double w, double h, const std::string& style,
                    const std::string& tip = {});
/// With '&' and '<' as they are written in XML.
std::string escaped(const std::string& text);
/// A length with at most one digit behind the point.
std::string px(double length);
/// How wide a text of 11 pixels' height is, about.
double widthOf(const std::string& text);

} // namespace rondo::tools
