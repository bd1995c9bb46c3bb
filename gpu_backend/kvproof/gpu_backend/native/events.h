// Events: the net change of the resident set over one operation, removals first (EVENT-*).
//
// An operation that publishes first takes what leaves out of its block's list, then publishes, then drops; until then
// what leaves still stands in the list of its key. So a key that leaves and comes back in one operation is seen to have
// been resident all the time, and gives no event (EVENT-NET-1).
#pragma once

#include "index.h"

namespace kvproof {

/// The place in the ring of the event that comes so many after the last one.
template <class P>
KV_FN Event<P::kDigestWords>& next_event(const P& p, int32_t after_last) {
  int64_t place = p.h->first_event + p.h->num_events + after_last;
  if (place >= p.h->rows[kEvents]) place -= p.h->rows[kEvents];
  return p.events[place];
}

/// Whether the ring has no room for so many more events; then nothing may be changed.
template <class P>
KV_FN bool lacks_events(const P& p, int64_t more, Outcome* why) {
  return p.h->tells_events && lacks(p, kEvents, p.h->num_events, more, why);
}

// --- removed --------------------------------------------------------------------------------------------------------

/// Whether the entry, which has just left its key's list, took something resident with it: the key, or with one event
/// per copy the entry itself, unless this operation has put it back (EVENT-RESIDENCY-*).
template <class P>
KV_FN bool is_gone(const P& p, int32_t e, int32_t first_left) {
  if (p.entries[e].position == kWasReserved) return false;
  return p.h->is_per_copy ? !is_among(p, first_left, p.entries[e].block) : !is_resident(p, first_left);
}

/// Drop entries that are no longer in their blocks' lists, in order, and tell what left (EVENT-REMOVED-1, -2).
/// `list` is overwritten.
template <class P>
KV_OPERATION void drop(P& p, int32_t n, int32_t* list) {
  if (n == 0) return;
  if (p.h->num_pendings > 0)
    p.lanes.one([&] {
      for (int32_t i = 0; i < n; i++) {
        const int32_t e = list[i];
        if (is_servable(p, e)) continue;
        const bool reserved = is_reserved(p, e);
        forget_pending(p, e);
        if (reserved) p.entries[e].position = kWasReserved;
      }
    });
  const auto bucket = [&](int i) { return bucket_of(p, p.entries[list[i]].digest, group_of(p, list[i])); };
  p.lanes.in_order(n, bucket, p.buckets, [&](int i, int32_t place) {
    const int32_t e = list[i], first_left = unlink(p, e, place);
    if (!p.h->tells_events || !is_gone(p, e, first_left)) list[i] = ~e;
  });
  int32_t told = 0;
  if (p.h->tells_events)
    told = p.lanes.scan(
        n, [&](int i) { return list[i] >= 0; },
        [&](int i, int rank) {
          if (list[i] < 0) return;
          auto& event = next_event(p, rank);
          event.kind = kRemoved;
          event.group = group_of(p, list[i]);
          copy_digest<P::kDigestWords>(event.digest, p.entries[list[i]].digest);
        });
  p.lanes.each(n, [&](int i) {
    p.free_entries[p.h->rows[kEntries] - p.h->num_entries + i] = list[i] < 0 ? ~list[i] : list[i];
  });
  p.lanes.one([&] {
    p.h->num_entries -= n;
    p.h->num_events += told;
  });
}

// --- stored ---------------------------------------------------------------------------------------------------------

/// Whether publishing an entry of this block is news; `first` is the key's first entry, or kNone (EVENT-STORED-3).
template <class P>
KV_FN bool is_news(const P& p, int32_t first, int32_t id) {
  if (!p.h->is_per_copy) return !is_resident(p, first);
  for (int32_t e = first; e != kNone; e = p.entries[e].next_of_key)
    if (p.entries[e].block == id && is_committed(p, e)) return false;
  return true;
}

/// Whether a consumer knows the key: it is resident, and not only by what this commit has still to tell.
template <class P>
KV_FN bool is_known(const P& p, const uint32_t* digest, int32_t group) {
  bool resident = false;
  for (int32_t e = find_key(p, digest, group); e != kNone; e = p.entries[e].next_of_key) {
    if (!is_servable(p, e) && pending_of(p, e).is_fresh) return false;
    resident |= is_committed(p, e);
  }
  return resident;
}

/// The position of the longest shorter prefix that a consumer knows, in any group; 0 if there is none (EVENT-PARENT-1).
template <class P>
KV_OPERATION int32_t parent_of(const P& p, const Chain& text, int32_t position) {
  const int64_t h = p.h->hash_block_size;
  for (int64_t n = position - h; n > 0; n -= h)
    for (int32_t group = 0; group < p.h->num_groups; group++)
      if (is_known(p, text.digests + (n / h - 1) * P::kDigestWords, group)) return static_cast<int32_t>(n);
  return 0;
}

/// Tell of a run of `count` keys of a text, the first one at `position` (EVENT-STORED-1, -2). There is room.
template <class P>
KV_FN void write_stored(P& p, int32_t after_last, int32_t group, int32_t text, int32_t position, int32_t count) {
  auto& event = next_event(p, after_last);
  event.kind = kStored;
  event.group = group;
  for (int word = 0; word < P::kDigestWords; word++) event.digest[word] = 0;
  event.run.text = text;
  event.run.first = position;
  event.run.count = count;
  event.run.parent = parent_of(p, *p.texts[text], position);
}

/// Tell that the index is empty (EVENT-CLEARED-1). One lane; there is room.
template <class P>
KV_FN void write_cleared(P& p) {
  auto& event = next_event(p, 0);
  event.kind = kCleared;
  event.group = 0;
  for (int word = 0; word < P::kDigestWords; word++) event.digest[word] = 0;
  p.h->num_events++;
}

}  // namespace kvproof
