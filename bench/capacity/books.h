// The same book behind a mutex and behind a reader-writer lock, as somebody would write it who takes locks: room is
// changed in place, nothing is copied, and the search is the very same.
//
// Threading: safe for concurrent use.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "book_editor.h"
#include "muster/gang/machine_book.h"

namespace muster::bench {

// One state that is changed in place; needs external synchronisation.
class PlainRoom {
 public:
  explicit PlainRoom(const gang::BookSnapshot& book) : book_(book) {
    book_.spine = {};
    for (const gang::Chunk* chunk : book.spine) {
      blocks_.push_back(std::make_unique<gang::MachineBlock>(*chunk->block));
      chunks_.push_back(std::make_unique<gang::Chunk>(*chunk));
      chunks_.back()->block = blocks_.back().get();
      spine_.Append(chunks_.back().get(), &book_.spine);
    }
    book_.outcomes.clear();
  }

  const gang::BookSnapshot& book() const { return book_; }

  bool Fits(const gang::GangPlacement& placement) const {
    for (const gang::PodSetPlaces& pod_set : placement) {
      for (const gang::MachinePlace& place : pod_set.places) {
        for (const gang::Need& need : pod_set.per_pod) {
          const int64_t room = book_.Room(gang::Book::kBoth, place.machine, need.resource);
          if (room < need.amount * place.pods) return false;
        }
      }
    }
    return true;
  }

  // sign: 1 takes, -1 gives back.
  void Book(const gang::GangPlacement& placement, int64_t sign) {
    for (const gang::PodSetPlaces& pod_set : placement) {
      std::optional<gang::ChunkRoom> room;  // of the chunk of the place before
      for (const gang::MachinePlace& place : pod_set.places) {
        gang::Chunk* chunk = chunks_[place.machine.value / gang::kChunkMachines].get();
        if (!room.has_value() || room->chunk() != chunk) {
          if (room.has_value()) gang::Summarize(room->chunk());
          room.emplace(chunk);
        }
        for (const gang::Need& need : pod_set.per_pod) {
          const int64_t amount = -sign * need.amount * place.pods;
          room->Add(place.machine.value % gang::kChunkMachines, need.resource.value, amount, amount);
          book_.totals[need.resource.value].free += amount;
          book_.totals[need.resource.value].planned += amount;
        }
      }
      if (room.has_value()) gang::Summarize(room->chunk());
    }
    ++book_.version;
  }

 private:
  gang::BookSnapshot book_;
  gang::OwnSpine spine_;
  std::vector<std::unique_ptr<gang::Chunk>> chunks_;
  std::vector<std::unique_ptr<gang::MachineBlock>> blocks_;
};

// What the workload asks of a book. Each thread has a user of its own.
class LockFreeBook {
 public:
  explicit LockFreeBook(gang::MachineBook* book) : book_(book) {}

  class User {
   public:
    explicit User(LockFreeBook* book) : user_(book->book_) {}
    bool Place(const gang::GangRequest& request, gang::Claim* claim) { return user_.Place(request, claim).done(); }
    void Release(gang::Claim* claim) { user_.Release(claim); }
    template <typename F>
    void Read(F look) {
      look(user_.Read());
      user_.EndRead();
    }
    uint64_t lost_races() const { return user_.counts().lost_races; }

   private:
    gang::MachineBook::User user_;
  };

 private:
  gang::MachineBook* book_;
};

class MutexBook {
 public:
  explicit MutexBook(const gang::BookSnapshot& book) : room_(book) {}

  class User {
   public:
    explicit User(MutexBook* book) : book_(book) {}
    bool Place(const gang::GangRequest& request, gang::Claim* claim) {
      const std::lock_guard lock(book_->mutex_);
      gang::SearchResult found = gang::Search(book_->room_.book(), request);
      if (found.verdict != gang::SearchResult::Verdict::kFits) return false;
      book_->room_.Book(found.placement, 1);
      claim->placement = std::move(found.placement);
      return true;
    }
    void Release(gang::Claim* claim) {
      const std::lock_guard lock(book_->mutex_);
      book_->room_.Book(claim->placement, -1);
    }
    template <typename F>
    void Read(F look) {
      const std::lock_guard lock(book_->mutex_);
      look(book_->room_.book());
    }
    uint64_t lost_races() const { return 0; }

   private:
    MutexBook* book_;
  };

 private:
  std::mutex mutex_;
  PlainRoom room_;
};

// Searches under the shared lock; if somebody has taken the place before the exclusive one is there, it searches again.
class SharedMutexBook {
 public:
  explicit SharedMutexBook(const gang::BookSnapshot& book) : room_(book) {}

  class User {
   public:
    explicit User(SharedMutexBook* book) : book_(book) {}
    bool Place(const gang::GangRequest& request, gang::Claim* claim) {
      while (true) {  // until nobody was faster
        gang::SearchResult found;
        {
          const std::shared_lock lock(book_->mutex_);
          found = gang::Search(book_->room_.book(), request);
        }
        if (found.verdict != gang::SearchResult::Verdict::kFits) return false;
        const std::unique_lock lock(book_->mutex_);
        if (!book_->room_.Fits(found.placement)) {
          ++lost_races_;
          continue;
        }
        book_->room_.Book(found.placement, 1);
        claim->placement = std::move(found.placement);
        return true;
      }
    }
    void Release(gang::Claim* claim) {
      const std::unique_lock lock(book_->mutex_);
      book_->room_.Book(claim->placement, -1);
    }
    template <typename F>
    void Read(F look) {
      const std::shared_lock lock(book_->mutex_);
      look(book_->room_.book());
    }
    uint64_t lost_races() const { return lost_races_; }

   private:
    SharedMutexBook* book_;
    uint64_t lost_races_ = 0;
  };

 private:
  std::shared_mutex mutex_;
  PlainRoom room_;
};

}  // namespace muster::bench
