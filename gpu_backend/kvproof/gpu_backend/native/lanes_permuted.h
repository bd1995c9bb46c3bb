// An executor for tests: many lanes that take their turns in random order, as those of a GPU may.
//
// What two lanes do within one primitive is done in an arbitrary order, all counts of a scan before its first put, and
// a place of `in_order` is fought for as on a GPU. An operation that is right only because one lane goes through a loop
// from front to back leaves another arena here.
#pragma once

#include <random>
#include <vector>

#include "lanes.h"

namespace kvproof {

class PermutedLanes {
 public:
  static constexpr bool kIsSerial = false;
  static constexpr int kWidth = 7;

  static constexpr int width() { return kWidth; }

  template <class F>
  void each(int n, F f) const {
    for (const int i : order(n)) f(i);
  }

  template <class F>
  void one(F f) const {
    f();
  }

  template <class P>
  int first(int n, P p) const {
    int found = n;
    for (const int i : order(n))
      if (p(i) && i < found) found = i;
    return found;
  }

  template <class C, class Put>
  int scan(int n, C count, Put put) const {
    std::vector<int> before(static_cast<size_t>(n) + 1);
    for (const int i : order(n)) before[static_cast<size_t>(i) + 1] = count(i);
    for (size_t i = 0; i < static_cast<size_t>(n); i++) before[i + 1] += before[i];
    for (const int i : order(n)) put(i, before[static_cast<size_t>(i)]);
    return before[static_cast<size_t>(n)];
  }

  template <class K, class T, class F>
  void in_order(int n, K place_of, const T*, F f) const {
    std::vector<int> place(static_cast<size_t>(n));
    for (const int i : order(n)) place[static_cast<size_t>(i)] = place_of(i);
    std::vector<bool> is_done(static_cast<size_t>(n));
    for (int left = n; left > 0;) {
      // In each round the first that waits for a place gets it; the winners run in any order.
      std::vector<int> winners, taken;
      for (int i = 0; i < n; i++) {
        const int wanted = place[static_cast<size_t>(i)];
        if (is_done[static_cast<size_t>(i)] || std::find(taken.begin(), taken.end(), wanted) != taken.end()) continue;
        taken.push_back(wanted);
        winners.push_back(i);
      }
      std::shuffle(winners.begin(), winners.end(), random());
      for (const int i : winners) {
        f(i, place[static_cast<size_t>(i)]);
        is_done[static_cast<size_t>(i)] = true;
        left--;
      }
    }
  }

  template <class L>
  void sort(int n, int32_t* items, L before) const {
    std::shuffle(items, items + n, random());
    std::sort(items, items + n, before);
  }

  static int32_t add(int32_t* word, int32_t value) { return SerialLanes::add(word, value); }
  static int32_t least(int32_t* word, int32_t value) { return SerialLanes::least(word, value); }
  static int32_t mark(int32_t* word, int32_t bits) { return SerialLanes::mark(word, bits); }
  static int32_t unmark(int32_t* word, int32_t bits) { return SerialLanes::unmark(word, bits); }

 private:
  static std::mt19937& random() {
    static std::mt19937 generator(1);
    return generator;
  }

  static std::vector<int> order(int n) {
    std::vector<int> shuffled(static_cast<size_t>(n > 0 ? n : 0));
    for (size_t i = 0; i < shuffled.size(); i++) shuffled[i] = static_cast<int>(i);
    std::shuffle(shuffled.begin(), shuffled.end(), random());
    return shuffled;
  }
};

}  // namespace kvproof
