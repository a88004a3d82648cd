// Threads that do ahead of its turn what a search will ask for (speculative execution). A search
// that takes one step after another tells its workers what the next steps will probably need, best
// first, and takes each piece when its turn comes: done by then, or else done there and then.
// Pieces are functions of what they were given, so the search comes to the same with any number of
// workers, and with none. What was done for a step that never comes is lost.
//
// Workers stay for as long as the search does, since threads remember bound instances
// (ops/instance_cache.cc).
//
// Tests: workers_test.cc.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace lowtide {

class Workers {
 public:
  // A piece of work, done once, by whoever comes first.
  class Piece {
   public:
    Piece() = default;
    Piece(const Piece&) = delete;
    Piece& operator=(const Piece&) = delete;
    virtual ~Piece() = default;
    // False: somebody has begun it.
    bool begin();
    bool has_begun() const { return has_begun_; }
    bool is_done() const { return is_done_; }
    void wait() const { is_done_.wait(false); }

   private:
    virtual void work() = 0;
    std::atomic<bool> has_begun_ = false, is_done_ = false;
  };
  using Pieces = std::vector<std::shared_ptr<Piece>>;

  explicit Workers(int threads);  // with the calling one
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();  // when what they do is done

  size_t count() const { return threads_.size(); }
  // What they do next, in this order, instead of what they were told before.
  void turn_to(Pieces pieces);
  // Until the piece is done; if nobody has begun it, here. Meanwhile what is next.
  void finish(Piece& piece);

 private:
  void help();
  std::shared_ptr<Piece> next();  // null: there is none

  std::mutex mutex_;
  std::condition_variable has_pieces_;
  Pieces pieces_;      // the next one last
  bool ends_ = false;  // likewise guarded
  std::vector<std::thread> threads_;
};

// What a piece of work comes to.
template <class T>
class Ahead {
 public:
  Ahead() = default;  // none
  explicit Ahead(std::function<T()> work) : piece_(std::make_shared<Work>(std::move(work))) {}

  explicit operator bool() const { return piece_ != nullptr; }
  std::shared_ptr<Workers::Piece> piece() const { return piece_; }

  // Of one that there is; there is none afterwards.
  T take(Workers& workers) {
    const std::shared_ptr<Work> done = std::move(piece_);
    workers.finish(*done);
    return std::move(*done->result);
  }

 private:
  struct Work final : Workers::Piece {
    explicit Work(std::function<T()> work) : how(std::move(work)) {}
    std::function<T()> how;
    std::optional<T> result;

   private:
    void work() override {
      result.emplace(how());
      how = {};
    }
  };
  std::shared_ptr<Work> piece_;
};

}  // namespace lowtide
