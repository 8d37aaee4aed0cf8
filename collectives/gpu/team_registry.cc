#include "collectives/gpu/team_registry.h"

#include <map>
#include <mutex>

namespace rondo::gpu {

Result<std::shared_ptr<DeviceTeam>> team_of(const void* communicator, const TeamOptions& options,
                                            std::shared_ptr<ProcessTeam> processes) {
  // Never destroyed: the program may end with communicators alive.
  static auto& mutex = *new std::mutex;
  static auto& teams = *new std::map<const void*, std::weak_ptr<DeviceTeam>>;
  std::lock_guard lock(mutex);
  std::erase_if(teams, [](const auto& entry) { return entry.second.expired(); });
  if (const auto found = teams.find(communicator); found != teams.end())
    if (auto team = found->second.lock()) return team;
  RONDO_TRY(auto team, DeviceTeam::make(options, std::move(processes)));
  teams[communicator] = team;
  return team;
}

}  // namespace rondo::gpu
