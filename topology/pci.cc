#include "topology/pci.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

namespace rondo::topology {
std::string pci_path(std::string address, const std::string& root) {
  std::transform(address.begin(), address.end(), address.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return real_path(root + "/sys/bus/pci/devices/" + address);
}

std::string real_path(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
  if (real == nullptr) return "";
  const std::string found = real.get();
  return found.substr(std::min(found.find("/sys/devices/"), found.size()));
}

}  // namespace rondo::topology
