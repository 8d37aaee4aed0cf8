// SPDX-License-Identifier: Apache-2.0
#include "tests/simt/device/loaded_kernels.h"

namespace rondo::simt {

bool LoadedKernels::has(Body body, int device) const {
  const auto found = on_.find(body);
  return found != on_.end() && (found->second >> device & 1) != 0;
}

void LoadedKernels::launched(const CommandRef& command, const std::shared_ptr<Grid>& grid) {
  std::erase_if(launches_, [this](const Launch& one) {
    if (one.grid->spun) waits_.insert(one.grid->body);
    return bool(one.command->over);
  });
  launches_.push_back({command, grid});
}

std::shared_ptr<Grid> LoadedKernels::waiting(int device) {
  for (const Launch& one : launches_)
    if (!one.command->over && one.grid->device == device &&
        (one.grid->spun || waits_.contains(one.grid->body)))
      return one.grid;
  return nullptr;
}

}  // namespace rondo::simt
