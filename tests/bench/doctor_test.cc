// SPDX-License-Identifier: Apache-2.0
// Checks of rondo doctor on simulated machines and environments.
#include "bench/cli/doctor_checks.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdlib>
#include <numeric>

#include "base/gpu.h"
#include "tests/support/environment.h"
#include "tests/support/in_child.h"
#include "tests/support/profiler/profilers.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tuner/tuners.h"

namespace rondo::cli {
namespace {

class Machine : public testing::Test {
 protected:
  void file(const std::string& path, const std::string& text) {
    folder_.file(path.substr(1), text);
  }
  const test::TemporaryFolder folder_;
  const std::string root_ = folder_.path();
};

const Finding* about(const std::vector<Finding>& findings, const std::string& subject) {
  for (const Finding& finding : findings)
    if (finding.subject == subject) return &finding;
  return nullptr;
}

TEST_F(Machine, WithPowersaveGovernorHugePagesOffAndStrictAccountingIsWarnedOf) {
  file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
  file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n");
  file("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  file("/proc/sys/vm/overcommit_memory", "2\n");
  const auto processors = check_processors({.root = root_});
  EXPECT_EQ(about(processors, "frequency")->verdict, Verdict::kWarning);
  EXPECT_EQ(about(processors, "clock")->verdict, Verdict::kWarning);
  const auto memory = check_memory({.root = root_});
  EXPECT_EQ(about(memory, "huge pages")->verdict, Verdict::kWarning);
  EXPECT_EQ(about(memory, "overcommit")->verdict, Verdict::kWarning);
  for (const Finding& finding : memory)
    if (finding.verdict != Verdict::kOk) {
      EXPECT_FALSE(finding.remedy.empty());
    }
}

// A job whose ranks made their newest calls on these CPUs.
ListedJob job_on(int pid, const std::vector<int>& cpus) {
  ListedJob job;
  job.view.processes.push_back({.pid = pid});
  CommunicatorView communicator;
  for (const int cpu : cpus)
    communicator.ranks.push_back({.rank = static_cast<int>(communicator.ranks.size()),
                                  .pid = pid,
                                  .host = "node1",
                                  .call = 5,
                                  .core = cpu});
  job.view.communicators.push_back(std::move(communicator));
  return job;
}

TEST(Jobs, AreWarnedOfRanksThatShareACoreAtBothLooks) {
  const std::vector<ListedJob> look = {job_on(41, {2, 3, 2}), job_on(50, {0, 1})};
  const auto found = job_findings(look, look);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].verdict, Verdict::kWarning);
  EXPECT_EQ(found[0].text,
            "job of process 41: ranks 0, 2 made their newest calls on CPU 2 of host node1: if that "
            "lasts, they take turns on it");
  EXPECT_FALSE(found[0].remedy.empty());
  EXPECT_TRUE(job_findings(look, {job_on(41, {2, 3, 0})}).empty()) << "they have moved apart";
  EXPECT_TRUE(job_findings({job_on(41, {2, 3, 0})}, look).empty()) << "they have just met";
  EXPECT_TRUE(job_findings({job_on(7, {2, 3, 2})}, look).empty()) << "another job";
}

TEST(Cores, AreNearOrFarByTheSlowestThatAnswers) {
  const auto text = [](const topology::CpuList& cpus, const CoreExchange& exchange) {
    const auto findings = core_findings(cpus, exchange);
    return findings.empty() ? "" : findings[0].text;
  };
  EXPECT_EQ(text({3}, [](int, int) { return 50; }), "") << "one core is far from none";
  EXPECT_EQ(text({2, 5}, [](int, int) { return 49.6; }),
            "a cache line takes 50 ns from CPU 2 to CPU 5: near");
  EXPECT_EQ(text({0, 1, 2, 7}, [](int, int to) { return to == 1   ? 0
                                                        : to == 2 ? 240.0
                                                                  : 50.0; }),
            "a cache line takes 240 ns from CPU 0 to CPU 2, 50 ns to the nearest: far; ranks on "
            "them store data for each other past the caches; 1 did not answer");
  EXPECT_EQ(text({0, 1}, [](int, int) { return 0; }), "unknown: other programs keep the cores");
  topology::CpuList many(1000);
  std::iota(many.begin(), many.end(), 0);
  int asked = 0;
  text(many, [&](int, int) { return ++asked; });
  EXPECT_LE(asked, 32);
}

TEST_F(Machine, WithALimitOfFilesIsWarnedOf) {
  const auto finding_of = [](rlim_t bytes) {
    return test::in_child([&] {
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
      return about(check_kernel(), "memory files")->text;
    });
  };
  EXPECT_EQ(finding_of(1000), "ulimit -f allows files of 1000 bytes");
  EXPECT_EQ(finding_of(RLIM_INFINITY), "memfd_create with seals works");
}

TEST_F(Machine, WithADriverThatNobodyUsesIsWarnedOf) {
  if (gpu_api() != nullptr) GTEST_SKIP() << "this machine has GPUs";
  EXPECT_EQ(about(check_devices({.root = root_}), "GPUs")->verdict, Verdict::kOk);
  file("/proc/driver/nvidia/version", "NVRM version: 580\n");
  const auto found = check_devices({.root = root_});
  EXPECT_EQ(about(found, "GPUs")->verdict, Verdict::kWarning);
  EXPECT_NE(about(found, "GPUs")->text.find(gpu_absence()), std::string::npos);
  EXPECT_FALSE(about(found, "GPUs")->remedy.empty());
}

TEST_F(Machine, NamesItsGpus) {
  if (gpu_api() == nullptr) GTEST_SKIP() << gpu_absence();
  const auto found = check_devices({.root = root_});
  ASSERT_NE(about(found, "GPUs"), nullptr);
  EXPECT_EQ(about(found, "GPUs")->text.substr(0, 3), "0: ");
  EXPECT_NE(about(found, "GPUs")->text.find("sm_"), std::string::npos);
}

verbs::Port rdma_port(const std::string& device, bool active) {
  verbs::Port port{.device = device, .active = active, .state = active ? "ACTIVE" : "DOWN"};
  port.gids.push_back({.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1}});
  return port;
}

