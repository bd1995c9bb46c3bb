"""Mutants of chapter 20: hashes, extra keys, requests."""

from __future__ import annotations

from kvproof.conformance.mutation.mutant import Mutant
from kvproof.conformance.mutation.patch import Patch

_HASHING = "kvproof.reference.hashing"
_REQUEST = "kvproof.reference.request"
_VALIDATE = "kvproof.reference.validate"

_CHAIN = (
    Mutant(
        name="hash_covers_the_span_alone",
        clauses=("HASH-CHAIN-1",),
        fault="F06",
        harm="Two prompts that differ in their first block and agree in the second share the second block's rows.",
        patch=Patch(_HASHING, "self.digest(parent + span + ", "self.digest(span + "),
    ),
    Mutant(
        name="fast_hash_has_a_known_seed",
        clauses=("HASH-SEED-1",),
        fault="F06",
        harm="Anyone can compute two prompts with the same xxh3 key and be served another user's cache.",
        patch=Patch(_HASHING, "os.urandom(XXH3_SEED_BYTES)", 'b"kvproof"'),
    ),
    Mutant(
        name="seed_is_not_digested",
        clauses=("HASH-SEED-1", "HASH-CHAIN-1"),
        fault="F06",
        harm="Two implementations of one contract and one seed never agree on a key.",
        patch=Patch(
            _HASHING,
            "self.digest(_default_seed(algorithm) if seed is None else seed)",
            "_default_seed(algorithm) if seed is None else seed",
        ),
    ),
    Mutant(
        name="extra_keys_are_not_hashed",
        clauses=("HASH-CHAIN-1", "HASH-EXTRA-1"),
        fault="F06",
        harm="A request with an adapter is served rows computed without it.",
        patch=Patch(
            _HASHING,
            "parent + span + encode_extra_keys(extra_keys, span_start, span_start + len(tokens))",
            "parent + span",
        ),
    ),
    Mutant(
        name="token_bytes_are_reversed",
        clauses=("HASH-TOKEN-1", "HASH-CHAIN-1"),
        fault="F06",
        harm="A router that computes the hashes itself matches no key of this engine.",
        patch=Patch(_HASHING, 'struct.pack(f"<{len(tokens)}I", *tokens)', 'struct.pack(f">{len(tokens)}I", *tokens)'),
    ),
    Mutant(
        name="tokens_are_cut_to_16_bits",
        clauses=("HASH-TOKEN-1", "HASH-CHAIN-1"),
        fault="F06",
        harm="With a large vocabulary two different prompts get the same key.",
        patch=Patch(
            _HASHING,
            'struct.pack(f"<{len(tokens)}I", *tokens)',
            'struct.pack(f"<{len(tokens)}H", *(token & 0xFFFF for token in tokens))',
        ),
    ),
    Mutant(
        name="xxh3_digest_is_little_endian",
        clauses=("HASH-ALGORITHM-1",),
        fault="F06",
        harm="A shared cache written by another implementation of the same algorithm never hits.",
        patch=Patch(
            _HASHING,
            "(16, xxhash.xxh3_128_digest)",
            '(16, lambda data: xxhash.xxh3_128_intdigest(data).to_bytes(16, "little"))',
        ),
    ),
    Mutant(
        name="key_forgets_its_group",
        clauses=("HASH-KEY-1",),
        fault="F06",
        harm="A lookup for a recurrent state returns a block of attention rows.",
        patch=Patch(
            _HASHING,
            'return digest + group.to_bytes(GROUP_ID_BYTES, "big")',
            "return digest + bytes(GROUP_ID_BYTES)",
        ),
    ),
)

