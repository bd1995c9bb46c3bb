// A pool as a Python object: the arena it works on, the names and texts behind the core's numbers, and how one
// operation is run, with room made where it is lacking (ERR-OWNER-1).
#pragma once

#include "arena.h"
#include "py_text.h"

#if defined(KVPROOF_PERMUTED_LANES)
#include "lanes_permuted.h"
#elif defined(KVPROOF_THREADS)
#include "lanes_threads.h"
#endif

namespace kvproof {

constexpr int64_t kFirstWork = 1 << 14;      ///< words of workspace to begin with
constexpr int64_t kFewTexts = 1 << 10;       ///< not worth a purge
constexpr int64_t kWorthReleasing = 1 << 14; ///< words of a program from which on other threads may run meanwhile
constexpr const char kCopyPrefix[] = "copy:", kPoolCopyPrefix[] = "copy:pool:";

struct PoolObject {
  PyObject_HEAD
  Py_buffer arena;
  bool is_open, is_busy;
  bool is_hand_busy;  ///< like `is_busy`, for the calls of the hand
  PyObject* hand;     ///< what makes the calls of an operation of several calls, as long as it lasts; null if none does
  int digest_words;
  uint32_t seed_digest[8];
  Buffer<int32_t> program, out, work;
  int32_t cell;

  PyObject* ids;              ///< name -> holder number
  PyObject* names;            ///< row -> name, None where a row is free
  Buffer<int32_t> free_rows;  ///< of holders
  int64_t num_free_rows;

  Buffer<Text*> texts;  ///< by number; number 0 is whatever text the running operation needs for itself
  Buffer<const Chain*> chains;
  Buffer<int32_t> free_texts;
  int64_t num_texts, num_free_texts, purge_at;

