// The queue of free blocks: a ring in which a block that leaves from the middle leaves a hole (POOL-ALLOC-1,
// POOL-TOUCH-1, POOL-FREE-2, POOL-FREE-3, INV-QUEUE-*).
//
//   ring_head                                              ring_head + ring_span
//      | not swept yet     | gap, holes only | swept          |
//      0               unswept             swept          ring_span        (offsets from the head)
//
// Holes are cleared away by sweeps, a few places with each operation, so that no call stalls: a sweep walks from the
// back to the front and moves every block back against the one behind it. `unswept` is kNoSweep while none runs.
//
// Why the ring never overflows: a sweep starts as soon as there are more holes than a quarter of the blocks and ends
// within an eighth of its length in pushes or holes, since each of them pays for kSweepRate places. So there are never
// more than about half as many holes as blocks, and the ring has two places for each block.
#pragma once

#include "layout.h"

namespace kvproof {

constexpr int32_t kHole = kNullBlock;
constexpr int64_t kNoSweep = -1;
constexpr int64_t kSweepRate = 8;
#if !defined(KVPROOF_FEW_HOLES)
#define KVPROOF_FEW_HOLES 32  // tests set it to 0, so that small pools are swept too
#endif
constexpr int64_t kFewHoles = KVPROOF_FEW_HOLES;  ///< not worth a sweep

/// Places that the ring of a pool of `num_blocks` needs.
KV_FN int64_t ring_places(int64_t num_blocks) { return 2 * num_blocks + 4 * kFewHoles; }

/// Index in the ring of a place so far behind the head (or before it, if negative).
template <class P>
KV_FN int32_t place_behind_head(const P& p, int64_t offset) {
  const int64_t size = p.h->rows[kRing];
  int64_t place = p.h->ring_head + offset;
  if (place >= size) place -= size;
  if (place < 0) place += size;
  return static_cast<int32_t>(place);
}

/// Move the front of the queue by so many places; negative: room for blocks before it.
template <class P>
KV_FN void advance_head(P& p, int64_t places) {
  Header& h = *p.h;
  h.ring_head = place_behind_head(p, places);
  h.ring_span -= places;
  if (h.unswept == kNoSweep) return;
  if (places > h.unswept) {  // the front part is used up, and the gap with it
    h.unswept = kNoSweep;
  } else {
    h.unswept -= places;
    h.swept -= places;
  }
}

/// The first n blocks of the queue, without taking them; returns how many places they span. n blocks are free.
template <class P>
KV_OPERATION int64_t front_of_queue(P& p, int32_t n, int32_t* out) {
  const Header& h = *p.h;
  int64_t at = 0;
  for (int32_t found = 0; found < n;) {
    if (at == h.unswept) at = h.swept;
    // As many places as blocks are missing hold no more than these; several lanes look further ahead.
    int64_t tile = n - found > p.lanes.width() ? n - found : p.lanes.width();
    if (at < h.unswept && tile > h.unswept - at) tile = h.unswept - at;
    if (tile > h.ring_span - at) tile = h.ring_span - at;
    const int32_t before = found;
    found += p.lanes.scan(
        static_cast<int>(tile), [&](int i) { return p.ring[place_behind_head(p, at + i)] != kHole; },
        [&](int i, int rank) {
          const int32_t id = p.ring[place_behind_head(p, at + i)];
          if (id == kHole || before + rank >= n) return;
          out[before + rank] = id;
          if (before + rank == n - 1) *p.work.cell = i + 1;
        });
    at += found < n ? tile : *p.work.cell;
  }
  return at;
}

/// A hole where a free block stood. The caller counts it, and calls `tend_queue`.
template <class P>
KV_FN void leave_queue(P& p, Block& block) {
  p.ring[block.place] = kHole;
  block.place = kNotQueued;
}

/// Move the last `places` places that are not swept yet.
template <class P>
KV_FN void sweep(P& p, int32_t places) {
  Header& h = *p.h;
  const int64_t source = h.unswept - 1, target = h.swept - 1;
  const int32_t moved = p.lanes.scan(
      places, [&](int i) { return p.ring[place_behind_head(p, source - i)] != kHole; },
      [&](int i, int rank) {
        const int32_t id = p.ring[place_behind_head(p, source - i)];
        if (id != kHole) p.work.words[rank] = id;
      });
  // Source and target may overlap, so all of the source is cleared before the target is written.
  p.lanes.each(places, [&](int i) { p.ring[place_behind_head(p, source - i)] = kHole; });
  p.lanes.each(moved, [&](int i) {
    const int32_t id = p.work.words[i], place = place_behind_head(p, target - i);
    p.ring[place] = id;
    p.block(id).place = place;
  });
  p.lanes.one([&] {
    h.unswept -= places;
    h.swept -= moved;
    if (h.unswept == 0) {
      const int64_t gap = h.swept;
      h.unswept = kNoSweep;
      advance_head(p, gap);
    }
  });
}

/// Words of the workspace that `tend_queue` may need.
KV_FN int64_t work_to_tend(int64_t changed) { return kSweepRate * (changed + 1); }

/// Clear away some holes, after an operation that pushed blocks or left holes, `changed` in all (COST-1).
template <class P>
KV_OPERATION void tend_queue(P& p, int64_t changed) {
  Header& h = *p.h;
  if (h.unswept == kNoSweep) {
    if (h.ring_span - h.num_free <= h.num_blocks / 4 + kFewHoles) return;
    p.lanes.one([&] { h.unswept = h.swept = h.ring_span; });
  }
  int64_t places = work_to_tend(changed);
  if (places > h.unswept) places = h.unswept;
  sweep(p, static_cast<int32_t>(places));
}

}  // namespace kvproof
