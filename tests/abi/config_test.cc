// SPDX-License-Identifier: Apache-2.0
#include "api/config.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"

namespace rondo::api {
namespace {

// The struct of a caller whose header has `size` bytes of ncclConfig_t and reports `version`.
std::vector<std::byte> caller_struct(std::size_t size, unsigned version,
                                     const ncclConfig_t& values) {
  ncclConfig_t config = values;
  config.size = size;
  config.version = version;
  std::vector<std::byte> bytes(std::max(size, sizeof(config)), std::byte{0x7f});
  std::memcpy(bytes.data(), &config, std::min(size, sizeof(config)));
  bytes.resize(size);  // nothing behind the caller's struct may be read
  return bytes;
}

Result<CommConfig> parse(const std::vector<std::byte>& bytes, const CommConfig* parent = nullptr) {
  return parse_config(reinterpret_cast<const ncclConfig_t*>(bytes.data()), parent);
}

TEST(Config, WithoutOneAllFieldsHaveTheirDefaults) {
  const auto config = parse_config(nullptr, nullptr);
  ASSERT_TRUE(config.ok());
  const ncclConfig_t& fields = config.value().fields;
  EXPECT_EQ(fields.blocking, 1);
  EXPECT_EQ(fields.cgaClusterSize, 4);
  EXPECT_EQ(fields.minCTAs, 1);
  EXPECT_EQ(fields.maxCTAs, 64);
  EXPECT_EQ(fields.splitShare, 0);
  EXPECT_EQ(fields.trafficClass, NCCL_CONFIG_UNDEF_INT);
  EXPECT_EQ(fields.graphUsageMode, 2);
  EXPECT_EQ(fields.numRmaCtx, 1);
  EXPECT_EQ(fields.graphStreamOrdering, 1);
}

struct Caller {
  std::size_t size;
  unsigned version;
  int max_ctas, traffic_class, nvlink, graph_mode, nvls_mode;  // as the library read them
};

class ConfigOfVersion : public testing::TestWithParam<Caller> {};

TEST_P(ConfigOfVersion, UnderstandsTheFieldsThatThisVersionHad) {
  const Caller& caller = GetParam();
  ncclConfig_t values = NCCL_CONFIG_INITIALIZER;
  values.blocking = 0;
  values.maxCTAs = 8;
  values.trafficClass = 3;
  values.nvlinkCentricSched = 1;
  values.graphUsageMode = 1;
  values.nvlsHostMode = 2;
  const auto config = parse(caller_struct(caller.size, caller.version, values));
  ASSERT_TRUE(config.ok()) << config.error().text;
  const ncclConfig_t& fields = config.value().fields;
  EXPECT_EQ(fields.blocking, 0);
  EXPECT_EQ(fields.maxCTAs, caller.max_ctas);
  EXPECT_EQ(fields.trafficClass, caller.traffic_class);
  EXPECT_EQ(fields.nvlinkCentricSched, caller.nvlink);
  EXPECT_EQ(fields.graphUsageMode, caller.graph_mode);
  EXPECT_EQ(fields.nvlsHostMode, caller.nvls_mode);
}

constexpr int kNone = NCCL_CONFIG_UNDEF_INT;
INSTANTIATE_TEST_SUITE_P(
    Versions, ConfigOfVersion,
    testing::Values(Caller{24, 21400, 64, kNone, 0, 2, kNone},
                    Caller{40, 21700, 8, kNone, 0, 2, kNone},
                    Caller{48, 21800, 8, kNone, 0, 2, kNone}, Caller{48, 22600, 8, 3, 0, 2, kNone},
                    Caller{72, 22700, 8, 3, 0, 2, kNone}, Caller{80, 22809, 8, 3, 1, 2, kNone},
                    Caller{88, 22902, 8, 3, 1, 1, kNone}, Caller{96, 23007, 8, 3, 1, 1, kNone},
                    Caller{120, 23203, 8, 3, 1, 1, 2}, Caller{200, 24000, 8, 3, 1, 1, 2}),
    [](const auto& info) { return std::to_string(info.param.version); });

TEST(Config, RefusesWhatTheInitialiserHasNotMade) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 1;
  auto parsed = parse_config(&config, nullptr);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parsed.error().text,
            "ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
  config = NCCL_CONFIG_INITIALIZER;
  config.size = 8;
  EXPECT_FALSE(parse_config(&config, nullptr).ok());
}

struct BadField {
  int ncclConfig_t::*field;
  int value;
  const char* text;
};

class ConfigBadField : public testing::TestWithParam<BadField> {};

TEST_P(ConfigBadField, IsRefusedByName) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.*GetParam().field = GetParam().value;
  const auto parsed = parse_config(&config, nullptr);
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(parsed.error().text, GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Fields, ConfigBadField,
    testing::Values(
        BadField{&ncclConfig_t::blocking, 2, "Invalid config blocking attribute value 2"},
        BadField{&ncclConfig_t::cgaClusterSize, -1,
                 "Invalid config cgaClusterSize attribute value -1"},
        BadField{&ncclConfig_t::minCTAs, 0, "Invalid config minCTAs attribute value 0"},
        BadField{&ncclConfig_t::minCTAs, 65,
                 "Invalid config min/max channels attribute value 65/64"},
        BadField{&ncclConfig_t::splitShare, -7, "Invalid config splitShare attribute value -7"},
        BadField{&ncclConfig_t::trafficClass, -2, "Invalid config trafficClass attribute value -2"},
        BadField{&ncclConfig_t::CTAPolicy, 4, "Invalid config CTAPolicy attribute value 4"},
        BadField{&ncclConfig_t::nChannelsPerNetPeer, 65,
                 "Invalid config nChannelsPerNetPeer attribute value 65"},
        BadField{&ncclConfig_t::graphUsageMode, 3,
                 "Invalid config graphUsageMode attribute value 3"},
        BadField{&ncclConfig_t::hostCftMode, 0, "Invalid config hostCftMode attribute value 0"}),
    [](const auto& info) {
      const std::string text = info.param.text;  // "Invalid config NAME ... VALUE"
      const auto name = text.substr(15, text.find_first_of(" /", 15) - 15);
      const auto value = std::to_string(info.param.value);
      return name + "_" + (value[0] == '-' ? "minus" + value.substr(1) : value);
    });

TEST(Config, AChildTakesFromItsParentWhatItIsNotGiven) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.netName = "Socket";
  const auto parent = parse_config(&config, nullptr);
  ASSERT_TRUE(parent.ok());
  ncclConfig_t own = NCCL_CONFIG_INITIALIZER;
  own.maxCTAs = 2;
  const auto child = parse_config(&own, &parent.value());
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(child.value().fields.blocking, 0);
  EXPECT_EQ(child.value().fields.maxCTAs, 2);
  EXPECT_EQ(child.value().net_name, "Socket");
}

