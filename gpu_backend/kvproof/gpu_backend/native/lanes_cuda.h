// The executor for CUDA: one cooperative thread block. Never executed on a GPU.
#pragma once

#include "lanes.h"

namespace kvproof {

/// One thread block of up to 1024 threads, a multiple of 32; see `lanes.h` for what each primitive means.
struct CudaLanes {
  static constexpr bool kIsSerial = false;

  static constexpr int kWarp = 32;
  static constexpr int kSharedWords = kWarp + 2;

  int32_t* shared;   ///< kSharedWords words of shared memory
  int32_t* claims;   ///< `Workspace::claims`

  __device__ static int lane() { return static_cast<int>(threadIdx.x); }
  __device__ static int width() { return static_cast<int>(blockDim.x); }

  template <class F>
  __device__ __forceinline__ void each(int n, F f) const {
    for (int i = lane(); i < n; i += width()) f(i);
    __syncthreads();
  }

  template <class F>
  __device__ __forceinline__ void one(F f) const {
    __syncthreads();  // others may still read what f is about to write
    if (lane() == 0) f();
    __syncthreads();
  }

  template <class P>
  __device__ __forceinline__ int first(int n, P p) const {
    int found = n;
    for (int i = lane(); i < n && found == n; i += width())
      if (p(i)) found = i;
    if (lane() == 0) shared[kWarp] = n;
    __syncthreads();
    if (found < n) atomicMin(&shared[kWarp], found);
    __syncthreads();
    found = shared[kWarp];
    __syncthreads();
    return found;
  }

  template <class C, class Put>
  __device__ __forceinline__ int scan(int n, C count, Put put) const {
    int before = 0;
    for (int tile = 0; tile < n; tile += width()) {
      const int i = tile + lane();
      int sum_of_tile;
      const int offset = exclusive_sum(i < n ? count(i) : 0, &sum_of_tile);
      if (i < n) put(i, before + offset);
      before += sum_of_tile;
    }
    __syncthreads();
    return before;
  }

  // In each round the lane that claimed its place with the smallest index runs; the others try again.
  template <class K, class T, class F>
  __device__ __forceinline__ void in_order(int n, K place_of, const T*, F f) const {
    for (int tile = 0; tile < n; tile += width()) {
      const int i = tile + lane();
      bool waits = i < n;
      const int32_t place = waits ? place_of(i) : 0;
      int32_t* const claim = &claims[place];
      while (__syncthreads_or(waits)) {
        if (waits) atomicMin(claim, i);
        __syncthreads();
        const bool runs = waits && *claim == i;
        if (runs) f(i, place);
        __syncthreads();
        if (runs) *claim = kUnclaimed;
        waits = waits && !runs;
        __syncthreads();
      }
    }
  }

  // Odd-even transposition: quadratic, but for lists that are nearly in order it ends after few rounds.
  template <class L>
  __device__ __forceinline__ void sort(int n, int32_t* items, L before) const {
    bool changed = true;
    while (changed) {
      changed = false;
      for (int parity = 0; parity < 2; parity++) {
        bool swapped = false;
        for (int i = 2 * lane() + parity; i + 1 < n; i += 2 * width()) {
          const int32_t left = items[i], right = items[i + 1];
          if (before(right, left)) {
            items[i] = right;
            items[i + 1] = left;
            swapped = true;
          }
        }
        changed |= __syncthreads_or(swapped) != 0;
      }
    }
  }

  __device__ static int32_t add(int32_t* word, int32_t value) { return atomicAdd(word, value); }
  __device__ static int32_t least(int32_t* word, int32_t value) { return atomicMin(word, value); }
  __device__ static int32_t mark(int32_t* word, int32_t bits) { return atomicOr(word, bits); }
  __device__ static int32_t unmark(int32_t* word, int32_t bits) { return atomicAnd(word, ~bits); }

 private:
  // Sum of the values of all lower lanes, and of all lanes.
  __device__ __forceinline__ int exclusive_sum(int value, int* total) const {
    const int in_warp = lane() % kWarp, warp = lane() / kWarp;
    int sum = value;
    for (int step = 1; step < kWarp; step *= 2) {
      const int from = __shfl_up_sync(~0u, sum, step);
      if (in_warp >= step) sum += from;
    }
    if (in_warp == kWarp - 1) shared[warp] = sum;
    __syncthreads();
    if (warp == 0) {
      const int own = in_warp < width() / kWarp ? shared[in_warp] : 0;
      int of_warps = own;
      for (int step = 1; step < kWarp; step *= 2) {
        const int from = __shfl_up_sync(~0u, of_warps, step);
        if (in_warp >= step) of_warps += from;
      }
      shared[in_warp] = of_warps - own;
      if (in_warp == kWarp - 1) shared[kWarp] = of_warps;
    }
    __syncthreads();
    const int offset = shared[warp] + sum - value;
    *total = shared[kWarp];
    __syncthreads();
    return offset;
  }
};

}  // namespace kvproof
