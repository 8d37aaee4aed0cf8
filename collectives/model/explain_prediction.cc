#include "collectives/model/explain_prediction.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "collectives/planner/explain.h"

namespace rondo::model {
namespace {

struct Predicted {
  Way way;
  Prediction prediction;
};

std::string text_of(const Way& way) {
  return fmt::format("{} by {}", way.name, gpu::name(way.plan.protocol));
}

const Way* chosen_of(const std::vector<Way>& ways) {
  const auto at = std::find_if(ways.begin(), ways.end(), [](const Way& way) { return way.chosen; });
  return at == ways.end() ? nullptr : &*at;
}

// The next size, by factors of two, at which another way is chosen.
ExplainRow change_of(const GpuCluster& cluster, const CallRecord& record, const Wishes& wishes,
                     const Way& now) {
  constexpr int kFactors = 24;
  CallRecord other = record;
  for (int k = 0; k < kFactors; ++k) {
    other.count *= 2;
    const std::vector<Way> ways = ways_of(cluster, other, wishes);
    const Way* const way = chosen_of(ways);
    if (way == nullptr) break;
    if (way->name == now.name && way->plan.protocol == now.plan.protocol) continue;
    return {"changes at", bytes_text(other.count * size_of(other.type)), text_of(*way)};
  }
  return {"changes at", "no larger size", ""};
}

ExplainRow bound_of(const GpuCluster& cluster, double bus_gbs) {
  const double bound = cluster.channels().bound_gbs;
  return {"bound", fmt::format("{:.1f} GB/s", bound),
          fmt::format("upper limit of rings by the links' bandwidth; this is {:.0f} % of it",
                      100 * bus_gbs / bound)};
}

}  // namespace

Result<std::vector<ExplainRow>> explain_prediction(const GpuCluster& cluster,
                                                   const CallRecord& record, BusBytes bytes,
                                                   const Wishes& wishes) {
  std::vector<Predicted> all;
  for (const Way& way : ways_of(cluster, record, wishes)) {
    RONDO_TRY(Prediction prediction, predict(cluster, record, way));
    all.push_back({way, std::move(prediction)});
  }
  const auto is_chosen = [](const Predicted& one) { return one.way.chosen; };
  const auto chosen = std::find_if(all.begin(), all.end(), is_chosen);
  std::vector<ExplainRow> rows;
  if (chosen == all.end()) {
    rows.push_back({"predicted", "nothing", "the chosen algorithm is not simulated"});
    return rows;
  }
  const double bus_gbs = bytes.moved * bytes.factor / chosen->prediction.us / 1000;
  rows.push_back({"predicted", fmt::format("{:.1f} us", chosen->prediction.us),
                  fmt::format("{:.1f} GB/s of bus bandwidth; from assumed costs "
                              "(collectives/planner/device_costs.h), not measured",
                              bus_gbs)});
  if (!chosen->prediction.busiest.empty())
    rows.push_back({"busiest wire", chosen->prediction.busiest,
                    fmt::format("{:.0f} % of the time", 100 * chosen->prediction.busiest_share)});
  rows.push_back(bound_of(cluster, bus_gbs));
  if (cluster.is_tray())
    rows.push_back(
        {"host", "one tray of the rack",
         "other trays are reached through network ports: NVLink between hosts is not used"});
  const Predicted* other = nullptr;
  for (const Predicted& one : all)
    if (!one.way.chosen && (other == nullptr || one.prediction.us < other->prediction.us))
      other = &one;
  if (other != nullptr)
    rows.push_back({"next best", text_of(other->way),
                    fmt::format("{:.1f} us{}", other->prediction.us,
                                other->prediction.us < chosen->prediction.us
                                    ? ": by this model faster than the chosen algorithm"
                                    : "")});
  rows.push_back(change_of(cluster, record, wishes, chosen->way));
  return rows;
}

}  // namespace rondo::model
