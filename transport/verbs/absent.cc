// The build without <infiniband/verbs.h>.
#include "transport/verbs/presence.h"

namespace rondo::verbs {

Result<std::vector<std::string>> offered_devices() {
  return fail(Status::kSystemError,
              "this library was built without InfiniBand and RoCE: build it where libibverbs-dev "
              "(infiniband/verbs.h) is installed");
}

}  // namespace rondo::verbs
