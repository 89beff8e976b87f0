"""The libraries that models are trained with, all asked in the same way.

`plain` takes special tokens as the text they are, `parsed` finds them, `around` adds those that a model wants around a text; `decoded` and
`skipped` are the way back, with special tokens and without; `offsets` are (id, begin, end) in characters.
"""

import re
from collections import Counter

import tiktoken
import tiktoken_ext.openai_public as openai
from tiktoken.load import load_tiktoken_bpe
from tokenizers import Tokenizer

from vocabularies import Vocabulary


class Reference:
    # What a library cannot be asked for is None.
    parsed = around = skipped = offsets = None
    # What it has a way of its own with: texts in which they are do not count.
    odd_ids = frozenset()
    odd_characters = frozenset()
    special_names = ()
    ids = ()  # to decode

    def counts(self, text, ids):
        return self.odd_ids.isdisjoint(ids) and self.odd_characters.isdisjoint(text)


class HuggingFace(Reference):
    """The library `tokenizers`; `transformers` calls it."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.special_names = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        self.ids = range(tokenizer.get_vocab_size() + 20)  # some that stand for nothing

    @classmethod
    def from_file(cls, path):
        # A ByteLevel that trims offsets leaves out white space that belongs to a token.
        return cls(Tokenizer.from_str(re.sub(r'"trim_offsets":\s*true', '"trim_offsets": false', path.read_text())))

    def _encode(self, texts, *, is_plain, around):
        self.tokenizer.encode_special_tokens = is_plain
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(texts, add_special_tokens=around)]

    def plain(self, texts):
        return self._encode(texts, is_plain=True, around=False)

    def parsed(self, texts):
        return self._encode(texts, is_plain=False, around=False)

    def around(self, texts):
        return self._encode(texts, is_plain=False, around=True)

    def decoded(self, lists):
        return [self.tokenizer.decode(ids, skip_special_tokens=False) for ids in lists]

    def skipped(self, lists):
        return [self.tokenizer.decode(ids, skip_special_tokens=True) for ids in lists]

    def offsets(self, texts):
        self.tokenizer.encode_special_tokens = True
        encodings = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [[(token, *place) for token, place in zip(encoding.ids, encoding.offsets)] for encoding in encodings]


class Tiktoken(Reference):
    """The library `tiktoken`."""

    def __init__(self, encoding):
        self.encoding = encoding
        self.special_names = sorted(encoding.special_tokens_set)
        named = Counter(encoding.encode_single_token(name) for name in self.special_names)
        # It decodes an id with two names to either, by chance.
        self.ids = [*encoding._mergeable_ranks.values(), *(token for token, names in named.items() if names == 1)]

    @classmethod
    def from_file(cls, path, name):
        ranks = load_tiktoken_bpe(str(path))
        openai.load_tiktoken_bpe = lambda *_, **__: ranks  # instead of a download
        return cls(tiktoken.Encoding(**{**openai.ENCODING_CONSTRUCTORS[name](), "explicit_n_vocab": None}))

    def plain(self, texts):
        return [self.encoding.encode_ordinary(text) for text in texts]

    def parsed(self, texts):
        return [self.encoding.encode(text, allowed_special="all") for text in texts]

    def decoded(self, lists):
        return [self.encoding.decode(ids) for ids in lists]


class Renderers(Reference):
    """A tokenizer of the renderers. It finds no special tokens in text."""

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.vocabulary = Vocabulary.of_wheel(tokenizer)
        self.special_names = sorted(self.vocabulary.special)
        self.ids = sorted(self.vocabulary.ranks.values())

    def plain(self, texts):
        return [self.tokenizer.encode_ordinary(text) for text in texts]

    def decoded(self, lists):
        return [self.tokenizer.decode(ids) for ids in lists]


class Kimi(Renderers):
    """With special tokens parsed by tiktoken, as the model's own Python class has it done."""

    RESERVED = 256

    def __init__(self, tokenizer, pattern):
        super().__init__(tokenizer)
        # The renderers number the reserved ones from 0, the model's own class by their ids.
        ranks, special = self.vocabulary.ranks, self.vocabulary.special
        named = {token: name for name, token in special.items() if not name.startswith("<|reserved_token_")}
        first = len(ranks)
        special = {named.get(token, f"<|reserved_token_{token}|>"): token for token in range(first, first + self.RESERVED)}
        self.special_names = sorted(special)
        self.twin = tiktoken.Encoding("kimi", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)

    def parsed(self, texts):
        return [self.twin.encode(text, allowed_special="all") for text in texts]
