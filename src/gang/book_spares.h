// Objects of the book that nobody can be reading any more, kept by a user to make the next version of, so that a commit
// allocates nothing.
//
// Threading: used by one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <tuple>
#include <vector>

#include "muster/core/epoch.h"
#include "muster/gang/book_snapshot.h"

namespace muster::gang {

class BookSpares {
 public:
  // Keeps so many of each kind at most.
  explicit BookSpares(size_t most) : most_(most) {}

  // RETURNS: a copy, the caller's.
  template <typename T>
  T* Copy(const T& from) {
    auto& spares = std::get<Pile<T>>(piles_);
    if (spares.empty()) return new T(from);
    T* object = spares.back().release();
    spares.pop_back();
    *object = from;
    return object;
  }

  // RETURNS: whether it is kept; if not, it is still the caller's.
  bool Keep(const Garbage& garbage) {
    return KeepAs<Chunk>(garbage) || KeepAs<SpineSegment>(garbage) || KeepAs<BookSnapshot>(garbage);
  }

 private:
  template <typename T>
  using Pile = std::vector<std::unique_ptr<T>>;

  template <typename T>
  bool KeepAs(const Garbage& garbage) {
    auto& spares = std::get<Pile<T>>(piles_);
    if (garbage.destroy != &DestroyGarbage<T> || spares.size() >= most_) return false;
    spares.emplace_back(static_cast<T*>(garbage.object));
    return true;
  }

  const size_t most_;
  std::tuple<Pile<Chunk>, Pile<SpineSegment>, Pile<BookSnapshot>> piles_;
};

}  // namespace muster::gang
