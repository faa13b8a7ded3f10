// Where new ranks find an elastic run: a unique id, which the lowest rank leaves in a file.
#pragma once

#include <optional>
#include <string>

#include "rondo/rendezvous.h"

namespace rondo::training {

class RendezvousFile {
 public:
  /// "": none, and no rank can join.
  explicit RendezvousFile(std::string file) : file_(std::move(file)) {}
  ~RendezvousFile() { withdraw(); }
  RendezvousFile(const RendezvousFile&) = delete;
  RendezvousFile& operator=(const RendezvousFile&) = delete;

  /// Makes a new id and leaves it in the file. Throws Error(system), or Error(data) if other users
  /// may read the file.
  void publish();
  /// Ranks that wait get an error, unless they have met the others by the id.
  void withdraw();
  /// Ranks that wait to join by the id.
  int waiting() const { return id_ ? id_->waiting() : 0; }
  const std::optional<UniqueId>& id() const { return id_; }

 private:
  const std::string file_;
  std::optional<UniqueId> id_;
};

} // namespace rondo::training
