#include "transport/verbs/ibverbs/read_back.h"

namespace rondo::verbs {

Result<std::unique_ptr<ReadBack>> ReadBack::make(Adapter& adapter) {
  std::unique_ptr<ReadBack> made(new ReadBack(adapter));
  RONDO_TRY(made->into_, adapter.pool().take(1));
  RONDO_TRY(made->pair_,
            QueuePair::create(adapter.device(),
                              {.sends = static_cast<int>(kMax), .receives = 1, .is_read = true}));
  RONDO_TRY(made->slot_, adapter.add_pair(*made, 0));
  RONDO_CHECK_OK(made->pair_->connect(made->pair_->endpoint()));
  return made;
}

ReadBack::~ReadBack() {
  if (slot_) adapter_.remove_pair(*slot_);
  pair_.reset();
  if (!into_.bytes.empty()) adapter_.pool().give_back(into_);
}

std::optional<std::uint64_t> ReadBack::begin(std::uint64_t address, std::uint32_t key) {
  if (begun_ - over_ == kMax || !trouble_.empty()) return std::nullopt;
  const Status posted = pair_->post_read({.into = into_.bytes,
                                          .local_key = into_.local_key,
                                          .from = address,
                                          .remote_key = key,
                                          .id = Posted{*slot_, Posted::Kind::kControl}.id()});
  if (posted.ok()) return begun_++;
  trouble_ = posted.error().text;
  return std::nullopt;
}

void ReadBack::completed(int, const Posted&, const ibv_wc& completion) {
  if (completion.status == IBV_WC_SUCCESS) {
    ++over_;
  } else if (trouble_.empty()) {
    trouble_ = pair_->failure_of(completion).text;
  }
}

}  // namespace rondo::verbs
