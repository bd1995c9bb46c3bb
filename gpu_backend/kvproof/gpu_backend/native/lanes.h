// The parallel primitives that the core is written in, and their plainest executor: one lane, a loop.
//
// Every operation of the core is a sequence of these primitives, run by all lanes of one executor together. Between two
// primitives all lanes see the same memory, and every value that a branch depends on is the same in every lane. So the
// same source gives the same bytes whether there is one lane or a thousand.
//
//   each(n, f)              f(i) for every i < n, in any order; no two f(i) may write the same word
//   one(f)                  f() once, by one lane
//   first(n, p)             the smallest i with p(i), n if there is none; p(i) may write only words that are i's own
//   scan(n, count, put)     put(i, count(0) + ... + count(i-1)) for every i < n; returns the sum of all counts.
//                           i is counted before its own put, which no count of another i may depend on
//   in_order(n, place_of, table, f)
//                           f(i, place_of(i)) for every i < n; those with the same place run in ascending i, others in
//                           any order. A place is an index of `table`, and depends on nothing that an f writes
//   sort(n, items, before)  sorts by a total order
//   add, least, mark, unmark
//                           atomic: add to a word, lower it, set or clear bits of it; all return what was there
//
// Other executors: `lanes_cuda.h` (one cooperative thread block), and for tests `lanes_permuted.h` (many lanes in any
// order) and `lanes_threads.h` (real threads).
#pragma once

#include "platform.h"

#if !defined(__CUDACC__)
#include <algorithm>
#endif

namespace kvproof {

/// Memory that an executor lends to an operation; no state of the pool, and worth nothing afterwards.
struct Workspace {
  int32_t* words;    ///< room for intermediate lists
  int64_t capacity;  ///< how many words there are
  int32_t* claims;   ///< one word for each place of `in_order`, all kUnclaimed; null where there is one lane
  int32_t* cell;     ///< one word that one lane writes and all read
};

constexpr int32_t kUnclaimed = INT32_MAX;

#if !defined(__CUDACC__)
/// One lane: every primitive is a loop, and the compiler sees through all of it.
struct SerialLanes {
  static constexpr bool kIsSerial = true;

  static constexpr int kAhead = 16;

  static constexpr int width() { return 1; }

  template <class F>
  void each(int n, F f) const {
    for (int i = 0; i < n; i++) f(i);
  }

  template <class F>
  void one(F f) const {
    f();
  }

  template <class P>
  int first(int n, P p) const {
    for (int i = 0; i < n; i++)
      if (p(i)) return i;
    return n;
  }

  template <class C, class Put>
  int scan(int n, C count, Put put) const {
    int sum = 0;
    for (int i = 0; i < n; i++) {
      const int counted = count(i);
      put(i, sum);
      sum += counted;
    }
    return sum;
  }

  /// One lane would wait for each place in turn; so it asks memory for some of them ahead of time.
  template <class K, class T, class F>
  void in_order(int n, K place_of, const T* table, F f) const {
    int32_t place[kAhead];
    for (int from = 0; from < n; from += kAhead) {
      const int m = n - from < kAhead ? n - from : kAhead;
      for (int i = 0; i < m; i++) {
        place[i] = place_of(from + i);
        prefetch(&table[place[i]]);
      }
      for (int i = 0; i < m; i++) f(from + i, place[i]);
    }
  }

  template <class L>
  void sort(int n, int32_t* items, L before) const {
    std::sort(items, items + n, before);
  }

  static int32_t add(int32_t* word, int32_t value) {
    const int32_t was = *word;
    *word += value;
    return was;
  }

  static int32_t least(int32_t* word, int32_t value) {
    const int32_t was = *word;
    if (value < was) *word = value;
    return was;
  }

  static int32_t mark(int32_t* word, int32_t bits) {
    const int32_t was = *word;
    *word |= bits;
    return was;
  }

  static int32_t unmark(int32_t* word, int32_t bits) {
    const int32_t was = *word;
    *word &= ~bits;
    return was;
  }
};
#endif

}  // namespace kvproof
