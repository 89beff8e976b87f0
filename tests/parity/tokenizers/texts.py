"""What is tokenized: text as people write it, every character, and text that nobody would write."""

import random
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

CODE_POINTS = [*range(0xD800), *range(0xE000, 0x110000)]

# Written out, so that words of real languages are among it.
LANGUAGES = """It's what they'd said, and we'll see: I'M SURE YOU'RE right! Don't; can't -- won't... (really?) "quoted" ‘thus’ “so”.
Größe, naïve café, señor mañana, ça va? Dziękuję bardzo, žluťoučký kůň, İstanbul'da ılık, Việt Nam đất nước, þú ert.
Привет, мир! Всё хорошо. Γειά σου Κόσμε. Բարեւ աշխարհ։ გამარჯობა მსოფლიო.
שלום עולם, مرحبا بالعالم، كيف حالك؟ سلام دنیا ٣٤٥ ۴۵۶.
नमस्ते दुनिया १२३, বাংলা ভাষা, தமிழ் மொழி, తెలుగు, ಕನ್ನಡ, ਪੰਜਾਬੀ, ગુજરાતી, മലയാളം.
สวัสดีชาวโลก ສະບາຍດີ សួស្តី မြန်မာ བོད་སྐད ሰላም ᠮᠣᠩᠭᠣᠯ.
你好，世界。今天天气很好！繁體中文 㐀㐁 こんにちは世界、カタカナ ｶﾀｶﾅ ー。 안녕하세요 세계 한국어.
👋🌍👨‍👩‍👧 🏳️‍🌈 👍🏽 1234567 3.14159 x² ½ Ⅷ ➀ 𝒳 𝟘 ﬁ ǅ ʰ e\u0301 \u1112\u1161\u11ab \ufeff \u200b \u00a0\u3000
"""

SCRIPTS = [(0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A), (0x900, 0x97F), (0xE00, 0xE5B), (0x1000, 0x109F)]
SCRIPTS += [(0x1780, 0x17F9), (0x3040, 0x30FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1D400, 0x1D7FF), (0x1F300, 0x1F6FF), (0x20000, 0x20FFF)]
JOINTS = ["", " ", " ", " ", "  ", "     ", ",", ".", "\n", "\n\n", " \n ", "\t", "\t\t\t", "\r\n", "'s", "'LL", "'ſ", " 123", " 4567", "!?", "_", "/"]

PIECES = list(" \n\r\tabzABZ019'’.,!?_-/ſKẞßéÀñ中文日本語한국ｆ\u0301\u0327\u200d\u200b\ufeff😀٣५➀Ⅷʰǅ▁<|>[]\x00\x7f\x85\u2028")
PIECES += ["'s", "'re", "'LL", "  ", "      ", "\r\n", "the", " of", "<0x0A>", "\u1100\u1161\u11a8", "e\u0301", "👨‍👩‍👧", "don't", "\U0010ffff"]


def prose():
    path = ROOT.parent / "shared" / "data" / "tinyshakespeare.txt"
    return path.read_text() if path.exists() else ""


def code():
    folders = ("include", "src", "tests", "docs", "examples")
    paths = (path for folder in folders for path in sorted((ROOT / folder).rglob("*")))
    return "\n".join(path.read_text() for path in paths if path.suffix in (".h", ".cc", ".py", ".md", ".sh"))


def words_of_scripts(rng, count):
    for _ in range(count):
        first, last = rng.choice(SCRIPTS)
        yield "".join(chr(rng.randint(first, last)) for _ in range(rng.randint(1, 12))) + rng.choice(JOINTS)


def corpus(is_full):
    """As one long text, and in pieces cut anywhere."""
    rng = random.Random(1)
    words = "".join(words_of_scripts(rng, 40_000 if is_full else 1_000))
    whole = "".join([LANGUAGES * 20, prose(), code(), words] if is_full else [LANGUAGES, prose()[:20_000], code()[:60_000], words])
    starts = range(0, len(whole), 2_000)
    return [whole, *(whole[start : start + rng.randint(1, 2_000)] for start in starts)]


def code_points(is_full):
    """Every character between letters, behind a space, and twice."""
    chosen = CODE_POINTS if is_full else CODE_POINTS[::101]
    for start in range(0, len(chosen), 64):
        yield "".join(f"a{chr(c)}b {chr(c)}{chr(c)} " for c in chosen[start : start + 64])


def random_texts(is_full, special_names):
    rng = random.Random(2)
    pieces = PIECES + rng.sample(special_names, min(12, len(special_names))) * 2
    for _ in range(20_000 if is_full else 600):
        yield "".join(rng.choice(pieces) for _ in range(rng.randint(1, 24)))
    for _ in range(5_000 if is_full else 200):
        yield "".join(chr(rng.choice(CODE_POINTS)) for _ in range(rng.randint(1, 8)))
    yield from (" " * count + "x" + "\n" * count for count in range(1, 100 if is_full else 10))
    yield "a" * 5_000
    yield ""
