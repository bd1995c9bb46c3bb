// Python values as the core takes them: exact types only, each wrong one refused with InvalidArgument (ERR-TYPE-1).
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "layout.h"

namespace kvproof {

/// Functions of `kvproof.gpu_backend.refusals`, which word the errors.
struct Wording {
  PyObject* wrong_type;    ///< (what, value, wanted) -> InvalidArgument
  PyObject* out_of_range;  ///< (what, value, allowed) -> OutOfRange
  PyObject* refusal;       ///< (pool, error, operation, detail, arguments) -> the error of that name
  PyObject* concurrent;    ///< (operation) -> ConcurrentUse
};

inline Wording& wording() {
  static Wording known = {};
  return known;
}

inline void raise(PyObject* error) {
  if (error == nullptr) return;
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
  Py_DECREF(error);
}

/// Raise InvalidArgument for a value that is not what is wanted; returns false.
inline bool wrong_type(const char* what, PyObject* value, const char* wanted) {
  raise(PyObject_CallFunction(wording().wrong_type, "sOs", what, value, wanted));
  return false;
}

/// Raise OutOfRange for a value; returns false.
inline bool out_of_range(const char* what, PyObject* value, const char* allowed) {
  raise(PyObject_CallFunction(wording().out_of_range, "sOs", what, value, allowed));
  return false;
}

/// A plain integer; one that does not fit becomes the least or the greatest word, which every operation refuses.
inline bool as_word(const char* what, PyObject* value, int32_t* out) {
  if (!PyLong_CheckExact(value)) return wrong_type(what, value, "an integer");
  int overflow;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  *out = overflow < 0 || number < INT32_MIN   ? INT32_MIN
         : overflow > 0 || number > INT32_MAX ? INT32_MAX
                                              : static_cast<int32_t>(number);
  return true;
}

/// Raise OutOfRange if there are more than a word can count; a list of so many is not shown.
inline bool is_countable(const char* what, int64_t n) {
  if (n <= INT32_MAX) return true;
  raise(PyObject_CallFunction(wording().out_of_range, "sLs", what, static_cast<long long>(n), "2**31 - 1 at most"));
  return false;
}

/// The text of a method or function, with a signature that `inspect` and `help` read; it is that of the stub.
#define KV_DOC(name, signature, text) name "(" signature ")\n--\n\n" text

/// The items of a plain list or tuple. They are good until Python code runs: a list may be changed by it.
inline bool as_items(const char* what, PyObject* value, PyObject*** items, Py_ssize_t* n) {
  if (!PyList_CheckExact(value) && !PyTuple_CheckExact(value)) return wrong_type(what, value, "a list or tuple");
  *items = PySequence_Fast_ITEMS(value);
  *n = PySequence_Fast_GET_SIZE(value);
  return is_countable(what, *n);
}

/// The items of a plain list or tuple as they are now, whatever Python code runs meanwhile.
class KeptItems {
 public:
  KeptItems(const char* what, PyObject* value) {
    if (as_items(what, value, &items, &n)) kept_ = PySequence_Tuple(value);
    if (kept_ != nullptr) items = PySequence_Fast_ITEMS(kept_), n = PyTuple_GET_SIZE(kept_);
  }
  ~KeptItems() { Py_XDECREF(kept_); }
  KeptItems(const KeptItems&) = delete;
  KeptItems& operator=(const KeptItems&) = delete;
  explicit operator bool() const { return kept_ != nullptr; }

  PyObject** items = nullptr;
  Py_ssize_t n = 0;

 private:
  PyObject* kept_ = nullptr;
};

inline bool as_bool(const char* what, PyObject* value, bool* out) {
  if (!PyBool_Check(value)) return wrong_type(what, value, "True or False");
  *out = value == Py_True;
  return true;
}

inline bool is_name(PyObject* value) { return PyUnicode_CheckExact(value) && PyUnicode_GET_LENGTH(value) > 0; }

inline bool check_name(const char* what, PyObject* value) {
  return is_name(value) || wrong_type(what, value, "a non-empty string");
}

/// A key: group and digest as words of a program (HASH-KEY-1).
inline bool as_key(PyObject* value, int digest_words, int32_t* out) {
  const Py_ssize_t digest_bytes = 4 * digest_words;
  if (!PyBytes_CheckExact(value) || PyBytes_GET_SIZE(value) != digest_bytes + 4)
    return wrong_type("a key", value,
                      digest_words == 4 ? "20 bytes (digest, then group)" : "36 bytes (digest, then group)");
  const uint8_t* const bytes = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(value));
  const uint8_t* const group = bytes + digest_bytes;
  out[0] = static_cast<int32_t>(static_cast<uint32_t>(group[0]) << 24 | static_cast<uint32_t>(group[1]) << 16 |
                                static_cast<uint32_t>(group[2]) << 8 | group[3]);
  memcpy(out + 1, bytes, static_cast<size_t>(digest_bytes));
  return true;
}

