// ProcessMessage: a message between a rank of this process and one of another; and the slots that
// it goes through.
#pragma once

#include <cstdint>

#include "base/types.h"
#include "collectives/gpu/process_context.h"

namespace rondo::gpu {

struct ProcessMessage {
  int from = 0, to = 0;
  CallRecord record;
  const void* send = nullptr;  // where this process sends,
  void* receive = nullptr;     // or else receives; both: between ranks of one device (by kernels)
  bool in_collective = false;  // has been announced
  bool by_driver = false;      // the stream's device may not touch the buffer (by streams)

  std::uint64_t bytes() const { return record.count * size_of(record.type); }
  bool is_within() const { return send != nullptr && receive != nullptr; }
};

// Made with the first message of the pair. Whoever cannot be asked for slots any more will not take
// or send anything either, and is named.
Result<MessageSlots::Slots> slots_for(ProcessContext& context, const ProcessMessage& message);

}  // namespace rondo::gpu
