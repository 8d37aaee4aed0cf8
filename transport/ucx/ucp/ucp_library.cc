// SPDX-License-Identifier: Apache-2.0
#include "transport/ucx/ucp/ucp_library.h"

#include <dlfcn.h>
#include <signal.h>

#include <array>

#include "base/shared_library.h"

namespace rondo::ucx {
namespace {

constexpr const char* kUcpLibrary = "libucp.so.0";

// Saves the signal handlers and restores them after the library is loaded.
class KeptSignals {
 public:
  KeptSignals() {
    for (std::size_t i = 1; i < before_.size(); ++i)
      (void)::sigaction(static_cast<int>(i), nullptr, &before_[i]);
  }
  ~KeptSignals() {
    for (std::size_t i = 1; i < before_.size(); ++i) {
      struct sigaction now {};
      const int number = static_cast<int>(i);
      if (::sigaction(number, nullptr, &now) == 0 && now.sa_sigaction != before_[i].sa_sigaction)
        (void)::sigaction(number, &before_[i], nullptr);
    }
  }
  KeptSignals(const KeptSignals&) = delete;
  KeptSignals& operator=(const KeptSignals&) = delete;

 private:
  std::array<struct sigaction, 32> before_{};
};

}  // namespace

Result<UcpLibrary> UcpLibrary::load_from(const char* library) {
  const KeptSignals kept;
  // RTLD_GLOBAL is not needed: UCX's transports link the library themselves.
  const auto handle = load_library(library);
  if (!handle.ok())
    return fail(StatusCode::kSystemError,
                "{} cannot be loaded: {}; install libucx0 (UCX 1.13 or newer)", library,
                handle.error().text);
  UcpLibrary ucp{};
  LibraryFunctions functions(*handle);
  functions.need(ucp.init_version, "ucp_init_version");
  functions.need(ucp.cleanup, "ucp_cleanup");
  functions.need(ucp.context_query, "ucp_context_query");
  functions.need(ucp.config_read, "ucp_config_read");
  functions.need(ucp.config_modify, "ucp_config_modify");
  functions.need(ucp.config_release, "ucp_config_release");
  functions.need(ucp.worker_create, "ucp_worker_create");
  functions.need(ucp.worker_destroy, "ucp_worker_destroy");
  functions.need(ucp.worker_get_address, "ucp_worker_get_address");
  functions.need(ucp.worker_release_address, "ucp_worker_release_address");
  functions.need(ucp.worker_get_efd, "ucp_worker_get_efd");
  functions.need(ucp.worker_arm, "ucp_worker_arm");
  functions.need(ucp.worker_progress, "ucp_worker_progress");
  functions.need(ucp.worker_set_am_recv_handler, "ucp_worker_set_am_recv_handler");
  functions.need(ucp.ep_create, "ucp_ep_create");
  functions.need(ucp.ep_flush_nbx, "ucp_ep_flush_nbx");
  functions.need(ucp.ep_close_nbx, "ucp_ep_close_nbx");
  functions.need(ucp.am_send_nbx, "ucp_am_send_nbx");
  functions.need(ucp.am_recv_data_nbx, "ucp_am_recv_data_nbx");
  functions.need(ucp.request_free, "ucp_request_free");
  functions.need(ucp.get_version, "ucp_get_version");
  functions.need(ucp.status_string, "ucs_status_string");
  if (functions.missing() != nullptr) {
    const char* const name = functions.missing();
    dlclose(*handle);
    return fail(StatusCode::kSystemError, "{} has no function {}: install UCX 1.13 or newer",
                library, name);
  }
  return ucp;
}

Result<const UcpLibrary*> UcpLibrary::load() {
  static const Result<UcpLibrary> loaded = load_from(kUcpLibrary);
  if (!loaded.ok()) return loaded.error();
  return &loaded.value();
}

std::string UcpLibrary::version() const {
  unsigned major = 0, minor = 0, release = 0;
  get_version(&major, &minor, &release);
  return fmt::format("{}.{}.{}", major, minor, release);
}

Error UcpLibrary::failure(const char* function, ucs_status_t status, const char* remedy) const {
  const std::string_view what = remedy;
  return fail(StatusCode::kSystemError, "UCX: {}() says {} ({}){}{}", function,
              status_string(status), static_cast<int>(status), what.empty() ? "" : "; ", what);
}

}  // namespace rondo::ucx
