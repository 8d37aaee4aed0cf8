// SPDX-License-Identifier: Apache-2.0
#include "api/call_builder.h"

#include <cstdint>

#include "api/arguments.h"
#include "api/config.h"
#include "api/convert.h"
#include "collectives/gpu/calls/pointers.h"
#include "collectives/planner/algorithm_filter.h"
#include "kernels/reduce.h"

namespace rondo::api {
namespace {

CallLimits limits_of(const CallConfig& options) {
  CallLimits limits;
  const auto ctas = [](int value) { return value == NCCL_CONFIG_UNDEF_INT ? 0 : value; };
  limits.min_ctas = ctas(options.min_ctas);
  limits.max_ctas = ctas(options.max_ctas);
  if (options.cta_policy != NCCL_CONFIG_UNDEF_INT)
    limits.mover = (options.cta_policy & NCCL_CTA_POLICY_ZERO) != 0
                       ? CallLimits::Mover::kCopyEngines
                       : CallLimits::Mover::kKernels;
  return limits;
}

}  // namespace

Status apply_call_config(const Comm& comm, const ncclCollConfig_t* config, Request* request) {
  RONDO_TRY(const CallConfig options, parse_call_config(config, comm.config));
  request->call.limits = limits_of(options);
  if (options.launch_event != nullptr && comm.engine()->options().device < 0)
    return fail(StatusCode::kInvalidUsage,
                "launchCompletionEvent is a CUDA event; this communicator runs on the host");
  request->launch_event = options.launch_event;
  if (options.algorithms.empty()) return ok_status();
  CallRecord& record = request->call.record;
  RONDO_TRY(record.excluded, excluded_by(options.algorithms, record.collective));
  if (comm.engine()->predicted_ns(record) > 0) return ok_status();
  record.excluded = 0;
  if (!options.force) return ok_status();
  return fail(StatusCode::kInvalidUsage,
              "algSelection '{}' leaves no algorithm that can run {} on this communicator; with "
              "forceAlgSelection = 0 it is only a hint",
              options.algorithms, to_string(record));
}

namespace {

Status check_not_overlapping(const void* send, const void* receive, std::size_t bytes,
                             const char* function) {
  const auto a = reinterpret_cast<std::uintptr_t>(send);
  const auto b = reinterpret_cast<std::uintptr_t>(receive);
  if (a + bytes <= b || b + bytes <= a) return ok_status();
  return fail(StatusCode::kInvalidArgument,
              "{} : sendbuff {} and recvbuff {} overlap; this call does not work in place",
              function, send, receive);
}

// Checks the buffers that this rank accesses. Buffers of ranks on GPUs are checked when the call is
// enqueued, except those of a rank that is alone.
Status check_buffers(const Comm& comm, const CollectiveTraits& traits,
                     const CollectiveArguments& arguments, std::size_t block) {
  if (!comm.config.check_buffers || block == 0) return ok_status();
  const int device = comm.engine()->options().device;
  if (device >= 0 && comm.size > 1) return ok_status();
  const bool is_root = comm.rank == arguments.root;
  const auto bytes = [&](bool all) { return all ? block * comm.size : block; };
  gpu::BufferAddresses addresses(device);
  const auto check = [&](const BufferUse& use) -> Status {
    if (device < 0) return check_buffer(use, traits.function);
    const auto reached = addresses.of(use.at, traits.which, use.argument);
    return reached.ok() ? ok_status() : Status(reached.error());
  };
  if (is_root || !traits.send_on_root_only)
    RONDO_CHECK_OK(check({arguments.send, bytes(traits.send_holds_all), false, "sendbuff"}));
  if (is_root || !traits.receive_on_root_only)
    RONDO_CHECK_OK(check({arguments.receive, bytes(traits.receive_holds_all), true, "recvbuff"}));
  return ok_status();
}

}  // namespace

Result<std::size_t> buffer_bytes(std::size_t count, DataType type, int parts,
                                 const char* function) {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size_of(type), &bytes) ||
      __builtin_mul_overflow(bytes, static_cast<std::size_t>(parts), &bytes) ||
      bytes > kMaxBufferBytes)
    return fail(StatusCode::kInvalidArgument,
                "{} : count {} of {} times {} ranks is larger than any buffer: give elements of {} "
                "bytes in all, at most",
                function, count, name(type), parts, kMaxBufferBytes);
  return bytes;
}

Status set_reduction(const Comm& comm, ncclRedOp_t op, const char* function, Request* request) {
  CallRecord& record = request->call.record;
  const int number = static_cast<int>(op);
  if (auto builtin = to_red_op(op, function); builtin.ok()) {
    record.op = *builtin;
    if (!supported(record.type, record.op))
      return fail(StatusCode::kInvalidArgument, "{} : {} works on integers, the type is {}",
                  function, name(record.op), name(record.type));
    return ok_status();
  } else if (number < ncclNumOps) {
    return builtin.error();
  }
  const auto user = comm.user_op(number);
  if (!user)
    return fail(StatusCode::kInvalidArgument,
                "{} : reduction operation {} unknown to this communicator", function, number);
  if (user->type != record.type)
    return fail(StatusCode::kInvalidArgument,
                "{} : reduction operation {} was made for {}, the type is {}", function, number,
                name(user->type), name(record.type));
  record.op = RedOp::kPreMulSum;
  request->call.scalar = user->scalar;
  request->call.late_scalar = user->late_scalar;
  return ok_status();
}

Status build_collective(const Comm& comm, const CollectiveTraits& traits,
                        const CollectiveArguments& arguments, Request* request) {
  CallRecord& record = request->call.record;
  if (traits.rooted) RONDO_CHECK_OK(root_in_range(arguments.root, comm.size, traits.function));
  RONDO_TRY(record.type, to_data_type(arguments.type, traits.function));
  if (traits.reduces) RONDO_CHECK_OK(set_reduction(comm, arguments.op, traits.function, request));

  RONDO_TRY(const std::size_t bytes,
            buffer_bytes(arguments.count, record.type,
                         traits.send_holds_all || traits.receive_holds_all ? comm.size : 1,
                         traits.function));
  const bool is_root = comm.rank == arguments.root;
  if (arguments.count > 0) {
    if (is_root || !traits.send_on_root_only)
      RONDO_CHECK_OK(not_null(arguments.send, traits.function, "sendbuff"));
    if (is_root || !traits.receive_on_root_only)
      RONDO_CHECK_OK(not_null(arguments.receive, traits.function, "recvbuff"));
    if (traits.which == Collective::kAllToAll && comm.size > 1)
      RONDO_CHECK_OK(
          check_not_overlapping(arguments.send, arguments.receive, bytes, traits.function));
  }
  RONDO_CHECK_OK(check_buffers(comm, traits, arguments, arguments.count * size_of(record.type)));
  record.collective = traits.which;
  record.count = arguments.count;
  record.root = traits.rooted ? arguments.root : -1;
  request->call.send = arguments.send;
  request->call.receive = arguments.receive;
  return ok_status();
}

}  // namespace rondo::api
