// SPDX-License-Identifier: Apache-2.0
// Any text as what watched processes say where they meet: a request or an answer is refused, or
// says the same again once it has been written, within the limits.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "collectives/watch/meeting_messages.h"

namespace {

using namespace rondo::watch;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const WatchedProcess& process) {
  require(process.pid >= 0 && process.addresses.size() <= WatchedProcess::kMaxAddresses);
  for (const auto& [hash, rank] : process.ranks) require(rank >= 0);
  for (const char letter : process.host_name) require(letter >= ' ' || letter < 0);
}

template <class Message>
void read_again(const Message& message) {
  const auto again = Message::parse(message.text());
  require(again.ok() && again->text() == message.text());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 2 == 0) {
    const auto request = MeetingRequest::parse(text);
    if (!request.ok()) return 0;
    check(request->own);
    read_again(*request);
  } else {
    const auto answer = MeetingAnswer::parse(text);
    if (!answer.ok()) return 0;
    require(answer->processes.size() <= MeetingAnswer::kMaxProcesses);
    for (const WatchedProcess& process : answer->processes) check(process);
    read_again(*answer);
  }
  return 0;
}
