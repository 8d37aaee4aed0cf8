#include "collectives/gpu/composition.h"

#include <algorithm>
#include <cctype>

namespace rondo::gpu {
namespace {

using By = ComposedStep::By;
using Buffer = ComposedStep::Buffer;
using BufferOffset = ComposedStep::BufferOffset;

BufferOffset operator+(BufferOffset place, std::uint64_t bytes) {
  return {place.buffer, place.offset + bytes};
}

class Composer {
 public:
  Composer(const CallRecord& record, const GpuGroups& groups, int rank, std::uint64_t spare_bytes)
      : record_(record),
        groups_(groups),
        rank_(rank),
        gpu_(groups.gpu_of[static_cast<std::size_t>(rank)]),
        index_(groups.index_of[static_cast<std::size_t>(rank)]),
        own_(groups.members[static_cast<std::size_t>(gpu_)]),
        ranks_(static_cast<std::uint64_t>(groups.ranks())),
        gpus_(static_cast<std::uint64_t>(groups.gpus())),
        width_(size_of(record.type)),
        spare_bytes_(spare_bytes) {}

  std::vector<ComposedStep> run() {
    switch (record_.collective) {
      case Collective::kAllReduce:
        all_reduce();
        break;
      case Collective::kReduce:
        reduce();
        break;
      case Collective::kBroadcast:
        broadcast();
        break;
      case Collective::kAllGather:
        all_gather();
        break;
      default:
        reduce_scatter();
    }
    return std::move(steps_);
  }

 private:
  static constexpr BufferOffset kSend{Buffer::kSend, 0}, kReceive{Buffer::kReceive, 0},
      kSpare{Buffer::kSpare, 0}, kNone{};

  bool leads() const { return index_ == 0; }
  bool alone() const { return own_.size() == 1; }
  bool averages() const { return record_.op == RedOp::kAvg; }
  bool scales() const { return record_.op == RedOp::kPreMulSum; }
  // Among a GPU's ranks; factors are applied there, averages are finished at the end.
  RedOp first_op() const { return averages() ? RedOp::kSum : record_.op; }
  RedOp second_op() const { return averages() || scales() ? RedOp::kSum : record_.op; }

  CallRecord part(Collective which, std::uint64_t count, RedOp op = RedOp::kSum,
                  int root = -1) const {
    return {count, which, record_.type, op, 0, root};
  }
  void add(bool takes_part, By by, const CallRecord& record, BufferOffset send,
           BufferOffset receive) {
    ComposedStep step;
    if (takes_part) {
      step.by = by;
      step.record = record;
      step.send = send;
      step.receive = receive;
      step.scaled = record.op == RedOp::kPreMulSum;
    }
    steps_.push_back(step);
  }
  void add_average(std::uint64_t count, BufferOffset place) {
    if (averages())
      add(leads(), By::kAverage, part(Collective::kAllReduce, count, RedOp::kAvg), place, place);
  }
  void spread(bool takes_part, std::uint64_t count) {
    add(takes_part && !alone(), By::kGpu, part(Collective::kBroadcast, count, RedOp::kSum, 0),
        kReceive, kReceive);
  }

  void all_reduce() {
    const bool as_it_is = alone() && !scales();
    add(!as_it_is, By::kGpu, part(Collective::kReduce, record_.count, first_op(), 0), kSend,
        kReceive);
    add(leads(), By::kLeaders, part(Collective::kAllReduce, record_.count, second_op()),
        as_it_is ? kSend : kReceive, kReceive);
    add_average(record_.count, kReceive);
    spread(true, record_.count);
  }

