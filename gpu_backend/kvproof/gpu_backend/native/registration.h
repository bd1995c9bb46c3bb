// Registration: naming blocks by what they hold (REG-*, STEP-RESERVE-1, STEP-UPGRADE-1).
//
// What a registration means is decided for all its slots before anything changes.
#pragma once

#include "references.h"

namespace kvproof {

/// Who names blocks, by which text.
struct Naming {
  int32_t owner;
  int32_t text;
  int32_t group;
  bool replace;
};

/// A prefix of a text: its length, the slot that it ends in (POS-SLOT-1), and which of the text's hashes names it.
struct Prefix {
  int32_t position;
  int32_t slot;
  int64_t link;
};

/// What registering one key on one block does.
enum Act : int32_t {
  kNothing,        ///< the key is there already, or the block has a full key (REG-DUPLICATE-1, REG-PARTIAL-5)
  kAdd,            ///< the key comes, nothing leaves (REG-PARTIAL-4)
  kAddAlone,       ///< all keys leave, then the key comes (REG-FULL-3, REG-PARTIAL-3, REG-REPLACE-1)
  kAddOverReserved ///< reserved keys leave; committed ones leave when the new key is committed (STEP-UPGRADE-1, -2)
};

struct Plan {
  Act act;
  Code code;
};

/// The slot in which a prefix ends (POS-SLOT-1).
KV_FN int32_t slot_of(int32_t position, int64_t block_size) {
  return static_cast<int32_t>((position - 1) / block_size);
}

KV_FN bool is_full(int32_t position, int64_t block_size) { return position % block_size == 0; }

/// The digest of a text's prefix, null past what is hashed (POS-ALIGN-1).
template <class P>
KV_FN const uint32_t* digest_at(const P& p, const Chain& text, int64_t position) {
  const int64_t link = position / p.h->hash_block_size;
  return link > text.count ? nullptr : text.digests + (link - 1) * P::kDigestWords;
}

template <class P>
KV_FN const uint32_t* digest_of(const P&, const Chain& text, const Prefix& prefix) {
  return text.digests + prefix.link * P::kDigestWords;
}

/// Whether the holder may register keys on the block and write it (REG-OWNER-1, REG-OWNER-2, CONTENT-WRITE-3).
template <class P>
KV_FN Code check_writer(const P& p, const Block& block, int32_t holder) {
  if (block.references == 0) return kNotReferenced;
  return p.is_named() && block.writer != holder ? kNotOwner : kOk;
}

/// Whether the block can be this slot (REG-SLOT-1).
KV_FN bool is_other_slot(const Block& block, int32_t group, int32_t slot) {
  return block.slot != kNone && (block.group != group || block.slot != slot);
}

/// What registering the key of a prefix does. The null block does nothing.
template <class P>
KV_OPERATION Plan plan(const P& p, const Naming& naming, int32_t id, const Prefix& prefix) {
  if (!p.exists(id)) return {kNothing, kInvalidBlock};
  if (id == kNullBlock) return {kNothing, kOk};  // REG-FULL-2
  const Block& block = p.block(id);
  const Group& group = p.groups[naming.group];
  const Chain& text = *p.texts[naming.text];
  if (!naming.replace && block.group == naming.group && entry_of(p, block, digest_of(p, text, prefix)) != kNone)
    return {kNothing, kOk};
  if (const Code code = check_writer(p, block, naming.owner)) return {kNothing, code};
  if (is_other_slot(block, naming.group, prefix.slot)) return {kNothing, kOutOfRange};
  if (block.first_entry == kNone) return {kAdd, kOk};
  if (naming.replace) return {kAddAlone, kOk};
  int32_t longest = 0;
  for (int32_t e = block.first_entry; e != kNone; e = p.entries[e].next_of_block) {
    const int32_t other = position_of(p, e);
    const uint32_t* own = digest_at(p, text, other);
    if (own == nullptr || !equal<P::kDigestWords>(own, p.entries[e].digest))  // REG-CONFLICT-1
      return {kNothing, kContentConflict};
    if (other > longest) longest = other;
  }
  if (group.kind == kRecurrent) return {kNothing, kContentConflict};  // REG-RECURRENT-1
  if (prefix.position > longest) return {p.has_steps() ? kAddOverReserved : kAddAlone, kOk};
  return {is_full(longest, group.block_size) ? kNothing : kAdd, kOk};
}

/// Whether the act removes this entry of the block.
template <class P>
KV_FN bool leaves(const P& p, int32_t act, int32_t e) {
  return act == kAddAlone || (act == kAddOverReserved && is_reserved(p, e));
}

/// How many entries of the block the act removes.
template <class P>
KV_FN int32_t count_leaving(const P& p, int32_t act, const Block& block) {
  if (act == kAdd) return 0;
  int32_t count = 0;
  for (int32_t e = block.first_entry; e != kNone; e = p.entries[e].next_of_block) count += leaves(p, act, e);
  return count;
}

/// Note that a request registers in the current step, for the first time if it has not yet (STEP-COMMIT-3). One lane.
template <class P>
KV_FN void admit(P& p, int32_t request) {
  HolderRow& row = p.holders[row_of_holder(request)];
  if (row.admitted == p.current()) return;
  row.admitted = p.current();
  p.admissions[p.h->num_admissions++] = {p.current(), request};
}

/// One registering call: the blocks `id(i)` are named by the text's prefixes `prefix(i)`, which ascend.
template <class I, class F>
struct Registration {
  Naming naming;
  int32_t n;
  I id;
  F prefix;
  // Decided before anything changes; the lists lie in the workspace.
  int32_t* acts;     ///< for each slot what is done, afterwards for each that was added whether it is news
  int32_t* chosen;   ///< the slots where something is done
  int32_t* left;     ///< room for the entries that leave
  int32_t coming, leaving;
};

/// The block of the j-th chosen slot.
template <class P, class R>
KV_FN Block& block_of(const P& p, const R& call, int j) {
  return p.block(call.id(call.chosen[j]));
}

template <class P, class R>
KV_FN int32_t leaving_of(const P& p, const R& call, int j) {
  return count_leaving(p, call.acts[call.chosen[j]], block_of(p, call, j));
}

/// What the call does, all of it or none (REG-ATOMIC-1); refused if one slot is, or if there is no room.
template <class P, class R>
KV_FN Outcome decide(P& p, R& call) {
  const int32_t n = call.n;
  Outcome why;
  if (lacks_work(p, 2 * static_cast<int64_t>(n), &why)) return why;
  call.acts = p.work.words;
  call.chosen = call.acts + n;
  const auto is_refused = [&](int i) {
    const Plan planned = plan(p, call.naming, call.id(i), call.prefix(i));
    call.acts[i] = planned.act;
    return planned.code != kOk;
  };
  const int bad = p.lanes.first(n, is_refused);
  if (bad < n) return refused(plan(p, call.naming, call.id(bad), call.prefix(bad)).code, bad);
  if (repeats(p, n, [&](int i) { return call.acts[i] == kNothing ? kNullBlock : call.id(i); }))  // REG-FULL-4
    return refused(kInvalidBlock);
  call.coming = p.lanes.scan(
      n, [&](int i) { return call.acts[i] != kNothing; },
      [&](int i, int rank) {
        if (call.acts[i] != kNothing) call.chosen[rank] = i;
      });
  call.left = call.chosen + call.coming;
  call.leaving = p.lanes.scan(
      call.coming, [&](int j) { return leaving_of(p, call, j); }, [](int, int) {});
  const bool lacks_room = lacks_work(p, static_cast<int64_t>(n) + call.coming + call.leaving, &why) ||
                          lacks(p, kEntries, p.h->num_entries, call.coming, &why) ||
                          lacks_events(p, call.leaving + call.coming, &why) ||
                          (p.has_steps() && (lacks(p, kPendings, p.h->num_pendings, call.coming, &why) ||
                                             lacks(p, kAdmissions, p.h->num_admissions, 1, &why)));
  return lacks_room ? why : ok();
}

/// Take what leaves out of its blocks. Until it is dropped it still stands in the list of its key; see `events.h`.
template <class P, class R>
KV_FN void take_out(P& p, R& call) {
  p.lanes.scan(
      call.coming, [&](int j) { return leaving_of(p, call, j); },
      [&](int j, int offset) {
        const int32_t act = call.acts[call.chosen[j]];
        if (act == kAdd) return;
        detach(p, block_of(p, call, j), call.left + offset, [&](int32_t e) { return leaves(p, act, e); });
      });
}

/// Make the new entries: servable at once, or with steps reserved in the current one (STEP-RESERVE-1).
template <class P, class R>
KV_FN void enter(P& p, R& call) {
  Header& h = *p.h;
  const Naming& naming = call.naming;
  const auto entry = [&](int j) { return p.free_entries[h.rows[kEntries] - h.num_entries - 1 - j]; };
  p.lanes.each(call.coming, [&](int j) {
    const int32_t e = entry(j);
    const Prefix named = call.prefix(call.chosen[j]);
    Block& block = block_of(p, call, j);
    copy_digest<P::kDigestWords>(p.entries[e].digest, digest_of(p, *p.texts[naming.text], named));
    p.entries[e].block = call.id(call.chosen[j]);
    p.entries[e].position = named.position;
    append_to_block(p, block, e);
    block.group = naming.group;
    block.slot = named.slot;
    if (!p.has_steps()) return;
    const int32_t row = static_cast<int32_t>(h.num_pendings) + j;
    p.pendings[row] = {e, named.position, p.current(), naming.owner, naming.text, static_cast<int32_t>(h.calls),
                       static_cast<int32_t>((h.registrations + j) & INT32_MAX), 0};
    p.entries[e].position = ~row;
  });
  const auto bucket = [&](int j) { return bucket_of(p, p.entries[entry(j)].digest, naming.group); };
  p.lanes.in_order(call.coming, bucket, p.buckets, [&](int j, int32_t place) {
    const int32_t first = find_in_bucket(p, place, p.entries[entry(j)].digest, naming.group);
    const int32_t slot = call.chosen[j];
    call.acts[slot] = h.tells_events && !p.has_steps() && is_news(p, first, call.id(slot));
    link(p, entry(j), place, first);
  });
  p.lanes.one([&] {
    h.num_entries += call.coming;
    h.calls = (h.calls + 1) & INT32_MAX;
    h.registrations += call.coming;
    if (p.has_steps()) h.num_pendings += call.coming;
  });
}

/// Tell of what is news, run by run (EVENT-STORED-4).
template <class P, class R>
KV_FN void tell_news(P& p, const R& call) {
  const int64_t size = p.groups[call.naming.group].block_size;
  const auto position = [&](int j) { return call.prefix(call.chosen[j]).position; };
  const auto is_news_at = [&](int j) { return call.acts[call.chosen[j]] != 0; };
  const auto follows = [&](int j) { return j > 0 && is_news_at(j - 1) && position(j) == position(j - 1) + size; };
  const auto begins = [&](int j) { return is_news_at(j) && !follows(j); };
  const int32_t runs = p.lanes.scan(call.coming, begins, [&](int j, int rank) {
    if (!begins(j)) return;
    int32_t count = 1;
    while (j + count < call.coming && is_news_at(j + count) && follows(j + count)) count++;
    write_stored(p, rank, call.naming.group, call.naming.text, position(j), count);
  });
  p.lanes.one([&] { p.h->num_events += runs; });
}

/// Run a registering call. With steps what leaves goes at once, and what comes waits for its commit; else it is the
/// other way round, so that the net change can be told (EVENT-NET-1).
template <class P, class I, class F>
KV_FN Outcome register_keys(P& p, const Naming& naming, int32_t n, I id, F prefix) {
  Registration<I, F> call = {naming, n, id, prefix, nullptr, nullptr, nullptr, 0, 0};
  const Outcome decided = decide(p, call);
  if (decided.code != kOk || call.coming == 0) return decided;
  take_out(p, call);
  if (p.has_steps()) {
    drop(p, call.leaving, call.left);
    p.lanes.one([&] { admit(p, naming.owner); });
    enter(p, call);
  } else {
    enter(p, call);
    drop(p, call.leaving, call.left);
    if (p.h->tells_events) tell_news(p, call);
  }
  return ok();
}

/// Register the full keys of the slots first .. first+n-1; a null block leaves its slot out (REG-FULL-1, -2).
template <class P>
KV_OPERATION Outcome cache_full(P& p, const Naming& naming, int32_t first, int32_t n, const int32_t* ids) {
  if (has_no_open_step(p)) return refused(kNoOpenStep);
  if (naming.group < 0 || naming.group >= p.h->num_groups) return refused(kInvalidGroup);
  const int64_t size = p.groups[naming.group].block_size;
  const int64_t hashed = p.texts[naming.text]->count * p.h->hash_block_size;
  if (first < 0 || n < 0 || first + static_cast<int64_t>(n) > hashed / size) return refused(kOutOfRange);
  const int64_t links = size / p.h->hash_block_size;
  return register_keys(
      p, naming, n, [&](int i) { return ids[i]; },
      [&](int i) {
        const int32_t slot = first + i;
        return Prefix{static_cast<int32_t>((slot + 1) * size), slot, (slot + 1) * links - 1};
      });
}

/// Register one key, inside or at the end of the block's slot (REG-PARTIAL-1, -2).
template <class P>
KV_OPERATION Outcome cache_partial(P& p, const Naming& naming, int32_t id, int32_t position) {
  if (has_no_open_step(p)) return refused(kNoOpenStep);
  if (naming.group < 0 || naming.group >= p.h->num_groups) return refused(kInvalidGroup);
  if (id == kNullBlock) return refused(kInvalidBlock);
  if (position < 1 || position > p.texts[naming.text]->count * p.h->hash_block_size) return refused(kOutOfRange);
  if (position % p.h->hash_block_size != 0) return refused(kNotAligned);
  const Prefix prefix = {position, slot_of(position, p.groups[naming.group].block_size),
                         position / p.h->hash_block_size - 1};
  return register_keys(
      p, naming, 1, [&](int) { return id; }, [&](int) { return prefix; });
}

}  // namespace kvproof
