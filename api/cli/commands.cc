#include "api/cli/commands.h"

namespace rondo::cli {
namespace {

constexpr Command kCommands[] = {
    {"run", "start N ranks of a program on this host and look after them", run_command},
    {"bench", "measure and check collectives (nccl-tests' flags and table)", bench_command},
    {"doctor", "what on this machine will bite, and what to do about it", doctor_command},
    {"topo", "what Rondo sees of this host: cores, caches, memory, interfaces", topo_command},
    {"ps", "which rank of a process is in which call, and whom it waits for", ps_command},
    {"explain", "what a call would run as, and why", explain_command},
    {"simulate", "what a collective would take on GPUs that are not here", simulate_command},
    {"tune", "measure what calls of host memory cost here, for RONDO_TUNE_FILE", tune_command},
    {"env", "every environment variable: type, default, current value", env_command},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace rondo::cli
