// SPDX-License-Identifier: Apache-2.0
// The table itself. One row per variable, in alphabetical order; `rondo env` prints it.
#include "base/algorithm.h"
#include "base/variables.h"

namespace rondo::env {
namespace {

constexpr Variable kTable[] = {
    {"NCCL_ALGO", Type::kString, "",
     "allowed algorithms: oneshot,twoshot,direct,ring,tree,recursive,hierarchical,nvls; ^ring "
     "excludes; allreduce:ring applies to one function; empty: all"},
    {"NCCL_BUFFSIZE", Type::kBytes, "0",
     "bytes of one connection's slots (16K to 4M); 0: chosen by Rondo"},
    {"NCCL_CHECK_MODE", Type::kString, "DEFAULT",
     "DEBUG_LOCAL or DEBUG_GLOBAL: buffers must be memory of this process before a call runs"},
    {"NCCL_CHECK_POINTERS", Type::kBool, "0", "older name: 1 is NCCL_CHECK_MODE=DEBUG_LOCAL"},
    {"NCCL_COMM_BLOCKING", Type::kBool, "1",
     "where set, overrides the blocking field of ncclConfig_t"},
    {"NCCL_COMM_ID", Type::kString, "", "host:port at which rank 0 serves the rendezvous"},
    {"NCCL_CONF_FILE", Type::kFile, "", "read variables from this file, not from ~/.nccl.conf"},
    {"NCCL_CROSS_NIC", Type::kInt, "2",
     "network ports of a channel between GPUs of several hosts: 0: one per host; 1: any; 2: any "
     "where faster"},
    {"NCCL_CTA_POLICY", Type::kString, "",
     "DEFAULT, EFFICIENCY, ZERO (copy engines), or-ed with |: overrides CTAPolicy of ncclConfig_t"},
    {"NCCL_DEBUG", Type::kString, "NONE", "log level: NONE, VERSION, WARN, INFO, TRACE"},
    {"NCCL_DEBUG_FILE", Type::kFile, "",
     "write the log to this file, which must be the user's and not a link; %h host, %p process id"},
    {"NCCL_DEBUG_SUBSYS", Type::kString, "", "parts that may log at INFO; ^PART excludes"},
    {"NCCL_DEBUG_TIMESTAMP_FORMAT", Type::kString, "[%F %T] ",
     "format of the time before a line of the log, as in strftime; %3f: milliseconds"},
    {"NCCL_DEBUG_TIMESTAMP_LEVELS", Type::kString, "WARN",
     "levels whose lines begin with the time: WARN,INFO,ALL; ^INFO: all but INFO"},
    {"NCCL_DMABUF_ENABLE", Type::kBool, "1",
     "0: NICs get GPU memory only through nvidia_peermem, never as dmabuf files"},
    {"NCCL_GRAPH_DUMP_FILE", Type::kFile, "",
     "write the rings of the channels between GPUs to this file, as JSON "
     "(docs/internals/topology.md)"},
    {"NCCL_GRAPH_DUMP_FILE_RANK", Type::kInt, "0", "the rank that writes NCCL_GRAPH_DUMP_FILE"},
    {"NCCL_GRAPH_MIXING_SUPPORT", Type::kBool, "1",
     "0: CUDA graphs of a communicator run beside no other call of it (graphUsageMode 1)"},
    {"NCCL_HOSTID", Type::kString, "",
     "replaces the host's identity (ranks with the same identity share a host)"},
    {"NCCL_IB_DISABLE", Type::kBool, "0", "1: RDMA devices (InfiniBand, RoCE) are never used"},
    {"NCCL_IB_GID_INDEX", Type::kInt, "-1",
     "index of a RoCE port's address that peers get, in the port's GID table; -1: chosen by Rondo"},
    {"NCCL_IB_HCA", Type::kString, "",
     "RDMA ports to use: prefixes of device names, each optionally with :PORT; ^ excludes, = "
     "exact"},
    {"NCCL_IB_PCI_RELAXED_ORDERING", Type::kInt, "2",
     "RDMA writes may pass each other on PCI: 0 never, 1 and 2 where the library can"},
    {"NCCL_IB_QPS_PER_CONNECTION", Type::kInt, "1",
     "RDMA queue pairs per connection and port, 1 to 16, at most 16 in all"},
    {"NCCL_IB_RETRY_CNT", Type::kInt, "7",
     "number of retries of a lost RDMA packet before the peer counts as dead, 0 to 7"},
    {"NCCL_IB_SL", Type::kInt, "0", "service level of RDMA packets, 0 to 15"},
    {"NCCL_IB_TC", Type::kInt, "0", "traffic class of RoCE packets, 0 to 255"},
    {"NCCL_IB_TIMEOUT", Type::kInt, "20",
     "an RDMA packet counts as lost after 4.096 us * 2 to the power of this, 1 to 31; 0: never"},
    {"NCCL_LAUNCH_ORDER_IMPLICIT", Type::kBool, "0",
     "1: kernels of several communicators run on each GPU in the order of their calls, one by one; "
     "where set, overrides launchOrderImplicit of ncclConfig_t"},
    {"NCCL_MAX_CTAS", Type::kInt, "64", "where set, overrides maxCTAs of ncclConfig_t"},
    {"NCCL_MAX_NCHANNELS", Type::kInt, "64", "older name of NCCL_MAX_CTAS, which takes precedence"},
    {"NCCL_MIN_CTAS", Type::kInt, "1", "where set, overrides minCTAs of ncclConfig_t"},
    {"NCCL_MIN_NCHANNELS", Type::kInt, "1", "older name of NCCL_MIN_CTAS, which takes precedence"},
    {"NCCL_MNNVL_CLIQUE_ID", Type::kInt, "-1",
     "replaces the number of the clique of this rank's GPU in its NVLink fabric; -1: NVML's"},
    {"NCCL_MNNVL_ENABLE", Type::kInt, "2",
     "NVLink between hosts: 1 where all of an NVLink clique's ranks can map each other's memory "
     "(not run on hardware yet), 0 and 2 never"},
    {"NCCL_MNNVL_UUID", Type::kInt, "-1",
     "replaces the UUID of the NVLink fabric of this rank's GPU; -1: NVML's"},
    {"NCCL_NET", Type::kString, "",
     "network between hosts: IB (InfiniBand and RoCE; run only on soft-RoCE so far), Socket (TCP), "
     "UCX (its own variables UCX_TLS, UCX_NET_DEVICES apply), or a plugin's name "
     "(NCCL_NET_PLUGIN); if a rank lacks the named network, init fails on all ranks; unset: a "
     "plugin's, else IB where all ranks have an RDMA NIC"},
    {"NCCL_NET_GDR_LEVEL", Type::kString, "PXB",
     "largest distance between a NIC and a GPU whose memory it reads and writes (GPUDirect; not "
     "run on hardware yet): LOC (none), PIX, PXB, PHB, SYS"},
    {"NCCL_NET_GDR_READ", Type::kBool, "1",
     "0: NICs never read GPU memory: data that leaves a host passes through host memory"},
    {"NCCL_NET_PLUGIN", Type::kFile, "",
     "network plugin with NCCL's interface, versions 8 to 12: X for libnccl-net-X.so, a library's "
     "name or path, or none; unset: libnccl-net.so if it exists"},
    {"NCCL_NVLS_ENABLE", Type::kInt, "2",
     "multicast memory between GPUs of a host: 1 where possible, 0 never, 2 where NCCL_ALGO names "
     "nvls (unmeasured)"},
    {"NCCL_NVTX_DISABLE", Type::kBool, "0", "1: no NVTX ranges around calls"},
    {"NCCL_P2P_DISABLE", Type::kBool, "0", "1: GPUs never use each other's memory"},
    {"NCCL_P2P_LEVEL", Type::kString, "",
     "largest distance between GPUs that use each other's memory: LOC (none), NVL, PIX, PXB, PHB, "
     "SYS, by the paths of `rondo topo --matrix`"},
    {"NCCL_PROFILER_PLUGIN", Type::kFile, "",
     "profiler plugin with NCCL's interface, versions 1 to 6: X for libnccl-profiler-X.so, a "
     "library's name or path, STATIC_PLUGIN for the program itself, or none; unset, for ranks on "
     "GPUs: libnccl-profiler.so, else the network plugin's library if it is a profiler too"},
    {"NCCL_PROTO", Type::kString, "",
     "allowed protocols: simple,ll,ll128; ^ll excludes; allreduce:simple applies to one function"},
    {"NCCL_RAS_ADDR", Type::kString, "localhost:28028",
     "host:port at which processes answer status queries as NCCL's RAS service does; none: only "
     "rondo ps and ranks of other hosts get answers"},
    {"NCCL_RAS_ENABLE", Type::kBool, "1", "0: no status service: no thread and no socket for it"},
    {"NCCL_SHM_DISABLE", Type::kBool, "0", "1: never use shared memory between processes"},
    {"NCCL_SOCKET_FAMILY", Type::kString, "", "AF_INET or AF_INET6: only addresses of that family"},
    {"NCCL_SOCKET_IFNAME", Type::kString, "", "interfaces to use: prefixes; ^ excludes, = exact"},
    {"NCCL_SOCKET_NTHREADS", Type::kInt, "1",
     "times NCCL_NSOCKS_PERTHREAD: TCP sockets per connection; progress needs no thread"},
    {"NCCL_NSOCKS_PERTHREAD", Type::kInt, "1",
     "TCP sockets per connection between two hosts; more where a network limits a single stream"},
    {"NCCL_TESTS_MIN_BW", Type::kDouble, "0",
     "rondo bench fails below 90 % of this average bus bandwidth in GB/s; 0: no floor"},
    {"NCCL_TESTS_SPLIT", Type::kString, "",
     "rondo bench: groups of ranks, measured at once: AND, OR, MOD or DIV and a number"},
    {"NCCL_TESTS_SPLIT_MASK", Type::kString, "", "hexadecimal: NCCL_TESTS_SPLIT=AND this"},
    {"NCCL_TOPO_DUMP_FILE", Type::kFile, "",
     "write the host's GPUs, network ports and links to this file, in the format of "
     "NCCL_TOPO_FILE; for communicators on GPUs or of several hosts"},
    {"NCCL_TOPO_DUMP_FILE_RANK", Type::kInt, "0", "the rank that writes NCCL_TOPO_DUMP_FILE"},
    {"NCCL_TOPO_FILE", Type::kFile, "",
     "NCCL topology file or hwloc XML file of this host: its GPUs and ports override the detected "
     "ones; the file of a host's first rank is used"},
    {"NCCL_TUNER_PLUGIN", Type::kFile, "",
     "tuner plugin with NCCL's interface, versions 2 to 6, for ranks on GPUs: X for "
     "libnccl-tuner-X.so, a library's name or path, or none; unset: libnccl-tuner.so, else the "
     "network plugin's library if it is a tuner too"},
    {"RONDO_CMA", Type::kInt, "1",
     "private buffers that other processes of the host read (process_vm_readv): 0: none; 1: where "
     "the planner expects a gain; 2: in all calls that only copy. The smallest of all ranks "
     "counts"},
    {"RONDO_DEVICE", Type::kString, "",
     "host: bind ranks to host memory even where CUDA is available"},
    {"RONDO_EAGER_BYTES", Type::kBytes, "4194304",
     "messages with tags up to this size are sent without waiting for their receiver"},
    {"RONDO_GPU_RELAY", Type::kBytes, "0",
     "GPUs of several hosts: calls that move fewer bytes run on the hosts, not as kernels; the "
     "largest value of all ranks applies"},
    {"RONDO_GPU_STAGING", Type::kBytes, "67108864",
     "device memory per rank for calls between processes that share a GPU; rank 0's value applies"},
    {"RONDO_INIT_TIMEOUT", Type::kSeconds, "60", "seconds within which all ranks must join"},
    {"RONDO_JOB", Type::kString, "", "set by rondo run: the name of the job, equal on its ranks"},
    {"RONDO_METRICS", Type::kFile, "",
     "Prometheus metrics of the host's ranks: PORT of the loopback interface, HOST:PORT, or a FILE "
     "for node_exporter (%h host)"},
    {"RONDO_NET_TIMEOUT", Type::kSeconds, "20",
     "seconds after which a remote host that does not answer counts as dead"},
    {"RONDO_NT_STORES", Type::kString, "auto",
     "non-temporal stores, past the caches, of data that other ranks of the host read next: 0: "
     "none; 1: from 8 KiB on; auto: where their cores are far, as measured"},
    {"RONDO_NUDGE", Type::kBool, "1",
     "0: a rank that waits on a peer's core stays there; 1: it moves to a core that no peer uses"},
    {"RONDO_RECORD", Type::kString, "brief",
     "brief: ranks keep a record of their newest calls, which rondo trace reads, but small calls "
     "in quick succession have no times of their ends; 1: all have; 0: no record; RONDO_TRACE and "
     "RONDO_METRICS mean 1"},
    {"RONDO_REPRODUCIBLE", Type::kBool, "0",
     "1: results depend only on the number of ranks, to the bit"},
    {"RONDO_SECRET", Type::kSecret, "",
     "16 random characters or more, or @FILE of mode 0600: equal on all ranks; a process that "
     "knows only a unique id then cannot join"},
    {"RONDO_STATUS_DIR", Type::kFile, "",
     "folder of the user's status sockets, which rondo ps asks; unset: /tmp/rondo-UID"},
    {"RONDO_SYS_ROOT", Type::kString, "",
     "look for devices in /sys, /proc and /var below this folder (a simulated machine, for tests)"},
    {"RONDO_THREADS", Type::kInt, "0",
     "threads of a rank that share its large copies and sums in host memory; 1: only the caller's; "
     "0: the cores of its affinity mask and CPU quota, divided by the ranks that have the same; "
     "never more"},
    {"RONDO_TIMEOUT", Type::kSeconds, "600",
     "seconds without progress until a collective fails; on GPUs only where it is set"},
    {"RONDO_TOPO_SYNTHETIC", Type::kString, "",
     "replace the machine by an hwloc description: 'numa:2 core:4 pu:2'"},
    {"RONDO_TOPO_XML", Type::kFile, "",
     "hwloc XML file of this host: rondo topo shows it; where NCCL_TOPO_FILE is not set, its GPUs "
     "and ports override the detected ones; the file of a host's first rank is used"},
    {"RONDO_TRACE", Type::kFile, "",
     "folder into which each rank writes its newest 4096 calls: at a fault, at the signal of "
     "RONDO_TRACE_SIGNAL, and at its end; rondo trace reads it"},
    {"RONDO_TRACE_SIGNAL", Type::kString, "",
     "signal at which ranks write into RONDO_TRACE: HUP, USR1, USR2, QUIT, WINCH or IO"},
    {"RONDO_TUNE_FILE", Type::kFile, "",
     "file of costs that rondo tune has measured on this machine; algorithms are chosen by them"},
    {"RONDO_UNIX_UIDS", Type::kString, "",
     "user ids, separated by commas, whose processes may share memory with this user's"},
    {"RONDO_VERIFY", Type::kString, "0",
     "1/N: one collective in N, at random, is computed again in part and compared; a difference is "
     "an error that names call, element and ranks; the most frequent value of all ranks applies; "
     "1: every call; 0: none"},
    {"RONDO_VERSION_CODE", Type::kInt, "22809", "the version that ncclGetVersion reports"},
    {"RONDO_WATCH_DIR", Type::kFile, "",
     "of librondo-watch.so: a folder that all hosts of the job share, in which its processes find "
     "those of other hosts for rondo ps --hosts; without it, see RONDO_WATCH_PORT"},
    {"RONDO_WATCH_JOB", Type::kString, "",
     "of librondo-watch-mpi.so: a number for the job, equal on all its ranks; rondo watch --mpi "
     "draws it; unset: programs of MPI are not watched"},
    {"RONDO_WATCH_NEXT", Type::kFile, "",
     "of librondo-watch.so: another profiler plugin of NCCL that gets the events too, as "
     "NCCL_PROFILER_PLUGIN would name it"},
    {"RONDO_WATCH_PORT", Type::kInt, "28030",
     "of librondo-watch.so: the first of four ports of the host of NCCL_COMM_ID or MASTER_ADDR at "
     "which processes of other hosts find each other; 0: none"},
    {"RONDO_WATCH_RAS", Type::kString, "none",
     "of librondo-watch.so: HOST:PORT at which the job answers clients of NCCL's RAS service, as "
     "NCCL_RAS_ADDR of Rondo's own jobs; not NCCL's own port"},
    {"RONDO_WATCH_SECRET", Type::kSecret, "",
     "of librondo-watch.so: what those processes prove where RONDO_SECRET is not set; 16 "
     "characters or more; rondo watch draws it"},
};

consteval std::string_view help_of(std::string_view name) {
  for (const Variable& variable : kTable)
    if (variable.name == name) return variable.help;
  return {};
}
// A literal there, because pages are checked against the text of this file.
static_assert(help_of("NCCL_ALGO").find(": " RONDO_ALGORITHM_LIST ";") != std::string_view::npos,
              "NCCL_ALGO's help lists the algorithms of base/algorithm.h, in that order");

}  // namespace

std::span<const Variable> all() { return kTable; }

}  // namespace rondo::env