_EXTRA_KEYS = (
    Mutant(
        name="extra_key_source_is_not_hashed",
        clauses=("HASH-EXTRA-1", "HASH-EXTRA-2"),
        fault="F06",
        harm="A tenant whose salt equals an adapter's name is served that adapter's rows.",
        patch=Patch(_HASHING, 'struct.pack("<BIIQ", extra.source, ', 'struct.pack("<BIIQ", 0, '),
    ),
    Mutant(
        name="extra_key_is_hashed_where_it_begins_only",
        clauses=("HASH-EXTRA-1", "HASH-EXTRA-2"),
        fault="F06",
        harm="An image of two spans and one of a single span that begin alike share a key at the longer prefix.",
        patch=Patch(_HASHING, "if first < last:", "if first < last and extra.start >= start:"),
    ),
    Mutant(
        name="extra_key_is_cut_to_two_bytes",
        clauses=("HASH-EXTRA-1", "HASH-EXTRA-2"),
        fault="F06",
        harm="The same question about another picture is answered with the first picture's description.",
        patch=Patch(_HASHING, "+ extra.value)", "+ extra.value[:2])"),
    ),
    Mutant(
        name="row_of_an_image_is_not_hashed",
        clauses=("HASH-EXTRA-1", "HASH-EXTRA-2"),
        fault="F06",
        harm="The second row of an image is served for the first.",
        patch=Patch(_HASHING, "last - first, first - extra.start)", "last - first, 0)"),
    ),
    Mutant(
        name="extra_key_is_hashed_beyond_the_span",
        clauses=("HASH-EXTRA-2",),
        fault="F10",
        harm="A prompt that shares its beginning, but whose image goes on longer, never hits.",
        patch=Patch(
            _HASHING,
            "        if first < last:\n",
            "        if first < last:\n            last = extra.end or last\n",
        ),
    ),
    Mutant(
        name="number_of_extra_keys_is_not_hashed",
        clauses=("HASH-EXTRA-2", "HASH-CHAIN-1"),
        fault="F06",
        harm="Two implementations of the contract disagree on every key.",
        patch=Patch(_HASHING, 'struct.pack("<I", len(records)) + ', ""),
    ),
    Mutant(
        name="order_of_extra_keys_is_hashed",
        clauses=("HASH-EXTRA-2", "HASH-EXTRA-3"),
        fault="F10",
        harm="The same request with its adapter and salt listed the other way round misses the cache.",
        patch=Patch(_HASHING, 'b"".join(sorted(records))', 'b"".join(records)'),
    ),
    Mutant(
        name="extra_key_may_be_listed_twice",
        clauses=("HASH-EXTRA-3",),
        fault="F10",
        harm="A front end that adds the salt twice gets keys of its own and never hits.",
        patch=Patch(_VALIDATE, "if len(set(checked)) != len(checked):", "if len(set(checked)) > len(checked):"),
    ),
)

_REQUESTS = (
    Mutant(
        name="appended_tokens_are_not_hashed",
        clauses=("REQ-APPEND-1",),
        fault="F01",
        harm="Generated tokens are never cached, and after a truncation the next hash covers the wrong ones.",
        patch=Patch(
            _REQUEST,
            "self.tokens.extend(check_tokens(tokens))\n        self._extend_hashes()",
            "self.tokens.extend(check_tokens(tokens))",
        ),
    ),
    Mutant(
        name="span_is_hashed_one_token_late",
        clauses=("REQ-APPEND-1",),
        fault="F10",
        harm="A prompt that ends at a block boundary never finds its last block.",
        patch=Patch(
            _REQUEST,
            "while self.hashed_length + h <= self.num_tokens:",
            "while self.hashed_length + h < self.num_tokens:",
        ),
    ),
    Mutant(
        name="truncation_keeps_the_hashes",
        clauses=("REQ-TRUNCATE-1",),
        fault="F01",
        harm="After a rejected draft a block is registered under the tokens that were taken back.",
        patch=Patch(
            _REQUEST,
            "        self.hashes = self.hashes[: kept // self.hasher.hash_block_size]\n",
            "",
        ),
    ),
    Mutant(
        name="truncation_keeps_the_begun_hash",
        clauses=("REQ-TRUNCATE-1",),
        fault="F01",
        harm="The hash across the cut still names the discarded token; a later request hits wrong rows.",
        patch=Patch(
            _REQUEST,
            "self.hashes[: kept // self.hasher.hash_block_size]",
            "self.hashes[: -(-kept // self.hasher.hash_block_size)]",
        ),
    ),
    Mutant(
        name="view_is_a_snapshot",
        clauses=("REQ-VIEW-1",),
        fault="F01",
        harm="A group that keeps its view registers the hashes from before the truncation.",
        patch=Patch(
            _REQUEST,
            "        self.request = request\n",
            "        self.request = Request(request.request_id, request.tokens, request.hasher, request.extra_keys)\n",
        ),
    ),
)

MUTANTS = (*_CHAIN, *_EXTRA_KEYS, *_REQUESTS)
