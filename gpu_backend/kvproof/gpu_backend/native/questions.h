// Questions; they change nothing (POOL-LOOKUP-*, POOL-CONTAINS-*, STEP-LOOKUP-*).
#pragma once

#include "registration.h"

namespace kvproof {

/// The block that serves a key and registered it first, kNone if none does (POOL-LOOKUP-1, STEP-SERVE-1).
template <class P>
KV_FN int32_t serving_block(const P& p, int32_t e) {
  while (e != kNone && !is_servable(p, e)) e = p.entries[e].next_of_key;
  return e == kNone ? kNone : p.entries[e].block;
}

/// Look up n keys: the blocks that serve them.
template <class P>
KV_OPERATION Outcome lookup(P& p, int32_t n, const int32_t* keys, int32_t* out) {
  const auto key = [&](int i) { return keys + i * P::kKeyWords; };
  if constexpr (!P::Lanes::kIsSerial) {
    p.lanes.each(n, [&](int i) { out[i] = serving_block(p, find_key(p, digest_in(key(i)), group_in(key(i)))); });
  } else {
    // One lane waits for memory twice for each key, for the bucket and for the entry; so ask for both ahead of time.
    constexpr int kAhead = 16;
    int32_t bucket[kAhead];
    for (int32_t from = 0; from < n; from += kAhead) {
      const int32_t m = n - from < kAhead ? n - from : kAhead;
      for (int32_t i = 0; i < m; i++) {
        bucket[i] = bucket_of(p, digest_in(key(from + i)), group_in(key(from + i)));
        prefetch(&p.buckets[bucket[i]]);
      }
      if (m > 1)
        for (int32_t i = 0; i < m; i++)
          if (p.buckets[bucket[i]] != kNone) prefetch(&p.entries[p.buckets[bucket[i]]]);
      for (int32_t i = 0; i < m; i++)
        out[from + i] =
            serving_block(p, find_in_bucket(p, bucket[i], digest_in(key(from + i)), group_in(key(from + i))));
    }
  }
  return ok();
}

/// How many of the first keys are served without a miss, then the blocks that serve these; the rest of `out` is kNone.
template <class P>
KV_OPERATION Outcome lookup_longest(P& p, int32_t n, const int32_t* keys, int32_t* out) {
  constexpr int kTile = 64;  // a miss ends the work
  int32_t hits = 0;
  for (bool missed = false; !missed && hits < n;) {
    const int32_t tile = n - hits < kTile ? n - hits : kTile;
    lookup(p, tile, keys + hits * P::kKeyWords, out + 1 + hits);
    const int32_t found = p.lanes.first(tile, [&](int i) { return out[1 + hits + i] == kNone; });
    missed = found < tile;
    hits += found;
  }
  p.lanes.one([&] { out[0] = hits; });
  p.lanes.each(n - hits, [&](int i) { out[1 + hits + i] = kNone; });
  return ok();
}

/// Whether readers of one batch may share a reserved entry: a full key of full attention, with its writer.
/// What moved is with a copy, which reads its source before the step (STEP-LOOKUP-1, STEP-ATTACH-1).
template <class P>
KV_FN bool is_attachable(const P& p, int32_t e) {
  if (!is_reserved(p, e)) return false;
  const Block& block = p.block(p.entries[e].block);
  const Group& group = p.groups[block.group];
  return group.kind == kFullAttention && is_full(position_of(p, e), group.block_size) &&
         block.writer == pending_of(p, e).owner;
}

/// Whether the block will have the key when all that is reserved is committed (STEP-LOOKUP-2, STEP-UPGRADE-2).
template <class P>
KV_FN bool outlives_the_commits(const P& p, int32_t e) {
  if (is_reserved(p, e)) return true;
  int32_t longest = e;
  for (int32_t other = p.block(p.entries[e].block).first_entry; other != kNone; other = p.entries[other].next_of_block)
    if (position_of(p, other) > position_of(p, longest)) longest = other;
  return !is_reserved(p, longest);
}

/// Who has a key: the block that serves it; if there is none, the block that has it reserved; and the block that would
/// serve it if everything reserved were committed.
struct Whereabouts {
  int32_t serving, reserved, pending;
};

/// Who has the key of a list of entries, of which `first` is the first one.
template <class P>
KV_FN Whereabouts whereabouts(const P& p, int32_t first) {
  Whereabouts found = {serving_block(p, first), kNone, kNone};
  for (int32_t e = first; e != kNone; e = p.entries[e].next_of_key) {
    if (found.serving == kNone && found.reserved == kNone && is_attachable(p, e)) found.reserved = p.entries[e].block;
    if (found.pending == kNone && outlives_the_commits(p, e)) found.pending = p.entries[e].block;
  }
  return found;
}

/// For each of n keys four words: where it is, the writer of the reserved one in the third place.
template <class P>
KV_OPERATION Outcome find(P& p, int32_t n, const int32_t* keys, int32_t* out) {
  p.lanes.each(n, [&](int i) {
    const int32_t* key = keys + i * P::kKeyWords;
    const Whereabouts found = whereabouts(p, find_key(p, digest_in(key), group_in(key)));
    int32_t* const hit = out + 4 * i;
    hit[0] = found.serving;
    hit[1] = found.reserved;
    hit[2] = found.reserved == kNone ? kNone : p.block(found.reserved).writer;
    hit[3] = found.pending;
  });
  return ok();
}

/// Where all keys of a text are: three tables, of the blocks that serve, have reserved, and would serve; each has a row
/// for each group and in it a word for each hash of the text.
template <class P>
KV_OPERATION Outcome find_matrix(P& p, int32_t text, int32_t* out) {
  const Chain& chain = *p.texts[text];
  if (chain.count > kMostRows / p.h->num_groups) return refused(kOutOfRange);
  const int32_t n = static_cast<int32_t>(chain.count), all = static_cast<int32_t>(p.h->num_groups * n);
  p.lanes.each(all, [&](int i) {
    const uint32_t* digest = chain.digests + static_cast<int64_t>(i % n) * P::kDigestWords;
    const Whereabouts found = whereabouts(p, find_key(p, digest, i / n));
    out[i] = found.serving;
    out[all + i] = found.reserved;
    out[2 * static_cast<int64_t>(all) + i] = found.pending;
  });
  return ok();
}

constexpr int kWordsOfUse = 5;

/// For each of n blocks what a holder has to know before it overwrites or leaves the block: its references, whether the
/// holder holds it, whether it writes it, how far its keys reach, and how far what other holders were served.
template <class P>
KV_OPERATION Outcome uses(P& p, int32_t holder, int32_t n, const int32_t* ids, int32_t* out) {
  const int bad = p.lanes.first(n, [&](int i) { return !p.exists(ids[i]); });
  if (bad < n) return refused(kInvalidBlock, bad);
  p.lanes.each(n, [&](int i) {
    const Block& block = p.block(ids[i]);
    bool is_held = p.is_named() ? block.writer == holder : block.references > 0;
    int32_t named = 0, read = 0;
    for (int32_t e = block.first_entry; e != kNone; e = p.entries[e].next_of_block)
      if (position_of(p, e) > named) named = position_of(p, e);
    if (p.is_named())
      for (int32_t row = block.readers; row != kNone; row = p.readers[row].next)
        if (p.readers[row].holder == holder)
          is_held = true;
        else if (p.readers[row].position > read)
          read = p.readers[row].position;
    int32_t* const use = out + kWordsOfUse * i;
    use[0] = block.references;
    use[1] = is_held;
    use[2] = p.is_named() && block.writer == holder;
    use[3] = named;
    use[4] = read;
  });
  return ok();
}

/// Whether the block has the key, reserved or committed (POOL-CONTAINS-1).
template <class P>
KV_OPERATION Outcome contains(P& p, int32_t id, const int32_t* key, int32_t* out) {
  if (!p.exists(id)) return refused(kInvalidBlock);
  p.lanes.one([&] { *out = entry_for(p, p.block(id), key) != kNone; });
  return ok();
}

/// The position, group and digest of the block's servable key at the end of its slot; position 0 if it has none
/// (POOL-CONTAINS-2).
template <class P>
KV_OPERATION Outcome full_key(P& p, int32_t id, int32_t* out) {
  if (!p.exists(id)) return refused(kInvalidBlock);
  p.lanes.one([&] {
    const Block& block = p.block(id);
    for (int32_t word = 0; word < 2 + P::kDigestWords; word++) out[word] = 0;
    for (int32_t e = block.first_entry; e != kNone; e = p.entries[e].next_of_block) {
      if (!is_servable(p, e) || !is_full(p.entries[e].position, p.groups[block.group].block_size)) continue;
      out[0] = p.entries[e].position;
      out[1] = block.group;
      copy_digest<P::kDigestWords>(reinterpret_cast<uint32_t*>(out + 2), p.entries[e].digest);
      return;
    }
  });
  return ok();
}

}  // namespace kvproof