  void reduce() {
    const auto root = static_cast<std::size_t>(record_.root);
    const int root_gpu = groups_.gpu_of[root], root_index = groups_.index_of[root];
    const bool as_it_is = alone() && !scales();
    const std::uint64_t most = std::max<std::uint64_t>(spare_bytes_ / width_, 1);
    for (std::uint64_t from = 0; from == 0 || from < record_.count; from += most) {
      const std::uint64_t count = std::min(most, record_.count - from), at = from * width_;
      const BufferOffset sum = rank_ == record_.root ? kReceive + at : kSpare;
      add(!as_it_is, By::kGpu, part(Collective::kReduce, count, first_op(), 0), kSend + at, sum);
      add(leads(), By::kLeaders, part(Collective::kReduce, count, second_op(), root_gpu),
          as_it_is ? kSend + at : sum, sum);
      if (averages())
        add(leads() && gpu_ == root_gpu, By::kAverage,
            part(Collective::kAllReduce, count, RedOp::kAvg), sum, sum);
      if (root_index != 0) pass_to_root(count, at, root_gpu, root_index);
    }
  }
  void pass_to_root(std::uint64_t count, std::uint64_t at, int root_gpu, int root_index) {
    const bool receives = rank_ == record_.root;
    add(receives || (leads() && gpu_ == root_gpu), By::kGpu,
        part(receives ? Collective::kRecv : Collective::kSend, count), kSpare, kReceive + at);
    steps_.back().peer = receives ? 0 : root_index;
  }

  void broadcast() {
    const auto root = static_cast<std::size_t>(record_.root);
    const int root_gpu = groups_.gpu_of[root], root_index = groups_.index_of[root];
    const bool root_leads = root_index == 0;
    if (!root_leads)
      add(gpu_ == root_gpu, By::kGpu,
          part(Collective::kBroadcast, record_.count, RedOp::kSum, root_index), kSend, kReceive);
    add(leads(), By::kLeaders, part(Collective::kBroadcast, record_.count, RedOp::kSum, root_gpu),
        rank_ == record_.root ? kSend : kReceive, kReceive);
    spread(root_leads || gpu_ != root_gpu, record_.count);
  }

  void all_gather() {
    const std::uint64_t block = record_.count * width_;
    if (groups_.adjacent) {
      add(true, By::kGpu, part(Collective::kAllGather, record_.count), kSend,
          kReceive + static_cast<std::uint64_t>(own_.front()) * block);
    } else {
      for (std::size_t k = 0; k < max_members(); ++k) {
        const bool is_there = k < own_.size();
        const auto from = static_cast<std::uint64_t>(is_there ? own_[k] : 0);
        add(is_there, By::kGpu,
            part(Collective::kBroadcast, record_.count, RedOp::kSum, static_cast<int>(k)), kSend,
            kReceive + from * block);
      }
    }
    const auto mine = static_cast<std::uint64_t>(gpu_);
    if (groups_.blocks) {
      const std::uint64_t all = record_.count * own_.size();
      add(leads(), By::kLeaders, part(Collective::kAllGather, all), kReceive + mine * all * width_,
          kReceive);
    } else if (groups_.in_turns) {
      for (std::uint64_t k = 0; k < own_.size(); ++k)
        add(leads(), By::kLeaders, part(Collective::kAllGather, record_.count),
            kReceive + (k * gpus_ + mine) * block, kReceive + k * gpus_ * block);
    } else {
      for (std::uint64_t r = 0; r < ranks_; ++r)
        add(leads(), By::kLeaders,
            part(Collective::kBroadcast, record_.count, RedOp::kSum, groups_.gpu_of[r]),
            kReceive + r * block, kReceive + r * block);
    }
    spread(true, record_.count * ranks_);
  }

