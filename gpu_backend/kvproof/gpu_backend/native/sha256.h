// SHA-256 (FIPS 180-4; HASH-ALGORITHM-1). Host only: prompts are hashed where their tokens are.
#pragma once

#include "platform.h"

namespace kvproof {
namespace sha256 {

constexpr int kBlock = 64;

inline const uint32_t* round_constants() {
  static const uint32_t constants[64] = {
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  return constants;
}

inline uint32_t rotated(uint32_t x, int by) { return x >> by | x << (32 - by); }

inline uint32_t read_big_endian(const uint8_t* p) {
  return static_cast<uint32_t>(p[0]) << 24 | static_cast<uint32_t>(p[1]) << 16 | static_cast<uint32_t>(p[2]) << 8 |
         p[3];
}

inline void add_block(uint32_t* state, const uint8_t* block) {
  const uint32_t* const k = round_constants();
  uint32_t w[64], s[8];
  for (int t = 0; t < 16; t++) w[t] = read_big_endian(block + 4 * t);
  for (int t = 16; t < 64; t++) {
    const uint32_t a = w[t - 15], b = w[t - 2];
    w[t] = w[t - 16] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) + w[t - 7] +
           (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
  }
  memcpy(s, state, sizeof s);
  for (int t = 0; t < 64; t++) {
    const uint32_t e = s[4], a = s[0];
    const uint32_t first = s[7] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & s[5]) ^ (~e & s[6])) +
                           k[t] + w[t];
    const uint32_t second = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) +
                            ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    memmove(s + 1, s, 7 * sizeof *s);
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < 8; i++) state[i] += s[i];
}

}  // namespace sha256

/// The 32 bytes of SHA-256 of n bytes.
inline void sha_256(const uint8_t* data, uint64_t n, uint8_t* digest) {
  using namespace sha256;
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint64_t done = 0;
  for (; n - done >= kBlock; done += kBlock) add_block(state, data + done);
  uint8_t tail[2 * kBlock] = {};
  const uint64_t rest = n - done;
  memcpy(tail, data + done, rest);
  tail[rest] = 0x80;
  const int length = rest < kBlock - 8 ? kBlock : 2 * kBlock;  // the length in bits takes the last 8 bytes
  for (int i = 0; i < 8; i++) tail[length - 1 - i] = static_cast<uint8_t>(n << 3 >> 8 * i);
  for (int at = 0; at < length; at += kBlock) add_block(state, tail + at);
  for (int i = 0; i < 32; i++) digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
}

}  // namespace kvproof