  Buffer<int32_t> told;  ///< events that the ring had no room for any more, oldest first
  int64_t num_told;
};

/// Has the operations of its pool, and the pool lets nobody else in while it is the pool's hand. So what runs in the
/// middle of an operation of several calls, in whichever thread, is refused as in the middle of one call (ERR-OWNER-1).
struct Hand {
  PyObject_HEAD
  PyObject* pool;
  PyObject* operation;  ///< its name
  bool is_in;           ///< whether it is the pool's hand
};

inline PyTypeObject*& hand_type() {
  static PyTypeObject* type = nullptr;
  return type;
}

inline PoolObject& pool_of(PyObject* self) { return *reinterpret_cast<PoolObject*>(self); }
inline int32_t* arena_of(const PoolObject& pool) { return static_cast<int32_t*>(pool.arena.buf); }
inline Header& header_of(const PoolObject& pool) { return *reinterpret_cast<Header*>(arena_of(pool)); }
inline int64_t words_of_event(const PoolObject& pool) { return words_of_row(header_of(pool), kEvents); }

/// Whether the pool was made by its class, and not only by `object.__new__` or a copy; refused else.
inline bool is_made(PyObject* self) {
  return pool_of(self).is_open ||
         wrong_type("a pool", self, "one that was made by BlockPool(config) or BlockPool.restore(saved)");
}

inline bool raise_concurrent(const char* operation) {
  raise(PyObject_CallFunction(wording().concurrent, "s", operation));
  return false;
}

/// Sets what says that the pool is inside an operation; whoever comes meanwhile is refused (ERR-OWNER-1).
inline bool enter(bool* is_busy, const char* operation) {
  return !__atomic_exchange_n(is_busy, true, __ATOMIC_ACQUIRE) || raise_concurrent(operation);
}

inline void leave(bool* is_busy) { __atomic_store_n(is_busy, false, __ATOMIC_RELEASE); }

/// Inside an operation as long as it lives. `self` is a pool, or its hand; it is the pool afterwards.
class Entered {
 public:
  Entered(PyObject*& self, const char* operation) {
    if (Py_TYPE(self) == hand_type()) {
      PyObject* const hand = self;
      self = reinterpret_cast<Hand*>(hand)->pool;
      is_busy_ = &pool_of(self).is_hand_busy;
      is_in_ = (pool_of(self).hand == hand || raise_concurrent(operation)) && enter(is_busy_, operation);
    } else {
      is_busy_ = &pool_of(self).is_busy;
      is_in_ = is_made(self) && enter(is_busy_, operation);
    }
  }
  ~Entered() {
    if (is_in_) leave(is_busy_);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  explicit operator bool() const { return is_in_; }

 private:
  bool* is_busy_;
  bool is_in_;
};

// --- holders: names and numbers -------------------------------------------------------------------------------------

inline bool begins_with(PyObject* name, const char* prefix) {
  const Py_ssize_t length = static_cast<Py_ssize_t>(strlen(prefix));
  if (PyUnicode_GET_LENGTH(name) < length) return false;
  for (Py_ssize_t i = 0; i < length; i++)
    if (PyUnicode_READ_CHAR(name, i) != static_cast<Py_UCS4>(prefix[i])) return false;
  return true;
}

/// Set the marks of all holders that something in flight names; references are counted in their rows.
inline void mark_in_flight(const PoolObject& pool, int32_t mark) {
  const Header& h = header_of(pool);
  HolderRow* const rows = rows_of<HolderRow>(h, kHolders);
  const auto name = [&](int32_t holder) { rows[row_of_holder(holder)].mark = mark; };
  for (int64_t i = 0; i < h.num_pendings; i++) name(rows_of<Pending>(h, kPendings)[i].owner);
  for (int64_t i = 0; i < h.num_dependencies; i++) {
    name(rows_of<Dependency>(h, kDependencies)[i].reader);
    name(rows_of<Dependency>(h, kDependencies)[i].writer);
  }
  for (int64_t i = 0; i < h.num_attachments; i++) name(rows_of<Attachment>(h, kAttachments)[i].reader);
  for (int64_t i = 0; i < h.num_admissions; i++) name(rows_of<Admission>(h, kAdmissions)[i].request);
  for (int64_t i = 0; i < h.num_copies; i++) name(rows_of<CopyInFlight>(h, kCopies)[i].holder);
}

/// Forget the names of holders that hold nothing and are in flight nowhere.
inline bool recycle_names(PoolObject& pool) {
  HolderRow* const rows = rows_of<HolderRow>(header_of(pool), kHolders);
  const Py_ssize_t used = PyList_GET_SIZE(pool.names);
  if (!pool.free_rows.reserve(used)) return false;
  mark_in_flight(pool, 1);
  bool done = true;
  for (Py_ssize_t row = 1; done && row < used; row++) {
    PyObject* const name = PyList_GET_ITEM(pool.names, row);
    if (name == Py_None || rows[row].references > 0 || rows[row].mark != 0) continue;
    done = PyDict_DelItem(pool.ids, name) == 0;
    if (!done) break;
    PyList_SetItem(pool.names, row, Py_NewRef(Py_None));
    pool.free_rows.data[pool.num_free_rows++] = static_cast<int32_t>(row);
  }
  mark_in_flight(pool, 0);
  return done;
}

inline bool grow(PyObject* self, int region, int64_t rows) {
  PyObject* const done = PyObject_CallMethod(self, "_grow", "iL", region, static_cast<long long>(rows));
  Py_XDECREF(done);
  return done != nullptr;
}

/// Make sure that so many new names have rows; names that nobody needs any more make room first.
inline bool make_rows(PyObject* self, int64_t wanted) {
  PoolObject& pool = pool_of(self);
  const auto room = [&] {
    return header_of(pool).rows[kHolders] - PyList_GET_SIZE(pool.names) + pool.num_free_rows;
  };
  if (room() >= wanted) return true;
  const int64_t rows = header_of(pool).rows[kHolders];
  if (!recycle_names(pool)) return false;
  return room() >= wanted + rows / 4 || grow(self, kHolders, 2 * rows + wanted);
}

/// The number of a name, kStranger if the pool does not know it; -1 with an error set.
inline bool known_holder(const PoolObject& pool, PyObject* name, int32_t* holder) {
  PyObject* const id = PyDict_GetItemWithError(pool.ids, name);
  if (id == nullptr) {
    *holder = kStranger;
    return !PyErr_Occurred();
  }
  *holder = static_cast<int32_t>(PyLong_AsLong(id));
  return true;
}

/// The number of a name, a new one if need be; `make_rows` has made room for it.
inline bool number_name(PoolObject& pool, PyObject* name, int32_t* holder) {
  if (!known_holder(pool, name, holder)) return false;
  if (*holder != kStranger) return true;
  const bool is_row_free = pool.num_free_rows > 0;
  const Py_ssize_t row = is_row_free ? pool.free_rows.data[pool.num_free_rows - 1] : PyList_GET_SIZE(pool.names);
  *holder = static_cast<int32_t>(row * 2 + begins_with(name, kCopyPrefix));
  PyObject* const id = PyLong_FromLong(*holder);
  bool done = id != nullptr && (is_row_free || PyList_Append(pool.names, Py_None) == 0);
  if (done && PyDict_SetItem(pool.ids, name, id) != 0) {
    if (!is_row_free) PyList_SetSlice(pool.names, row, row + 1, nullptr);
    done = false;
  }
  Py_XDECREF(id);
  if (!done) return false;
  pool.num_free_rows -= is_row_free;
  PyList_SetItem(pool.names, row, Py_NewRef(name));
  rows_of<HolderRow>(header_of(pool), kHolders)[row] = {0, 0, 0};
  return true;
}

/// A holder as a caller names it: None where references are anonymous (POOL-HOLDER-2, STEP-NAME-1).
inline bool check_holder(const PoolObject& pool, PyObject* name) {
  if (!header_of(pool).is_named)
    return name == nullptr || name == Py_None ||
           wrong_type("holder", name, "None: the pool's references are anonymous");
  if (!check_name("holder", name == nullptr ? Py_None : name)) return false;
  if (header_of(pool).has_steps && begins_with(name, kPoolCopyPrefix))
    return wrong_type("holder", name, "another name: those that begin with copy:pool: are the pool's own");
  return true;
}

/// The number of a holder that is going to hold something.
inline bool as_holder(PyObject* self, PyObject* name, int32_t* holder) {
  PoolObject& pool = pool_of(self);
  *holder = kNobody;
  if (!check_holder(pool, name)) return false;
  if (!header_of(pool).is_named) return true;
  if (!known_holder(pool, name, holder)) return false;
  return *holder != kStranger || (make_rows(self, 1) && number_name(pool, name, holder));
}

/// The number of a holder that may hold something; kStranger if it is not known.
inline bool as_known_holder(const PoolObject& pool, PyObject* name, int32_t* holder) {
  *holder = kNobody;
  if (!check_holder(pool, name)) return false;
  return !header_of(pool).is_named || known_holder(pool, name, holder);
}

/// The name behind a number.
inline PyObject* name_of(const PoolObject& pool, int32_t holder) {
  if (holder <= kNobody) return Py_NewRef(Py_None);
  return Py_NewRef(PyList_GET_ITEM(pool.names, row_of_holder(holder)));
}

// --- texts ----------------------------------------------------------------------------------------------------------

/// The number of a text, which stays until no event and no entry in flight can name it any more.
inline bool keep_text(PoolObject& pool, Text& text, int32_t* number) {
  *number = text.number;
  if (text.pool == &pool && text.number < pool.num_texts && pool.texts.data[text.number] == &text) return true;
  if (pool.num_free_texts > 0) {
    *number = pool.free_texts.data[--pool.num_free_texts];
  } else {
    if (!pool.texts.reserve(pool.num_texts + 1) || !pool.chains.reserve(pool.num_texts + 1)) return false;
    *number = static_cast<int32_t>(pool.num_texts++);
  }
  Py_INCREF(&text);
  pool.texts.data[*number] = &text;
  pool.chains.data[*number] = &text.chain;
  text.pool = &pool;
  text.number = *number;
  return true;
}

/// The number of a text for one operation: one that stays, or 0 where there are no events that could name it later.
inline bool number_text(PoolObject& pool, Text& text, int32_t* number) {
  if (header_of(pool).tells_events) return keep_text(pool, text, number);
  *number = 0;
  pool.chains.data[0] = &text.chain;
  return true;
}

/// All events are taken: let go of the texts that no entry in flight names. Done when there are twice as many as last
/// time.
inline bool purge_texts(PoolObject& pool) {
  const Header& h = header_of(pool);
  if (pool.num_texts - pool.num_free_texts < pool.purge_at) return true;
  Buffer<uint8_t> is_named;
  if (!pool.free_texts.reserve(pool.num_texts) || !is_named.reserve(pool.num_texts)) return false;
  memset(is_named.data, 0, static_cast<size_t>(pool.num_texts));
  for (int64_t i = 0; i < h.num_pendings; i++) is_named.data[rows_of<Pending>(h, kPendings)[i].text] = 1;
  for (int64_t number = 1; number < pool.num_texts; number++) {
    Text*& text = pool.texts.data[number];
    if (text == nullptr || is_named.data[number]) continue;
    Py_CLEAR(text);
    pool.chains.data[number] = nullptr;
    pool.free_texts.data[pool.num_free_texts++] = static_cast<int32_t>(number);
  }
  is_named.release();
  const int64_t kept = pool.num_texts - pool.num_free_texts;
  pool.purge_at = 2 * kept > kFewTexts ? 2 * kept : kFewTexts;
  return true;
}

// --- running a program ----------------------------------------------------------------------------------------------

/// Take the events out of the ring, so that new ones fit.
inline bool empty_ring(PoolObject& pool) {
  Header& h = header_of(pool);
  const int64_t words = words_of_event(pool);
  if (!pool.told.reserve((pool.num_told + h.num_events) * words)) return false;
  for (int64_t i = 0; i < h.num_events; i++)
    memcpy(pool.told.data + (pool.num_told + i) * words,
           rows_of<int32_t>(h, kEvents) + (h.first_event + i) % h.rows[kEvents] * words,
           static_cast<size_t>(words) * 4);
  pool.num_told += h.num_events;
  h.first_event = h.num_events = 0;
  return true;
}

template <int W>
Result interpret_for(PoolObject& pool, const int32_t* words, int64_t count, int32_t* out, int64_t room) {
  const auto run = [&](const auto& lanes) {
    const Workspace work = {pool.work.data, pool.work.room, nullptr, &pool.cell};
    Pool<W, std::decay_t<decltype(lanes)>> core(arena_of(pool), pool.chains.data, pool.num_texts, work, lanes);
    return interpret(core, words, count, out, room);
  };
#if defined(KVPROOF_PERMUTED_LANES)  // for tests
  return run(PermutedLanes{});
#elif defined(KVPROOF_THREADS)
  return run_in_threads(header_of(pool).rows[kBuckets] + 1, run);
#else
  return run(SerialLanes{});
#endif
}

inline Result interpret_program(PoolObject& pool, const int32_t* words, int64_t count, int32_t* out, int64_t room) {
  return pool.digest_words == 4 ? interpret_for<4>(pool, words, count, out, room)
                                : interpret_for<8>(pool, words, count, out, room);
}

/// Make what the core said it lacks. False, with an error set, if that is impossible; then nothing has changed.
inline bool make_room(PyObject* self, const Outcome& lacking) {
  PoolObject& pool = pool_of(self);
  switch (lacking.code) {
    case kGrow: return grow(self, lacking.detail, lacking.need);
    case kDrain:
      if (!empty_ring(pool)) return false;
      return lacking.need <= header_of(pool).rows[kEvents] || grow(self, kEvents, lacking.need);
    case kMoreWork: return pool.work.reserve(lacking.need);
    default: return pool.out.reserve(lacking.need);
  }
}

/// Who asked, for the text of an error.
struct Call {
  const char* operation;
  PyObject* const* arguments;
  int num_arguments;
};

inline void raise_refusal(PyObject* self, const Outcome& why, const Call& call) {
  PyObject* const arguments = PyTuple_New(call.num_arguments);
  if (arguments == nullptr) return;
  for (int i = 0; i < call.num_arguments; i++)
    PyTuple_SET_ITEM(arguments, i, Py_NewRef(call.arguments[i] == nullptr ? Py_None : call.arguments[i]));
  const char* const error = why.code < kGrow ? kErrorNames[why.code] : "InvalidArgument";
  raise(PyObject_CallFunction(wording().refusal, "OssiN", self, error, call.operation, why.detail, arguments));
}

/// Run the first `count` words of the pool's program buffer, up to the first operation that is refused; results are in
/// its `out`. `effort` is about how many words are touched: while it is large other threads may run, which is no harm
/// as long as the program reads no texts. False, with an error set, if there is no room for an operation, which then
/// has changed nothing.
inline bool run_until_refused(PyObject* self, int64_t count, int64_t effort, Result* done) {
  PoolObject& pool = pool_of(self);
  *done = {ok(), 0, 0, 0};
  for (;;) {
    const int32_t* const words = pool.program.data + done->at;
    int32_t* const out = pool.out.data + done->results;
    const int64_t left = count - done->at, room = pool.out.room - done->results;
    Result more;
    if (effort < kWorthReleasing) {
      more = interpret_program(pool, words, left, out, room);
    } else {
      Py_BEGIN_ALLOW_THREADS
      more = interpret_program(pool, words, left, out, room);
      Py_END_ALLOW_THREADS
    }
    Outcome lacking = more.outcome;
    if (lacking.code == kMoreRoom) lacking.need += done->results;
    *done = {lacking, done->operation + more.operation, done->at + more.at, done->results + more.results};
    if (lacking.code < kGrow || lacking.code == kBadProgram) return true;
    if (!make_room(self, lacking)) return false;
  }
}

/// Run a program of one operation. False, with an error set, if it is refused or has no room.
inline bool run_program(PyObject* self, int64_t count, int64_t effort, const Call& call) {
  Result done;
  if (!run_until_refused(self, count, effort, &done)) return false;
  if (done.outcome.code == kOk) return true;
  raise_refusal(self, done.outcome, call);
  return false;
}

}  // namespace kvproof