TEST(Config, TheEnvironmentOverridesTheCaller) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 1;
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  const auto parsed = parse_config(&config, nullptr);
  unsetenv("NCCL_COMM_BLOCKING");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().fields.blocking, 0);
}

TEST(Config, GraphMixingSupportOfTheEnvironmentIsAGraphUsageMode) {
  const auto mixes = [](int mode) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.graphUsageMode = mode;
    const auto parsed = parse_config(&config, nullptr);
    return parsed.ok() && make_options(*parsed, nullptr).value().mixes_graphs;
  };
  EXPECT_TRUE(mixes(NCCL_CONFIG_UNDEF_INT));
  EXPECT_TRUE(mixes(2));
  EXPECT_FALSE(mixes(1));
  EXPECT_FALSE(mixes(0));
  setenv("NCCL_GRAPH_MIXING_SUPPORT", "0", 1);
  EXPECT_FALSE(mixes(NCCL_CONFIG_UNDEF_INT));
  EXPECT_FALSE(mixes(2));
  unsetenv("NCCL_GRAPH_MIXING_SUPPORT");
}

TEST(Config, LaunchOrderIsObeyedUnlessTheEnvironmentOverridesIt) {
  const auto takes_turns = [](int asked) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.launchOrderImplicit = asked;
    const auto parsed = parse_config(&config, nullptr);
    return parsed.ok() && make_options(*parsed, nullptr).value().takes_turns;
  };
  EXPECT_FALSE(takes_turns(NCCL_CONFIG_UNDEF_INT));
  EXPECT_FALSE(takes_turns(0));
  EXPECT_TRUE(takes_turns(1));
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  EXPECT_FALSE(takes_turns(1));
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 1);
  EXPECT_TRUE(takes_turns(NCCL_CONFIG_UNDEF_INT));
  unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
}

TEST(Config, TheEnvironmentNamesTheNetwork) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.netName = "Socket";
  setenv("NCCL_NET", "IB", 1);
  const auto parsed = parse_config(&config, nullptr);
  unsetenv("NCCL_NET");
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.value().net_name, "IB");
}

TEST(Config, ReadsTheCtaPolicyOfTheEnvironmentAsWords) {
  struct Row {
    const char* text;
    int policy;
  };
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = NCCL_CTA_POLICY_EFFICIENCY;
  for (const Row& row : {Row{"ZERO", 2}, Row{"DEFAULT", 0}, Row{"EFFICIENCY|ZERO", 3},
                         Row{"ZERO|", 1}, Row{"none", 1}, Row{"", 1}}) {
    setenv("NCCL_CTA_POLICY", row.text, 1);
    const auto parsed = parse_config(&config, nullptr);
    unsetenv("NCCL_CTA_POLICY");
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(parsed.value().fields.CTAPolicy, row.policy) << row.text;
  }
}

