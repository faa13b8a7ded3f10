// NCCL's collectives, sends and receives, and the functions that create and destroy operators.
#include <string>

#include "compat/nccl/cuda_driver.h"
#include "compat/nccl/group.h"

namespace rondo::compat::nccl {

namespace {

/// One communication call of one rank.
class Call {
 public:
  Call(ncclComm_t comm, cudaStream_t stream)
      : member_(ncclComm::known(comm).active()), stream_(stream) {
    if (member_->device >= 0) member_->comm.setStream(Stream(stream));
    else if (stream && !CudaDriver::get().there())
      refuse(ncclInvalidUsage,
             "the communicator is on host memory, where only stream 0 is known: no CUDA driver is "
             "here that could wait for another");
  }

  int rank() const { return member_->comm.rank(); }
  ReduceOp operatorOf(ncclRedOp_t op, DataType type) const {
    // Earlier work of the stream may write the factor of a program's own operator.
    if (op >= ncclNumOps) awaitStream();
    return member_->operatorOf(op, type);
  }

  /// Inside a group: only records the call. Otherwise runs it to its end if calls of this rank
  /// block (Member::waits()), or starts it.
  ncclResult_t run(const CollectiveCall& call) const {
    try {
      return make(call);
    } catch (...) {
      // The Error belongs to the communicator, and another thread may destroy that as soon as this
      // object releases it. So the Error is converted here.
      throw currentRefusal();
    }
  }

  /// AlltoAll in place, which Rondo's AlltoAll refuses: as in NCCL, a send to and a receive from
  /// each rank, after which the buffer's content is undefined.
  ncclResult_t exchangeInPlace(void* buffer, std::size_t count, DataType type) const {
    Groups::start();
    try {
      for (int peer = 0; peer < member_->comm.size(); ++peer) {
        auto* const block =
            static_cast<std::byte*>(buffer) + static_cast<std::size_t>(peer) * count * sizeOf(type);
        CollectiveCall message{
            .collective = Collective::sendrecv, .count = count, .type = type, .root = peer};
        message.output = block;
        run(message);
        message.output = nullptr;
        message.input = block;
        message.sending = true;
        run(message);
      }
    } catch (const Refusal& refusal) {
      Groups::fail(refusal);
      Groups::end(); // throws it, unless this is inside of the program's group
      throw;
    }
    return Groups::end();
  }

 private:
  ncclResult_t make(const CollectiveCall& call) const {
    Communicator& comm = member_->comm;
    if (Groups::open()) {
      Groups::add(member_, comm.callAsync(call), stream_);
      return ncclSuccess;
    }
    awaitStream();
    if (member_->waits()) {
      comm.call(call);
      return ncclSuccess;
    }
    Work work = comm.callAsync(call);
    return member_->started({&work, 1});
  }
  /// On host memory: returns when the work in the stream is complete.
  void awaitStream() const {
    if (stream_ && member_->device < 0) CudaDriver::get().synchronize(stream_);
  }

  const std::shared_ptr<Member> member_;
  const cudaStream_t stream_;
};

} // namespace

NCCL_EXPORT(ncclResult_t, AllReduce,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) {
  return answerInGroup("ncclAllReduce", [&] {
    const Call call(comm, stream);
    const DataType type = typeOf(datatype);
    return call.run({.collective = Collective::allreduce,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = count,
                     .type = type,
                     .op = call.operatorOf(op, type)});
  });
}

NCCL_EXPORT(ncclResult_t, Reduce,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
             ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)) {
  return answerInGroup("ncclReduce", [&] {
    const Call call(comm, stream);
    const DataType type = typeOf(datatype);
    return call.run({.collective = Collective::reduce,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = count,
                     .type = type,
                     .op = call.operatorOf(op, type),
                     .root = root});
  });
}

NCCL_EXPORT(ncclResult_t, ReduceScatter,
            (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) {
  return answerInGroup("ncclReduceScatter", [&] {
    const Call call(comm, stream);
    const DataType type = typeOf(datatype);
    return call.run({.collective = Collective::reducescatter,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = recvcount,
                     .type = type,
                     .op = call.operatorOf(op, type)});
  });
}

NCCL_EXPORT(ncclResult_t, Broadcast,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
             ncclComm_t comm, cudaStream_t stream)) {
  return answerInGroup("ncclBroadcast", [&] {
    const Call call(comm, stream);
    return call.run({.collective = Collective::broadcast,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = count,
                     .type = typeOf(datatype),
                     .root = root});
  });
}

