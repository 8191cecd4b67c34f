"""Unit 19, predictions: how decode uses the KV cache, and how much memory the cache takes. Kernels: decode_kernels."""

from ..spec.exercise import Case, PlainExercise, Points, register
from ._numbers import sentence_for


def _explained(sentences):
    """An `explain` function from pairs (mistaken value, sentence) for the case."""

    def explain(sizes, yours, expected) -> str | None:
        return sentence_for(yours, sentences(**sizes))

    return explain


def _plain(name, title, reference, sentences, cases, draw) -> None:
    register(
        PlainExercise(
            id=f"19_decode_attention/{name}",
            title=title,
            entry=name,
            points=Points(correct=1),
            reference=reference,
            explain=_explained(sentences),
            cases=cases,
            draw=draw,
        )
    )


def _intensity(queries, group, itemsize):
    return 2 * group * queries / itemsize


_plain(
    "intensity",
    "FLOPs per byte of the cache",
    _intensity,
    lambda queries, group, itemsize: (
        (group * queries / itemsize, "A multiply-add is two FLOPs."),
        (4 * group * queries / itemsize, "There are two products, but each reads its own bytes: keys, then values."),
        (2 * queries / itemsize, "A key is read once for all the query heads that share it."),
        (2 * group / itemsize, "Each key is used by all new queries."),
        (2 * group * queries, "That is per element. An element has `itemsize` bytes."),
        (itemsize / (2 * group * queries), "Invert the fraction: FLOPs per byte."),
    ),
    (
        Case("one query, one key head per query head, fp16", {"queries": 1, "group": 1, "itemsize": 2}),
        Case("one query, 4 query heads per key head, fp16", {"queries": 1, "group": 4, "itemsize": 2}),
        Case("prefill: 4096 queries", {"queries": 4096, "group": 4, "itemsize": 2}),
        Case("one query, 8 heads, fp8", {"queries": 1, "group": 8, "itemsize": 1}),
        Case("3 queries, 5 heads, fp32", {"queries": 3, "group": 5, "itemsize": 4}),
    ),
    lambda rng: {
        "queries": rng.randrange(1, 5000),
        "group": rng.randrange(1, 17),
        "itemsize": rng.choice([1, 2, 4]),
    },
)

_plain(
    "cache_bytes",
    "Bytes of a KV cache",
    lambda layers, key_heads, D, tokens, itemsize: 2 * layers * key_heads * D * tokens * itemsize,
    lambda layers, key_heads, D, tokens, itemsize: (
        (layers * key_heads * D * tokens * itemsize, "That counts the keys; the values take as many bytes again."),
        (2 * key_heads * D * tokens * itemsize, "Each layer has its own cache."),
        (2 * layers * D * tokens * itemsize, "Each key head has its own keys and values."),
        (2 * layers * key_heads * tokens * itemsize, "A key has D elements."),
        (2 * layers * key_heads * D * tokens, "That counts elements. Each element has `itemsize` bytes."),
        (2 * layers * key_heads * D * itemsize, "That is for one token."),
        (
            2 * layers * key_heads * D * tokens**2 * itemsize,
            "The cache grows with the tokens, not with their square.",
        ),
    ),
    (
        Case(
            "80 layers, 8 key heads, 8192 tokens, fp16",
            {"layers": 80, "key_heads": 8, "D": 128, "tokens": 8192, "itemsize": 2},
        ),
        Case("the same with 64 key heads", {"layers": 80, "key_heads": 64, "D": 128, "tokens": 8192, "itemsize": 2}),
        Case("a single token", {"layers": 32, "key_heads": 8, "D": 128, "tokens": 1, "itemsize": 2}),
        Case("fp8, D = 64", {"layers": 24, "key_heads": 3, "D": 64, "tokens": 1001, "itemsize": 1}),
    ),
    lambda rng: {
        "layers": rng.randrange(2, 90),
        "key_heads": rng.randrange(2, 65),
        "D": rng.choice([64, 96, 128]),
        "tokens": rng.randrange(2, 200_000),
        "itemsize": rng.choice([1, 2]),
    },
)


def _pages(length, page):
    return -(-length // page)


_plain(
    "unused",
    "Reserved but unused tokens",
    lambda length, page: _pages(length, page) * page - length,
    lambda length, page: (
        (_pages(length, page) * page, "That is the reserved space: subtract the tokens in use."),
        (_pages(length, page), "That is the number of pages."),
        (length % page, "Those are the tokens on the last page: how much of it stays free?"),
        (page - length % page, "A full last page leaves nothing unused."),
        (length // page * page - length, "Round the number of pages up."),
        (page - length, "A sequence may need more than one page."),
    ),
    (
        Case("1000 tokens, pages of 16", {"length": 1000, "page": 16}),
        Case("1000 tokens, one reservation of 8192", {"length": 1000, "page": 8192}),
        Case("1024 tokens, pages of 16: the last is full", {"length": 1024, "page": 16}),
        Case("1 token, pages of 64", {"length": 1, "page": 64}),
        Case("130 tokens, pages of 64", {"length": 130, "page": 64}),
    ),
    lambda rng: {"length": rng.randrange(1, 10_000), "page": rng.choice([16, 32, 64, 256, 8192])},
)

_plain(
    "sequences",
    "How many sequences fit",
    lambda memory, token_bytes, length, page: memory // (page * token_bytes) // _pages(length, page),
    lambda memory, token_bytes, length, page: (
        (memory // (length * token_bytes), "Memory is allocated in whole pages."),
        (memory // (page * token_bytes), "Those are pages. A sequence may need several."),
        (memory // (page * token_bytes) / _pages(length, page), "Count only whole sequences."),
        (memory / (page * token_bytes * _pages(length, page)), "Count only whole sequences."),
        (memory // (page * token_bytes) // max(length // page, 1), "The partial last page counts: round up."),
        (memory // (page * token_bytes) * page // length, "Sequences do not share pages here."),
    ),
    (
        Case(
            "60 GB, 320 KiB a token, 1000 tokens, pages of 16",
            {"memory": 60 * 10**9, "token_bytes": 327_680, "length": 1000, "page": 16},
        ),
        Case(
            "the same, reserving 8192 tokens each",
            {"memory": 60 * 10**9, "token_bytes": 327_680, "length": 1000, "page": 8192},
        ),
        Case("pages of 1 token", {"memory": 10**9, "token_bytes": 131_072, "length": 777, "page": 1}),
        Case("too little memory", {"memory": 10**9, "token_bytes": 327_680, "length": 5000, "page": 64}),
        Case("17 tokens, pages of 16", {"memory": 10**9, "token_bytes": 131_072, "length": 17, "page": 16}),
    ),
    lambda rng: {
        "memory": rng.randrange(1, 80) * 10**9,
        "token_bytes": rng.choice([65_536, 131_072, 327_680]),
        "length": rng.randrange(10, 9000),
        "page": rng.choice([16, 64, 256, 8192]),
    },
)
