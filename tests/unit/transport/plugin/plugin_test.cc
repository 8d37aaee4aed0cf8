// SPDX-License-Identifier: Apache-2.0
// Finds, loads and starts plugins. Errors name the value and the remedy.
#include "transport/plugin/plugin.h"

#include <sys/stat.h>

#include "tests/support/environment.h"
#include "tests/support/plugin/plugins.h"
#include "tests/support/temporary_folder.h"
#include "tests/unit/transport/net/turns.h"
#include "transport/networks/open_network.h"
#include "transport/plugin/library.h"

namespace rondo::test {
namespace {

using plugin::Plugin;

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
}

std::string why_not_open(const char* words, const std::string& version = "") {
  const PluginControls controls(version);
  controls.behave(words);
  net::PortOptions options;
  options.addresses = {loopback("127.0.0.1")};
  auto network = plugin::PluginNetwork::open(test_plugin(version), std::move(options));
  return network.ok() ? "" : network.error().text;
}

TEST(Plugin, AValueIsASuffixALibraryAPathOrNone) {
  const auto file_of = [](const char* value) { return plugin::file_of(plugin::kNetwork, value); };
  EXPECT_EQ(file_of(""), "libnccl-net.so");
  EXPECT_EQ(file_of("none"), "");
  EXPECT_EQ(file_of("NONE"), "");
  EXPECT_EQ(file_of("ofi"), "libnccl-net-ofi.so");
  EXPECT_EQ(file_of("libnccl-net-ofi.so"), "libnccl-net-ofi.so");
  EXPECT_EQ(file_of("libx.so.3"), "libx.so.3");
  EXPECT_EQ(file_of("/opt/plugin"), "/opt/plugin");
  EXPECT_EQ(plugin::file_of(plugin::kTuner, ""), "libnccl-tuner.so");
  EXPECT_EQ(plugin::file_of(plugin::kTuner, "ofi"), "libnccl-tuner-ofi.so");
}

TEST(Plugin, TheNewestVersionThatALibraryHasIsTaken) {
  EXPECT_EQ(test_plugin().version(), 12);
  EXPECT_EQ(test_plugin().name(), "RondoTest");
  for (int version = 8; version <= 12; ++version)
    EXPECT_EQ(test_plugin(std::to_string(version)).version(), version);
  EXPECT_EQ(Plugin::load(plugin_file()).value(), &test_plugin()) << "loaded twice";
}

TEST(Plugin, WhatIsNoPluginIsNamedWithTheRemedy) {
  const auto absent = Plugin::load("/nowhere/libnccl-net-x.so");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().text,
            "the network plugin /nowhere/libnccl-net-x.so does not exist: correct NCCL_NET_PLUGIN, "
            "or set it to none");
  expect_parts(Plugin::load("libnccl-net-nowhere.so").error().text,
               {"libnccl-net-nowhere.so cannot be loaded", "NCCL_NET_PLUGIN", "LD_LIBRARY_PATH"});
  const TemporaryFolder folder;
  const std::string text = folder.file("text.so", "no library");
  expect_parts(Plugin::load(text).error().text, {text, "cannot be loaded", "NCCL_NET_PLUGIN"});
  const std::string fifo = folder.path() + "/fifo.so";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_parts(Plugin::load(fifo).error().text,
               {fifo, "it is a FIFO, not a regular file", "NCCL_NET_PLUGIN"});
  expect_parts(
      Plugin::load(plugin_file("13")).error().text,
      {"rondotest13.so is not a network plugin", "ncclNetPlugin_v8", "ncclNetPlugin_v12", "none"});
}

TEST(Plugin, OneThatDoesNotStartIsNamedWithFunctionAndResult) {
  for (const char* version : {"8", "10", "12"}) {
    const std::string who = "plugin 'RondoTest' (" + plugin_file(version) + ", ncclNetPlugin_v";
    expect_parts(why_not_open("fail=init:1", version),
                 {who, "init() gave ncclSystemError (2)", "NCCL_DEBUG=INFO", "NCCL_NET=Socket"});
    expect_parts(why_not_open("devices=0", version), {who, "it has 0 devices", "NCCL_NET_PLUGIN"});
    expect_parts(why_not_open("fail=devices:1", version), {who, "devices() gave ncclSystemError"});
    expect_parts(why_not_open("fail=getProperties:1", version), {who, "getProperties() gave"});
    expect_parts(why_not_open("offload=1", version),
                 {who, "none of its 1 devices", "kernels of its own on the GPU"});
    EXPECT_EQ(why_not_open("offload=1 devices=2", version), "");
    EXPECT_EQ(PluginControls(version).count("contexts"), 0) << "what init() made is left behind";
  }
}

// Versions before 11 have one state per process.
TEST(Plugin, IsStartedOncePerProcessOrPerCommunicator) {
  for (const char* version : {"9", "11"}) {
    const PluginControls controls(version);
    const long before = controls.count("inits");
    for (int i = 0; i < 3; ++i) EXPECT_EQ(why_not_open("", version), "");
    EXPECT_EQ(controls.count("inits") - before, version == std::string("9") ? 1 : 3) << version;
    EXPECT_EQ(controls.count("contexts"), 0) << version;
  }
}

TEST(Plugin, NcclNetPluginPutsItBeforeAllOthers) {
  const auto first = [](const std::string& value) {
    const WithEnvironment variable("NCCL_NET_PLUGIN", value);
    return network_choices().front();
  };
  EXPECT_EQ(first(plugin_file()).name, "RondoTest");
  EXPECT_TRUE(first(plugin_file()).by_plugin_variable);
  EXPECT_EQ(first("none").name, "IB");
  EXPECT_EQ(first("/nowhere.so").name, "/nowhere.so");
  EXPECT_EQ(network_choices().front().name, "IB");

  const WithEnvironment variable("NCCL_NET_PLUGIN", plugin_file());
  EXPECT_EQ(open_network("rondotest", {}).value()->name(), "RondoTest");
  EXPECT_EQ(open_network("Socket", {}).value()->name(), "Socket");
  expect_parts(open_network("Nowhere", {}).error().text, {"RondoTest, IB, Socket"});
}

TEST(Plugin, OneThatIsJustThereIsFoundByTheLoadersSearch) {
  EXPECT_FALSE(plugin::find(""));
  EXPECT_FALSE(plugin::find("none"));
  EXPECT_FALSE(plugin::find("nowhere")->plugin.ok());
}

}  // namespace
}  // namespace rondo::test
