// SPDX-License-Identifier: Apache-2.0
#include "api/call_batch.h"

#include <utility>

namespace rondo::api {

void Share::add(const Request& request) {
  if (request.event != nullptr) events.push_back(request.event);
  if (request.launch_event != nullptr)
    launch_events.push_back({request.launch_event, request.call.stream});
  calls.push_back(request.call);
  for (const Call& call : request.more) {
    calls.push_back(call);
    calls.back().stream = request.call.stream;
    calls.back().late_scalar = request.call.late_scalar;
    calls.back().api = request.call.api;
  }
}

CallBatch& CallBatch::of_thread() {
  thread_local CallBatch batch;
  return batch;
}

Share& CallBatch::add_share(CommPin&& comm) {
  if (used_ == shares_.size()) shares_.emplace_back();
  Share& share = shares_[used_++];
  share.comm = std::move(comm);
  return share;
}

void CallBatch::clear() {
  for (Share& share : shares()) {
    share.turn.finish();
    share.comm = CommPin();
    share.calls.clear();
    share.events.clear();
    share.launch_events.clear();
  }
  used_ = 0;
  works.clear();
}

}  // namespace rondo::api
