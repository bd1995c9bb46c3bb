// An executor for tests: real threads that run an operation together, as the threads of a GPU's block do.
//
// Every thread goes through the whole operation; primitives are where they wait for each other. A word that one lane
// writes while another reads it, without a primitive between, is what a race detector finds here.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "lanes.h"

namespace kvproof {

/// What the threads of one program share.
class ThreadTeam {
 public:
  explicit ThreadTeam(int size, int64_t places) : size_(size), counts_(static_cast<size_t>(size)) {
    claims_.assign(static_cast<size_t>(places), kUnclaimed);
  }

  int size() const { return size_; }

  /// Go on when all threads are here.
  void wait() {
    const unsigned turn = turn_.load(std::memory_order_acquire);
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.store(turn + 1, std::memory_order_release);
      return;
    }
    while (turn_.load(std::memory_order_acquire) == turn) std::this_thread::yield();
  }

  int32_t* claim(int place) { return &claims_[static_cast<size_t>(place)]; }
  int& count(int lane) { return counts_[static_cast<size_t>(lane)]; }
  std::atomic<int> vote{0};

 private:
  int size_;
  std::atomic<int> arrived_{0};
  std::atomic<unsigned> turn_{0};
  std::vector<int> counts_;
  std::vector<int32_t> claims_;
};

struct ThreadLanes {
  static constexpr bool kIsSerial = false;
  static constexpr int kThreads = 4;

  ThreadTeam* team;
  int lane;

  static constexpr int width() { return kThreads; }

  template <class F>
  void each(int n, F f) const {
    for (int i = lane; i < n; i += width()) f(i);
    team->wait();
  }

  template <class F>
  void one(F f) const {
    team->wait();
    if (lane == 0) f();
    team->wait();
  }

  template <class P>
  int first(int n, P p) const {
    int found = n;
    for (int i = lane; i < n && found == n; i += width())
      if (p(i)) found = i;
    team->count(lane) = found;
    team->wait();
    for (int other = 0; other < width(); other++)
      if (team->count(other) < found) found = team->count(other);
    team->wait();
    return found;
  }

  template <class C, class Put>
  int scan(int n, C count, Put put) const {
    int before = 0;
    for (int tile = 0; tile < n; tile += width()) {
      const int i = tile + lane;
      team->count(lane) = i < n ? count(i) : 0;
      team->wait();
      int mine = before;
      for (int other = 0; other < width(); other++) {
        if (other < lane) mine += team->count(other);
        before += team->count(other);
      }
      if (i < n) put(i, mine);
      team->wait();
    }
    team->wait();
    return before;
  }

  template <class K, class T, class F>
  void in_order(int n, K place_of, const T*, F f) const {
    for (int tile = 0; tile < n; tile += width()) {
      const int i = tile + lane;
      bool waits = i < n;
      int32_t* const claim = team->claim(waits ? place_of(i) : 0);
      const int place = static_cast<int>(claim - team->claim(0));
      while (any(waits)) {
        if (waits) least(claim, i);
        team->wait();
        const bool runs = waits && __atomic_load_n(claim, __ATOMIC_RELAXED) == i;
        team->wait();
        if (runs) {
          f(i, place);
          __atomic_store_n(claim, kUnclaimed, __ATOMIC_RELAXED);
        }
        waits = waits && !runs;
        team->wait();
      }
    }
    team->wait();
  }

  template <class L>
  void sort(int n, int32_t* items, L before) const {
    one([&] { std::sort(items, items + n, before); });
  }

  static int32_t add(int32_t* word, int32_t value) { return __atomic_fetch_add(word, value, __ATOMIC_RELAXED); }
  static int32_t mark(int32_t* word, int32_t bits) { return __atomic_fetch_or(word, bits, __ATOMIC_RELAXED); }
  static int32_t unmark(int32_t* word, int32_t bits) { return __atomic_fetch_and(word, ~bits, __ATOMIC_RELAXED); }
  static int32_t least(int32_t* word, int32_t value) {
    int32_t was = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (value < was && !__atomic_compare_exchange_n(word, &was, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return was;
  }

 private:
  bool any(bool mine) const {
    if (mine) team->vote.fetch_add(1, std::memory_order_relaxed);
    team->wait();
    const bool found = team->vote.load(std::memory_order_relaxed) != 0;
    team->wait();
    if (lane == 0) team->vote.store(0, std::memory_order_relaxed);
    team->wait();
    return found;
  }
};

/// Run `f(lanes)` in every thread of a team; what the first one returns.
template <class F>
auto run_in_threads(int64_t places, F f) {
  ThreadTeam team(ThreadLanes::kThreads, places);
  std::vector<std::thread> others;
  for (int lane = 1; lane < ThreadLanes::kThreads; lane++)
    others.emplace_back([&team, &f, lane] { f(ThreadLanes{&team, lane}); });
  const auto found = f(ThreadLanes{&team, 0});
  for (std::thread& other : others) other.join();
  return found;
}

}  // namespace kvproof
