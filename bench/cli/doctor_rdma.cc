// SPDX-License-Identifier: Apache-2.0
// rondo doctor on RDMA devices (InfiniBand, RoCE): what prevents ranks from using them.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "base/env.h"
#include "bench/cli/doctor_checks.h"
#include "topology/describe.h"
#include "transport/networks/open_network.h"
#include "transport/ucx/presence.h"
#include "transport/verbs/devices.h"
#include "transport/verbs/presence.h"

namespace rondo::cli {
namespace {

using Findings = std::vector<Finding>;
using verbs::Port;

constexpr const char* kRdmaSubject = "RDMA devices";

Finding on_port(const Port& port) {
  if (const auto reason = verbs::unusable(port); !reason.why.empty())
    return {Verdict::kWarning, kRdmaSubject, port.name() + " " + reason.why, reason.remedy};
  std::string text = verbs::list_ports({port});
  if (const auto gid = verbs::choose_gid(port, -1); gid.ok() && port.ethernet)
    text += fmt::format(", GID {} is {}", gid->index, gid->text());
  return {Verdict::kOk, kRdmaSubject, std::move(text), ""};
}

Finding on_locked_memory(std::uint64_t limit, bool wanted) {
  const std::string text = limit == RLIM_INFINITY ? "unlimited" : topology::bytes_text(limit);
  if (limit >= verbs::kLeastLocked) return {Verdict::kOk, "locked memory", text, ""};
  if (!wanted) return {Verdict::kOk, "locked memory", text + "; only RDMA would need more", ""};
  return {Verdict::kProblem, "locked memory",
          text + ": RDMA cannot register buffers (shared memory and TCP are not affected)",
          "ulimit -l unlimited, memlock in /etc/security/limits.conf, or docker run "
          "--ulimit memlock=-1"};
}

}  // namespace

Findings rdma_findings(const RdmaFacts& facts) {
  Findings findings;
  const bool any = !facts.ports.empty();
  findings.push_back(on_locked_memory(facts.locked_limit, any));
  if (!any) {
    findings.push_back({Verdict::kOk, kRdmaSubject, "none", ""});
    return findings;
  }
  for (const Port& port : facts.ports) findings.push_back(on_port(port));
  if (!facts.offered.ok()) {
    findings.push_back({Verdict::kProblem, kRdmaSubject,
                        "cannot be used: " + facts.offered.error().text,
                        "without it, ranks on several hosts use TCP"});
    return findings;
  }
  std::string last;
  for (const Port& port : facts.ports) {
    const auto& names = facts.offered.value();
    if (port.device == std::exchange(last, port.device)) continue;
    if (std::find(names.begin(), names.end(), port.device) != names.end()) continue;
    findings.push_back(
        {Verdict::kProblem, kRdmaSubject,
         fmt::format("the kernel has {}, but libibverbs does not offer it", port.device),
         "install its provider (ibverbs-providers), and check that /dev/infiniband exists (docker "
         "run --device /dev/infiniband)"});
  }
  return findings;
}

Findings check_rdma(const ExamineOptions& options) {
  RdmaFacts facts;
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  facts.locked_limit = limit.rlim_cur;
  facts.ports = verbs::read_ports(options.root);
  if (!facts.ports.empty()) facts.offered = verbs::offered_devices();
  Findings findings = rdma_findings(facts);
  for (Finding& finding : ucx_findings(env::get_string("NCCL_NET"), ucx::library_version()))
    findings.push_back(std::move(finding));
  if (facts.ports.empty()) return findings;
  if (env::get_bool("NCCL_IB_DISABLE")) {
    findings.push_back({Verdict::kOk, kRdmaSubject, "none used: NCCL_IB_DISABLE=1", ""});
    return findings;
  }
  const auto wanted = verbs::Options::from_environment();
  const auto chosen = wanted.ok() ? verbs::choose_ports(facts.ports, wanted->hca)
                                  : Result<std::vector<Port>>(wanted.error());
  if (!chosen.ok())
    findings.push_back({Verdict::kProblem, kRdmaSubject, chosen.error().text,
                        "`rondo env` lists the variables NCCL_IB_* that have an effect"});
  return findings;
}

Findings ucx_findings(std::string_view asked, const Result<std::string>& version) {
  if (version.ok()) return {{Verdict::kOk, "UCX", *version + ", used with NCCL_NET=UCX", ""}};
  if (!same_network(asked, "UCX")) return {{Verdict::kOk, "UCX", "none, not needed", ""}};
  return {{Verdict::kProblem, "UCX",
           "NCCL_NET selects it, but it cannot be used: " + version.error().text,
           "or unset NCCL_NET"}};
}

}  // namespace rondo::cli
