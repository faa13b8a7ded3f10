#include "train/parallel/plan_text.h"

#include <cstdarg>
#include <cstdio>

namespace rondo::training {

std::string formatted(const char* format, ...) {
  va_list values, again;
  va_start(values, format);
  va_copy(again, values);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, values)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(values);
  return text;
}

std::string meshText(const Mesh& mesh, Axis axis) {
  std::string text = "mesh " + mesh.text() + ":";
  for (int rank = 0; rank < mesh.size(); ++rank) {
    if (mesh.coordinate(axis, rank) != 0) continue;
    text += rank == 0 ? " ranks" : "; ranks";
    for (int other : mesh.groupOf({axis}, rank)) text += " " + std::to_string(other);
  }
  return text;
}

} // namespace rondo::training
