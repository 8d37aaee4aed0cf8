// SPDX-License-Identifier: Apache-2.0
#include "base/path_pattern.h"

#include <unistd.h>

#include <algorithm>

namespace rondo {
namespace {

std::string part_of_path(std::string_view host) {
  std::string part(host);
  const auto leaves = [](unsigned char c) { return c == '/' || c < ' ' || c == 127; };
  std::replace_if(part.begin(), part.end(), leaves, '_');
  if (part.starts_with('.')) part[0] = '_';
  return part;
}

}  // namespace

std::string expand_path(std::string_view pattern, std::string_view host) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      path += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case 'h':
        path += part_of_path(host);
        break;
      case 'p':
        path += std::to_string(getpid());
        break;
      case '%':
        path += '%';
        break;
      default:
        path += '%', path += pattern[i];
        break;
    }
  }
  return path;
}

std::string own_host_name() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

}  // namespace rondo