/// The key of a group and a digest (HASH-KEY-1).
inline PyObject* key_of(int32_t group, const uint32_t* digest, int digest_words) {
  PyObject* const key = PyBytes_FromStringAndSize(nullptr, 4 * digest_words + 4);
  if (key == nullptr) return nullptr;
  char* const bytes = PyBytes_AS_STRING(key);
  memcpy(bytes, digest, 4 * static_cast<size_t>(digest_words));
  for (int i = 0; i < 4; i++) bytes[4 * digest_words + i] = static_cast<char>(group >> (24 - 8 * i));
  return key;
}

/// A list or tuple that was filled one item after the other; null, with an error set, if one could not be made.
inline PyObject* filled(PyObject* sequence) {
  if (sequence == nullptr || !PyErr_Occurred()) return sequence;
  Py_DECREF(sequence);
  return nullptr;
}

/// Block ids as Python integers, kNone as None.
inline PyObject* list_of_blocks(const int32_t* ids, Py_ssize_t n) {
  PyObject* const list = PyList_New(n);
  if (list == nullptr) return nullptr;
  for (Py_ssize_t i = 0; i < n; i++) {
    PyObject* item = ids[i] == kNone ? Py_NewRef(Py_None) : PyLong_FromLong(ids[i]);
    if (item == nullptr) {
      Py_DECREF(list);
      return nullptr;
    }
    PyList_SET_ITEM(list, i, item);
  }
  return list;
}

/// Positional and keyword arguments of a call, in the order of `names`; those that are not given stay null.
/// `least` must be given. Raises TypeError, as every call of Python does.
inline bool take_arguments(const char* operation, const char* const* names, int most, int least, PyObject* const* args,
                           Py_ssize_t given, PyObject* keywords, PyObject** out) {
  if (given > most) {
    PyErr_Format(PyExc_TypeError, "%s() takes %d arguments, not %zd", operation, most, given);
    return false;
  }
  for (int i = 0; i < most; i++) out[i] = i < given ? args[i] : nullptr;
  for (Py_ssize_t k = 0; keywords != nullptr && k < PyTuple_GET_SIZE(keywords); k++) {
    PyObject* const name = PyTuple_GET_ITEM(keywords, k);
    int i = 0;
    while (i < most && PyUnicode_CompareWithASCIIString(name, names[i]) != 0) i++;
    if (i == most || out[i] != nullptr) {
      const char* const wrong = i == most ? "an unknown" : "twice the";
      PyErr_Format(PyExc_TypeError, "%s() got %s argument '%U'", operation, wrong, name);
      return false;
    }
    out[i] = args[given + k];
  }
  for (int i = 0; i < least; i++)
    if (out[i] == nullptr) {
      PyErr_Format(PyExc_TypeError, "%s() needs the argument '%s'", operation, names[i]);
      return false;
    }
  return true;
}

/// A block of memory that grows; what it holds is plain numbers.
template <class T>
struct Buffer {
  T* data = nullptr;
  int64_t room = 0;

  /// Make room for `wanted`; keeps what is there. False, with MemoryError set, if there is no memory.
  bool reserve(int64_t wanted) {
    if (wanted <= room) return true;
    const int64_t larger = wanted < 2 * room ? 2 * room : wanted;
    T* const moved = static_cast<T*>(PyMem_RawRealloc(data, static_cast<size_t>(larger) * sizeof(T)));
    if (moved == nullptr) {
      PyErr_NoMemory();
      return false;
    }
    data = moved;
    room = larger;
    return true;
  }

  void release() {
    PyMem_RawFree(data);
    data = nullptr;
    room = 0;
  }
};

}  // namespace kvproof
