// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/presence.h"

#include <cerrno>

#include "base/env.h"
#include "transport/verbs/ibverbs/ibverbs.h"
#include "transport/verbs/ibverbs/verbs_network.h"

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

Result<std::unique_ptr<net::Network>> open_network(const net::PortOptions& port, bool by_default,
                                                   const topology::NearNics& near) {
  if (env::get_bool("NCCL_IB_DISABLE"))
    return fail(StatusCode::kInvalidUsage, "NCCL_IB_DISABLE=1 forbids it: unset it");
  NetworkOptions options{port};
  options.near = near;
  options.by_default = by_default;
  RONDO_TRY(options.verbs, Options::from_environment());
  RONDO_TRY(auto network, VerbsNetwork::open(std::move(options)));
  return std::unique_ptr<net::Network>(std::move(network));
}

}  // namespace rondo::verbs
