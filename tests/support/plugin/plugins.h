// SPDX-License-Identifier: Apache-2.0
// The test plugin (test_plugin.h) as a network of the library.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>

#include "tests/support/plugin/test_plugin.h"
#include "transport/plugin/plugin_network.h"

namespace rondo::test {

// "": the library with all versions of the interface. "8" to "12": with that version alone. "13":
// with none.
std::string plugin_file(const std::string& version = "");

inline const plugin::Plugin& test_plugin(const std::string& version = "") {
  return *plugin::Plugin::load(plugin_file(version)).value();
}

inline std::unique_ptr<net::Network> open_plugin(net::PortOptions options,
                                                 const std::string& version = "") {
  return plugin::PluginNetwork::open(test_plugin(version), std::move(options)).value();
}

// The library that load() has loaded.
class PluginControls {
 public:
  explicit PluginControls(const std::string& version = "")
      : library_(dlopen(plugin_file(version).c_str(), RTLD_NOW)),
        behave_(reinterpret_cast<rondo_test_plugin_behave_t>(
            dlsym(library_, "rondo_test_plugin_behave"))),
        count_(reinterpret_cast<rondo_test_plugin_count_t>(
            dlsym(library_, "rondo_test_plugin_count"))) {}
  ~PluginControls() { behave_(""); }
  PluginControls(const PluginControls&) = delete;
  PluginControls& operator=(const PluginControls&) = delete;

  void behave(const char* words) const { behave_(words); }
  long count(const char* what) const { return count_(what); }

 private:
  void* const library_;
  const rondo_test_plugin_behave_t behave_;
  const rondo_test_plugin_count_t count_;
};

}  // namespace rondo::test
