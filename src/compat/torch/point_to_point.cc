// Implements the group's sends and receives between two ranks.
#include <c10/util/Exception.h>

#include "compat/torch/make.h"

namespace rondo::compat {

Messenger& Backend::messengerFor(at::Device device, const char* call) {
  const std::shared_ptr<Member> member = memberOn(device, call);
  if (!member->messenger)
    C10_THROW_ERROR(NotImplementedError,
                    std::string("rondo: ") + call +
                        ": tags other than 0, and receives from any rank, need tensors on cpu and "
                        "a group of several ranks; use tag 0 and name the sender (src)");
  return *member->messenger;
}

WorkPointer Backend::send(Tensors& tensors, int to, int tag) {
  const CallName name("send");
  const at::Tensor& tensor = single(tensors, name);
  Copies copies(name);
  const Array a = toMove(copies.read(tensor), name);
  CallInfo info{.type = Type::SEND, .name = name, .inputs = tensors, .after = copies.after()};
  if (tag == 0)
    return run(std::move(info), CollectiveCall{.collective = Collective::sendrecv,
                                               .input = a.data,
                                               .count = a.count,
                                               .type = a.type,
                                               .root = to,
                                               .sending = true});
  Messenger& messenger = messengerFor(tensor.device(), name);
  if (!info.after) info.after = std::make_shared<AfterCall>();
  std::shared_ptr<void>& memory = info.after->memory;
  const auto begin = [&](Communicator&) { return Begun{messenger.send(a, to, tag, memory)}; };
  return make(std::move(info), begin, begin);
}

WorkPointer Backend::recv(Tensors& tensors, int from, int tag) {
  const CallName name("recv");
  const at::Tensor& tensor = single(tensors, name);
  const std::shared_ptr<Member> member = memberOn(tensor.device(), name);
  if (tag != 0 || (member->messenger && member->messenger->pendingUntagged()))
    return receive(tensors, from, tag);
  Copies copies(name);
  const Array a = toMove(copies.write(tensor), name);
  return run({.type = Type::RECV,
              .name = name,
              .outputs = tensors,
              .after = copies.after(),
              .source = from},
             CollectiveCall{.collective = Collective::sendrecv,
                            .output = a.data,
                            .count = a.count,
                            .type = a.type,
                            .root = from});
}

WorkPointer Backend::recvAnysource(Tensors& tensors, int tag) {
  return receive(tensors, Message::kAnyRank, tag);
}

WorkPointer Backend::receive(Tensors& tensors, int from, int tag) {
  const CallName name("recv");
  const at::Tensor& tensor = single(tensors, name);
  Messenger& messenger = messengerFor(tensor.device(), name);
  Copies copies(name);
  const at::Tensor& place = copies.write(tensor);
  const Array a = toMove(place, name);
  const bool any = from == Message::kAnyRank;
  const auto begin = [&](Communicator&) {
    return Begun{{}, {messenger.receive({a, place, from, tag})}};
  };
  return make({.type = any ? Type::RECVANYSOURCE : Type::RECV,
               .name = name,
               .outputs = tensors,
               .after = copies.after(),
               .source = from},
              begin, begin);
}

} // namespace rondo::compat
