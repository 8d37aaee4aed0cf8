// SPDX-License-Identifier: Apache-2.0
// Results of the entry points without any communicator: texts, parameters, refusals, groups.
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "api/nccl_device.h"
#include "api/rondo.h"

namespace {

std::string last_error() { return ncclGetLastError(nullptr); }

TEST(ErrorStrings, AreNcclsOwn) {
  EXPECT_STREQ(ncclGetErrorString(ncclSuccess), "no error");
  EXPECT_STREQ(ncclGetErrorString(ncclRemoteError),
               "remote process exited or there was a network error");
  EXPECT_STREQ(ncclGetErrorString(ncclTimeout), "timeout");
  EXPECT_STREQ(ncclGetErrorString(static_cast<ncclResult_t>(77)), "unknown result code");
  EXPECT_STREQ(ncclGetErrorString(static_cast<ncclResult_t>(-1)), "unknown result code");
}

TEST(Version, Is22809UnlessTheEnvironmentOverridesIt) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 22809);
  setenv("RONDO_VERSION_CODE", "23007", 1);
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  unsetenv("RONDO_VERSION_CODE");
  EXPECT_EQ(version, 23007);
  EXPECT_EQ(ncclGetVersion(nullptr), ncclInvalidArgument);
  EXPECT_EQ(last_error(), "GetVersion : version argument is NULL");
}

TEST(Communicators, ThatAreNoneAreRefusedWithoutALook) {
  float x = 0;
  const auto garbage = reinterpret_cast<ncclComm_t>(&x);
  int count = 0;
  EXPECT_EQ(ncclCommCount(nullptr, &count), ncclInvalidArgument);
  EXPECT_EQ(last_error(), "CommCount : comm argument is NULL");
  EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, garbage, nullptr), ncclInvalidArgument);
  EXPECT_EQ(last_error(), "Error: corrupted comm object detected");
  EXPECT_EQ(ncclCommDestroy(garbage), ncclInvalidArgument);
  EXPECT_EQ(ncclCommAbort(garbage), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(nullptr), ncclSuccess);
}

