// SPDX-License-Identifier: Apache-2.0
// Comm: the object of an ncclComm_t. It holds the engine's communicator and the state of the C API:
// configuration, state of a nonblocking communicator, order of calls, user-made operations.
//
// Guarantees: reached only through the handle table and alive while a pin is held. Members without
// a lock are atomic, or are set before any other thread uses them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "api/config.h"
#include "api/handles.h"
#include "api/nccl.h"
#include "base/result.h"
#include "collectives/communicator/call_order.h"
#include "collectives/communicator/communicator.h"
#include "collectives/host/host_stream.h"
#include "collectives/messages/tagged_messages.h"

namespace rondo::api {

// An operation made by ncclRedOpCreatePreMulSum.
struct UserOp {
  DataType type;
  std::array<std::byte, 8> scalar{};
  const void* late_scalar = nullptr;  // ncclScalarDevice: read when the call runs
};

class Comm {
 public:
  Comm(CommConfig config, CommOptions options)
      : config(std::move(config)), options(std::move(options)) {}
  ~Comm();
  Comm(const Comm&) = delete;
  Comm& operator=(const Comm&) = delete;

  int rank = -1;  // -1 until the engine is set
  int size = 0;
  const CommConfig config;
  const CommOptions options;
  ncclComm_t handle = nullptr;

  bool blocking() const { return config.fields.blocking != 0; }

  // The engine's communicator; nullptr until its creation has succeeded.
  Communicator* engine() const { return engine_.load(std::memory_order_acquire); }
  void set_engine(std::shared_ptr<Communicator> made);
  // Once the engine is set: no call needs more than the engine (usual_call.h): the communicator is
  // blocking, on the host, checks no buffers and has no profiler plugin.
  bool is_plain() const { return is_plain_; }

  // Aborts all running and waiting calls of this communicator. Repeated calls do nothing.
  void end_calls();
  bool ended() const { return ended_.load(std::memory_order_acquire); }

  CallOrder order;
  std::unique_ptr<HostStream> worker;  // of a nonblocking communicator; null before its first job
  std::atomic<int> pending{0};         // unfinished jobs of a nonblocking communicator

  // Messages with tags; nullptr before rondoCommOpenMessages.
  std::shared_ptr<TaggedMessages> tagged_messages() const;
  void set_tagged_messages(std::shared_ptr<TaggedMessages> opened);

  // Memory of the engine's communicator, which must be set, and of its messages with tags.
  std::uint64_t memory_bytes() const;
  std::uint64_t gpu_bytes() const;  // part of it

  void wait_for_queue();

  // The first failure of the creation, or of a job after its API call has returned.
  void note(const Error& error);
  std::optional<Error> noted() const;

  std::atomic<bool> finalized{false};
  std::atomic<bool> revoked{false};
  std::atomic<bool> suspended{false};
  std::atomic<bool> ticket_open{false};   // from ncclCommGetUniqueId until ncclCommGrow
  std::atomic<std::uint64_t> tickets{0};  // made by ncclCommGetUniqueId

  int add_user_op(const UserOp& op);  // returns its number as ncclRedOp_t
  bool remove_user_op(int number);
  std::optional<UserOp> user_op(int number) const;

  // Adds the buffer to gpu::memory_registry() if this communicator is on a GPU. Returns its block;
  // 0 on the host.
  std::uint64_t register_block(void* buffer, std::size_t bytes) const;
  void add_registration(void* handle);
  bool remove_registration(const void* handle);
  std::vector<void*> take_registrations();

 private:
  std::shared_ptr<Communicator> owner_;
  std::atomic<Communicator*> engine_{nullptr};
  bool is_plain_ = false;
  std::atomic<bool> ended_{false};
  mutable std::mutex mutex_;
  std::optional<Error> noted_;
  std::shared_ptr<TaggedMessages> tagged_messages_;
  std::map<int, UserOp> user_ops_;
  std::vector<void*> registrations_;
};

using CommPin = HandleTable<Comm>::Pin;
HandleTable<Comm>& comms();

// Any living communicator; an error for NULL, foreign, destroyed and forked handles.
Result<CommPin> find_comm(ncclComm_t comm, const char* function);
// A communicator whose creation has succeeded. Otherwise an error: wait, or why creation failed.
Result<CommPin> find_made_comm(ncclComm_t comm, const char* function);
// A communicator that can run calls now: created, not finalized, revoked or suspended.
Result<CommPin> find_usable_comm(ncclComm_t comm, const char* function);
// The same without an error: returns an empty pin. Costs only the look-up. The pin is valid on this
// thread until its API call returns; Pin::keep() removes this limit.
CommPin pin_if_usable(ncclComm_t comm);

// Removes the communicator from the table. It first waits for queued calls; it aborts them instead
// if end_calls or if the communicator has failed. Destroying the result destroys the communicator.
Result<std::unique_ptr<Comm>> retire(ncclComm_t comm, const char* function, bool end_calls);

// Registered buffers and windows: their handles and records.
struct Registration {
  ncclComm_t comm;
  void* buffer;
  std::size_t bytes;
  int number = -1;          // the engine's number of a window; -1: a buffer
  std::uint64_t block = 0;  // its number in gpu::memory_registry(), which peers map; 0: none
  // Of a window: the program's handle, which kernels read; null: the handle is that of windows().
  void* record = nullptr;
  ~Registration();
};

HandleTable<Registration>& registrations();  // ncclCommRegister
HandleTable<Registration>& windows();        // ncclCommWindowRegister

// The handle in windows() of a program's handle, which may be an address in device memory.
void* handle_of_window(void* window);
void forget_record(void* record, const void* handle);
// A window of any communicator.
Result<HandleTable<Registration>::Pin> find_any_window(ncclWindow_t window, const char* function);
// An error if the window does not belong to this communicator.
Result<HandleTable<Registration>::Pin> find_window(ncclComm_t comm, ncclWindow_t window,
                                                   const char* function);

// Frees handles of either table.
void forget_registrations(const std::vector<void*>& handles);

}  // namespace rondo::api