int count(const std::vector<Finding>& findings, Verdict verdict, const std::string& text) {
  int found = 0;
  for (const Finding& finding : findings) {
    if (finding.verdict != verdict || finding.text.find(text) == std::string::npos) continue;
    EXPECT_TRUE(verdict == Verdict::kOk || !finding.remedy.empty()) << finding.text;
    ++found;
  }
  return found;
}

TEST_F(Machine, WithoutRdmaNeedsNoLockedMemory) {
  const auto found = rdma_findings({.ports = {}, .locked_limit = 65536});
  EXPECT_EQ(about(found, "RDMA devices")->text, "none");
  EXPECT_EQ(about(found, "locked memory")->verdict, Verdict::kOk);
}

TEST_F(Machine, ReportsThatUcxCannotBeUsedWhereItIsAskedFor) {
  const Error absent = fail(StatusCode::kSystemError, "libucp.so.0 cannot be loaded");
  EXPECT_EQ(count(ucx_findings("ucx", absent), Verdict::kProblem, "libucp.so.0 cannot be"), 1);
  EXPECT_EQ(count(ucx_findings("", absent), Verdict::kOk, "not needed"), 1);
  EXPECT_EQ(count(ucx_findings("", std::string("1.13.1")), Verdict::kOk, "1.13.1, used with"), 1);
}

TEST_F(Machine, WithRdmaReportsPortsThatCarryNothingAndAMissingProvider) {
  RdmaFacts facts{
      .ports = {rdma_port("mlx5_0", true), rdma_port("mlx5_1", false), rdma_port("mlx5_2", true)},
      .locked_limit = 64u << 20};
  facts.ports[2].gids.clear();
  facts.offered = std::vector<std::string>{"mlx5_0", "mlx5_2"};
  const auto found = rdma_findings(facts);
  EXPECT_EQ(count(found, Verdict::kOk, "mlx5_0:1 (RoCE, ACTIVE), GID 0 is 10.0.0.1"), 1);
  EXPECT_EQ(count(found, Verdict::kWarning, "mlx5_1:1 is DOWN"), 1);
  EXPECT_EQ(count(found, Verdict::kWarning, "mlx5_2:1 has no GID"), 1);
  EXPECT_EQ(count(found, Verdict::kProblem, "has mlx5_1, but libibverbs does not offer it"), 1);
  EXPECT_EQ(count(found, Verdict::kProblem, ""), 1);
}

TEST_F(Machine, WithRdmaButNoLibraryOrLockedMemoryHasProblems) {
  RdmaFacts facts{.ports = {rdma_port("mlx5_0", true)}, .locked_limit = (64u << 20) - 1};
  facts.offered = fail(StatusCode::kSystemError, "libibverbs.so.1 cannot be loaded");
  const auto found = rdma_findings(facts);
  EXPECT_EQ(count(found, Verdict::kProblem, "libibverbs.so.1 cannot be loaded"), 1);
  EXPECT_EQ(count(found, Verdict::kProblem, "RDMA cannot register buffers"), 1);
}

TEST_F(Machine, HasItsRdmaPortsFromSys) {
  const std::string port = "/sys/class/infiniband/pretended_0/ports/1/";
  file(port + "state", "1: DOWN\n");
  file(port + "link_layer", "Ethernet\n");
  const auto found = check_rdma({.root = root_});
  EXPECT_EQ(count(found, Verdict::kWarning, "pretended_0:1 is DOWN"), 1);
  EXPECT_EQ(count(found, Verdict::kProblem, "no RDMA port can be used"), 1);
}

