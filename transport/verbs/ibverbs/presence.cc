#include "transport/verbs/presence.h"

#include <cerrno>

#include "transport/verbs/ibverbs/ibverbs.h"

namespace rondo::verbs {

Result<std::vector<std::string>> offered_devices() {
  RONDO_TRY(const Ibverbs* const verbs, Ibverbs::load());
  int count = 0;
  ibv_device** const list = verbs->get_device_list(&count);
  // ENOSYS: a kernel without RDMA. No device either way.
  if (list == nullptr && errno != ENOSYS) return fail_errno(errno, "libibverbs lists no devices");
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) names.emplace_back(verbs->get_device_name(list[i]));
  if (list != nullptr) verbs->free_device_list(list);
  return names;
}

}  // namespace rondo::verbs
