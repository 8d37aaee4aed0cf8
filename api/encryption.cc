// SPDX-License-Identifier: Apache-2.0
// ncclSetEncryption: Rondo sends plain text, so only mode NONE is accepted. Joining a communicator
// is authenticated in any case.
#include <cstddef>

#include "api/arguments.h"
#include "api/errors.h"
#include "api/export.h"

using namespace rondo;
using namespace rondo::api;

namespace {

Status set_encryption(const ncclEncryptionConfig_t* config) {
  RONDO_CHECK_OK(not_null(config, "SetEncryption", "config"));
  if (config->magic != NCCL_API_MAGIC ||
      config->size < offsetof(ncclEncryptionConfig_t, psk) + sizeof(config->psk))
    return fail(StatusCode::kInvalidArgument,
                "ncclEncryptionConfig_t argument not initialized via "
                "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
  switch (config->mode) {
    case NCCL_ENCRYPTION_MODE_NONE:
      return ok_status();
    case NCCL_ENCRYPTION_MODE_PSK:
      return fail(StatusCode::kInvalidUsage,
                  "SetEncryption : Rondo does not encrypt its sockets (ranks prove the ticket's "
                  "secret when they join, the data travels in plain text); use an encrypted "
                  "network, or NCCL_ENCRYPTION_MODE_NONE");
    default:
      return fail(StatusCode::kInvalidArgument, "SetEncryption : invalid mode {}", config->mode);
  }
}

}  // namespace

RONDO_API_FUNCTION(ncclResult_t, SetEncryption, const ncclEncryptionConfig_t* config) {
  RONDO_ENTER(SetEncryption);
  return report(set_encryption(config));
}
RONDO_CATCH