TEST(CallConfig, IsCheckedLikeACommunicatorsOwn) {
  const auto comm = parse_config(nullptr, nullptr);
  ASSERT_TRUE(comm.ok());
  ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
  EXPECT_TRUE(parse_call_config(&config, comm.value()).ok());
  config.maxCTAs = 65;
  auto parsed = parse_call_config(&config, comm.value());
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().text, "Invalid config maxCTAs attribute value 65");
  config = NCCL_COLLCONFIG_INITIALIZER;
  config.magic = 0;
  EXPECT_FALSE(parse_call_config(&config, comm.value()).ok());
}

// What a child process logs: its "once per process" state does not affect this process.
std::string log_of(const std::function<void()>& body) {
  char path[] = "/tmp/rondo-config-XXXXXX";
  ::close(mkstemp(path));
  const pid_t child = fork();
  if (child == 0) {
    setenv("NCCL_DEBUG", "WARN", 1);
    setenv("NCCL_DEBUG_FILE", path, 1);
    log::reset();
    body();
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

struct UnusedField {
  const char* name;
  int ncclConfig_t::*field;
  int wanted;   // asks for what Rondo does not do
  int as_done;  // asks for what it does anyway
};
// Every field without effect. Those with one are in config_test.cc and in tests of what they do.
constexpr UnusedField kUnusedFields[] = {
    {"cgaClusterSize", &ncclConfig_t::cgaClusterSize, 2, 0},
    {"splitShare", &ncclConfig_t::splitShare, 1, 0},
    {"trafficClass", &ncclConfig_t::trafficClass, 3, kNone},
    {"collnetEnable", &ncclConfig_t::collnetEnable, 1, 0},
    {"shrinkShare", &ncclConfig_t::shrinkShare, 1, 0},
    {"nvlsCTAs", &ncclConfig_t::nvlsCTAs, 4, kNone},
    {"nChannelsPerNetPeer", &ncclConfig_t::nChannelsPerNetPeer, 2, kNone},
    {"nvlinkCentricSched", &ncclConfig_t::nvlinkCentricSched, 1, 0},
    {"numRmaCtx", &ncclConfig_t::numRmaCtx, 2, 1},
    {"maxP2pPeers", &ncclConfig_t::maxP2pPeers, 7, kNone},
    {"graphStreamOrdering", &ncclConfig_t::graphStreamOrdering, 0, 1},
    {"numRmaSig", &ncclConfig_t::numRmaSig, 9, 8},
    {"rmaEagerInit", &ncclConfig_t::rmaEagerInit, 1, 0},
    {"hostCftMode", &ncclConfig_t::hostCftMode, ncclHostCftEnable, ncclHostCftDisable},
    {"nvlsHostMode", &ncclConfig_t::nvlsHostMode, ncclNvlsHostModeDisableTransport, kNone},
};

TEST(UnusedConfig, FieldsAreReportedOnceByNameAndValue) {
  const std::string text = log_of([] {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    for (const UnusedField& one : kUnusedFields) config.*one.field = one.wanted;
    for (int i = 0; i < 2; ++i)
      if (!parse_config(&config, nullptr).ok()) _exit(1);
  });
  for (const UnusedField& one : kUnusedFields) {
    const std::string line = std::string("NCCL WARN ") + one.name +
                             " of ncclConfig_t = " + std::to_string(one.wanted) +
                             " has no effect: ";
    EXPECT_EQ(count(text, line), 1) << one.name << '\n' << text;
  }
}

TEST(UnusedConfig, IsNotReportedWhereRondoDoesItAnywayOrAChildInheritsIt) {
  EXPECT_EQ(log_of([] {
              ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
              for (const UnusedField& one : kUnusedFields) config.*one.field = one.as_done;
              if (!parse_config(&config, nullptr).ok() || !parse_config(nullptr, nullptr).ok())
                _exit(1);
              CommConfig parent = parse_config(nullptr, nullptr).value();
              for (const UnusedField& one : kUnusedFields) parent.fields.*one.field = one.wanted;
              if (!parse_config(nullptr, &parent).ok()) _exit(1);
            }),
            "");
}

TEST(UnusedConfig, OfACallIsReported) {
  const std::string text = log_of([] {
    const auto comm = parse_config(nullptr, nullptr);
    ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
    ncclConfigExt_t extension{};
    extension.key = {5, 6};
    config.ext = &extension;
    config.nvlsCTAs = 3;
    config.cgaClusterSize = 2;
    config.userProfilerTag = 77;
    for (int i = 0; i < 2; ++i)
      if (!parse_call_config(&config, comm.value()).ok()) _exit(1);
  });
  EXPECT_EQ(count(text, "nvlsCTAs of ncclCollConfig_t = 3 has no effect: "), 1) << text;
  EXPECT_EQ(count(text, "cgaClusterSize of ncclCollConfig_t = 2 has no effect: "), 1) << text;
  EXPECT_EQ(count(text, "userProfilerTag of ncclCollConfig_t = 77 has no effect: "), 1) << text;
  EXPECT_EQ(count(text, "ext of ncclCollConfig_t (vendor 5, option 6) has no effect: "), 1) << text;
}

}  // namespace
}  // namespace rondo::api
