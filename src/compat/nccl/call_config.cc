// The collectives that take a configuration of their own (NCCL 2.32), and the encryption of NCCL's
// sockets. The resources that a configuration limits are parts of NCCL that Rondo does not have.
#include <algorithm>
#include <cstring>
#include <string>

#include "compat/nccl/errors.h"

namespace rondo::compat::nccl {

namespace {

/// Copies a structure of the client. The structure of another version is longer or shorter.
template <class Config>
Config copyOf(const Config& given, const char* initializer) {
  if (given.magic != RONDO_NCCL_CONFIG_MAGIC)
    refuse(ncclInvalidArgument, std::string("config: it was not made by ") + initializer);
  Config config{};
  std::memcpy(&config, &given, std::min(given.size, sizeof config));
  return config;
}

/// Throws Refusal if the configuration asks for something that the call would have to do.
void checkCall(const ncclCollConfig_t* given) {
  if (!given) return;
  const ncclCollConfig_t config = copyOf(*given, "NCCL_COLLCONFIG_INITIALIZER");
  const auto set = [](int value) { return value != RONDO_NCCL_UNSET; };
  if (set(config.minCTAs) && set(config.maxCTAs) && config.minCTAs > config.maxCTAs)
    refuse(ncclInvalidArgument, "config: minCTAs " + std::to_string(config.minCTAs) +
                                    " is more than maxCTAs " + std::to_string(config.maxCTAs));
  if (config.algSelection && *config.algSelection && config.forceAlgSelection != 0)
    refuse(ncclInvalidUsage, std::string("config: algSelection is \"") + config.algSelection +
                                 "\"; Rondo's algorithms are chosen by NCCL_ALGO or RONDO_ALGO "
                                 "(or set forceAlgSelection to 0)");
  if (config.launchCompletionEvent)
    refuse(ncclInvalidUsage, "config: Rondo does not record launchCompletionEvent");
}

template <class Call>
ncclResult_t configured(const char* function, const ncclCollConfig_t* config, const Call& call) {
  const ncclResult_t checked = answerInGroup(function, [&] {
    checkCall(config);
    return ncclSuccess;
  });
  return checked == ncclSuccess ? call() : checked;
}

} // namespace

/// `name` without "Config" is the function that makes the call; `arguments` are passed to it.
#define CONFIGURED(name, parameters, arguments)                                              \
  NCCL_EXPORT(ncclResult_t, name##Config, parameters) {                                      \
    return configured("nccl" #name "Config", config, [&] { return pnccl##name arguments; }); \
  }

CONFIGURED(AllReduce,
           (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config),
           (sendbuff, recvbuff, count, datatype, op, comm, stream))
CONFIGURED(Broadcast,
           (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config),
           (sendbuff, recvbuff, count, datatype, root, comm, stream))
CONFIGURED(Reduce,
           (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream,
            const ncclCollConfig_t* config),
           (sendbuff, recvbuff, count, datatype, op, root, comm, stream))
CONFIGURED(AllGather,
           (const void* sendbuff, void* recvbuff, size_t sendcount, ncclDataType_t datatype,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config),
           (sendbuff, recvbuff, sendcount, datatype, comm, stream))
CONFIGURED(ReduceScatter,
           (const void* sendbuff, void* recvbuff, size_t recvcount, ncclDataType_t datatype,
            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config),
           (sendbuff, recvbuff, recvcount, datatype, op, comm, stream))
CONFIGURED(AlltoAll,
           (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config),
           (sendbuff, recvbuff, count, datatype, comm, stream))
CONFIGURED(Gather,
           (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config),
           (sendbuff, recvbuff, count, datatype, root, comm, stream))
CONFIGURED(Scatter,
           (const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype, int root,
            ncclComm_t comm, cudaStream_t stream, const ncclCollConfig_t* config),
           (sendbuff, recvbuff, count, datatype, root, comm, stream))
#undef CONFIGURED

NCCL_EXPORT(ncclResult_t, SetEncryption, (const ncclEncryptionConfig_t* config)) {
  return answer("ncclSetEncryption", [&] {
    needAddress(config, "the configuration");
    if (copyOf(*config, "NCCL_ENCRYPTION_CONFIG_INITIALIZER").mode != 0)
      refuse(ncclInvalidUsage,
             "Rondo encrypts its sockets with RONDO_TLS=1 and a key in RONDO_SECRET_FILE");
    return ncclSuccess;
  });
}

} // namespace rondo::compat::nccl
