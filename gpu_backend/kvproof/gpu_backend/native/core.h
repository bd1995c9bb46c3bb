// The native core of a block pool: everything, in the order in which it is read.
//
//   platform.h lanes.h            what a target offers, and the primitives that all operations are written in
//   layout.h                      the arena: where everything is
//   queue.h index.h events.h      the three structures: free blocks, keys, what consumers are told
//   references.h registration.h   the operations, chapter by chapter of the specification
//   removal.h questions.h steps.h
//   program.h                     programs of operations
#pragma once

#include <stddef.h>

#include "program.h"
