// SPDX-License-Identifier: Apache-2.0
// Fails if our nccl.h differs from NVIDIA's, except where a newer version must differ from an older
// one. check_headers.sh compiles it with the facts of our header and of the real ones.
#include <cstdio>
#include <map>
#include <regex>
#include <set>

#include "facts.h"

Facts facts_of_ours();
Facts facts_of_22809();
Facts facts_of_23203();

namespace {

// Facts of ours (2.32.3) that may differ from 2.28.9. The initialisers are compared below.
const std::set<std::string> kNewerThan22809 = {"NCCL_MINOR",
                                               "NCCL_PATCH",
                                               "NCCL_VERSION_CODE",
                                               "ncclNumResults",
                                               "sizeof(ncclConfig_t)",
                                               "NCCL_CONFIG_INITIALIZER",
                                               "NCCL_SIM_INFO_INITIALIZER"};

// The tag of a versioned struct names the version; programs use the typedef.
std::string without_version_tags(const std::string& text) {
  static const std::regex tag("_v[0-9]{5}");
  return std::regex_replace(text, tag, "");
}

int differences(const std::map<std::string, std::string>& ours, const Facts& theirs,
                const char* version, const std::set<std::string>& may_differ) {
  int count = 0;
  for (const Fact& fact : theirs) {
    if (may_differ.count(fact.what) != 0) continue;
    const auto found = ours.find(fact.what);
    const std::string own = found == ours.end() ? "missing" : without_version_tags(found->second);
    if (own == without_version_tags(fact.value)) continue;
    std::printf("%s: NVIDIA's %s says %s, ours says %s\n", fact.what.c_str(), version,
                fact.value.c_str(), own.c_str());
    ++count;
  }
  std::printf("%zu facts of %s compared, %d differ\n", theirs.size(), version, count);
  return count;
}

// Our initialiser must start with the older one's bytes, except size and version (two hex digits
// per byte).
int initialiser_differences(const std::map<std::string, std::string>& ours, const Facts& theirs) {
  int count = 0;
  for (const Fact& fact : theirs) {
    if (fact.what != "NCCL_CONFIG_INITIALIZER" && fact.what != "NCCL_SIM_INFO_INITIALIZER")
      continue;
    const std::string& own = ours.at(fact.what);
    const bool magic = own.substr(16, 8) == fact.value.substr(16, 8);
    const bool fields = own.substr(32, fact.value.size() - 32) == fact.value.substr(32);
    if (magic && fields) continue;
    std::printf("%s: %s, ours %s\n", fact.what.c_str(), fact.value.c_str(), own.c_str());
    ++count;
  }
  return count;
}

}  // namespace

int main() {
  std::map<std::string, std::string> ours;
  for (const Fact& fact : facts_of_ours()) ours[fact.what] = fact.value;
  const Facts older = facts_of_22809(), newest = facts_of_23203();
  const int count = differences(ours, newest, "2.32.3", {}) +
                    differences(ours, older, "2.28.9", kNewerThan22809) +
                    initialiser_differences(ours, older);
  return count == 0 && !older.empty() && newest.size() == ours.size() ? 0 : 1;
}
