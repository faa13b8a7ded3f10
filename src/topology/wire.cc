// Encodes and decodes machines, object by object.
#include "topology/wire.h"

#include "base/codec.h"
#include "rondo/error.h"

namespace rondo::topology {
namespace {

constexpr std::size_t kMostText = 64 << 10;

void write(base::Writer& out, const Object& object) {
  out.u8(static_cast<std::uint8_t>(object.kind));
  for (const int number : {object.number, object.parent, object.level}) out.i32(number);
  out.u64(object.bytes);
  out.u8(object.host);
  out.text(object.name);
  out.u32(static_cast<std::uint32_t>(object.aliases.size()));
  for (const std::string& alias : object.aliases) out.text(alias);
  out.text(object.model);
  out.text(text(object.processors));
}

Processors readProcessors(base::Reader& in) {
  const std::string words = in.text(kMostText);
  try {
    return parseProcessors(words, "processors");
  } catch (const Error& error) {
    in.fail(std::string("is wrong: ") + error.what());
  }
}

Object readObject(base::Reader& in, int index) {
  Object object;
  const auto kind = in.u8();
  if (kind > static_cast<std::uint8_t>(Kind::card)) in.fail("has an unknown kind of object");
  object.kind = static_cast<Kind>(kind);
  object.number = in.i32();
  object.parent = in.i32();
  if (object.parent >= index || (object.parent < 0) != (index == 0))
    in.fail("has an object whose parent is not before it");
  object.level = in.i32();
  object.bytes = in.u64();
  object.host = in.u8() != 0;
  object.name = in.text(kMostText);
  for (auto left = in.u32(); left > 0; --left) object.aliases.push_back(in.text(kMostText));
  object.model = in.text(kMostText);
  object.processors = readProcessors(in);
  return object;
}

} // namespace

std::vector<std::byte> encoded(const Machine& machine) {
  base::Writer out;
  out.text(machine.name);
  out.text(machine.source);
  out.u32(static_cast<std::uint32_t>(machine.objects.size()));
  for (const Object& object : machine.objects) write(out, object);
  out.text(text(machine.allowed));
  out.u32(static_cast<std::uint32_t>(machine.nvlinks.size()));
  for (const NvLink& link : machine.nvlinks) {
    for (const int number : {link.a, link.b, link.links}) out.i32(number);
    out.u8(link.switched);
  }
  return out.take();
}

Machine decodedMachine(std::span<const std::byte> bytes) {
  base::Reader in(bytes, "a machine");
  Machine machine;
  machine.name = in.text(kMostText);
  machine.source = in.text(kMostText);
  const auto count = in.u32();
  for (std::uint32_t i = 0; i < count; ++i)
    machine.objects.push_back(readObject(in, static_cast<int>(i)));
  if (machine.objects.empty()) in.fail("has no objects");
  machine.allowed = readProcessors(in);
  for (auto left = in.u32(); left > 0; --left) {
    NvLink link;
    for (int* number : {&link.a, &link.b, &link.links}) *number = in.i32();
    link.switched = in.u8() != 0;
    machine.nvlinks.push_back(link);
  }
  in.finish();
  return machine;
}

} // namespace rondo::topology
