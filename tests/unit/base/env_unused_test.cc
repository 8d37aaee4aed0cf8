// SPDX-License-Identifier: Apache-2.0
// NCCL's variables that have no effect here: the registry knows each one, and a user who sets one
// gets a message.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/env.h"
#include "base/log.h"

namespace rondo::env {
namespace {

TEST(UnusedVariables, AreSortedHaveReasonsAndAreNoneOfRondosOwn) {
  const auto rows = unused();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_TRUE(rows[i].name.starts_with("NCCL_")) << rows[i].name;
    EXPECT_FALSE(rows[i].why.empty()) << rows[i].name;
    if (i > 0) {
      EXPECT_LT(rows[i - 1].name, rows[i].name);
    }
  }
  for (const Variable& variable : all())
    EXPECT_EQ(find_unused(variable.name), nullptr) << variable.name;
}

// Variables that NCCL users often set are either honoured or explained, never reported as unknown.
TEST(UnusedVariables, AndTheRegistryKnowWhatUsersSet) {
  for (const char* name : {"NCCL_DEBUG",
                           "NCCL_IB_HCA",
                           "NCCL_IB_DISABLE",
                           "NCCL_IB_GID_INDEX",
                           "NCCL_IB_TIMEOUT",
                           "NCCL_NET",
                           "NCCL_NET_PLUGIN",
                           "NCCL_TUNER_PLUGIN",
                           "NCCL_PROFILER_PLUGIN",
                           "NCCL_PROFILE_EVENT_MASK",
                           "NCCL_INSPECTOR_ENABLE",
                           "NCCL_NET_GDR_LEVEL",
                           "NCCL_NET_GDR_READ",
                           "NCCL_CROSS_NIC",
                           "NCCL_PXN_DISABLE",
                           "NCCL_P2P_DISABLE",
                           "NCCL_P2P_LEVEL",
                           "NCCL_SHM_DISABLE",
                           "NCCL_BUFFSIZE",
                           "NCCL_NTHREADS",
                           "NCCL_MIN_NCHANNELS",
                           "NCCL_MAX_NCHANNELS",
                           "NCCL_MIN_CTAS",
                           "NCCL_MAX_CTAS",
                           "NCCL_ALGO",
                           "NCCL_PROTO",
                           "NCCL_NVLS_ENABLE",
                           "NCCL_COLLNET_ENABLE",
                           "NCCL_PAT_ENABLE",
                           "NCCL_TOPO_FILE",
                           "NCCL_TOPO_DUMP_FILE",
                           "NCCL_CUMEM_ENABLE",
                           "NCCL_CUMEM_HOST_ENABLE",
                           "NCCL_MNNVL_ENABLE",
                           "NCCL_LAUNCH_MODE",
                           "NCCL_LAUNCH_ORDER_IMPLICIT",
                           "NCCL_COMM_BLOCKING",
                           "NCCL_CHECK_MODE",
                           "NCCL_CHECK_POINTERS",
                           "NCCL_CHECKS_DISABLE",
                           "NCCL_MULTI_RANK_GPU_ENABLE",
                           "NCCL_SOCKET_IFNAME",
                           "NCCL_SOCKET_FAMILY",
                           "NCCL_SOCKET_NTHREADS",
                           "NCCL_NSOCKS_PERTHREAD",
                           "NCCL_SOCKET_RETRY_CNT",
                           "NCCL_SOCKET_RETRY_SLEEP_MSEC",
                           "NCCL_COMM_ID",
                           "NCCL_HOSTID",
                           "NCCL_RAS_ENABLE",
                           "NCCL_CONF_FILE",
                           "NCCL_NO_CACHE",
                           "NCCL_IPC_USE_ABSTRACT_SOCKET",
                           "NCCL_NVTX_DISABLE"})
    EXPECT_TRUE((find(name) != nullptr) != (find_unused(name) != nullptr)) << name;
}

TEST(UnusedVariables, HaveNeighboursOnlyWithinTheEditsGiven) {
  EXPECT_EQ(nearest("NCCL_AGLO", 2), "NCCL_ALGO");
  EXPECT_EQ(nearest("NCCL_TOPO_FIEL", 2), "NCCL_TOPO_FILE");
  EXPECT_EQ(nearest("RONDO_SOMETHING_ELSE", 2), "");
}

// Runs in a child, so that its environment and its "once per process" state do not affect this
// process.
std::string warnings_of(std::initializer_list<std::pair<const char*, const char*>> environment,
                        const char* level) {
  char path[] = "/tmp/rondo-unused-XXXXXX";
  ::close(mkstemp(path));
  const pid_t child = fork();
  if (child == 0) {
    setenv("NCCL_DEBUG", level, 1);
    setenv("NCCL_DEBUG_FILE", path, 1);
    for (const auto& [name, value] : environment) setenv(name, value, 1);
    log::reset();
    report_unused();
    report_unused();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  return text.str();
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
    ++found;
  return found;
}

TEST(UnusedVariables, AreReportedOnceWithTheReason) {
  const std::string text =
      warnings_of({{"NCCL_GRAPH_FILE", "/x.xml"}, {"NCCL_IB_FIFO_TC", "1"}}, "INFO");
  EXPECT_EQ(count(text, "NCCL WARN NCCL_GRAPH_FILE='/x.xml' has no effect: "), 1) << text;
  EXPECT_EQ(count(text, "NCCL INFO NCCL_IB_FIFO_TC='1' has no effect: "), 1) << text;
  const std::string warned =
      warnings_of({{"NCCL_GRAPH_FILE", "/x.xml"}, {"NCCL_IB_FIFO_TC", "1"}}, "WARN");
  EXPECT_EQ(count(warned, "NCCL_GRAPH_FILE"), 1) << warned;
  EXPECT_EQ(count(warned, "NCCL_IB_FIFO_TC"), 0) << "a hint need not trouble anybody";
}

TEST(UnusedVariables, MistypedAreReportedWithASuggestion) {
  const std::string text = warnings_of({{"NCCL_AGLO", "ring"}, {"RONDO_TIMEOT", "5"}}, "WARN");
  EXPECT_EQ(count(text, "did you mean NCCL_ALGO?"), 1) << text;
  EXPECT_EQ(count(text, "did you mean RONDO_TIMEOUT?"), 1) << text;
}

}  // namespace
}  // namespace rondo::env
