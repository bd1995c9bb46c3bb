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

/// Name the blocks `id(i)` by the text's prefixes `prefix(i)`, which ascend; all or none (REG-ATOMIC-1).
template <class P, class I, class F>
KV_FN Outcome register_keys(P& p, const Naming& naming, int32_t n, I id, F prefix) {
  Header& h = *p.h;
  Outcome why;
  if (lacks_work(p, 2 * static_cast<int64_t>(n), &why)) return why;
  int32_t* const acts = p.work.words;
  int32_t* const chosen = acts + n;
  const auto fails = [&](int i) {
    const Plan planned = plan(p, naming, id(i), prefix(i));
    acts[i] = planned.act;
    return planned.code != kOk;
  };
  const int bad = p.lanes.first(n, fails);
  if (bad < n) return refused(plan(p, naming, id(bad), prefix(bad)).code, bad);
  if (repeats(p, n, [&](int i) { return acts[i] == kNothing ? kNullBlock : id(i); }))  // REG-FULL-4
    return refused(kInvalidBlock);

  const int32_t coming = p.lanes.scan(
      n, [&](int i) { return acts[i] != kNothing; },
      [&](int i, int rank) {
        if (acts[i] != kNothing) chosen[rank] = i;
      });
  if (coming == 0) return ok();
  const auto block = [&](int j) -> Block& { return p.block(id(chosen[j])); };
  const auto leave = [&](int j) { return count_leaving(p, acts[chosen[j]], block(j)); };
  const int32_t leaving = p.lanes.scan(coming, leave, [](int, int) {});
  int32_t* const left = chosen + coming;
  if (lacks_work(p, static_cast<int64_t>(n) + coming + leaving, &why) ||
      lacks(p, kEntries, h.num_entries, coming, &why) || lacks_events(p, leaving + coming, &why))
    return why;
  if (p.has_steps() && (lacks(p, kPendings, h.num_pendings, coming, &why) ||
                        lacks(p, kAdmissions, h.num_admissions, 1, &why)))
    return why;

  // Until it is dropped, what leaves still stands in the list of its key; see `events.h`.
  p.lanes.scan(coming, leave, [&](int j, int offset) {
    const int32_t act = acts[chosen[j]];
    if (act != kAdd) detach(p, block(j), left + offset, [&](int32_t e) { return leaves(p, act, e); });
  });
  if (p.has_steps()) {
    drop(p, leaving, left);
    p.lanes.one([&] { admit(p, naming.owner); });
  }
  const Chain& text = *p.texts[naming.text];
  const auto entry = [&](int j) { return p.free_entries[h.rows[kEntries] - h.num_entries - 1 - j]; };
  p.lanes.each(coming, [&](int j) {
    const int32_t e = entry(j);
    const Prefix named = prefix(chosen[j]);
    copy_digest<P::kDigestWords>(p.entries[e].digest, digest_of(p, text, named));
    p.entries[e].block = id(chosen[j]);
    p.entries[e].position = named.position;
    append_to_block(p, block(j), e);
    block(j).group = naming.group;
    block(j).slot = named.slot;
    if (p.has_steps()) {
      const int32_t row = static_cast<int32_t>(h.num_pendings) + j;
      p.pendings[row] = {e, named.position, p.current(), naming.owner, naming.text, static_cast<int32_t>(h.calls),
                         static_cast<int32_t>(h.registrations + j) & INT32_MAX, 0};
      p.entries[e].position = ~row;
    }
  });
  const auto bucket = [&](int j) { return bucket_of(p, p.entries[entry(j)].digest, naming.group); };
  p.lanes.in_order(coming, bucket, p.buckets, [&](int j, int32_t place) {
    const int32_t first = find_in_bucket(p, place, p.entries[entry(j)].digest, naming.group);
    acts[chosen[j]] = h.tells_events && !p.has_steps() && is_news(p, first, id(chosen[j]));
    link(p, entry(j), place, first);
  });
  p.lanes.one([&] {
    h.num_entries += coming;
    h.calls = (h.calls + 1) & INT32_MAX;
    h.registrations += coming;
    if (p.has_steps()) h.num_pendings += coming;
  });
  if (p.has_steps()) return ok();

  drop(p, leaving, left);
  if (!h.tells_events) return ok();
  // Runs of news (EVENT-STORED-4).
  const int64_t size = p.groups[naming.group].block_size;
  const auto is_news_at = [&](int j) { return acts[chosen[j]] != 0; };
  const auto follows = [&](int j) {
    return j > 0 && is_news_at(j - 1) && prefix(chosen[j]).position == prefix(chosen[j - 1]).position + size;
  };
  const auto begins = [&](int j) { return is_news_at(j) && !follows(j); };
  const int32_t runs = p.lanes.scan(coming, begins, [&](int j, int rank) {
    if (!begins(j)) return;
    int32_t count = 1;
    while (j + count < coming && is_news_at(j + count) && follows(j + count)) count++;
    write_stored(p, rank, naming.group, naming.text, prefix(chosen[j]).position, count);
  });
  p.lanes.one([&] { h.num_events += runs; });
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