TEST(Init, ChecksItsArgumentsBeforeItMeetsAnybody) {
  ncclComm_t comm = nullptr;
  ncclUniqueId id{};
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(last_error(), "Invalid rank requested : 2/2");
  EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  EXPECT_EQ(last_error(), "Invalid rank requested : 0/0");
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 0;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  EXPECT_EQ(last_error(), "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  EXPECT_EQ(ncclCommInitAll(&comm, 0, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRankScalable(&comm, 2, 0, 3, &id, nullptr), ncclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
}

TEST(Groups, NestAndEndOnlyIfBegun) {
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(last_error(), "ncclGroupEnd: not in a group call.");
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST(Groups, ReturnTheFirstErrorAgainAtTheirEnd) {
  float x = 0;
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(&x, &x, 1, ncclFloat, ncclSum, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
}

TEST(Groups, SimulateNothingAtNoCost) {
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ncclGroupStart();
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess);
  EXPECT_EQ(info.estimatedTime, 0);
  info.magic = 0;
  ncclGroupStart();
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
}

TEST(Parameters, AreReadByHandleAndByKey) {
  ncclParamHandle_t handle = nullptr;
  ASSERT_EQ(ncclParamBind(&handle, "RONDO_VERSION_CODE"), ncclSuccess);
  std::int32_t code = 0;
  EXPECT_EQ(ncclParamGetI32(handle, &code), ncclSuccess);
  EXPECT_EQ(code, 22809);
  std::uint8_t small = 1;
  EXPECT_EQ(ncclParamGetU8(handle, &small), ncclInvalidArgument);
  EXPECT_EQ(last_error(), "ParamGetU8 : RONDO_VERSION_CODE = 22809 does not fit 0..255");
  EXPECT_EQ(small, 1);
  const char* text = nullptr;
  EXPECT_EQ(ncclParamGetStr(handle, &text), ncclSuccess);
  EXPECT_STREQ(text, "22809");
  std::int64_t raw = 0;
  int length = 0;
  EXPECT_EQ(ncclParamGet(handle, &raw, sizeof(raw), &length), ncclSuccess);
  EXPECT_EQ(raw, 22809);
  EXPECT_EQ(length, 8);
  EXPECT_EQ(ncclParamGet(handle, &raw, 4, &length), ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetParameter("NCCL_DEBUG", &text, &length), ncclSuccess);
  EXPECT_EQ(static_cast<int>(std::strlen(text)), length);
}

TEST(Parameters, ThatAreNoneAreRefused) {
  ncclParamHandle_t handle = nullptr;
  EXPECT_EQ(ncclParamBind(&handle, "NCCL_NO_SUCH"), ncclInvalidArgument);
  EXPECT_EQ(handle, nullptr);
  std::int64_t value = 0;
  EXPECT_EQ(ncclParamGetI64(reinterpret_cast<ncclParamHandle_t>(&value), &value),
            ncclInvalidArgument);
  EXPECT_EQ(ncclParamGetI64(nullptr, &value), ncclInvalidArgument);
}

TEST(Parameters, AreAllListed) {
  const char** keys = nullptr;
  int count = 0;
  ASSERT_EQ(ncclParamGetAllParameterKeys(&keys, &count), ncclSuccess);
  EXPECT_GT(count, 10);
  for (int i = 0; i < count; ++i) {
    const char* value = nullptr;
    EXPECT_EQ(ncclParamGetParameter(keys[i], &value, nullptr), ncclSuccess) << keys[i];
  }
}

TEST(DeviceApi, ChecksItsArguments) {
  EXPECT_EQ(ncclDevCommCreate(nullptr, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(last_error(), "DevCommCreate : comm argument is NULL");
  EXPECT_EQ(ncclTeamWorld(nullptr).nRanks, 0);
  EXPECT_EQ(last_error(), "TeamWorld : comm argument is NULL");
  EXPECT_EQ(ncclTeamRankToWorld(nullptr, ncclTeam{}, 0), -1);
}

TEST(Encryption, PlainTextIsAllThereIs) {
  ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
  EXPECT_EQ(ncclSetEncryption(&config), ncclSuccess);
  config.mode = NCCL_ENCRYPTION_MODE_PSK;
  EXPECT_EQ(ncclSetEncryption(&config), ncclInvalidUsage);
  EXPECT_EQ(ncclSetEncryption(nullptr), ncclInvalidArgument);
}

TEST(Memory, ComesAlignedAndGoesOnce) {
  void* memory = nullptr;
  ASSERT_EQ(ncclMemAlloc(&memory, 100), ncclSuccess);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT, 0u);
  std::memset(memory, 1, 100);
  EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  EXPECT_EQ(ncclMemFree(memory), ncclInvalidArgument);
  EXPECT_EQ(ncclMemFree(nullptr), ncclSuccess);
}

TEST(Streams, AreHandlesToo) {
  rondoStream_t stream = nullptr;
  ASSERT_EQ(rondoStreamCreate(&stream), ncclSuccess);
  EXPECT_EQ(rondoStreamQuery(stream), ncclSuccess);
  EXPECT_EQ(rondoStreamSynchronize(stream), ncclSuccess);
  EXPECT_EQ(rondoStreamDestroy(stream), ncclSuccess);
  EXPECT_EQ(rondoStreamDestroy(stream), ncclInvalidArgument);
  EXPECT_EQ(rondoStreamSynchronize(nullptr), ncclInvalidArgument);
}

TEST(PncclNames, AreTheSameFunctions) {
  EXPECT_EQ(reinterpret_cast<void*>(ncclAllReduce), reinterpret_cast<void*>(pncclAllReduce));
  EXPECT_EQ(reinterpret_cast<void*>(ncclGroupEnd), reinterpret_cast<void*>(pncclGroupEnd));
}

}  // namespace
