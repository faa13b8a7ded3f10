// The parameters of NCCL 2.30 and newer: here the environment variables of NCCL that Rondo reads.
#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "compat/nccl/errors.h"

/// A parameter.
struct ncclParamHandle {
  const char* key;
  const char* unset; ///< the value while the environment does not have the variable
};

namespace rondo::compat::nccl {

namespace {

ncclParamHandle parameters[] = {{"NCCL_ALGO", ""},           {"NCCL_BUFFSIZE", ""},
                                {"NCCL_COMM_BLOCKING", "1"}, {"NCCL_COMM_ID", ""},
                                {"NCCL_DEBUG", ""},          {"NCCL_DEBUG_FILE", ""},
                                {"NCCL_HOSTID", ""},         {"NCCL_SHM_DISABLE", "0"},
                                {"NCCL_SOCKET_FAMILY", ""},  {"NCCL_SOCKET_IFNAME", ""}};

ncclParamHandle& parameter(const char* key) {
  needAddress(key, "the key");
  const std::string name = key;
  for (ncclParamHandle& one : parameters)
    if (name == one.key) return one;
  refuse(ncclInvalidArgument, "Rondo has no parameter " + name);
}

std::string textOf(const ncclParamHandle* handle) {
  const auto at = std::find_if(std::begin(parameters), std::end(parameters),
                               [&](const ncclParamHandle& one) { return &one == handle; });
  if (at == std::end(parameters))
    refuse(ncclInvalidArgument, "the handle was not made by ncclParamBind()");
  const char* text = std::getenv(at->key);
  return text && *text ? text : at->unset;
}

template <std::integral T>
ncclResult_t number(const char* function, ncclParamHandle_t handle, T* out) {
  return answer(function, [&] {
    needAddress(out, "the address of the value");
    const std::string text = textOf(handle);
    T value = 0;
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    if (text.empty() || error != std::errc() || stop != end)
      refuse(ncclInvalidArgument,
             std::string(handle->key) + " is \"" + text + "\", no number of this type");
    *out = value;
    return ncclSuccess;
  });
}

} // namespace

NCCL_EXPORT(ncclResult_t, ParamBind, (ncclParamHandle_t * out, const char* key)) {
  return answer("ncclParamBind", [&] {
    needAddress(out, "the address of the handle");
    *out = &parameter(key);
    return ncclSuccess;
  });
}

#define NUMBER(name, type)                                                       \
  NCCL_EXPORT(ncclResult_t, ParamGet##name, (ncclParamHandle_t h, type * out)) { \
    return number("ncclParamGet" #name, h, out);                                 \
  }
NUMBER(I8, int8_t)
NUMBER(I16, int16_t)
NUMBER(I32, int32_t)
NUMBER(I64, int64_t)
NUMBER(U8, uint8_t)
NUMBER(U16, uint16_t)
NUMBER(U32, uint32_t)
NUMBER(U64, uint64_t)
#undef NUMBER

NCCL_EXPORT(ncclResult_t, ParamGetStr, (ncclParamHandle_t h, const char** out)) {
  return answer("ncclParamGetStr", [&] {
    needAddress(out, "the address of the text");
    thread_local std::string text;
    text = textOf(h);
    *out = text.c_str();
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, ParamGet, (ncclParamHandle_t h, void* out, int maxLen, int* len)) {
  return answer("ncclParamGet", [&] {
    needAddress(out, "the address of the value");
    const std::string text = textOf(h);
    const std::size_t bytes = text.size() + 1;
    if (maxLen < 0 || static_cast<std::size_t>(maxLen) < bytes)
      refuse(ncclInvalidArgument, "the value has " + std::to_string(bytes) + " bytes, the buffer " +
                                      std::to_string(maxLen));
    std::memcpy(out, text.c_str(), bytes);
    if (len) *len = static_cast<int>(bytes);
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, ParamGetParameter, (const char* key, const char** value, int* valueLen)) {
  return answer("ncclParamGetParameter", [&] {
    needAddress(value, "the address of the text");
    thread_local std::string text;
    text = textOf(&parameter(key));
    *value = text.c_str();
    if (valueLen) *valueLen = static_cast<int>(text.size());
    return ncclSuccess;
  });
}

NCCL_EXPORT(ncclResult_t, ParamGetAllParameterKeys, (const char*** table, int* tableLen)) {
  return answer("ncclParamGetAllParameterKeys", [&] {
    needAddress(table, "the address of the table");
    needAddress(tableLen, "the address of its length");
    thread_local const char* keys[std::size(parameters)];
    std::transform(std::begin(parameters), std::end(parameters), keys,
                   [](const ncclParamHandle& one) { return one.key; });
    *table = keys;
    *tableLen = static_cast<int>(std::size(keys));
    return ncclSuccess;
  });
}

NCCL_EXPORT(void, ParamDumpAll, (void)) {
  for (const ncclParamHandle& one : parameters)
    std::fprintf(stderr, "%s=%s\n", one.key, textOf(&one).c_str());
}

} // namespace rondo::compat::nccl
