// What the core needs of a target: one source for a C++17 compiler (host) and for nvcc (device).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__CUDACC__)
#define KV_FN __device__ __forceinline__
// What is long, or called from several places. Inlining all of it would cost registers, and minutes of compiling.
#define KV_OPERATION __device__ __noinline__
#else
#define KV_FN inline
#define KV_OPERATION inline
#endif

namespace kvproof {

/// High 64 bits of a product of two 64-bit numbers.
KV_FN uint64_t high_product(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
#endif
}

/// A hint that `address` is about to be read. It changes nothing.
KV_FN void prefetch(const void* address) {
#if defined(__CUDA_ARCH__)
  asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
#elif defined(__GNUC__)
  __builtin_prefetch(address);
#else
  (void)address;
#endif
}

}  // namespace kvproof
