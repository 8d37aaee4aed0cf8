#include "api/cli/commands.h"

namespace rondo::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "start N ranks of a program on this host and supervise them", run_command},
    {"bench", "measure and check collectives (nccl-tests' flags and table)", bench_command},
    {"doctor", "find problems of this machine, and say what to do", doctor_command},
    {"topo", "what Rondo sees of this host: cores, caches, memory, interfaces", topo_command},
    {"ps", "which call each rank of a process is in, and which rank it waits for", ps_command},
    {"explain", "which algorithm would run a call, and why", explain_command},
    {"simulate", "predict the time of a collective on GPUs that are not here", simulate_command},
    {"tune", "measure the costs of calls on this machine, for RONDO_TUNE_FILE", tune_command},
    {"env", "every environment variable: type, default, current value", env_command},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace rondo::cli
