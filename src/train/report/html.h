// Helpers that make HTML and SVG text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace rondo::training {

/// Escapes the text so that it is shown literally, in elements and attributes.
std::string htmlText(std::string_view text);

/// With this many digits after the decimal point; a dash for a value that is not finite.
std::string fixedText(double value, int digits);

/// With about three digits and without an exponent: "1.69", "0.0042", "12,300".
std::string numberText(double value);

/// For example "512 B", "1.0 MiB".
std::string bytesText(std::uint64_t bytes);

/// A rectangle of an SVG. `style` is its CSS class, which sets its colour; `hint` is its tooltip.
struct Box {
  double x, y, width, height;
};
std::string boxText(const Box& box, std::string_view style, std::string_view hint);

/// Text in an SVG; `anchor` is "start", "middle" or "end".
std::string labelText(double x, double y, std::string_view anchor, std::string_view text,
                      std::string_view style = "tick");

/// A line from (x1, y1) to (x2, y2).
std::string lineText(double x1, double y1, double x2, double y2, std::string_view style);

} // namespace rondo::training
