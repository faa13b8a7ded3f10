// Reads random bytes from the kernel.
#include "base/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "rondo/error.h"

namespace rondo::base {

void randomBytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      throw Error(ErrorCode::system, std::string("getrandom: ") + std::strerror(errno));
    }
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

std::uint64_t randomNumber() {
  std::uint64_t number = 0;
  randomBytes(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

} // namespace rondo::base
