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

/// Answers an exported function whose call only moves elements of `datatype`.
ncclResult_t move(const char* function, ncclComm_t comm, cudaStream_t stream,
                  ncclDataType_t datatype, CollectiveCall arguments) {
  return answerInGroup(function, [&] {
    const Call call(comm, stream);
    arguments.type = typeOf(datatype);
    return call.run(arguments);
  });
}

/// Answers an exported function whose call reduces elements of `datatype`.
ncclResult_t reduce(const char* function, ncclComm_t comm, cudaStream_t stream,
                    ncclDataType_t datatype, ncclRedOp_t op, CollectiveCall arguments) {
  return answerInGroup(function, [&] {
    const Call call(comm, stream);
    arguments.type = typeOf(datatype);
    arguments.op = call.operatorOf(op, arguments.type);
    return call.run(arguments);
  });
}

} // namespace

NCCL_EXPORT(ncclResult_t, AllReduce,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) {
  return reduce("ncclAllReduce", comm, stream, datatype, op,
                {Collective::allreduce, sendbuff, recvbuff, count});
}

NCCL_EXPORT(ncclResult_t, Reduce,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
             ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)) {
  return reduce("ncclReduce", comm, stream, datatype, op,
                {.collective = Collective::reduce,
                 .input = sendbuff,
                 .output = recvbuff,
                 .count = count,
                 .root = root});
}

NCCL_EXPORT(ncclResult_t, ReduceScatter,
            (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
             ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)) {
  return reduce("ncclReduceScatter", comm, stream, datatype, op,
                {Collective::reducescatter, sendbuff, recvbuff, recvcount});
}

NCCL_EXPORT(ncclResult_t, Broadcast,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
             ncclComm_t comm, cudaStream_t stream)) {
  return move("ncclBroadcast", comm, stream, datatype,
              {.collective = Collective::broadcast,
               .input = sendbuff,
               .output = recvbuff,
               .count = count,
               .root = root});
}

NCCL_EXPORT(ncclResult_t, Bcast,
            (void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
             cudaStream_t stream)) {
  return move("ncclBcast", comm, stream, datatype,
              {.collective = Collective::broadcast,
               .input = buff,
               .output = buff,
               .count = count,
               .root = root});
}

NCCL_EXPORT(ncclResult_t, AllGather,
            (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
             ncclComm_t comm, cudaStream_t stream)) {
  return move("ncclAllGather", comm, stream, datatype,
              {Collective::allgather, sendbuff, recvbuff, sendcount});
}

NCCL_EXPORT(ncclResult_t, AlltoAll,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
             ncclComm_t comm, cudaStream_t stream)) {
  if (sendbuff == recvbuff && count > 0)
    return answerInGroup("ncclAlltoAll", [&] {
      return Call(comm, stream).exchangeInPlace(recvbuff, count, typeOf(datatype));
    });
  return move("ncclAlltoAll", comm, stream, datatype,
              {Collective::alltoall, sendbuff, recvbuff, count});
}

NCCL_EXPORT(ncclResult_t, Gather,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
             ncclComm_t comm, cudaStream_t stream)) {
  return move("ncclGather", comm, stream, datatype,
              {.collective = Collective::gather,
               .input = sendbuff,
               .output = recvbuff,
               .count = count,
               .root = root});
}

NCCL_EXPORT(ncclResult_t, Scatter,
            (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
             ncclComm_t comm, cudaStream_t stream)) {
  return move("ncclScatter", comm, stream, datatype,
              {.collective = Collective::scatter,
               .input = sendbuff,
               .output = recvbuff,
               .count = count,
               .root = root});
}

NCCL_EXPORT(ncclResult_t, Send,
            (const void* sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
             cudaStream_t stream)) {
  return move("ncclSend", comm, stream, datatype,
              {.collective = Collective::sendrecv,
               .input = sendbuff,
               .count = count,
               .root = peer,
               .sending = true});
}

NCCL_EXPORT(ncclResult_t, Recv,
            (void* recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm,
             cudaStream_t stream)) {
  return move(
      "ncclRecv", comm, stream, datatype,
      {.collective = Collective::sendrecv, .output = recvbuff, .count = count, .root = peer});
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
