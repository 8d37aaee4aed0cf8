#include "kernels/check/tracked_memory.h"

#include <fmt/format.h>

namespace rondo::check {

void TrackedMemory::report(const char* verb, std::uint64_t at, int thread, const char* earlier,
                           Stamp by) {
  witness_->verdict.report(
      fmt::format("{} {} element {} of {}, and no signal orders it after {} {}",
                  witness_->names[thread], verb, at, name_, witness_->names[by.thread], earlier));
}

void TrackedMemory::add_reader(Cell& cell, Stamp reader) {
  if (cell.reader.time == 0 || cell.reader.thread == reader.thread) {
    cell.reader = reader;
    return;
  }
  if (cell.more == 0) {
    if (free_readers_.empty()) {
      readers_.emplace_back();
      free_readers_.push_back(static_cast<std::uint32_t>(readers_.size()));
    }
    cell.more = free_readers_.back();
    free_readers_.pop_back();
    readers_[cell.more - 1].clear();
  }
  auto& others = readers_[cell.more - 1];
  for (Stamp& other : others) {
    if (other.thread != reader.thread) continue;
    other = reader;
    return;
  }
  others.push_back(reader);
}

bool TrackedMemory::inside(std::uint64_t at, int thread) {
  if (at < cells_.size()) return true;
  witness_->verdict.report(fmt::format("{} touches element {} of {}, which has {}",
                                       witness_->names[thread], at, name_, cells_.size()));
  return false;
}

Expr TrackedMemory::read(std::uint64_t at, int thread) {
  if (!inside(at, thread)) return kNothing;
  Cell& cell = cells_[at];
  const Clocks& clocks = witness_->clocks;
  if (!clocks.before(cell.writer, thread)) report("reads", at, thread, "writing it", cell.writer);
  if (cell.value == kNothing)
    witness_->verdict.report(fmt::format("{} reads element {} of {}, which nobody has written",
                                         witness_->names[thread], at, name_));
  add_reader(cell, clocks.now(thread));
  return cell.value;
}

void TrackedMemory::write(std::uint64_t at, int thread, Expr value) {
  if (!inside(at, thread)) return;
  Cell& cell = cells_[at];
  const Clocks& clocks = witness_->clocks;
  if (!clocks.before(cell.writer, thread))
    report("overwrites", at, thread, "writing it", cell.writer);
  if (!clocks.before(cell.reader, thread))
    report("overwrites", at, thread, "reading it", cell.reader);
  if (cell.more != 0) {
    for (const Stamp& reader : readers_[cell.more - 1])
      if (!clocks.before(reader, thread)) report("overwrites", at, thread, "reading it", reader);
    free_readers_.push_back(cell.more);
  }
  cell = {value, clocks.now(thread), {}, 0};
}

}  // namespace rondo::check
