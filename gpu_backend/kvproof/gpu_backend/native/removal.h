// Evict, move, reset (POOL-EVICT-*, POOL-MOVE-*, POOL-RESET-*, STEP-MOVE-*), and the rules of copies (CONTENT-*,
// STEP-COPY-*). What blocks hold is not the core's: it checks what may be written and copied, and keeps the references.
#pragma once

#include "registration.h"

namespace kvproof {

// --- evict ----------------------------------------------------------------------------------------------------------

/// Drop all keys of one block after the other (POOL-EVICT-1, POOL-EVICT-2).
template <class P>
KV_OPERATION Outcome evict(P& p, int32_t n, const int32_t* ids) {
  const auto is_block = [&](int i) { return p.exists(ids[i]) && ids[i] != kNullBlock; };
  const int bad = p.lanes.first(n, [&](int i) { return !is_block(i); });
  if (bad < n) return refused(kInvalidBlock, bad);
  const bool repeated = repeats(p, n, [&](int i) { return ids[i]; });
  const auto count = [&](int i) { return count_entries(p, p.block(ids[i])); };
  const int32_t most = p.lanes.scan(n, count, [](int, int) {});
  Outcome why;
  if (lacks_work(p, most, &why) || lacks_events(p, most, &why)) return why;
  const auto empty = [&](int from, int blocks) {
    const int32_t leaving = p.lanes.scan(
        blocks, [&](int i) { return count(from + i); },
        [&](int i, int offset) {
          detach(p, p.block(ids[from + i]), p.work.words + offset, [](int32_t) { return true; });
        });
    drop(p, leaving, p.work.words);
  };
  if (!repeated) {
    empty(0, n);
  } else {  // the second time the block is empty, but two lanes could not know that
    for (int i = 0; i < n; i++) empty(i, 1);
  }
  return ok();
}

// --- copies ---------------------------------------------------------------------------------------------------------

/// Two blocks, neither of them null.
template <class P>
KV_FN bool are_two_blocks(const P& p, int32_t source, int32_t target) {
  return p.exists(source) && p.exists(target) && source != kNullBlock && target != kNullBlock && source != target;
}

/// Whether a key, or what a reader was served, would be lost if the block were overwritten as a whole (CONTENT-COPY-2).
template <class P>
KV_FN bool would_lose_content(const P& p, const Block& block) {
  if (block.first_entry != kNone) return true;
  if (!p.is_named()) return false;
  for (int32_t row = block.readers; row != kNone; row = p.readers[row].next)
    if (p.readers[row].position != 0) return true;
  return false;
}

/// How many copies of open steps keep the holder's reference to the block.
template <class P>
KV_FN int32_t& kept_by_copies(const P& p, Block& block, int32_t holder) {
  return block.writer == holder ? block.writer_kept : p.readers[reader_of(p, block, holder)].kept;
}

/// Keep both ends of a copy of the current step referenced by `holder` until it is committed (STEP-COPY-2). One lane;
/// there is room for two readers and a copy.
template <class P>
KV_FN void retain_ends(P& p, int32_t source, int32_t target, int32_t holder) {
  const int32_t ends[2] = {source, target};
  for (const int32_t id : ends) {
    Block& block = p.block(id);
    if (!holds(p, block, holder)) {
      if (block.references == 0) {
        leave_queue(p, block);
        p.h->num_free--;
      }
      block.references++;
      add_reader(p, block, holder, free_reader(p, 0));
      p.h->num_readers++;
      p.holders[row_of_holder(holder)].references++;
    }
    kept_by_copies(p, block, holder)++;
  }
  p.copies[p.h->num_copies++] = {p.current(), source, target, holder};
}

/// Copy what `holder` may read of `source` to `target`, which it writes (CONTENT-COPY-1, -2, STEP-COPY-1).
/// With steps, `keeper` is the pool's own holder that keeps both ends.
template <class P>
KV_OPERATION Outcome copy(P& p, int32_t holder, int32_t keeper, int32_t source, int32_t target) {
  if (has_no_open_step(p)) return refused(kNoOpenStep);
  if (!are_two_blocks(p, source, target)) return refused(kInvalidBlock);
  const Block& from = p.block(source);
  const Block& to = p.block(target);
  if (!holds(p, from, holder)) return refused(kNotReferenced, 0);
  if (!holds(p, to, holder)) return refused(kNotReferenced, 1);
  if (p.is_named() && to.writer != holder) return refused(kNotOwner);
  if (would_lose_content(p, to)) return refused(kContentConflict);
  if (p.is_named() && from.writer != holder) {
    const auto& reader = p.readers[reader_of(p, from, holder)];
    if (reader.attached > p.committed() || reader.position == 0) return refused(kNotCached);
  }
  if (!p.has_steps()) return ok();
  Outcome why;
  if (lacks(p, kReaders, p.h->num_readers, 2, &why) || lacks(p, kCopies, p.h->num_copies, 1, &why)) return why;
  p.lanes.one([&] { retain_ends(p, source, target, keeper); });
  return ok();
}

/// Hand all keys of `source` to `target`, with its group and slot; ranks and events stay (POOL-MOVE-*, STEP-MOVE-*).
template <class P>
KV_OPERATION Outcome move(P& p, int32_t source, int32_t target) {
  if (has_no_open_step(p)) return refused(kNoOpenStep);
  if (!are_two_blocks(p, source, target)) return refused(kInvalidBlock);
  Block& from = p.block(source);
  Block& to = p.block(target);
  if (from.first_entry == kNone) return refused(kNotCached);
  if (to.references == 0) return refused(kNotReferenced);
  if (is_other_slot(to, from.group, from.slot)) return refused(kOutOfRange);
  if (would_lose_content(p, to)) return refused(kContentConflict);
  Outcome why;
  if (p.has_steps()) {
    // Without a writer to.writer is kNobody, which is no copy.
    if (!is_copy(to.writer)) return refused(kContentConflict, 0);
    for (int32_t e = from.first_entry; e != kNone; e = p.entries[e].next_of_block)
      if (!is_servable(p, e) && pending_of(p, e).step == p.current()) return refused(kContentConflict, 1);
    if (lacks(p, kReaders, p.h->num_readers, 2, &why) || lacks(p, kCopies, p.h->num_copies, 1, &why) ||
        lacks(p, kPendings, p.h->num_pendings, count_entries(p, from), &why) || lacks_work(p, work_to_tend(1), &why))
      return why;
  }
  p.lanes.one([&] {
    for (int32_t e = from.first_entry; e != kNone; e = p.entries[e].next_of_block) {
      p.entries[e].block = target;
      if (!p.has_steps()) continue;
      if (is_servable(p, e))
        await_commit(p, e, p.entries[e].position, kNobody, 0, 0, 0);
      else
        pending_of(p, e).step = p.current();
    }
    to.first_entry = from.first_entry;
    from.first_entry = kNone;
    to.group = from.group;
    to.slot = from.slot;
    if (p.has_steps()) retain_ends(p, source, target, to.writer);
  });
  if (p.has_steps()) tend_queue(p, 1);
  return ok();
}

/// Whether the text's first `position` tokens may be left in the block (CONTENT-WRITE-*).
template <class P>
KV_OPERATION Outcome write(P& p, const Naming& naming, int32_t id, int32_t position) {
  if (has_no_open_step(p)) return refused(kNoOpenStep);
  if (naming.group < 0 || naming.group >= p.h->num_groups) return refused(kInvalidGroup);
  if (!p.exists(id) || id == kNullBlock) return refused(kInvalidBlock);
  const Block& block = p.block(id);
  const Chain& text = *p.texts[naming.text];
  const Group& group = p.groups[naming.group];
  if (const Code code = check_writer(p, block, naming.owner)) return refused(code);
  if (is_other_slot(block, naming.group, slot_of(position, group.block_size))) return refused(kOutOfRange);
  const auto changes = [&](int32_t covered, const uint32_t* digest) {
    const uint32_t* own = digest_at(p, text, covered);
    return group.kind == kRecurrent || covered > position || own == nullptr ||
           !equal<P::kDigestWords>(own, digest);
  };
  for (int32_t e = block.first_entry; e != kNone; e = p.entries[e].next_of_block)
    if (changes(position_of(p, e), p.entries[e].digest)) return refused(kContentConflict);
  if (!p.is_named()) return ok();
  for (int32_t row = block.readers; row != kNone; row = p.readers[row].next)
    if (p.readers[row].position != 0 && changes(p.readers[row].position, p.readers[row].digest))
      return refused(kContentConflict);
  return ok();
}

/// Whether the holder may read the block (CONTENT-READ-1).
template <class P>
KV_OPERATION Outcome read(P& p, int32_t holder, int32_t id) {
  if (!p.exists(id) || id == kNullBlock) return refused(kInvalidBlock);
  return holds(p, p.block(id), holder) ? ok() : refused(kNotReferenced);
}

// --- reset ----------------------------------------------------------------------------------------------------------

/// Forget every key, if no block is referenced (POOL-RESET-*, EVENT-CLEARED-1).
template <class P>
KV_OPERATION Outcome reset(P& p) {
  Header& h = *p.h;
  if (h.num_free != h.num_blocks - 1) return refused(kStillReferenced);
  Outcome why;
  if (lacks_events(p, 1, &why)) return why;
  const int32_t rows = static_cast<int32_t>(h.rows[kEntries]);
  p.lanes.each(static_cast<int>(h.num_blocks), [&](int i) { p.block(i).first_entry = kNone; });
  p.lanes.each(static_cast<int>(h.rows[kBuckets]), [&](int i) { p.buckets[i] = kNone; });
  p.lanes.each(rows, [&](int i) { p.free_entries[i] = rows - 1 - i; });
  p.lanes.one([&] {
    h.num_entries = 0;
    if (h.tells_events) write_cleared(p);
  });
  return ok();
}

}  // namespace kvproof
