#include "base/workers.h"

#include <algorithm>

namespace lowtide {

bool Workers::Piece::begin() {
  if (has_begun_.exchange(true)) return false;
  work();
  is_done_ = true;
  is_done_.notify_all();
  return true;
}

Workers::Workers(int threads) {
  for (int k = 1; k < threads; ++k) threads_.emplace_back([this] { help(); });
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    pieces_.clear();
    ends_ = true;
  }
  has_pieces_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Workers::turn_to(Pieces pieces) {
  if (threads_.empty()) return;
  std::reverse(pieces.begin(), pieces.end());
  {
    const std::lock_guard lock(mutex_);
    pieces_.swap(pieces);
  }
  has_pieces_.notify_all();
}

void Workers::finish(Piece& piece) {
  if (piece.begin()) return;
  while (!piece.is_done()) {
    if (const std::shared_ptr<Piece> other = next())
      other->begin();
    else
      piece.wait();
  }
}

std::shared_ptr<Workers::Piece> Workers::next() {
  const std::lock_guard lock(mutex_);
  if (pieces_.empty()) return nullptr;
  std::shared_ptr<Piece> piece = std::move(pieces_.back());
  pieces_.pop_back();
  return piece;
}

void Workers::help() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      has_pieces_.wait(lock, [this] { return ends_ || !pieces_.empty(); });
      if (ends_) return;
    }
    if (const std::shared_ptr<Piece> piece = next()) piece->begin();
  }
}

}  // namespace lowtide
