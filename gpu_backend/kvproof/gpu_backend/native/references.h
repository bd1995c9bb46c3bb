// References: allocate, touch, free (POOL-ALLOC-*, POOL-TOUCH-*, POOL-FREE-*, POOL-HOLDER-*).
//
// The writer's reference is the block's `writer`; every other holder has a row in its list of readers. With anonymous
// references there is neither, only the count.
#pragma once

#include "events.h"
#include "queue.h"

namespace kvproof {

// --- holders --------------------------------------------------------------------------------------------------------

/// The row of a reader, kNone if the holder is none.
template <class P>
KV_FN int32_t reader_of(const P& p, const Block& block, int32_t holder) {
  int32_t row = block.readers;
  while (row != kNone && p.readers[row].holder != holder) row = p.readers[row].next;
  return row;
}

/// Whether the holder holds the block; with anonymous references, whether anybody does.
template <class P>
KV_FN bool holds(const P& p, const Block& block, int32_t holder) {
  if (!p.is_named()) return block.references > 0;
  return block.references > 0 && (block.writer == holder || reader_of(p, block, holder) != kNone);
}

/// The row of the stack of free readers that a new reader takes, `nth` of those that one operation makes.
template <class P>
KV_FN int32_t free_reader(const P& p, int32_t nth) {
  return p.free_readers[p.h->rows[kReaders] - p.h->num_readers - 1 - nth];
}

/// Add a reader who was served nothing so far. `row` is free, and counted by the caller.
template <class P>
KV_FN Reader<P::kDigestWords>& add_reader(P& p, Block& block, int32_t holder, int32_t row) {
  auto& reader = p.readers[row];
  reader.holder = holder;
  reader.next = block.readers;
  reader.position = reader.attached = reader.kept = 0;
  for (int word = 0; word < P::kDigestWords; word++) reader.digest[word] = 0;
  block.readers = row;
  return reader;
}

/// Take a holder off a block; returns the row that was its reader, kNone if it was the writer.
template <class P>
KV_FN int32_t remove_holder(P& p, Block& block, int32_t holder) {
  if (block.writer == holder) {
    block.writer = kNobody;
    return kNone;
  }
  int32_t* link_to_it = &block.readers;
  while (p.readers[*link_to_it].holder != holder) link_to_it = &p.readers[*link_to_it].next;
  const int32_t row = *link_to_it;
  *link_to_it = p.readers[row].next;
  return row;
}

/// Whether what the operation needs of steps is there (STEP-OPEN-2).
template <class P>
KV_FN bool has_no_open_step(const P& p) {
  return p.has_steps() && p.h->current == p.h->committed;
}

// --- allocate -------------------------------------------------------------------------------------------------------

template <class P>
KV_OPERATION Outcome allocate(P& p, int32_t holder, int32_t n, int32_t* out) {
  Header& h = *p.h;
  if (has_no_open_step(p)) return refused(kNoOpenStep);
  if (n < 0) return refused(kOutOfRange);
  if (n > h.num_free) return refused(kOutOfBlocks);  // POOL-ALLOC-3
  if (n == 0) return ok();
  const int64_t places = front_of_queue(p, n, out);
  const int32_t leaving = p.lanes.scan(
      n,
      [&](int i) {
        if constexpr (P::Lanes::kIsSerial) look_ahead(p, n, [&](int j) { return out[j]; }, i);
        return count_entries(p, p.block(out[i]));
      },
      [](int, int) {});
  Outcome why;
  if (lacks_events(p, leaving, &why) || lacks_work(p, leaving, &why)) return why;
  if (leaving > 0) {  // POOL-ALLOC-2
    p.lanes.scan(
        n, [&](int i) { return count_entries(p, p.block(out[i])); },
        [&](int i, int offset) {
          detach(p, p.block(out[i]), p.work.words + offset, [](int32_t) { return true; });
        });
    drop(p, leaving, p.work.words);
  }
  p.lanes.each(n, [&](int i) {
    Block& block = p.block(out[i]);
    p.ring[block.place] = kHole;
    block.references = 1;
    block.place = kNotQueued;
    block.group = block.slot = kNone;  // POOL-ALLOC-4
    if (p.is_named()) block.writer = holder;
    if (p.has_steps()) block.born = p.current();
  });
  p.lanes.one([&] {
    advance_head(p, places);
    h.num_free -= n;
    if (p.is_named()) p.holders[row_of_holder(holder)].references += n;
  });
  return ok();
}

// --- touch ----------------------------------------------------------------------------------------------------------

/// A key among a program's words: the group, then the digest.
KV_FN int32_t group_in(const int32_t* key) { return key[0]; }
KV_FN const uint32_t* digest_in(const int32_t* key) { return reinterpret_cast<const uint32_t*>(key + 1); }

/// The block's entry for a key, kNone if it has none.
template <class P>
KV_FN int32_t entry_for(const P& p, const Block& block, const int32_t* key) {
  return block.group == group_in(key) ? entry_of(p, block, digest_in(key)) : kNone;
}

/// Add a reader who reads the prefix that an entry of the block names.
template <class P>
KV_FN Reader<P::kDigestWords>& serve(P& p, Block& block, int32_t e, int32_t holder, int32_t row) {
  auto& reader = add_reader(p, block, holder, row);
  reader.position = position_of(p, e);
  copy_digest<P::kDigestWords>(reader.digest, p.entries[e].digest);
  return reader;
}

/// Whether an id other than the null block stands twice among `id(0) .. id(n-1)`, all of which exist.
template <class P, class I>
KV_FN bool repeats(P& p, int32_t n, I id) {
  if (n < 2) return false;
  p.lanes.one([&] { *p.work.cell = 0; });
  p.lanes.each(n, [&](int i) {
    if (id(i) != kNullBlock && (p.lanes.mark(&p.block(id(i)).references, kSeen) & kSeen)) p.lanes.add(p.work.cell, 1);
  });
  p.lanes.each(n, [&](int i) {
    if (id(i) != kNullBlock) p.lanes.unmark(&p.block(id(i)).references, kSeen);
  });
  return *p.work.cell != 0;
}

/// `items` are n times a block and a key.
template <class P>
KV_OPERATION Outcome touch(P& p, int32_t holder, int32_t n, const int32_t* items) {
  constexpr int kItem = 1 + P::kKeyWords;
  Header& h = *p.h;
  if (has_no_open_step(p)) return refused(kNoOpenStep);
  const auto id = [&](int i) { return items[i * kItem]; };
  const auto key = [&](int i) { return items + i * kItem + 1; };
  const auto code = [&](int i) -> Code {
    if (!p.exists(id(i))) return kInvalidBlock;
    if (id(i) == kNullBlock) return kOk;  // POOL-NULL-1
    const Block& block = p.block(id(i));
    const int32_t e = entry_for(p, block, key(i));
    if (e == kNone || !is_servable(p, e)) return kNotCached;           // POOL-TOUCH-2, STEP-SERVE-1
    if (p.is_named() && holds(p, block, holder)) return kAlreadyHeld;  // POOL-HOLDER-1
    return block.references > kMostReferences - n ? kOutOfRange : kOk;
  };
  const int bad = p.lanes.first(n, [&](int i) { return code(i) != kOk; });
  if (bad < n) return refused(code(bad), bad);
  const auto is_block = [&](int i) { return id(i) != kNullBlock; };
  const int32_t touched = p.lanes.scan(n, is_block, [](int, int) {});
  Outcome why;
  if (lacks_work(p, work_to_tend(n), &why)) return why;
  if (p.is_named() && lacks(p, kReaders, h.num_readers, touched, &why)) return why;
  if (p.is_named() && repeats(p, n, id)) return refused(kAlreadyHeld);
  p.lanes.one([&] { *p.work.cell = 0; });
  p.lanes.scan(n, is_block, [&](int i, int rank) {
    if (!is_block(i)) return;
    Block& block = p.block(id(i));
    if (p.lanes.add(&block.references, 1) == 0) {  // POOL-TOUCH-1
      leave_queue(p, block);
      p.lanes.add(p.work.cell, 1);
    }
    if (p.is_named()) serve(p, block, entry_for(p, block, key(i)), holder, free_reader(p, rank));
  });
  const int32_t left = *p.work.cell;
  p.lanes.one([&] {
    h.num_free -= left;
    if (!p.is_named()) return;
    h.num_readers += touched;
    p.holders[row_of_holder(holder)].references += touched;
  });
  tend_queue(p, left);
  return ok();
}

// --- free -----------------------------------------------------------------------------------------------------------

/// Why a holder may not let go of a block yet, or does not hold it. `is_last`: nobody else holds it.
/// Entries of marked owners do not count: their rollback comes first (STEP-FINISH-1).
template <class P>
KV_FN Code check_release(const P& p, const Block& block, int32_t holder, bool is_last) {
  if (!holds(p, block, holder)) return kNotReferenced;  // POOL-FREE-4
  if (!p.has_steps()) return kOk;
  const int32_t reader = block.writer == holder ? kNone : reader_of(p, block, holder);
  if ((reader == kNone ? block.writer_kept : p.readers[reader].kept) > 0) return kNotCommitted;  // STEP-COPY-2
  for (int32_t e = block.first_entry; e != kNone; e = p.entries[e].next_of_block) {
    if (is_servable(p, e)) continue;
    const int32_t owner = pending_of(p, e).owner;
    const bool taken_back = owner != kNobody && p.holders[row_of_holder(owner)].mark != 0;
    if (!taken_back && (is_last || owner == holder)) return kNotCommitted;  // STEP-FREE-1
  }
  return kOk;
}

/// Whether `holder` may drop one reference for each id; null blocks are left out (POOL-FREE-1, POOL-FREE-4).
template <class P>
KV_OPERATION Outcome check_releases(P& p, int32_t holder, int32_t n, const int32_t* ids) {
  const auto code = [&](int i) -> Code {
    if (!p.exists(ids[i])) return kInvalidBlock;
    if (ids[i] == kNullBlock) return kOk;
    return check_release(p, p.block(ids[i]), holder, p.block(ids[i]).references == 1);
  };
  const int bad = p.lanes.first(n, [&](int i) { return code(i) != kOk; });
  if (bad < n) return refused(code(bad), bad);
  if (p.is_named()) return repeats(p, n, [&](int i) { return ids[i]; }) ? refused(kNotReferenced) : ok();
  // Anonymous references: an id may be given as often as the block is referenced (POOL-FREE-5).
  p.lanes.each(n, [&](int i) {
    if (ids[i] != kNullBlock) p.lanes.add(&p.block(ids[i]).references, -1);
  });
  const int too_often = p.lanes.first(n, [&](int i) { return p.block(ids[i]).references < 0; });
  p.lanes.each(n, [&](int i) {
    if (ids[i] != kNullBlock) p.lanes.add(&p.block(ids[i]).references, 1);
  });
  return too_often < n ? refused(kNotReferenced, too_often) : ok();
}

/// Take a named holder off its blocks, each of which it holds once.
template <class P>
KV_FN void let_go(P& p, int32_t holder, int32_t n, const int32_t* ids) {
  Header& h = *p.h;
  int32_t* const rows = p.work.words;  // the readers that become free
  p.lanes.each(n, [&](int i) {
    rows[i] = ids[i] == kNullBlock ? kNone : remove_holder(p, p.block(ids[i]), holder);
  });
  const int32_t freed = p.lanes.scan(
      n, [&](int i) { return rows[i] != kNone; },
      [&](int i, int rank) {
        if (rows[i] != kNone) p.free_readers[h.rows[kReaders] - h.num_readers + rank] = rows[i];
      });
  const int32_t released = p.lanes.scan(n, [&](int i) { return ids[i] != kNullBlock; }, [](int, int) {});
  p.lanes.one([&] {
    h.num_readers -= freed;
    if (released > 0) p.holders[row_of_holder(holder)].references -= released;  // else nobody may be called so
  });
}

/// Drop one reference for each id; blocks that reach 0 take their places in the queue (POOL-FREE-2, -3, -5).
/// It was checked that the holder may. The workspace has room to tend the queue.
template <class P>
KV_OPERATION void release(P& p, int32_t holder, int32_t n, const int32_t* ids) {
  constexpr int32_t kStays = -1, kGoesFirst = -2, kGoesLast = -3;
  Header& h = *p.h;
  if (p.is_named()) let_go(p, holder, n, ids);
  p.lanes.each(n, [&](int i) {
    if (ids[i] != kNullBlock) p.lanes.add(&p.block(ids[i]).references, -1);
  });
  // An id that is given several times takes its place where it stands last, which is where its count reaches 0.
  const auto is_released = [&](int i) { return ids[i] != kNullBlock && p.block(ids[i]).references == 0; };
  p.lanes.each(n, [&](int i) {
    if (is_released(i)) p.lanes.least(&p.block(ids[i]).place, -1 - i);
  });
  int32_t* const offsets = p.work.words;  // one of the constants, then where in the queue the block goes
  p.lanes.each(n, [&](int i) {
    const Block& block = p.block(ids[i]);
    const bool goes = is_released(i) && block.place == -1 - i;
    offsets[i] = !goes ? kStays : block.first_entry == kNone ? kGoesFirst : kGoesLast;
  });
  const int32_t front = p.lanes.scan(
      n, [&](int i) { return offsets[i] == kGoesFirst; },
      [&](int i, int rank) {
        if (offsets[i] == kGoesFirst) offsets[i] = rank;
      });
  const int32_t back = p.lanes.scan(
      n, [&](int i) { return offsets[i] == kGoesLast; },
      [&](int i, int rank) {
        if (offsets[i] == kGoesLast) offsets[i] = static_cast<int32_t>(h.ring_span) + front + rank;
      });
  p.lanes.one([&] {
    advance_head(p, -front);
    h.ring_span += back;
    h.num_free += front + back;
  });
  p.lanes.each(n, [&](int i) {
    if (offsets[i] == kStays) return;
    Block& block = p.block(ids[i]);
    block.place = place_behind_head(p, offsets[i]);
    p.ring[block.place] = ids[i];
  });
  tend_queue(p, front + back);
}

template <class P>
KV_OPERATION Outcome free_blocks(P& p, int32_t holder, int32_t n, const int32_t* ids) {
  Outcome why;
  if (lacks_work(p, work_to_tend(n), &why)) return why;
  why = check_releases(p, holder, n, ids);
  if (why.code == kOk) release(p, holder, n, ids);
  return why;
}

}  // namespace kvproof
