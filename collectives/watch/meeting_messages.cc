// SPDX-License-Identifier: Apache-2.0
#include "collectives/watch/meeting_messages.h"

#include <utility>

#include "base/json.h"

namespace rondo::watch {

std::string MeetingRequest::text() const {
  Json hashes = Json::array();
  for (const std::uint64_t hash : communicators) hashes.push_back(hex_of(hash));
  return Json{{"reported_by", hex_of(reported_by)},
              {"since", hex_of(since)},
              {"communicators", std::move(hashes)},
              {"own", own.to_json(false)}}
      .text(-1);
}

Result<MeetingRequest> MeetingRequest::parse(std::string_view text) {
  try {
    const Json asked = Json::parse(text);
    MeetingRequest request;
    RONDO_TRY(request.own, WatchedProcess::parse(asked.at("own"), false));
    for (const Json& hash : asked.at("communicators").elements())
      request.communicators.insert(number_of(hash.string()));
    request.since = number_of(asked.at("since").string());
    request.reported_by = number_of(asked.at("reported_by").string());
    return request;
  } catch (const JsonError& error) {
    return fail(StatusCode::kInvalidArgument, "{}", error.what());
  }
}

std::string MeetingAnswer::text() const {
  Json all = Json::array();
  for (const WatchedProcess& process : processes) all.push_back(process.to_json(false));
  return Json{{"reported_by", hex_of(reported_by)},
              {"newest", hex_of(newest)},
              {"processes", std::move(all)}}
      .text(-1);
}

Result<MeetingAnswer> MeetingAnswer::parse(std::string_view text) {
  try {
    const Json reported = Json::parse(text);
    MeetingAnswer answer;
    answer.reported_by = number_of(reported.at("reported_by").string());
    answer.newest = number_of(reported.at("newest").string());
    for (const Json& each : reported.at("processes").elements()) {
      auto process = WatchedProcess::parse(each, false);
      if (process.ok() && answer.processes.size() < kMaxProcesses)
        answer.processes.push_back(std::move(*process));
    }
    return answer;
  } catch (const JsonError& error) {
    return fail(StatusCode::kRemoteError, "{}", error.what());
  }
}

}  // namespace rondo::watch
