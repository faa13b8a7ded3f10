// Where new ranks find an elastic run: a unique id, which the lowest rank leaves in a file.
#pragma once

#include <optional>
#include <string>

#include "rondo/rendezvous.h"

namespace rondo::training {

class Door {
 public:
  /// "": it stays closed.
  explicit Door(std::string file) : file_(std::move(file)) {}
  ~Door() { close(); }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  /// Makes a new id and leaves it in the file. Throws Error(system), or Error(data) if other users
  /// may read the file.
  void open();
  /// Ranks that wait there get an error, unless they have met the others by its id.
  void close();
  /// Ranks that wait there.
  int waiting() const { return id_ ? id_->waiting() : 0; }
  const std::optional<UniqueId>& id() const { return id_; }

 private:
  const std::string file_;
  std::optional<UniqueId> id_;
};

} // namespace rondo::training
