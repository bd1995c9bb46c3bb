// XXH3-128 with seed 0 and the default secret, for every length (HASH-ALGORITHM-1), on host and device.
//
// Written from the description of the algorithm in the xxHash specification by Yann Collet. The secret and the
// constants are those of xxHash, Copyright (C) 2012-2023 Yann Collet, BSD 2-Clause License (https://www.xxhash.com).
#pragma once

#include "platform.h"

namespace kvproof {
namespace xxh3 {

constexpr int kSecretBytes = 192, kStripe = 64, kLanes = 8;
constexpr int kStripesOfBlock = (kSecretBytes - kStripe) / 8, kBlock = kStripe * kStripesOfBlock;
constexpr int kMostMedium = 240;  ///< longer input is hashed in stripes

#if defined(__CUDACC__)
static __device__ const
#else
static const
#endif
uint8_t kSecret[kSecretBytes] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4,
    0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e,
    0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21, 0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43,
    0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19,
    0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8, 0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7,
    0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78,
    0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16,
    0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f,
    0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e};

constexpr uint64_t kPrime64_1 = 0x9E3779B185EBCA87u, kPrime64_2 = 0xC2B2AE3D27D4EB4Fu;
constexpr uint64_t kPrime64_3 = 0x165667B19E3779F9u, kPrime64_4 = 0x85EBCA77C2B2AE63u;
constexpr uint64_t kPrime64_5 = 0x27D4EB2F165667C5u;
constexpr uint32_t kPrime32_1 = 0x9E3779B1u, kPrime32_2 = 0x85EBCA77u, kPrime32_3 = 0xC2B2AE3Du;
constexpr uint64_t kAvalancheFactor = 0x165667919E3779F9u, kShortFactor = 0x9FB21C651E98DF25u;

struct Hash {
  uint64_t low, high;
};

KV_FN uint32_t read32(const uint8_t* p) {
#if defined(__CUDA_ARCH__)
  return p[0] | p[1] << 8 | p[2] << 16 | static_cast<uint32_t>(p[3]) << 24;  // input may be unaligned
#else
  uint32_t value;
  memcpy(&value, p, 4);
  return value;
#endif
}

KV_FN uint64_t read64(const uint8_t* p) {
#if defined(__CUDA_ARCH__)
  return read32(p) | static_cast<uint64_t>(read32(p + 4)) << 32;
#else
  uint64_t value;
  memcpy(&value, p, 8);
  return value;
#endif
}

KV_FN uint64_t secret(int at) { return read64(kSecret + at); }
KV_FN uint32_t swap32(uint32_t x) { return x >> 24 | (x >> 8 & 0xFF00) | (x << 8 & 0xFF0000) | x << 24; }
KV_FN uint64_t swap64(uint64_t x) {
  return static_cast<uint64_t>(swap32(static_cast<uint32_t>(x))) << 32 | swap32(static_cast<uint32_t>(x >> 32));
}
KV_FN uint64_t folded_product(uint64_t a, uint64_t b) { return a * b ^ high_product(a, b); }

KV_FN uint64_t avalanche(uint64_t x) {
  x = (x ^ x >> 37) * kAvalancheFactor;
  return x ^ x >> 32;
}

KV_FN uint64_t avalanche_of_xxh64(uint64_t x) {
  x = (x ^ x >> 33) * kPrime64_2;
  x = (x ^ x >> 29) * kPrime64_3;
  return x ^ x >> 32;
}

KV_FN Hash hash_up_to_16(const uint8_t* p, uint64_t n) {
  if (n > 8) {
    const uint64_t first = read64(p), last = read64(p + n - 8) ^ secret(48) ^ secret(56);
    const uint64_t mixed = first ^ read64(p + n - 8) ^ secret(32) ^ secret(40);
    uint64_t low = mixed * kPrime64_1 + ((n - 1) << 54);
    const uint64_t high = high_product(mixed, kPrime64_1) + last + (last & UINT32_MAX) * (kPrime32_2 - 1);
    low ^= swap64(high);
    return {avalanche(low * kPrime64_2), avalanche(high_product(low, kPrime64_2) + high * kPrime64_2)};
  }
  if (n >= 4) {
    const uint64_t both = read32(p) + (static_cast<uint64_t>(read32(p + n - 4)) << 32);
    const uint64_t keyed = both ^ secret(16) ^ secret(24), factor = kPrime64_1 + (n << 2);
    uint64_t low = keyed * factor, high = high_product(keyed, factor) + (low << 1);
    low ^= high >> 3;
    low = (low ^ low >> 35) * kShortFactor;
    return {low ^ low >> 28, avalanche(high)};
  }
  if (n > 0) {
    const uint32_t low = static_cast<uint32_t>(p[0]) << 16 | static_cast<uint32_t>(p[n >> 1]) << 24 | p[n - 1] |
                         static_cast<uint32_t>(n) << 8;
    const uint32_t swapped = swap32(low), high = swapped << 13 | swapped >> 19;
    return {avalanche_of_xxh64(low ^ static_cast<uint64_t>(read32(kSecret) ^ read32(kSecret + 4))),
            avalanche_of_xxh64(high ^ static_cast<uint64_t>(read32(kSecret + 8) ^ read32(kSecret + 12)))};
  }
  return {avalanche_of_xxh64(secret(64) ^ secret(72)), avalanche_of_xxh64(secret(80) ^ secret(88))};
}

KV_FN void mix_32_bytes(Hash& sum, const uint8_t* a, const uint8_t* b, int at) {
  sum.low += folded_product(read64(a) ^ secret(at), read64(a + 8) ^ secret(at + 8));
  sum.low ^= read64(b) + read64(b + 8);
  sum.high += folded_product(read64(b) ^ secret(at + 16), read64(b + 8) ^ secret(at + 24));
  sum.high ^= read64(a) + read64(a + 8);
}

KV_FN Hash hash_up_to_240(const uint8_t* p, uint64_t n) {
  Hash sum = {n * kPrime64_1, 0};
  if (n <= 128) {  // pairs of 16 bytes from both ends, the innermost first
    for (int pair = static_cast<int>((n - 1) / 32); pair >= 0; pair--)
      mix_32_bytes(sum, p + 16 * pair, p + n - 16 * (pair + 1), 32 * pair);
  } else {
    for (int i = 0; i < 4; i++) mix_32_bytes(sum, p + 32 * i, p + 32 * i + 16, 32 * i);
    sum = {avalanche(sum.low), avalanche(sum.high)};
    for (int i = 4; i < static_cast<int>(n / 32); i++) mix_32_bytes(sum, p + 32 * i, p + 32 * i + 16, 32 * (i - 4) + 3);
    mix_32_bytes(sum, p + n - 16, p + n - 32, 103);
  }
  const uint64_t low = sum.low + sum.high, high = sum.low * kPrime64_1 + sum.high * kPrime64_4 + n * kPrime64_2;
  return {avalanche(low), 0 - avalanche(high)};
}

KV_FN void add_stripe(uint64_t* sums, const uint8_t* p, int at) {
  for (int lane = 0; lane < kLanes; lane++) {
    const uint64_t data = read64(p + 8 * lane), keyed = data ^ secret(at + 8 * lane);
    sums[lane ^ 1] += data;
    sums[lane] += (keyed & UINT32_MAX) * (keyed >> 32);
  }
}

KV_FN uint64_t merged(const uint64_t* sums, int at, uint64_t start) {
  for (int pair = 0; pair < kLanes / 2; pair++)
    start += folded_product(sums[2 * pair] ^ secret(at + 16 * pair), sums[2 * pair + 1] ^ secret(at + 16 * pair + 8));
  return avalanche(start);
}

KV_OPERATION Hash hash_long(const uint8_t* p, uint64_t n) {
  uint64_t sums[kLanes] = {kPrime32_3, kPrime64_1, kPrime64_2, kPrime64_3,
                           kPrime64_4, kPrime32_2, kPrime64_5, kPrime32_1};
  const uint64_t stripes = (n - 1) / kStripe;
  for (uint64_t stripe = 0; stripe < stripes; stripe++) {
    const int in_block = static_cast<int>(stripe % kStripesOfBlock);
    add_stripe(sums, p + stripe * kStripe, 8 * in_block);
    if (in_block == kStripesOfBlock - 1)
      for (int lane = 0; lane < kLanes; lane++)
        sums[lane] = (sums[lane] ^ sums[lane] >> 47 ^ secret(kSecretBytes - kStripe + 8 * lane)) * kPrime32_1;
  }
  add_stripe(sums, p + n - kStripe, kSecretBytes - kStripe - 7);
  return {merged(sums, 11, n * kPrime64_1), merged(sums, kSecretBytes - kStripe - 11, ~(n * kPrime64_2))};
}

}  // namespace xxh3

/// The 16 bytes of XXH3-128 of n bytes, in canonical (big-endian) order.
KV_FN void xxh3_128(const uint8_t* data, uint64_t n, uint8_t* digest) {
  const xxh3::Hash hash = n <= 16                   ? xxh3::hash_up_to_16(data, n)
                          : n <= xxh3::kMostMedium ? xxh3::hash_up_to_240(data, n)
                                                   : xxh3::hash_long(data, n);
  const uint64_t high = xxh3::swap64(hash.high), low = xxh3::swap64(hash.low);
  memcpy(digest, &high, 8);
  memcpy(digest + 8, &low, 8);
}

}  // namespace kvproof
