// SPDX-License-Identifier: Apache-2.0
#include "api/making.h"

#include <utility>

#include "api/errors.h"
#include "api/group.h"
#include "base/guard.h"

namespace rondo::api {
namespace {

void discard(ncclComm_t* out, ncclComm_t handle) {
  HandleState state;
  comms().remove(handle, &state);
  *out = nullptr;
}

Status make(ncclComm_t* out, ncclComm_t handle, bool blocking, const Maker& maker) {
  auto found = comms().pin(handle);
  if (found.state != HandleState::kAlive)
    return fail(StatusCode::kInvalidUsage, "comm {} was ended while it was being initialized",
                fmt::ptr(handle));
  Comm* comm = found.pin.get();
  Made made =
      guarded("making a communicator", [&] { return maker([comm] { return comm->ended(); }); });
  if (made.ok()) {
    comm->set_engine(std::move(made).value());
    return ok_status();
  }
  comm->note(made.error());
  found.pin = CommPin();
  if (blocking) discard(out, handle);
  return made.error();
}

}  // namespace

ncclResult_t make_comm(ncclComm_t* out, NewComm description, const Maker& maker) {
  const bool blocking = description.config.fields.blocking != 0;
  SetUp work;
  work.parent = std::move(description.parent);
  work.blocking = blocking;
  *out = nullptr;
  if (description.member) {
    auto comm =
        std::make_unique<Comm>(std::move(description.config), std::move(description.options));
    Comm* raw = comm.get();
    const auto handle = static_cast<ncclComm_t>(comms().insert(std::move(comm)));
    if (handle == nullptr)
      return note_in_group(
          report(fail(StatusCode::kInvalidUsage, "too many communicators are alive")));
    raw->handle = handle;
    const auto kept = guarded("making a communicator", [&] {
      work.cancel = [=] { discard(out, handle); };
      work.run = [=] { return make(out, handle, blocking, maker); };
      return ok_status();
    });
    if (!kept.ok() && !work.cancel) discard(out, handle);
    if (!kept.ok()) return note_in_group(report(kept));
    *out = handle;
  } else {
    work.run = [=]() -> Status {
      const Made nothing = maker([] { return false; });
      return nothing.ok() ? ok_status() : Status(nothing.error());
    };
    work.cancel = [] {};
  }
  return submit_set_up(std::move(work));
}

}  // namespace rondo::api