TEST_F(Machine, WithGoodSettingsIsFine) {
  file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  file("/sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
  file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  for (const Finding& finding : check_processors({.root = root_}))
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.subject << ": " << finding.text;
  EXPECT_EQ(about(check_memory({.root = root_}), "huge pages")->verdict, Verdict::kOk);
}

TEST_F(Machine, WithMoreRanksThanProcessorsIsWarnedOf) {
  const auto findings = check_processors({.root = root_, .ranks = 100'000});
  ASSERT_NE(about(findings, "ranks"), nullptr);
  EXPECT_EQ(about(findings, "ranks")->verdict, Verdict::kWarning);
}

TEST(DoctorEnvironment, NamesUnknownVariablesAndWhatMayBeMeant) {
  const auto findings = check_environment({"NCCL_AGLO=ring", "PATH=/bin", "RONDO_TIMEOUT=5"});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kWarning);
  EXPECT_NE(findings[0].text.find("NCCL_AGLO='ring'"), std::string::npos);
  EXPECT_NE(findings[0].remedy.find("NCCL_ALGO"), std::string::npos);
}

TEST(DoctorEnvironment, NamesValuesThatDoNotParse) {
  const auto findings = check_environment({"RONDO_TIMEOUT=soon", "RONDO_REPRODUCIBLE=perhaps"});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_NE(findings[0].text.find("'soon'"), std::string::npos);
}

TEST(DoctorEnvironment, CallsNothingFineThatHasNoEffect) {
  for (const char* set : {"NCCL_IB_FIFO_TC=1", "NCCL_NET_GDR_C2C=1", "NCCL_ENV_PLUGIN=x"}) {
    const auto findings = check_environment({set});
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].verdict, Verdict::kWarning) << set;
    EXPECT_NE(findings[0].text.find("has no effect"), std::string::npos) << findings[0].text;
  }
}

TEST(DoctorTuner, NamesThePluginAndWhatIsWrongWithIt) {
  EXPECT_TRUE(check_tuner().empty());
  {
    const test::WithEnvironment asked("NCCL_TUNER_PLUGIN", test::tuner_file("4"));
    const auto findings = check_tuner();
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].verdict, Verdict::kOk);
    EXPECT_NE(findings[0].text.find("'RondoTest'"), std::string::npos) << findings[0].text;
    EXPECT_NE(findings[0].text.find("ncclTunerPlugin_v4"), std::string::npos) << findings[0].text;
  }
  const test::WithEnvironment asked("NCCL_TUNER_PLUGIN", "nowhere");
  const auto findings = check_tuner();
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kProblem);
  EXPECT_NE(findings[0].text.find("libnccl-tuner-nowhere.so"), std::string::npos)
      << findings[0].text;
}

TEST(DoctorProfiler, NamesThePluginAndWhatIsWrongWithIt) {
  EXPECT_TRUE(check_profiler().empty());
  {
    const test::WithEnvironment asked("NCCL_PROFILER_PLUGIN", test::profiler_file("4"));
    const auto findings = check_profiler();
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].verdict, Verdict::kOk);
    EXPECT_NE(findings[0].text.find("ncclProfiler_v4"), std::string::npos) << findings[0].text;
  }
  const test::WithEnvironment asked("NCCL_PROFILER_PLUGIN", "nowhere");
  const auto findings = check_profiler();
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kWarning);
  EXPECT_NE(findings[0].text.find("libnccl-profiler-nowhere.so"), std::string::npos);
}

TEST(DoctorEnvironment, ValuesThatInitRefusesOrChangesAreReported) {
  for (const char* set : {"NCCL_ALGO=foo", "NCCL_PROTO=LL999"}) {
    const auto findings = check_environment({set});
    ASSERT_EQ(findings.size(), 1u) << set;
    EXPECT_EQ(findings[0].verdict, Verdict::kProblem);
    EXPECT_NE(findings[0].text.find("is not a"), std::string::npos) << findings[0].text;
  }
  const auto record = check_environment({"RONDO_RECORD=all"});
  ASSERT_EQ(record.size(), 1u);
  EXPECT_EQ(record[0].verdict, Verdict::kWarning);
  EXPECT_EQ(record[0].text, "RONDO_RECORD='all' is not 0, 1 or brief");
  const auto findings = check_environment({"NCCL_BUFFSIZE=3"});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kWarning);
  EXPECT_EQ(findings[0].text, "NCCL_BUFFSIZE='3': 16384 bytes are used");
  EXPECT_EQ(check_environment(
                {"NCCL_ALGO=ring", "NCCL_BUFFSIZE=4M", "RONDO_LIBRARY=/x", "RONDO_RECORD=brief"})[0]
                .verdict,
            Verdict::kOk);
}

TEST(DoctorEnvironment, IsFineWithWhatIsKnown) {
  const auto findings = check_environment({"NCCL_DEBUG=INFO", "RONDO_TIMEOUT=5"});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].verdict, Verdict::kOk);
}

}  // namespace
}  // namespace rondo::cli
