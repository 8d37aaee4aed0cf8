// What every call looks at in its own thread, in one place: one look-up of thread-local storage.
//
// No initial-exec model: a library whose thread-local storage is static may fail to load by dlopen.
#pragma once

#include "api/hazards.h"

namespace rondo::api {

struct ThreadWords {
  int group_depth = 0;
  Hazard* hazard = nullptr;  // null until own_hazard() was called
};
extern constinit thread_local ThreadWords thread_words;

}  // namespace rondo::api