  void reduce_scatter() {
    // Spare memory holds a piece of every rank's block, and behind them what this GPU's ranks get.
    const std::uint64_t fits = std::max<std::uint64_t>(spare_bytes_ / (2 * ranks_ * width_), 1);
    for (std::uint64_t from = 0; from == 0 || from < record_.count; from += fits) {
      const std::uint64_t count = std::min(fits, record_.count - from), bytes = count * width_;
      const BufferOffset result = kSpare + ranks_ * bytes;
      const auto reduced = [&](std::uint64_t many) {
        return part(Collective::kReduce, many, first_op(), 0);
      };
      if (count == record_.count) {
        add(true, By::kGpu, reduced(ranks_ * count), kSend, kSpare);
      } else {
        for (std::uint64_t r = 0; r < ranks_; ++r)
          add(true, By::kGpu, reduced(count), kSend + (r * record_.count + from) * width_,
              kSpare + r * bytes);
      }
      scatter_among_leaders(count, result);
      add_average(count * own_.size(), result);
      add(true, By::kGpu, part(Collective::kScatter, count, RedOp::kSum, 0), result,
          kReceive + from * width_);
    }
  }
  void scatter_among_leaders(std::uint64_t count, BufferOffset result) {
    const std::uint64_t bytes = count * width_;
    if (groups_.blocks) {
      add(leads(), By::kLeaders, part(Collective::kReduceScatter, count * own_.size(), second_op()),
          kSpare, result);
    } else if (groups_.in_turns) {
      for (std::uint64_t k = 0; k < own_.size(); ++k)
        add(leads(), By::kLeaders, part(Collective::kReduceScatter, count, second_op()),
            kSpare + k * gpus_ * bytes, result + k * bytes);
    } else {
      for (std::uint64_t r = 0; r < ranks_; ++r) {
        const int gpu = groups_.gpu_of[r];
        const auto place = static_cast<std::uint64_t>(groups_.index_of[r]);
        add(leads(), By::kLeaders, part(Collective::kReduce, count, second_op(), gpu),
            kSpare + r * bytes, gpu == gpu_ ? result + place * bytes : kNone);
      }
    }
  }

  std::size_t max_members() const {
    std::size_t most = 0;
    for (const auto& members : groups_.members) most = std::max(most, members.size());
    return most;
  }

  const CallRecord& record_;
  const GpuGroups& groups_;
  const int rank_, gpu_, index_;
  const std::vector<int>& own_;
  const std::uint64_t ranks_, gpus_, width_, spare_bytes_;
  std::vector<ComposedStep> steps_;
};

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

}  // namespace

GpuGroups::GpuGroups(std::span<const int> of) : gpu_of(of.begin(), of.end()) {
  for (int r = 0; r < ranks(); ++r) {
    const auto gpu = static_cast<std::size_t>(of[static_cast<std::size_t>(r)]);
    if (gpu >= members.size()) members.resize(gpu + 1);
    index_of.push_back(static_cast<int>(members[gpu].size()));
    members[gpu].push_back(r);
  }
  adjacent = std::all_of(members.begin(), members.end(), [](const auto& own) {
    return own.back() - own.front() + 1 == static_cast<int>(own.size());
  });
  const bool even = std::all_of(members.begin(), members.end(), [&](const auto& own) {
    return own.size() == members.front().size();
  });
  blocks = adjacent && even;
  in_turns = even;
  for (int r = 0; r < ranks(); ++r) in_turns = in_turns && gpu_of[r] == r % gpus();
}

std::vector<int> GpuGroups::leaders() const {
  std::vector<int> first;
  for (const auto& own : members) first.push_back(own.front());
  return first;
}

bool is_composed(Collective which) {
  return which >= Collective::kAllReduce && which <= Collective::kReduceScatter;
}

std::vector<ComposedStep> compose(const CallRecord& record, const GpuGroups& groups, int rank,
                                  std::uint64_t spare_bytes) {
  return Composer(record, groups, rank, spare_bytes).run();
}

std::string renumbered(std::string_view text, std::span<const int> members) {
  constexpr std::string_view kOne = "rank ", kSeveral = "ranks ";
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = at == 0 || std::isalnum(static_cast<unsigned char>(text[at - 1])) == 0;
    const bool several = begins && text.substr(at).starts_with(kSeveral);
    if (!several && !(begins && text.substr(at).starts_with(kOne))) {
      result += text[at++];
      continue;
    }
    const std::string_view word = several ? kSeveral : kOne;
    result += word;
    at += word.size();
    while (at < text.size() && is_digit(text[at])) {
      std::size_t number = 0, end = at;
      for (; end < text.size() && is_digit(text[end]); ++end)
        number = number * 10 + static_cast<std::size_t>(text[end] - '0');
      result += number < members.size() ? std::to_string(members[number])
                                        : std::string(text.substr(at, end - at));
      at = end;
      const bool goes_on = several && text.substr(at).starts_with(", ") && at + 2 < text.size() &&
                           is_digit(text[at + 2]);
      if (!goes_on) break;
      result += ", ";
      at += 2;
    }
  }
  return result;
}

}  // namespace rondo::gpu
