// Step programs: a stream of words, opcodes with their operands, interpreted over one arena.
//
// Operations run one after the other. The first one that is refused changes nothing and ends the program; those before
// it have happened. The caller learns which one it was, and where it stands, so that it can make room and go on from
// there.
#pragma once

#include "steps.h"

namespace kvproof {

/// A key is its group and then its digest, W words. Lists are preceded by their length n.
enum Opcode : int32_t {
  kOpAllocate = 1,   ///< holder, n                                          -> n blocks
  kOpTouch,          ///< holder, n, n x (block, key)
  kOpFree,           ///< holder, n, blocks
  kOpLookup,         ///< n, keys                                            -> n blocks
  kOpLookupLongest,  ///< n, keys                                            -> number of hits, n blocks
  kOpFind,           ///< n, keys                                            -> n x (block, reserved, writer, pending)
  kOpContains,       ///< block, key                                         -> 0 or 1
  kOpFullKey,        ///< block                                              -> position, key
  kOpCacheFull,      ///< owner, text, group, replace, first slot, n, blocks
  kOpCachePartial,   ///< owner, text, group, replace, block, position
  kOpEvict,          ///< n, blocks
  kOpMove,           ///< source, target
  kOpCopy,           ///< holder, keeper, source, target
  kOpWrite,          ///< owner, text, group, 0, block, position
  kOpRead,           ///< holder, block
  kOpReset,
  kOpBeginStep,      ///<                                                    -> step
  kOpCommit,         ///< step
  kOpAttach,         ///< holder, block, key
  kOpRollback,       ///< n, requests                                        -> how many, requests
  kOpFinish,         ///< request, n, blocks                                 -> how many, requests
  kOpFindMatrix,     ///< text                                               -> 3 x groups x hashes blocks
  kOpUses,           ///< holder, n, blocks                                  -> n x (references, holds, writes, named, read)
  kOpEnd
};

#if !defined(__CUDACC__)
constexpr const char* kOpcodeNames[] = {
    "allocate", "touch", "free", "lookup", "lookup_longest", "find", "contains", "full_key",
    "cache_full_blocks", "cache_partial_block", "evict", "move", "copy", "write", "read", "reset", "begin_step",
    "commit", "attach", "rollback", "finish", "find_matrix", "uses"};
static_assert(sizeof(kOpcodeNames) / sizeof(*kOpcodeNames) == kOpEnd - 1, "every operation has a name");
#endif

/// What became of a program. `at` is the word at which the refused operation stands, `results` how many words of
/// results the operations before it gave.
struct Result {
  Outcome outcome;
  int64_t operation, at, results;
};

namespace program {

constexpr int64_t kUnknown = -1;

/// How many words the operation has, its opcode included, and how many it answers with; kUnknown if it is none.
/// Lengths are read only where they lie inside the program.
template <class P>
KV_FN int64_t length_of(const P& p, const int32_t* op, int64_t words, int64_t* answers) {
  constexpr int64_t kKey = P::kKeyWords;
  *answers = 0;
  const auto count = [&](int at) -> int64_t { return at < words && op[at] >= 0 ? op[at] : kUnknown; };
  const auto listed = [&](int at, int64_t each, int64_t answers_each, int64_t answers_more) -> int64_t {
    const int64_t n = count(at);
    if (n == kUnknown) return kUnknown;
    *answers = n * answers_each + answers_more;
    return at + 1 + n * each;
  };
  switch (op[0]) {
    case kOpAllocate:
      *answers = count(2) == kUnknown || count(2) > p.h->num_free ? 0 : count(2);
      return 3;
    case kOpTouch: return listed(2, 1 + kKey, 0, 0);
    case kOpFree: return listed(2, 1, 0, 0);
    case kOpLookup: return listed(1, kKey, 1, 0);
    case kOpLookupLongest: return listed(1, kKey, 1, 1);
    case kOpFind: return listed(1, kKey, 4, 0);
    case kOpContains: *answers = 1; return 2 + kKey;
    case kOpFullKey: *answers = 1 + kKey; return 2;
    case kOpCacheFull: return listed(6, 1, 0, 0);
    case kOpCachePartial: case kOpWrite: return 7;
    case kOpEvict: return listed(1, 1, 0, 0);
    case kOpMove: return 3;
    case kOpCopy: return 5;
    case kOpRead: return 3;
    case kOpReset: return 1;
    case kOpBeginStep: *answers = 1; return 1;
    case kOpCommit: return 2;
    case kOpAttach: return 3 + kKey;
    case kOpRollback: return listed(1, 1, 1, 1 + p.h->num_dependencies);
    case kOpFinish: {
      const int64_t length = listed(2, 1, 0, 0);
      *answers = 2 + p.h->num_dependencies;
      return length;
    }
    case kOpFindMatrix:
      if (words > 1 && p.is_text(op[1])) *answers = 3 * p.h->num_groups * p.texts[op[1]]->count;
      return 2;
    case kOpUses: return listed(2, 1, kWordsOfUse, 0);
    default: return kUnknown;
  }
}

/// Whether all holders and texts that the operation names exist; kStranger only lets go of what it does not hold.
template <class P>
KV_FN bool names_what_exists(const P& p, const int32_t* op) {
  switch (op[0]) {
    case kOpAllocate: case kOpTouch: case kOpAttach: case kOpFinish: return p.is_holder(op[1]);
    case kOpFree: case kOpRead: case kOpUses: return p.is_holder(op[1]) || op[1] == kStranger;
    case kOpFindMatrix: return p.is_text(op[1]);
    case kOpCopy: return (p.is_holder(op[1]) || op[1] == kStranger) && (!p.has_steps() || p.is_holder(op[2]));
    case kOpCacheFull: case kOpCachePartial: case kOpWrite:
      return (p.is_holder(op[1]) || op[1] == kStranger) && p.is_text(op[2]);
    case kOpRollback:
      for (int32_t i = 0; i < op[1]; i++)
        if (!p.is_holder(op[2 + i])) return false;
      return true;
    default: return true;
  }
}

template <class P>
KV_OPERATION Outcome run_one(P& p, const int32_t* op, int32_t* out) {
  if (!names_what_exists(p, op)) return refused(kInvalidArgument);
  const auto naming = [&] { return Naming{op[1], op[2], op[3], op[4] != 0}; };
  switch (op[0]) {
    case kOpAllocate: return allocate(p, op[1], op[2], out);
    case kOpTouch: return touch(p, op[1], op[2], op + 3);
    case kOpFree: return free_blocks(p, op[1], op[2], op + 3);
    case kOpLookup: return lookup(p, op[1], op + 2, out);
    case kOpLookupLongest: return lookup_longest(p, op[1], op + 2, out);
    case kOpFind: return find(p, op[1], op + 2, out);
    case kOpContains: return contains(p, op[1], op + 2, out);
    case kOpFullKey: return full_key(p, op[1], out);
    case kOpCacheFull: return cache_full(p, naming(), op[5], op[6], op + 7);
    case kOpCachePartial: return cache_partial(p, naming(), op[5], op[6]);
    case kOpEvict: return evict(p, op[1], op + 2);
    case kOpMove: return move(p, op[1], op[2]);
    case kOpCopy: return copy(p, op[1], op[2], op[3], op[4]);
    case kOpWrite: return write(p, naming(), op[5], op[6]);
    case kOpRead: return read(p, op[1], op[2]);
    case kOpReset: return reset(p);
    case kOpBeginStep: return begin_step(p, out);
    case kOpCommit: return commit(p, op[1]);
    case kOpAttach: return attach(p, op[1], op[2], op + 3);
    case kOpRollback: return rollback(p, op[1], op + 2, out);
    case kOpFinish: return finish(p, op[1], op[2], op + 3, out);
    case kOpFindMatrix: return find_matrix(p, op[1], out);
    default: return uses(p, op[1], op[2], op + 3, out);
  }
}

/// How many words of results the operation really gave, at most what `length_of` said.
KV_FN int64_t answered(int32_t opcode, int64_t most, const int32_t* out) {
  return opcode == kOpRollback || opcode == kOpFinish ? 1 + out[0] : most;
}

}  // namespace program

/// Run a program of `words` words; its results go to `out`, which has room for `room` words.
template <class P>
KV_FN Result interpret(P& p, const int32_t* words, int64_t count, int32_t* out, int64_t room) {
  Result result = {ok(), 0, 0, 0};
  for (; result.at < count; result.operation++) {
    const int32_t* op = words + result.at;
    int64_t answers;
    const int64_t length = program::length_of(p, op, count - result.at, &answers);
    if (length == program::kUnknown || length > count - result.at) {
      result.outcome = {kBadProgram, static_cast<int32_t>(result.at), 0};
      return result;
    }
    if (answers > room - result.results) {
      result.outcome = {kMoreRoom, 0, result.results + answers};
      return result;
    }
    result.outcome = program::run_one(p, op, out + result.results);
    if (result.outcome.code != kOk) return result;
    result.at += length;
    result.results += program::answered(op[0], answers, out + result.results);
  }
  return result;
}

}  // namespace kvproof