NCCL_EXPORT(ncclResult_t, Bcast,
            (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  return answerInGroup("ncclBcast", [&] {
    const Call call(comm, stream);
    return call.run({.collective = Collective::broadcast,
                     .input = buff,
                     .output = buff,
                     .count = count,
                     .type = typeOf(datatype),
                     .root = root});
  });
}

NCCL_EXPORT(ncclResult_t, AllGather,
            (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
             ncclComm_t comm, cudaStream_t stream)) {
  return answerInGroup("ncclAllGather", [&] {
    const Call call(comm, stream);
    return call.run({.collective = Collective::allgather,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = sendcount,
                     .type = typeOf(datatype)});
  });
}

NCCL_EXPORT(ncclResult_t, AlltoAll,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
             ncclComm_t comm, cudaStream_t stream)) {
  return answerInGroup("ncclAlltoAll", [&] {
    const Call call(comm, stream);
    if (sendbuff == recvbuff && count > 0)
      return call.exchangeInPlace(recvbuff, count, typeOf(datatype));
    return call.run({.collective = Collective::alltoall,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = count,
                     .type = typeOf(datatype)});
  });
}

NCCL_EXPORT(ncclResult_t, Gather,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
             ncclComm_t comm, cudaStream_t stream)) {
  return answerInGroup("ncclGather", [&] {
    const Call call(comm, stream);
    return call.run({.collective = Collective::gather,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = count,
                     .type = typeOf(datatype),
                     .root = root});
  });
}

NCCL_EXPORT(ncclResult_t, Scatter,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
             ncclComm_t comm, cudaStream_t stream)) {
  return answerInGroup("ncclScatter", [&] {
    const Call call(comm, stream);
    return call.run({.collective = Collective::scatter,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = count,
                     .type = typeOf(datatype),
                     .root = root});
  });
}

NCCL_EXPORT(ncclResult_t, Send,
            (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
             cudaStream_t stream)) {
  return answerInGroup("ncclSend", [&] {
    const Call call(comm, stream);
    return call.run({.collective = Collective::sendrecv,
                     .input = sendbuff,
                     .count = count,
                     .type = typeOf(datatype),
                     .root = peer,
                     .sending = true});
  });
}

NCCL_EXPORT(ncclResult_t, Recv,
            (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
             cudaStream_t stream)) {
  return answerInGroup("ncclRecv", [&] {
    const Call call(comm, stream);
    return call.run({.collective = Collective::sendrecv,
                     .output = recvbuff,
                     .count = count,
                     .type = typeOf(datatype),
                     .root = peer});
  });
}

NCCL_EXPORT(ncclResult_t, RedOpCreatePreMulSum,
            (ncclRedOp_t * op, void* scalar, ncclDataType_t datatype,
             ncclScalarResidence_t residence, ncclComm_t comm)) {
  return answer("ncclRedOpCreatePreMulSum", [&] {
    const auto member = ncclComm::known(comm).active();
    needAddress(op, "the address of the operator");
    needAddress(scalar, "the scalar");
    const DataType type = typeOf(datatype);
    if (residence != ncclScalarDevice && residence != ncclScalarHostImmediate)
      refuse(ncclInvalidArgument, "residence " + std::to_string(static_cast<int>(residence)) +
                                      " is unknown; valid: 0, 1");
    const bool later = residence == ncclScalarDevice;
    if (later && member->device < 0 && CudaDriver::get().onDevice(scalar))
      refuse(ncclInvalidArgument,
             "the scalar is in a GPU's memory, and rank " + std::to_string(member->comm.rank()) +
                 "'s communicator is on host memory: pass ncclScalarHostImmediate and a scalar in "
                 "host memory");
    *op = member->addOperator(type, later ? 1.0 : scalarOf(scalar, type), later ? scalar : nullptr);
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm)) {
  return answer("ncclRedOpDestroy", [&] {
    ncclComm::known(comm).member()->removeOperator(op);
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, GroupStart, (void)) {
  return answer("ncclGroupStart", [] {
    Groups::start();
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, GroupEnd, (void)) {
  return answer("ncclGroupEnd", [] { return Groups::end(); });
}

NCCL_EXPORT(ncclResult_t, GroupSimulateEnd, (ncclSimInfo_t * simInfo)) {
  return answer("ncclGroupSimulateEnd", [&] {
    const float time = Groups::simulate();
    needAddress(simInfo, "the address of the answer");
    if (simInfo->magic != RONDO_NCCL_SIMULATION_MAGIC)
      refuse(ncclInvalidArgument, "the answer was not made by NCCL_SIM_INFO_INITIALIZER");
    simInfo->estimatedTime = time;
    return ncclSuccess;
  });
}

} // namespace rondo::compat::nccl
