// The index: which block has which key (INDEX-*).
//
// Entries with the same key form a list in registration order, and the first one stands in the chain of its bucket.
// Entries of the same block form another list, in registration order too. So the two directions cannot disagree, and a
// cached block costs nothing but its entries.
#pragma once

#include "layout.h"

namespace kvproof {

// --- keys -----------------------------------------------------------------------------------------------------------

template <int W>
KV_FN bool equal(const uint32_t* a, const uint32_t* b) {
  uint64_t left[W / 2], right[W / 2], difference = 0;
  memcpy(left, a, sizeof left);
  memcpy(right, b, sizeof right);
  for (int half = 0; half < W / 2; half++) difference |= left[half] ^ right[half];
  return difference == 0;
}

template <int W>
KV_FN void copy_digest(uint32_t* to, const uint32_t* from) {
  for (int word = 0; word < W; word++) to[word] = from[word];
}

/// The bucket of a key. The seed is the pool's secret, so that nobody can choose tokens whose keys share a bucket.
template <class P>
KV_FN int32_t bucket_of(const P& p, const uint32_t* digest, int32_t group) {
  uint64_t low, high;
  memcpy(&low, digest, 8);
  memcpy(&high, digest + 2, 8);
  low ^= static_cast<uint64_t>(p.h->seed[0]) + static_cast<uint64_t>(group) * 0x9E3779B97F4A7C15u;
  high ^= static_cast<uint64_t>(p.h->seed[1]);
  const uint64_t mixed = low * high ^ high_product(low, high);
  return static_cast<int32_t>(((mixed >> 32) * static_cast<uint64_t>(p.h->rows[kBuckets])) >> 32);
}

/// The group of an entry's key.
template <class P>
KV_FN int32_t group_of(const P& p, int32_t entry) {
  return p.h->num_groups == 1 ? 0 : p.block(p.entries[entry].block).group;
}

/// The first entry of a key in its bucket, kNone if no block has it.
template <class P>
KV_FN int32_t find_in_bucket(const P& p, int32_t bucket, const uint32_t* digest, int32_t group) {
  int32_t e = p.buckets[bucket];
  // Groups share digests (the same tokens), so the digest alone does not tell keys apart unless there is one group.
  while (e != kNone && !(equal<P::kDigestWords>(p.entries[e].digest, digest) && group_of(p, e) == group))
    e = p.entries[e].next_in_bucket;
  return e;
}

/// The first entry of a key, kNone if no block has it.
template <class P>
KV_FN int32_t find_key(const P& p, const uint32_t* digest, int32_t group) {
  return find_in_bucket(p, bucket_of(p, digest, group), digest, group);
}

/// The entry of a block for a digest of its group, kNone if it has none.
template <class P>
KV_FN int32_t entry_of(const P& p, const Block& block, const uint32_t* digest) {
  int32_t e = block.first_entry;
  while (e != kNone && !equal<P::kDigestWords>(p.entries[e].digest, digest)) e = p.entries[e].next_of_block;
  return e;
}

// --- status of an entry (STEP-SERVE-1) ------------------------------------------------------------------------------

/// The position of an entry that is being dropped and was never committed.
constexpr int32_t kWasReserved = INT32_MIN;

template <class P>
KV_FN bool is_servable(const P& p, int32_t e) {
  return p.entries[e].position >= 0;
}

/// The row of an entry that is not servable.
template <class P>
KV_FN Pending& pending_of(const P& p, int32_t e) {
  return p.pendings[~p.entries[e].position];
}

template <class P>
KV_FN bool is_reserved(const P& p, int32_t e) {
  return !is_servable(p, e) && pending_of(p, e).owner != kNobody;
}

/// Whether a consumer was told of the entry, or is about to be by the commit that runs.
template <class P>
KV_FN bool is_committed(const P& p, int32_t e) {
  if (p.entries[e].position == kWasReserved) return false;
  return is_servable(p, e) || pending_of(p, e).owner == kNobody || pending_of(p, e).is_fresh;
}

template <class P>
KV_FN int32_t position_of(const P& p, int32_t e) {
  return is_servable(p, e) ? p.entries[e].position : pending_of(p, e).position;
}

/// Whether some block has the key committed; `e` is its first entry.
template <class P>
KV_FN bool is_resident(const P& p, int32_t e) {
  while (e != kNone && !is_committed(p, e)) e = p.entries[e].next_of_key;
  return e != kNone;
}

/// Whether `id` is among the blocks of a key whose first entry is `e`.
template <class P>
KV_FN bool is_among(const P& p, int32_t e, int32_t id) {
  while (e != kNone && p.entries[e].block != id) e = p.entries[e].next_of_key;
  return e != kNone;
}

// --- the list of a key ----------------------------------------------------------------------------------------------

/// Put an entry last in its key's list. Only in order of buckets (`in_order`).
template <class P>
KV_FN void link(P& p, int32_t e, int32_t bucket, int32_t first) {
  auto& entry = p.entries[e];
  entry.next_of_key = kNone;
  if (first == kNone) {
    entry.next_in_bucket = p.buckets[bucket];
    entry.previous_of_key = e;
    p.buckets[bucket] = e;
    return;
  }
  const int32_t last = p.entries[first].previous_of_key;
  entry.next_in_bucket = kNotFirst;
  entry.previous_of_key = last;
  p.entries[last].next_of_key = e;
  p.entries[first].previous_of_key = e;
}

/// Take an entry out of its key's list; returns the first of those that are left. Only in order of buckets.
template <class P>
KV_FN int32_t unlink(P& p, int32_t e, int32_t bucket) {
  const auto& entry = p.entries[e];
  const int32_t next = entry.next_of_key;
  if (entry.next_in_bucket != kNotFirst) {
    int32_t* link_to_it = &p.buckets[bucket];
    while (*link_to_it != e) link_to_it = &p.entries[*link_to_it].next_in_bucket;
    if (next == kNone) {
      *link_to_it = entry.next_in_bucket;
    } else {
      p.entries[next].next_in_bucket = entry.next_in_bucket;
      p.entries[next].previous_of_key = entry.previous_of_key;
      *link_to_it = next;
    }
    return next;
  }
  const int32_t first = find_in_bucket(p, bucket, entry.digest, group_of(p, e));
  p.entries[entry.previous_of_key].next_of_key = next;
  p.entries[next == kNone ? first : next].previous_of_key = entry.previous_of_key;
  return first;
}

// --- the list of a block --------------------------------------------------------------------------------------------

template <class P>
KV_FN int32_t count_entries(const P& p, const Block& block) {
  int32_t count = 0;
  for (int32_t e = block.first_entry; e != kNone; e = p.entries[e].next_of_block) count++;
  return count;
}

template <class P>
KV_FN int32_t last_entry(const P& p, const Block& block) {
  int32_t last = kNone;
  for (int32_t e = block.first_entry; e != kNone; e = p.entries[e].next_of_block) last = e;
  return last;
}

/// Put an entry last in its block's list.
template <class P>
KV_FN void append_to_block(P& p, Block& block, int32_t e) {
  const int32_t last = last_entry(p, block);
  p.entries[e].next_of_block = kNone;
  (last == kNone ? block.first_entry : p.entries[last].next_of_block) = e;
}

/// Blocks whose entries are about to be read, one after the other: ask memory for those further on. A hint, for one
/// lane.
template <class P, class I>
KV_FN void look_ahead(const P& p, int32_t n, I id, int32_t i) {
  constexpr int32_t kBlockAhead = 12, kEntryAhead = 6;
  if (i + kBlockAhead < n) prefetch(&p.block(id(i + kBlockAhead)));
  if (i + kEntryAhead >= n) return;
  const int32_t e = p.block(id(i + kEntryAhead)).first_entry;
  if (e != kNone) prefetch(&p.entries[e]);
}

/// Take those entries out of a block's list that `leaves` chooses, in order; returns how many. They stay in the index.
template <class P, class F>
KV_FN int32_t detach(P& p, Block& block, int32_t* out, F leaves) {
  int32_t count = 0;
  int32_t* link_to_it = &block.first_entry;
  while (*link_to_it != kNone) {
    const int32_t e = *link_to_it;
    if (leaves(e)) {
      out[count++] = e;
      *link_to_it = p.entries[e].next_of_block;
    } else {
      link_to_it = &p.entries[e].next_of_block;
    }
  }
  return count;
}

// --- entries that are not servable yet ------------------------------------------------------------------------------

/// Note that an entry becomes servable with the current step. One lane; there is room.
template <class P>
KV_FN void await_commit(P& p, int32_t e, int32_t position, int32_t owner, int32_t text, int32_t call, int32_t order) {
  const int32_t row = static_cast<int32_t>(p.h->num_pendings++);
  p.pendings[row] = {e, position, p.current(), owner, text, call, order, 0};
  p.entries[e].position = ~row;
}

/// Make an entry servable, or about to be dropped: its row goes, the last one takes its place. One lane.
template <class P>
KV_FN void forget_pending(P& p, int32_t e) {
  const int32_t row = ~p.entries[e].position;
  p.entries[e].position = p.pendings[row].position;
  const int32_t last = static_cast<int32_t>(--p.h->num_pendings);
  if (row == last) return;
  p.pendings[row] = p.pendings[last];
  p.entries[p.pendings[row].entry].position = ~row;
}

}  // namespace kvproof
