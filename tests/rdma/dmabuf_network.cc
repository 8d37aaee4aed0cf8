// SPDX-License-Identifier: Apache-2.0
// RONDO_TEST_NETWORK=IB: the InfiniBand network with adapters that accept dmabuf files, which
// soft-RoCE does not. A file is mapped, and the mapping is registered under the file's own
// addresses. Runs in the guest of tests/rdma. RONDO_TEST_HCA_<host> is NCCL_IB_HCA of the ranks
// that NCCL_HOSTID places there; RONDO_TEST_DMABUF=0 keeps the real function, which fails.
#include <sys/mman.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "transport/networks/open_network.h"
#include "transport/verbs/ibverbs/verbs_network.h"

namespace rondo::test {
namespace {

using RegisterAt = ibv_mr* (*)(ibv_pd*, void*, std::size_t, std::uint64_t, unsigned);
RegisterAt register_at = nullptr;  // set once, before main() continues

// The mapping is never removed: tests end with their process.
ibv_mr* register_mapping(ibv_pd* domain, std::uint64_t offset, std::size_t bytes,
                         std::uint64_t iova, int file, int access) {
  void* const at =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return nullptr;
  return register_at(domain, at, bytes, iova, static_cast<unsigned>(access));
}

Result<std::unique_ptr<net::Network>> open_verbs(const NetworkRequest& request) {
  static const Result<verbs::Ibverbs> with_files = [] {
    Result<verbs::Ibverbs> table = verbs::Ibverbs::load_from("libibverbs.so.1");
    if (!table.ok()) return table;
    const char* const real = std::getenv("RONDO_TEST_DMABUF");
    if (real != nullptr && std::string_view(real) == "0") return table;
    register_at = table->reg_mr_iova2;
    table->reg_dmabuf_mr = register_mapping;
    return table;
  }();
  if (!with_files.ok()) return with_files.error();
  verbs::NetworkOptions options{port_options(request)};
  options.near = request.near;
  RONDO_TRY(options.verbs, verbs::Options::from_environment());
  if (const char* const host = std::getenv("NCCL_HOSTID"))
    if (const char* const ports = std::getenv((std::string("RONDO_TEST_HCA_") + host).c_str()))
      options.verbs.hca = ports;
  options.verbs.functions = &with_files.value();
  RONDO_TRY(auto network, verbs::VerbsNetwork::open(std::move(options)));
  return std::unique_ptr<net::Network>(std::move(network));
}

[[maybe_unused]] const bool added = [] {
  const char* const wanted = std::getenv("RONDO_TEST_NETWORK");
  if (wanted != nullptr && std::string_view(wanted) == "IB") add_network({"IB", open_verbs});
  return true;
}();

}  // namespace
}  // namespace rondo::test
